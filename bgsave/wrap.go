package bgsave

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// A file may be compressed as a whole with zstd or s2 (rdb-file-compression). Redis and its tools cannot read such a
// file.
//
//	"SPINDLE" '1' | 'z' or 's' | a zstd or s2 stream of an RDB file
//
// Strings inside it are not compressed separately, because the outer compression works better on plain strings.
const wrapMagic = "SPINDLE1"

const (
	wrapZstd = 'z'
	wrapS2   = 's'
)

// nopCloser is a writer with a Close that does nothing.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// wrapWriter writes the wrapper's header to w and returns the writer for the RDB file. Close ends the wrapper, but does
// not close w.
func wrapWriter(w io.Writer, c FileCompression) (io.WriteCloser, error) {
	method := byte(0)
	switch c {
	case CompressZstd:
		method = wrapZstd
	case CompressS2:
		method = wrapS2
	default:
		return nopCloser{w}, nil
	}
	if _, err := w.Write(append([]byte(wrapMagic), method)); err != nil {
		return nil, err
	}
	if method == wrapS2 {
		return s2.NewWriter(w), nil
	}
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
}

// ErrWrap is the error for a compressed file of a later version or an unknown compression.
var ErrWrap = errors.New("the file is compressed in a way that this version does not know")

// UnwrapReader returns a reader of the RDB file within r, and whether the file was compressed. Close frees the reader's
// buffers, but does not close r.
func UnwrapReader(r io.Reader) (plain io.ReadCloser, wrapped bool, err error) {
	b := bufio.NewReaderSize(r, 64)
	head, err := b.Peek(len(wrapMagic) + 1)
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	if !bytes.HasPrefix(head, []byte(wrapMagic[:len(wrapMagic)-1])) {
		return io.NopCloser(b), false, nil
	}
	if len(head) < len(wrapMagic)+1 || string(head[:len(wrapMagic)]) != wrapMagic {
		return nil, true, fmt.Errorf("%w (%q)", ErrWrap, head)
	}
	method := head[len(wrapMagic)]
	_, _ = b.Discard(len(head))
	switch method {
	case wrapS2:
		return io.NopCloser(s2.NewReader(b)), true, nil
	case wrapZstd:
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			return nil, true, err
		}
		return z.IOReadCloser(), true, nil
	}
	return nil, true, fmt.Errorf("%w (%q)", ErrWrap, head)
}
