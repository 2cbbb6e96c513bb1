package bgsave

import (
	"errors"

	"spindle/bgsave/rdb"
)

// A FUNCTION DUMP payload has the libraries as in a file, then a payload's footer.
//
//	F5 source | F5 source … | version u16 LE | crc64 u64 LE

// Errors for payloads that hold something other than libraries. Clients match these texts.
var (
	errPreFunction = errors.New("Pre-GA function format not supported")
	errNoFunction  = errors.New("given type is not a function")
	errFunction    = errors.New("failed loading the given functions payload")
)

// functionsVersion is the first RDB version with libraries. Every server that has functions accepts it.
const functionsVersion = 10

// PackFunctions returns the payload of the libraries with these sources.
func PackFunctions(sources [][]byte, compress bool) (payload []byte) {
	e := rdb.Encoder{Compress: compress}
	for _, source := range sources {
		payload = e.AppendFunction(payload, source)
	}
	return rdb.AppendFooter(payload, 0, functionsVersion)
}

// UnpackFunctions returns the library sources in a payload. checked means that the version and the checksum are right.
// c says which parts of the footer are checked.
//
// Errors: the payload holds something other than libraries, or ends too early.
func UnpackFunctions(payload []byte, c rdb.Check) (sources [][]byte, checked bool, err error) {
	body, err := rdb.Unwrap(payload, c)
	if err != nil {
		return nil, false, err
	}
	r := rdb.NewReader(body)
	for r.Len() > 0 {
		kind, err := r.Byte()
		switch {
		case err != nil:
			return nil, true, errFunction
		case rdb.Op(kind) == rdb.OpFunctionPre:
			return nil, true, errPreFunction
		case rdb.Op(kind) != rdb.OpFunction2:
			return nil, true, errNoFunction
		}
		text, err := r.Text()
		if err != nil {
			return nil, true, errFunction
		}
		source, err := text.Append(nil)
		if err != nil {
			return nil, true, errFunction
		}
		sources = append(sources, source)
	}
	return sources, true, nil
}
