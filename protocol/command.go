package protocol

import "strconv"

// AppendCommand appends args as a client would send them: an array of bulk strings.
func AppendCommand(dst []byte, args [][]byte) []byte {
	dst = strconv.AppendInt(append(dst, '*'), int64(len(args)), 10)
	dst = append(dst, '\r', '\n')
	for _, a := range args {
		dst = strconv.AppendInt(append(dst, '$'), int64(len(a)), 10)
		dst = append(append(dst, '\r', '\n'), a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}
