package segments

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"spindle/internal/disk"
)

// A Reader reads a log, starting at an offset of the stream. One goroutine uses it.
type Reader struct {
	log   *Log
	at    int64   // the stream's offset before the next byte
	open  segment // whose file is open
	file  disk.File
	left  int64 // bytes of the file that were written and not read yet
	in    *bufio.Reader
	next  int64  // the offset of the file's next block
	buf   []byte // a whole block
	block []byte // the rest of the present block, after offset at
}

// readAhead is how many bytes a reader requests from the disk at a time.
const readAhead = 256 << 10

// From returns a reader of the bytes after offset at.
func (l *Log) From(at int64) *Reader { return &Reader{log: l, at: at} }

// At returns the stream's offset before the next byte.
func (r *Reader) At() int64 { return r.at }

// Read fills p with the next bytes of the stream, or with as many as one block holds. It waits for the disk, and for
// the log's writer.
//
// Errors: io.EOF at the log's present end; ErrMoved, ErrDamaged, the disk's, or the reason why the log was given up.
// After an error other than io.EOF the reader cannot be used.
func (r *Reader) Read(p []byte) (n int, err error) {
	for len(r.block) == 0 {
		if err := r.nextBlock(); err != nil {
			return 0, err
		}
	}
	n = copy(p, r.block)
	r.block, r.at = r.block[n:], r.at+int64(n)
	return n, nil
}

// Close closes the reader's file.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close() // it was only read
		r.file = nil
	}
}

// nextBlock reads the block that has the byte after r.at, or an earlier one.
func (r *Reader) nextBlock() error {
	s, err := r.log.locate(r.at)
	if err != nil {
		return err
	}
	if r.file == nil || s.Begin != r.open.Begin {
		if err := r.begin(s); err != nil {
			return r.explain(err)
		}
	}
	r.left += s.Bytes - r.open.Bytes // the bytes written meanwhile
	r.open = s
	if err := r.readBlock(); err != nil {
		return r.explain(err)
	}
	return nil
}

// explain returns the cause of an error in the files. The log may have removed the file meanwhile.
func (r *Reader) explain(err error) error {
	if _, gone := r.log.locate(r.at); gone != nil && gone != io.EOF {
		return gone
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrDamaged
	}
	return err
}

// begin opens segment s.
func (r *Reader) begin(s segment) error {
	r.Close()
	file, err := r.log.folder.open(r.log.nonce, s.Begin)
	if err != nil {
		return err
	}
	r.file, r.open, r.left, r.next = file, s, s.Bytes, s.Begin
	if r.in == nil {
		r.in = bufio.NewReaderSize(nil, readAhead)
	}
	r.in.Reset(written{r})
	var head [headLen]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return err
	}
	if want := appendHead(nil, r.log.nonce, s.Begin); string(head[:]) != string(want) {
		return ErrDamaged
	}
	return nil
}

// readBlock reads one block, checks it, and keeps its bytes after r.at.
func (r *Reader) readBlock() error {
	var head [blockHead]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return err
	}
	offset := int64(binary.LittleEndian.Uint64(head[:]))
	length := int64(binary.LittleEndian.Uint32(head[8:]))
	if offset != r.next || length == 0 || length > blockMost || offset+length > r.open.End {
		return ErrDamaged
	}
	if int64(cap(r.buf)) < length {
		r.buf = make([]byte, length)
	}
	p := r.buf[:length]
	if _, err := io.ReadFull(r.in, p); err != nil {
		return err
	}
	if sum(r.log.nonce, offset, p) != binary.LittleEndian.Uint64(head[12:]) {
		return ErrDamaged
	}
	r.next = offset + length
	if r.next > r.at {
		r.block = p[max(0, r.at-offset):]
	}
	return nil
}

// written is the part of r's file that the log's writer has published.
type written struct{ r *Reader }

func (w written) Read(p []byte) (n int, err error) {
	if w.r.left == 0 {
		return 0, io.EOF
	}
	n, err = w.r.file.Read(p[:min(int64(len(p)), w.r.left)])
	w.r.left -= int64(n)
	return n, err
}
