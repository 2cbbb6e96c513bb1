package aof

import "spindle/protocol"

var errInProgress = &protocol.Error{Code: "ERR", Text: "Background append only file rewriting already in progress"}

func errWriting(why string) *protocol.Error {
	return protocol.Errorf("MISCONF", "Errors writing to the AOF file: %s", why)
}
