package hash

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errNotInteger = &protocol.Error{Code: "ERR", Text: "hash value is not an integer"}
	errNotFloat   = &protocol.Error{Code: "ERR", Text: "hash value is not a float"}
	errInfinite   = &protocol.Error{Code: "ERR", Text: "value is NaN or Infinity"}
	errNaN        = &protocol.Error{Code: "ERR", Text: "increment would produce NaN or Infinity"}
	errNegative   = &protocol.Error{Code: "ERR", Text: "invalid expire time, must be >= 0"}
	errNoFields   = &protocol.Error{Code: "ERR",
		Text: "Mandatory argument FIELDS is missing or not at the right position"}
	errFieldCount   = &protocol.Error{Code: "ERR", Text: "Parameter `numFields` should be greater than 0"}
	errFieldCountOf = &protocol.Error{Code: "ERR", Text: "Number of fields must be a positive integer"}
	errFieldsDiffer = &protocol.Error{Code: "ERR", Text: "The `numfields` parameter must match the number of arguments"}
	errCount        = &protocol.Error{Code: "ERR",
		Text: "value is out of range, value must between -9223372036854775807 and 9223372036854775807"}
	errInvalidCount = &protocol.Error{Code: "ERR", Text: "invalid number of fields"}
	errOneFieldRule = &protocol.Error{Code: "ERR", Text: "Only one of FXX or FNX arguments can be specified"}
	errOneExpiry    = &protocol.Error{Code: "ERR",
		Text: "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"}
	errCountPairs = &protocol.Error{Code: "ERR", Text: "value is out of range"}
)

func errExpireTime(command string) error {
	return protocol.Errorf("ERR", "invalid expire time in '%s' command", command)
}

// errUnknownArgument names an argument that the command does not know.
func errUnknownArgument(arg []byte) error {
	return protocol.Errorf("ERR", "unknown argument: %s", arg)
}
