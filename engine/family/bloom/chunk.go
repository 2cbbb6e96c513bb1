package bloom

import (
	"spindle/engine/command"
	"spindle/engine/data/value/bloom"
	"spindle/internal/number"
)

// maxChunk is the maximum size of a piece that BF.SCANDUMP returns, in bytes.
const maxChunk = 16 << 20

// scanDump is BF.SCANDUMP key iterator. Replies: the next iterator and a piece of the filter for BF.LOADCHUNK. Iterator
// 0 returns the header. The next iterators return the bits, from the first byte. At the end the reply is 0 and an empty
// string.
// Errors: ErrWrongType, errNotFound, errScanNumber.
func scanDump(c *command.Context) error {
	r, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	at, ok := number.ParseInt(c.Args[2])
	if !ok {
		return errScanNumber
	}
	c.Reply.Array(2)
	if at == 0 {
		c.Reply.Int(1)
		r.AppendHeader(c.Reply.BulkRoom(r.HeaderLen())[:0])
		return nil
	}
	n := 0
	if at > 0 {
		n = int(min(maxChunk, r.Ahead(at-1)))
	}
	if n == 0 {
		c.Reply.Int(0)
		c.Reply.BulkString("")
		return nil
	}
	c.Reply.Int(at + int64(n))
	room := c.Reply.BulkRoom(n)
	r.Chunk(at-1, n, func(p []byte) bool {
		room = room[copy(room, p):]
		return true
	})
	return nil
}

// loadChunk is BF.LOADCHUNK key iterator data. It takes the pieces of BF.SCANDUMP, in order. With iterator 1, data is
// the header, and the key is created. Replies: OK. Propagates as written.
// Errors: ErrWrongType, errNotFound, errLoadNumber, errData, errBound, errOutside, errAcross.
func loadChunk(c *command.Context) error {
	next, ok := number.ParseInt(c.Args[2])
	if !ok {
		return errLoadNumber
	}
	key, data := c.Args[1], c.Args[3]
	e, err := edit(c, key)
	switch {
	case err != nil:
		return err
	case e == nil && next != 1:
		return errNotFound
	case e == nil:
		b := bound(c, 0)
		root, err := bloom.FromHeader(c.Space.Store(), data, &b)
		switch err {
		case nil:
		case bloom.ErrBound:
			return errBound
		default:
			return errData
		}
		install(c, key, root)
	case next <= 0 || next < int64(len(data)):
		return errData
	default:
		switch bloom.WriteAt(e, next-int64(len(data))-1, data) {
		case bloom.OutsideOfChain:
			return errOutside
		case bloom.AcrossLinks:
			return errAcross
		}
	}
	propagated(c, key)
	c.Reply.OK()
	return nil
}
