package topology

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// writers has connections that write at random to several databases until they are stopped. They cause every kind of
// effect. They use few keys, so that keys are overwritten, expire and are created again.
type writers struct {
	t      *testing.T
	seed   uint64
	source func(*rand.Rand) [][]any
	target atomic.Pointer[testkit.Server] // the server to which they write
	loses  bool                           // the target may die or become a replica; then writers use another connection
	done   chan struct{}
	wait   sync.WaitGroup
	writes atomic.Int64
}

// databases is the number of databases that writers use. The last one is sometimes flushed.
const databases = 4

// volatileMs is the longest TTL of a key that must not outlast the test.
const volatileMs = 300

// startWriters starts n writers of strings.
func startWriters(t *testing.T, s *testkit.Server, n int, seed uint64) *writers {
	w := &writers{t: t, seed: seed, source: write, done: make(chan struct{})}
	w.start(s, n)
	return w
}

func (w *writers) start(s *testkit.Server, n int) {
	w.target.Store(s)
	for i := range n {
		rng := rand.New(rand.NewPCG(w.seed, uint64(i)))
		w.wait.Go(func() {
			for pace := time.Tick(20 * time.Millisecond); !w.stopped(); <-pace {
				err := w.write(rng)
				if err != nil && !w.loses {
					w.t.Errorf("seed %d: %v", w.seed, err)
					return
				}
			}
		})
	}
}

func (w *writers) stopped() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// write sends requests on one connection until the writers are stopped or an unexpected error occurs.
func (w *writers) write(rng *rand.Rand) error {
	s := w.target.Load()
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetTimeout(testkit.Slowly(stillWithin + testkit.ReplyTimeout)) // compare pauses writes
	for !w.stopped() && w.target.Load() == s {
		batch := 0
		c.Send("SELECT", rng.IntN(databases))
		for range 1 + rng.IntN(20) {
			for _, request := range w.source(rng) {
				c.Send(request...)
				batch++
			}
		}
		for range batch + 1 {
			v, err := c.Receive()
			if err != nil {
				return fmt.Errorf("a writer lost its connection: %w", err)
			}
			// Errors of commands are part of the load: INCR of a value that is not a number has no effect.
			if e := v.Err(); e != nil && !expected(e.Error()) {
				return e
			}
		}
		w.writes.Add(int64(batch))
		time.Sleep(4 * time.Millisecond) // a rate that replicas can follow on a busy host
	}
	return nil
}

func expected(text string) bool {
	for _, known := range []string{"not an integer", "not a valid float", "no such key", "would produce NaN",
		"would overflow", "objects are the same",
		"WRONGTYPE", "EXECABORT", "NOGROUP", "BUSYGROUP", "OOM ", "index out of range", "not an float", "is not a float",
		"is not a valid float",
		"equal or smaller than", "is smaller than", "already exists",
		"could not decode requested zset member", "not found", "requires the key to exist",
		"not a valid HyperLogLog", "value is not a valid", "can't be converted into double"} {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
}

// await returns when n more writes have had their replies.
func (w *writers) await(n int64) {
	w.t.Helper()
	from := w.writes.Load()
	testkit.Until(w.t, testkit.Slowly(60*time.Second), fmt.Sprintf("%d writes", n), func() error {
		if got := w.writes.Load() - from; got < n && !w.t.Failed() {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
	if w.t.Failed() {
		w.t.FailNow() // a writer has reported the error
	}
}

// stop stops the writers, and returns when the last write has had its reply.
func (w *writers) stop() {
	close(w.done)
	w.wait.Wait()
}

// write returns a random action: a request, or a transaction of several.
func write(rng *rand.Rand) [][]any {
	key := func() string { return fmt.Sprintf("k:%d", rng.IntN(2000)) }
	value := func() string { return strings.Repeat(fmt.Sprint(rng.Uint32()), rng.IntN(12)) }
	soon := func() int { return 1 + rng.IntN(volatileMs) }
	one := func(args ...any) [][]any { return [][]any{args} }
	switch rng.IntN(36) {
	case 0, 1, 2, 3, 4:
		return one("SET", key(), value())
	case 5, 6:
		return one("SET", key(), value(), "PX", soon())
	case 7:
		return one("SET", key(), value(), "EX", 10_000+rng.IntN(10_000))
	case 8:
		return one("SET", key(), value(), "NX", "GET", "PXAT", time.Now().UnixMilli()+int64(soon()))
	case 9:
		return one("SET", key(), value(), "KEEPTTL")
	case 10:
		return one("GETEX", key(), "PX", soon())
	case 11:
		return one("GETEX", key(), "PERSIST")
	case 12:
		return one("DEL", key(), key(), key())
	case 13:
		return one("UNLINK", key(), key())
	case 14:
		return one("APPEND", key(), value())
	case 15:
		return one("SETRANGE", key(), rng.IntN(200), value())
	case 16:
		// There are few such keys, so that a save stays short however long a run lasts.
		return one("SETRANGE", fmt.Sprint("long:", rng.IntN(8)), rng.IntN(300_000), value())
	case 17:
		return one("INCRBYFLOAT", "f:"+key(), fmt.Sprintf("%.*f", rng.IntN(9), rng.Float64()*100-50))
	case 18:
		return one("INCRBY", "n:"+key(), rng.IntN(100000)-50000)
	case 19:
		return one("PEXPIRE", key(), soon(), []string{"NX", "XX", "GT", "LT"}[rng.IntN(4)])
	case 20:
		return one("EXPIRE", key(), 10_000+rng.IntN(10_000))
	case 21:
		return one("EXPIREAT", key(), 1) // in the past, so it deletes
	case 22:
		return one("PERSIST", key())
	case 23:
		return one("RENAME", key(), key())
	case 24:
		return one("RENAMENX", key(), key())
	case 25:
		return one("COPY", key(), key(), "DB", rng.IntN(databases), "REPLACE")
	case 26:
		return one("MOVE", key(), rng.IntN(databases))
	case 27:
		return one("MSET", key(), value(), key(), value(), key(), value())
	case 28:
		return one("MSETNX", key(), value(), key(), value())
	case 29:
		return one("GETDEL", key())
	case 30:
		return one("GETSET", key(), value())
	case 31:
		return one("PSETEX", key(), soon(), value())
	case 32:
		return [][]any{{"MULTI"}, {"INCR", "n:" + key()}, {"SET", key(), value(), "PX", soon()}, {"DEL", key()},
			{"INCRBYFLOAT", "f:" + key(), "0.1"}, {"EXEC"}}
	case 33:
		return [][]any{{"MULTI"}, {"SET", key(), value()}, {"SELECT", rng.IntN(databases)}, {"SET", key(), value()}, {"EXEC"}}
	case 34:
		if rng.IntN(20) > 0 {
			return one("STRLEN", key())
		}
		return one("SET", fmt.Sprintf("big:%d", rng.IntN(20)), strings.Repeat(value(), 2000))
	default:
		switch rng.IntN(60) {
		case 0:
			return [][]any{{"SELECT", databases - 1}, {"FLUSHDB"}}
		case 1:
			return [][]any{{"SELECT", databases - 1}, {"FLUSHDB", "ASYNC"}}
		case 2:
			return one("SWAPDB", 1, 2)
		}
		return one("SET", key(), rng.IntN(1000))
	}
}
