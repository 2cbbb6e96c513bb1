package bitmap

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errOffset      = &protocol.Error{Code: "ERR", Text: "bit offset is not an integer or out of range"}
	errBit         = &protocol.Error{Code: "ERR", Text: "bit is not an integer or out of range"}
	errBitArgument = &protocol.Error{Code: "ERR", Text: "The bit argument must be 1 or 0."}
	errOverflow    = &protocol.Error{Code: "ERR", Text: "Invalid OVERFLOW type specified"}
	errOnlyGet     = &protocol.Error{Code: "ERR", Text: "BITFIELD_RO only supports the GET subcommand"}
	errFieldType   = &protocol.Error{Code: "ERR",
		Text: "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."}
	errOfTwo = &protocol.Error{Code: "ERR",
		Text: "BITOP DIFF, DIFF1 and ANDOR must be called with at least two source keys."}
	errNotOfOne = &protocol.Error{Code: "ERR", Text: "BITOP NOT must be called with a single source key."}
)
