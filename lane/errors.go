package lane

import "spindle/protocol"

var (
	errWaits  = &protocol.Error{} // no reply: the request waits for Conn.Resume
	errNoSave = &protocol.Error{Code: "ERR", Text: "the admin lane serves SHUTDOWN only with NOSAVE"}
)

// notServed returns the reply to a command that only other addresses serve.
func notServed(name string) *protocol.Error {
	return protocol.Errorf("ERR", "'%s' is not served on the admin lane, which serves PING, AUTH, HELLO, QUIT, INFO, "+
		"CLIENT LIST, CLIENT KILL, SLOWLOG GET, STALLS GET, SCRIPT KILL, FUNCTION KILL and SHUTDOWN NOSAVE", name)
}
