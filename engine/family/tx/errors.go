package tx

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errNested         = &protocol.Error{Code: "ERR", Text: "MULTI calls can not be nested"}
	errExecAlone      = &protocol.Error{Code: "ERR", Text: "EXEC without MULTI"}
	errDiscardAlone   = &protocol.Error{Code: "ERR", Text: "DISCARD without MULTI"}
	errPreviousErrors = &protocol.Error{Code: "EXECABORT", Text: "Transaction discarded because of previous errors."}
	errWatchInside    = &protocol.Error{Code: "ERR", Text: "WATCH inside MULTI is not allowed"}
)

func errAborted(why string) error {
	return protocol.Errorf("EXECABORT", "Transaction discarded because of: %s", why)
}
