package dataset

import (
	"io"
	"strings"

	"spindle/bgsave"
	"spindle/replication"
)

// receive writes the copy to w.
func receive(w io.Writer, c *replication.Copy) error {
	if c.Mark == "" {
		n, err := io.Copy(w, c.Stream)
		if err == nil && n < c.Size {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	kept := make([]byte, 0, 64<<10+len(c.Mark)) // the last bytes, which may be a part of the mark
	for {
		n, err := c.Stream.Read(kept[len(kept) : len(kept)+64<<10])
		kept = kept[:len(kept)+n]
		if strings.HasSuffix(string(kept[max(0, len(kept)-len(c.Mark)):]), c.Mark) {
			_, err := w.Write(kept[:len(kept)-len(c.Mark)])
			return err
		}
		if err != nil {
			return err
		}
		if over := len(kept) - len(c.Mark); over > 0 {
			if _, err := w.Write(kept[:over]); err != nil {
				return err
			}
			kept = kept[:copy(kept, kept[over:])]
		}
	}
}

// readCopy reads the copy from its connection, including the mark.
func readCopy(d *Set, c *replication.Copy, to bgsave.Inserter, o bgsave.LoadOptions) (bgsave.Loaded, error) {
	o.Live = true
	l, err := bgsave.Read(d.loadContext, c.Stream, to, o)
	if err != nil || c.Mark == "" {
		return l, err
	}
	mark := make([]byte, len(c.Mark))
	n := copy(mark, l.Rest)
	if _, err := io.ReadFull(c.Stream, mark[n:]); err != nil {
		return l, err
	}
	if string(mark) != c.Mark || len(l.Rest) > len(c.Mark) {
		d.Log.Warning("Replication stream EOF marker is broken")
		return l, errMark
	}
	return l, nil
}

// streamDB returns the database in which the stream after a copy begins.
func streamDB(l bgsave.Loaded) int {
	if l.Replication == nil {
		return 0
	}
	return l.Replication.StreamDB
}
