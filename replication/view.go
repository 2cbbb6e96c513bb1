package replication

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"spindle/engine/data/keyspace"
)

// sendView sends a view to replicas.
//
// Wire: replicas that know the EOF form get "$EOF:" and forty characters, the RDB stream, and the same forty
// characters. Other replicas get the length and the stream. The view is then encoded twice, to count and to send, and
// nothing is kept.
func sendView(out *sender, eof bool, view *keyspace.View, encode func(io.Writer, *keyspace.View) error) error {
	if eof {
		var raw [20]byte
		rand.Read(raw[:])
		mark := hex.EncodeToString(raw[:])
		if _, err := io.WriteString(out, "$EOF:"+mark+"\r\n"); err != nil {
			return err
		}
		if err := encode(out, view); err != nil {
			return err
		}
		if _, err := io.WriteString(out, mark); err != nil {
			return err
		}
		return out.post()
	}
	size := counter{to: out, signed: time.Now()}
	if err := encode(&size, view); err != nil {
		return err
	}
	if _, err := io.WriteString(out, "$"+strconv.FormatInt(size.n, 10)+"\r\n"); err != nil {
		return err
	}
	before := out.given()
	if err := encode(out, view); err != nil {
		return err
	}
	if n := out.given() - before; n != size.n { // the replica would confuse effects with data
		return fmt.Errorf("a stream announced with %d bytes has %d", size.n, n)
	}
	return out.post()
}

// signEvery is how often replicas get an empty line before the first byte of a copy, so that they do not time out.
const signEvery = time.Second

// A counter counts the bytes written to it. Meanwhile the replicas get empty lines.
type counter struct {
	to     *sender
	n      int64
	signed time.Time
}

func (c *counter) Write(p []byte) (int, error) {
	if c.to.drop(); len(c.to.to) == 0 {
		return 0, errReplicaGone
	}
	if now := time.Now(); now.Sub(c.signed) >= signEvery {
		c.signed = now
		for _, r := range c.to.to {
			r.cl.Conn.Post(c.to.turn, []byte{'\n'})
		}
	}
	c.n += int64(len(p))
	return len(p), nil
}
