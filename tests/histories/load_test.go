package histories

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A load is a group of clients that write in pipelines, at a steady rate, beside the clients of a history. A history
// has to be short to be checked. A load can be large, because its check is a comparison of numbers.
type load struct {
	clients, perSecond int
	stop               atomic.Bool
	mu                 sync.Mutex
	tallies            []tally
}

// A tally has the writes of one connection, on keys that no other connection has: a counter, a register and a list.
// The writes are the numbers 1, 2, 3 … in order. The numbers up to confirmed must survive. No number after tried may
// appear.
//
// A client that has lost its connection begins a new tally. The server may still run what the old connection has sent.
type tally struct {
	of               string
	confirmed, tried int64
	lasted           time.Duration // from the connection's first batch to its end
}

// batch is how many times a client writes to each of its three keys before it waits for the replies.
const batch = 32

// run lets the clients write until stop is set.
func (l *load) run(s *site) *sync.WaitGroup {
	var all sync.WaitGroup
	if l.perSecond == 0 {
		return &all
	}
	pause := time.Duration(l.clients*3*batch) * time.Second / time.Duration(l.perSecond)
	began := time.Now().UnixNano()
	for i := range l.clients {
		w := &caller{crew: &crew{servers: s.servers}, rng: rand.New(rand.NewPCG(s.rng.Uint64(), uint64(i)))}
		all.Go(func() {
			pace := time.Tick(pause)
			for n := 0; !l.stop.Load(); n++ {
				if w.find() {
					y, from := tally{of: fmt.Sprint("{s}", began, "-", i, "-", n)}, time.Now()
					for !l.stop.Load() && y.write(w.conn) {
						<-pace
					}
					y.lasted = time.Since(from)
					l.mu.Lock()
					l.tallies = append(l.tallies, y)
					l.mu.Unlock()
					w.hangUp()
				}
				testkit.Moment(w.rng, 20*time.Millisecond)
			}
		})
	}
	return &all
}

// write sends a batch. It returns false if a reply is missing or is an error.
func (y *tally) write(c *respclient.Client) bool {
	for range batch {
		y.tried++
		c.Send("INCR", "C"+y.of)
		c.Send("SET", "R"+y.of, y.tried)
		c.Send("RPUSH", "L"+y.of, y.tried)
	}
	if c.Flush() != nil {
		return false
	}
	for range batch {
		for range 3 {
			if v, err := c.Receive(); err != nil || v.Kind == '-' {
				return false // the tried writes may exist or not
			}
		}
		y.confirmed++
	}
	return true
}

// confirmed returns how many writes were confirmed.
func (l *load) confirmed() (n int) {
	for _, y := range l.tallies {
		n += 3 * int(y.confirmed)
	}
	return n
}

// rate returns how many writes a second were confirmed while the clients were connected.
func (l *load) rate() float64 {
	var lasted time.Duration
	for _, y := range l.tallies {
		lasted += y.lasted
	}
	return float64(l.confirmed()) * float64(l.clients) / max(lasted.Seconds(), 1e-9)
}

// check compares the primary's data with the tallies at the end, and then removes the data.
func (l *load) check(s *site) (found []finding) {
	s.t.Helper()
	unlink := []any{"UNLINK"}
	for _, y := range l.tallies {
		keys := []any{"C" + y.of, "R" + y.of, "L" + y.of}
		unlink = append(unlink, keys...)
		there := s.read("EVAL_RO", `return {redis.call('get', KEYS[1]) or '0', redis.call('get', KEYS[2]) or '0',
			redis.call('llen', KEYS[3]), redis.call('lindex', KEYS[3], ARGV[1] - 1) or '0'}`,
			3, keys[0], keys[1], keys[2], max(y.confirmed, 1)).Strings()
		for k, key := range keys {
			if n, err := strconv.ParseInt(there[k], 10, 64); err != nil || n < y.confirmed || n > y.tried {
				found = append(found, finding{key.(string), fmt.Sprintf("%d confirmed, %d tried, %s there", y.confirmed,
					y.tried, there[k])})
			}
		}
		if last := there[3]; y.confirmed > 0 && last != fmt.Sprint(y.confirmed) && there[2] != "0" {
			found = append(found, finding{"L" + y.of, fmt.Sprintf("the element %d is %s", y.confirmed, last)})
		}
	}
	if len(unlink) > 1 {
		s.read(unlink...)
	}
	return found
}
