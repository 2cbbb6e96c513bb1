package bloom

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errNotFound      = &protocol.Error{Code: "ERR", Text: "not found"}
	errExists        = &protocol.Error{Code: "ERR", Text: "item exists"}
	errRate          = &protocol.Error{Code: "ERR", Text: "bad error rate"}
	errRateRange     = &protocol.Error{Code: "ERR", Text: "(0 < error rate range < 1) "}
	errCapacity      = &protocol.Error{Code: "ERR", Text: "bad capacity"}
	errCapacityRange = &protocol.Error{Code: "ERR", Text: "(capacity should be larger than 0)"}
	errNoGrowth      = &protocol.Error{Code: "ERR", Text: "no expansion"}
	errGrowth        = &protocol.Error{Code: "ERR", Text: "bad expansion"}
	errGrowthRange   = &protocol.Error{Code: "ERR", Text: "expansion should be greater or equal to 1"}
	errFixedGrowth   = &protocol.Error{Code: "Nonscaling", Text: "filters cannot expand"}
	errTooBig        = &protocol.Error{Code: "ERR", Text: "Insufficient memory to create filter"}
	errBound         = &protocol.Error{Code: "ERR", Text: "the filter would be larger than bf-max-size or maxmemory"}
	errWork          = &protocol.Error{Code: "ERR", Text: "the filter has too many hashes for so many items in one call"}
	errCannotCreate  = &protocol.Error{Code: "ERR", Text: "could not create filter"}
	errFull          = &protocol.Error{Code: "ERR", Text: "non scaling filter is full"}
	errCannotAdd     = &protocol.Error{Code: "ERR", Text: "problem inserting into filter"}
	errFieldName     = &protocol.Error{Code: "Invalid", Text: "information value"}
	errScanNumber    = &protocol.Error{Code: "Second", Text: "argument must be numeric"}
	errLoadNumber    = &protocol.Error{Code: "ERR", Text: "Second argument must be numeric"}
	errData          = &protocol.Error{Code: "ERR", Text: "received bad data"}
	errOutside       = &protocol.Error{Code: "ERR", Text: "invalid offset - no link found"}
	errAcross        = &protocol.Error{Code: "ERR", Text: "invalid chunk - Too big for current filter"}
	errInsertRate    = &protocol.Error{Code: "Bad", Text: "error rate"}
	errInsertGrowth  = &protocol.Error{Code: "Bad", Text: "expansion"}
	errInsertCap     = &protocol.Error{Code: "Bad", Text: "capacity"}
	errInsertValue   = &protocol.Error{Code: "Bad", Text: "argument received"}
	errInsertOption  = &protocol.Error{Code: "Unknown", Text: "argument received"}
)
