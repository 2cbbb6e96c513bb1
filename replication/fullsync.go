package replication

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spindle/engine/client"
	"spindle/engine/data/keyspace"
)

// A Saver writes a view as an RDB stream. bgsave's encoder is one; it may use several goroutines.
type Saver interface {
	// Prepare is called in the turn that freezes; what it returns writes the whole view to w, on any goroutine, the same
	// number of bytes for the same view each time it is called. Without keys the stream says what it says of the server, and ends.
	Prepare(replID string, offset int64, keys bool) func(w io.Writer, view *keyspace.View) error
}

// unsentMax is how far the sender may run ahead of the replica's socket. R5: past it, it is the sender that waits.
const unsentMax = 4 << 20

// pieceBytes is what the sender hands to the loop at a time.
const pieceBytes = 256 << 10

// sign is how often a replica hears that its stream is being made, before the first byte of it.
const sign = time.Second

var (
	errReplicaGone  = errors.New("the replica is gone")
	errReplicaStuck = errors.New("the replica has not read for repl-timeout")
)

// send streams view to r and closes it. It runs on a goroutine of its own.
//
// Wire: "$EOF:" and forty characters, the RDB stream, the same forty characters, for a replica that knows the EOF form; else the
// length and the stream, for which the view is encoded twice: once to count, once to send, and nothing is kept.
func (f *Feed) send(r *replica, view *keyspace.View, turn uint64, stream func(io.Writer, *keyspace.View) error) {
	defer view.Close()
	began := time.Now()
	out := &sender{r: r, turn: turn, posted: &f.posted, patience: func() time.Duration { return time.Duration(f.settings.Timeout.Get()) * time.Second }}
	err := sendView(out, r, view, stream)
	f.core.Do(func() {
		if _, still := r.cl.ReplicaState.(*replica); !still {
			f.settings.Log.Warning("Full synchronization with replica %s failed: %v", r.name(), errReplicaGone)
			return
		}
		switch {
		case err != nil:
			f.settings.Log.Warning("Full synchronization with replica %s failed: %v", r.name(), err)
			f.core.Kill(r.cl, false)
		case r.rdbOnly:
			f.settings.Log.Notice("Streamed %d bytes of RDB to %s in %.3f seconds", out.total, r.name(), time.Since(began).Seconds())
			f.core.Kill(r.cl, true)
		case r.eof:
			f.settings.Log.Notice("Streamed replica transfer with %s succeeded (socket), %d bytes in %.3f seconds. Waiting for REPLCONF ACK from replica to enable streaming",
				r.name(), out.total, time.Since(began).Seconds())
			r.state, r.ackMs = awaitAck, f.core.Now()
			if r.loaded {
				f.goOnline(r)
			}
		default:
			f.goOnline(r)
		}
	})
}

func sendView(out *sender, r *replica, view *keyspace.View, stream func(io.Writer, *keyspace.View) error) error {
	if r.eof {
		var raw [20]byte
		rand.Read(raw[:])
		mark := hex.EncodeToString(raw[:])
		if _, err := io.WriteString(out, "$EOF:"+mark+"\r\n"); err != nil {
			return err
		}
		if err := stream(out, view); err != nil {
			return err
		}
		if _, err := io.WriteString(out, mark); err != nil {
			return err
		}
		return out.flush()
	}
	size := counter{to: out, signed: time.Now()}
	if err := stream(&size, view); err != nil {
		return err
	}
	if _, err := io.WriteString(out, "$"+strconv.FormatInt(size.n, 10)+"\r\n"); err != nil {
		return err
	}
	before := out.written()
	if err := stream(out, view); err != nil {
		return err
	}
	if n := out.written() - before; n != size.n { // the replica would take effects for data, or the other way round
		return fmt.Errorf("a stream announced with %d bytes has %d", size.n, n)
	}
	return out.flush()
}

// counter counts what is written to it. Meanwhile the replica reads an empty line now and then, which keeps it from giving up.
type counter struct {
	to     *sender
	n      int64
	signed time.Time
}

func (c *counter) Write(p []byte) (int, error) {
	if c.to.gone() {
		return 0, errReplicaGone
	}
	if now := time.Now(); now.Sub(c.signed) >= sign {
		c.signed = now
		c.to.r.cl.Conn.Post(c.to.turn, []byte{'\n'})
	}
	c.n += int64(len(p))
	return len(p), nil
}

// sender is a replica's connection as a writer that waits while too much is unsent.
type sender struct {
	r        *replica
	turn     uint64
	patience func() time.Duration // how long the replica may read nothing
	posted   *atomic.Int64        // Feed.posted
	piece    []byte
	total    int64
}

// gone says that the replica's connection has closed.
func (s *sender) gone() bool {
	select {
	case <-s.r.gone:
		return true
	default:
		return false
	}
}

// written counts what it was given.
func (s *sender) written() int64 { return s.total + int64(len(s.piece)) }

func (s *sender) Write(p []byte) (int, error) {
	s.piece = append(s.piece, p...)
	if len(s.piece) >= pieceBytes {
		return len(p), s.flush()
	}
	return len(p), nil
}

// flush posts the piece, once the socket has taken enough of the earlier ones.
func (s *sender) flush() error {
	least, since := math.MaxInt, time.Now()
	for {
		unsent := s.r.cl.Conn.Usage().Output
		if s.gone() {
			return errReplicaGone
		}
		if unsent <= unsentMax {
			break
		}
		if unsent < least {
			least, since = unsent, time.Now()
		} else if time.Since(since) > s.patience() {
			return errReplicaStuck
		}
		time.Sleep(time.Millisecond)
	}
	s.r.cl.Conn.Post(s.turn, s.piece)
	s.total += int64(len(s.piece))
	s.posted.Add(int64(len(s.piece)))
	s.piece = make([]byte, 0, pieceBytes+4096)
	return nil
}

// start begins a full synchronisation in the turn that decided it: what is in the view is sent, what comes after is held.
func (f *Feed) start(r *replica, turn uint64) {
	f.attach(r)
	r.state = sending
	f.fullSyncs++
	f.settings.Log.Notice("Starting full synchronization of replica %s from a view: no file, no fork", r.name())
	view := f.core.Freeze()
	if !r.eof {
		view.Keep() // it is walked twice
	}
	go f.send(r, view, turn, f.saver.Prepare(f.ID, f.offset, !r.noKeys))
}

func (r *replica) host() string {
	if r.addr != "" {
		return r.addr
	}
	if r.cl.Conn == nil {
		return ""
	}
	return hostOf(r.cl)
}

// hostOf is the address of a client's peer, without the port and IPv6's brackets.
func hostOf(cl *client.Client) string {
	addr := cl.Conn.RemoteAddr()
	at := strings.LastIndexByte(addr, ':')
	if at < 0 {
		return addr
	}
	return strings.Trim(addr[:at], "[]")
}
