package bgsave

import (
	"errors"

	"spindle/bgsave/rdb"
)

// Function libraries as FUNCTION DUMP shows them: what a file would hold of them, and a payload's footer.
//
//	F5 source | F5 source … | version u16 LE | crc64 u64 LE

// What a payload may have in place of a library. Clients know the texts.
var (
	errPreFunction = errors.New("Pre-GA function format not supported")
	errNoFunction  = errors.New("given type is not a function")
	errFunction    = errors.New("failed loading the given functions payload")
)

// functionsVersion is the first version that has libraries: every server that knows them takes the payload.
const functionsVersion = 10

// PackFunctions is the payload of the libraries with these sources.
func PackFunctions(sources [][]byte, compress bool) (payload []byte) {
	e := rdb.Encoder{Compress: compress}
	for _, source := range sources {
		payload = e.AppendFunction(payload, source)
	}
	return rdb.AppendFooter(payload, 0, functionsVersion)
}

// UnpackFunctions is the sources of a payload's libraries. checked says that its version and checksum are right; anySum
// leaves the checksum unchecked.
//
// Errors: it holds something else than libraries, or ends too early.
func UnpackFunctions(payload []byte, anySum bool) (sources [][]byte, checked bool, err error) {
	body, err := rdb.Unwrap(payload, anySum)
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
