package bgsave

import (
	"bufio"
	"context"
	"fmt"
	"io"
)

// MarkLen is the length of the mark that closes a stream of unknown length.
const MarkLen = 40

// WriteMarked writes v as a full sync without a length: "$EOF:<mark>", the file, the mark. The mark is MarkLen random characters
// that the file does not hold by chance.
func WriteMarked(ctx context.Context, w io.Writer, v View, mark string, o Options) (int64, error) {
	if _, err := fmt.Fprintf(w, "$EOF:%s\r\n", mark); err != nil {
		return 0, err
	}
	n, err := WriteTo(ctx, w, v, o)
	if err == nil {
		_, err = io.WriteString(w, mark)
	}
	return n, err
}

// WriteSized writes v as a full sync with its length in front: "$<length>", the file. It goes through the view twice: the first
// time only to count, so that neither a file nor the data's size in memory is needed. Clocks are left out, because they go on
// meanwhile and their length with them. It calls v.Keep.
func WriteSized(ctx context.Context, w io.Writer, v View, o Options) (int64, error) {
	o.Clock = nil
	v.Keep()
	size, err := Measure(ctx, v, o)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(w, "$%d\r\n", size); err != nil {
		return 0, err
	}
	n, err := WriteTo(ctx, w, v, o)
	if err == nil && n != size {
		err = fmt.Errorf("a view of %d bytes became %d", size, n)
	}
	return n, err
}

// Measure is how long WriteTo's file will be. v.Keep was called, and o has no Clock.
func Measure(ctx context.Context, v View, o Options) (int64, error) {
	o.Checksum, o.Delay, o.Progress = false, 0, nil
	return WriteTo(ctx, io.Discard, v, o)
}

// ReadHeader reads what stands before a full sync's file: its length, or, marked, the mark that will close it.
func ReadHeader(r *bufio.Reader) (size int64, mark string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, "", err
	}
	if n, _ := fmt.Sscanf(line, "$EOF:%40s\r\n", &mark); n == 1 && len(mark) == MarkLen {
		return 0, mark, nil
	}
	if n, _ := fmt.Sscanf(line, "$%d\r\n", &size); n == 1 && size >= 0 {
		return size, "", nil
	}
	return 0, "", fmt.Errorf("a full sync does not begin with %q", line)
}
