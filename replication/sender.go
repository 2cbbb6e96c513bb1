package replication

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// A sender writes to the connections of some replicas. It waits while a socket has too many unsent bytes. This slows
// the sender, never a turn (R5).
type sender struct {
	to       []*replica // the replicas that are still connected
	left     map[*replica]error
	turn     uint64
	patience func() time.Duration // how long a replica may go without reading
	posted   *atomic.Int64        // roster.posted
	piece    []byte
	total    int64
}

const (
	unsentMax  = 4 << 20   // with more unsent bytes the sender waits
	pieceBytes = 256 << 10 // how many bytes a loop gets at a time
)

var (
	errReplicaGone  = errors.New("the replica is gone")
	errReplicaStuck = errors.New("the replica has not read for repl-timeout")
)

// sender returns a sender to the replicas to. turn is the number of the present turn.
func (o *roster) sender(turn uint64, to ...*replica) *sender {
	return &sender{to: slices.Clone(to), left: map[*replica]error{}, turn: turn, posted: &o.posted,
		patience: func() time.Duration { return time.Duration(o.settings.Timeout.Get()) * time.Second }}
}

// drop removes the replicas whose connections have closed.
func (s *sender) drop() {
	s.to = slices.DeleteFunc(s.to, func(r *replica) bool {
		select {
		case <-r.gone:
			s.left[r] = errReplicaGone
			return true
		default:
			return false
		}
	})
}

// given returns how many bytes were written to the sender.
func (s *sender) given() int64 { return s.total + int64(len(s.piece)) }

func (s *sender) Write(p []byte) (int, error) {
	s.piece = append(s.piece, p...)
	if len(s.piece) >= pieceBytes {
		return len(p), s.post()
	}
	return len(p), nil
}

// post sends the piece, once the sockets have taken enough of the earlier pieces.
func (s *sender) post() error {
	s.await()
	if len(s.to) == 0 {
		return errReplicaGone
	}
	for _, r := range s.to {
		r.cl.Conn.Post(s.turn, s.piece)
		s.posted.Add(int64(len(s.piece)))
	}
	s.total += int64(len(s.piece))
	s.piece = make([]byte, 0, pieceBytes+4096)
	return nil
}

// await waits until each socket has taken enough. It removes a replica that reads nothing for too long.
func (s *sender) await() {
	s.drop()
	s.to = slices.DeleteFunc(s.to, func(r *replica) bool {
		err := s.awaitOne(r)
		if err != nil {
			s.left[r] = err
		}
		return err != nil
	})
}

func (s *sender) awaitOne(r *replica) error {
	least, since := math.MaxInt, time.Now()
	for {
		unsent := r.cl.Conn.Usage().Output
		select {
		case <-r.gone:
			return errReplicaGone
		default:
		}
		if unsent <= unsentMax {
			return nil
		}
		if unsent < least {
			least, since = unsent, time.Now()
		} else if time.Since(since) > s.patience() {
			return errReplicaStuck
		}
		time.Sleep(min(time.Millisecond+time.Since(since)/16, 20*time.Millisecond))
	}
}
