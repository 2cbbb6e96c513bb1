package replication

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
)

var errReplaced = errors.New("the link was given up")

// takeCopy reads a full copy and puts it in place. It returns false after an error, which the link then knows.
func (f *Follower) takeCopy(w *upstream) bool {
	err := f.readCopy(w)
	if err != nil {
		f.turnOf(w, func(now int64) {
			f.parts.Changed()
			why := "the full copy failed: " + plainError(err)
			if w.cutOff.Load() && !w.killed() {
				why = "the primary broke off the full copy; its log says why"
				f.parts.Log.Warning("The primary broke off the full copy after %d bytes: its log says why.", f.copied.Load())
			}
			f.link.Failed(now, w.cutOff.Load() && f.copied.Load() > 0, why)
		})
	}
	return err == nil
}

func (f *Follower) readCopy(w *upstream) error {
	c, err := f.announced(w)
	if err != nil {
		return err
	}
	if !f.turnOf(w, func(int64) {
		f.size = max(c.Size, 0)
		c.Same = f.known && f.feed.ID == w.id
	}) {
		return errReplaced
	}
	defer w.beat()()
	f.taking.Lock() // waits for an earlier Load whose link was given up
	defer f.taking.Unlock()
	taken := false
	err = f.parts.Loader.Load(c, func() (still bool) {
		if still = f.wire == w; still {
			f.known = false
			// The present data go. If this server is promoted before another copy is in place, no replica may continue
			// the history that they had.
			f.feed.restart(newID(), f.feed.offset)
			f.feed.shown.Store(0) // the data do not count until the copy is in place
		}
		return still
	}, func(db int) {
		if taken = f.wire == w; taken {
			f.taken(w, db)
		}
	})
	if err == nil && !taken {
		return errReplaced
	}
	return err
}

// announced reads the line before a copy.
func (f *Follower) announced(w *upstream) (c *Copy, err error) {
	log := f.parts.Log
	line := ""
	for line == "" { // empty lines are signs of life
		if line, err = w.line(); err != nil {
			log.Warning("I/O error reading bulk count from MASTER: %s", plainError(err))
			return nil, err
		}
		f.copies.Add(int64(len(line) + len("\r\n")))
	}
	c = &Copy{Size: -1}
	from := io.Reader(w.in)
	mark, marked := strings.CutPrefix(line, "$EOF:")
	switch {
	case strings.HasPrefix(line, "-"):
		log.Warning("MASTER aborted replication with an error: %s", line[1:])
		return nil, errReplaced
	case line[0] != '$':
		log.Warning("Bad protocol from MASTER, the first byte is not '$' (we received '%s'), are you sure the host and "+
			"port are right?", line)
		return nil, errReplaced
	case marked && len(mark) == len(noID):
		c.Mark = mark
	default:
		n, err := strconv.ParseInt(line[1:], 10, 64)
		if err != nil || n < 0 {
			log.Warning("Bad protocol from MASTER, it announces a copy of '%s' bytes", line[1:])
			return nil, errReplaced
		}
		c.Size = n
		from = io.LimitReader(w.in, n)
	}
	c.Stream = &counted{from, [2]*atomic.Int64{&f.copied, &f.copies}}
	return c, nil
}

// A counted reader adds the bytes read through it to both of n.
type counted struct {
	r io.Reader
	n [2]*atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for _, sum := range c.n {
		sum.Add(int64(n))
	}
	return n, err
}
