package zset

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errNewAndOld      = &protocol.Error{Code: "ERR", Text: "XX and NX options at the same time are not compatible"}
	errDirections     = &protocol.Error{Code: "ERR", Text: "GT, LT, and/or NX options at the same time are not compatible"}
	errOnePair        = &protocol.Error{Code: "ERR", Text: "INCR option supports a single increment-element pair"}
	errNaN            = &protocol.Error{Code: "ERR", Text: "resulting score is not a number (NaN)"}
	errScoreRange     = &protocol.Error{Code: "ERR", Text: "min or max is not a float"}
	errLexRange       = &protocol.Error{Code: "ERR", Text: "min or max not valid string range item"}
	errWeight         = &protocol.Error{Code: "ERR", Text: "weight value is not a float"}
	errLimitSign      = &protocol.Error{Code: "ERR", Text: "LIMIT can't be negative"}
	errMustBePositive = &protocol.Error{Code: "ERR", Text: "value is out of range, must be positive"}
	errNumKeys        = &protocol.Error{Code: "ERR", Text: "numkeys should be greater than 0"}
	errCount          = &protocol.Error{Code: "ERR", Text: "count should be greater than 0"}
	errRandomCount    = &protocol.Error{Code: "ERR",
		Text: "value is out of range, value must between -9223372036854775807 and 9223372036854775807"}
	errRandomScores = &protocol.Error{Code: "ERR", Text: "value is out of range"}
	errLimit        = &protocol.Error{Code: "ERR",
		Text: "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"}
	errWithScores = &protocol.Error{Code: "ERR", Text: "syntax error, WITHSCORES not supported in combination with BYLEX"}
)

func errNoInput(command string) error {
	return protocol.Errorf("ERR", "at least 1 input key is needed for '%s' command", command)
}

func errArguments(command string) error {
	return protocol.Errorf("ERR", "wrong number of arguments for '%s' command", command)
}
