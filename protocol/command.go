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

// CommandSize is the length of what AppendCommand appends.
func CommandSize(args [][]byte) int {
	n := len("*\r\n") + digits(len(args))
	for _, a := range args {
		n += len("$\r\n\r\n") + digits(len(a)) + len(a)
	}
	return n
}

// digits is the length of a number's text.
func digits(n int) (count int) {
	for count = 1; n > 9; n /= 10 {
		count++
	}
	return count
}
