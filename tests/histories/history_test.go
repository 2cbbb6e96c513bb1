package histories

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// An event is one call of a client.
type event struct {
	client    int
	kind      byte // 'w' SET, 'r' GET, 'q' GET with a write in one transaction, 'i' INCR, 'p' RPUSH
	key       string
	in, out   string // the argument; the reply of GET or INCR
	call, ret int64  // ns since the history's begin
	unknown   bool   // no reply came, or a reply that leaves open whether the write happened
}

// A history has the calls of all clients.
type history struct {
	began  time.Time
	mu     sync.Mutex
	events []event
	lists  map[string][]string // the elements of each list at the end
	load   load                // beside the clients, if the plan says so
	found  []finding           // in the load's data
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// count returns how many calls were answered, and of how many the outcome is unknown.
func (h *history) count() (answered, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.unknown {
			unknown++
		}
	}
	return len(h.events) - unknown, unknown
}

// confirmed returns how many writes were answered, those of the load included.
func (h *history) confirmed() (n int) {
	n = h.load.confirmed()
	for _, e := range h.events {
		if !e.unknown && strings.IndexByte("wip", e.kind) >= 0 {
			n++
		}
	}
	return n
}

func (h *history) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// refusals lists errors of calls that have changed nothing.
var refusals = []string{"READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF", "UNBLOCKED", "BUSY", "MOVED",
	"CLUSTERDOWN", "EXECABORT"}

// mix is what clients call if nothing else is said.
const mix = "wwwrqqiipp"

// A crew is a group of clients. Each client chooses a server that reports to be the primary, and uses it until an
// error.
type crew struct {
	first, clients int    // the number of the first client, and how many there are
	kinds          string // of calls
	stop, rest     atomic.Bool
	calling        atomic.Int64 // calls that are not answered
	servers        []*testkit.Server
}

// run lets clients call until stop is set. They do not call while rest is.
func (s *site) run(h *history, w *crew) *sync.WaitGroup {
	var all sync.WaitGroup
	for number := w.first; number < w.first+w.clients; number++ {
		rng := rand.New(rand.NewPCG(s.rng.Uint64(), uint64(number)))
		all.Go(func() {
			c := &caller{h: h, crew: w, number: number, rng: rng}
			for n := 0; !w.stop.Load(); n++ {
				w.calling.Add(1)
				if !w.rest.Load() {
					c.call(n)
				}
				w.calling.Add(-1)
				testkit.Moment(rng, 4*time.Millisecond)
			}
			c.hangUp()
		})
	}
	return &all
}

// A caller is one client.
type caller struct {
	*crew
	h      *history
	number int
	rng    *rand.Rand
	conn   *respclient.Client
}

func (c *caller) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// patience is how long a client waits for a reply.
const patience = 2 * time.Second

// find connects to a server that reports to be the primary.
func (c *caller) find() bool {
	for _, i := range c.rng.Perm(len(c.servers)) {
		conn, err := respclient.DialTimeout(c.servers[i].Addr, patience)
		if err != nil {
			continue
		}
		conn.SetTimeout(patience)
		if v, err := conn.Do("ROLE"); err == nil && len(v.Elems) > 0 && v.Elems[0].Text == "master" {
			c.conn = conn
			return true
		}
		conn.Close()
	}
	return false
}

// call makes the n-th call of this client. The keys change with time, so that no key has many calls.
func (c *caller) call(n int) {
	if c.conn == nil && !c.find() {
		return
	}
	of := fmt.Sprint("{s}", c.h.began.UnixNano(), "-", c.rng.IntN(4), "-", c.h.now()/int64(2*time.Second)) // one slot
	e := event{client: c.number, kind: c.kinds[c.rng.IntN(len(c.kinds))]}
	var request []any
	switch e.kind {
	case 'w':
		e.key, e.in = "r"+of, fmt.Sprint(c.number, ".", n)
		request = []any{"SET", e.key, e.in}
	case 'r', 'q':
		e.key = "r" + of
		request = []any{"GET", e.key}
	case 'i':
		e.key = "c" + of
		request = []any{"INCR", e.key}
	case 'p':
		e.key, e.in = "l"+of, fmt.Sprint(c.number, ".", n)
		request = []any{"RPUSH", e.key, e.in}
	}
	e.call = c.h.now()
	v, err := c.ask(e.kind, request)
	e.ret = c.h.now()
	if err != nil {
		c.hangUp()
		e.unknown = true
	} else if problem := v.Err(); problem != nil {
		code, _, _ := strings.Cut(problem.Error(), " ")
		for _, refusal := range refusals {
			if code == refusal {
				c.hangUp()
				return
			}
		}
		e.unknown = true
	}
	switch {
	case e.unknown && (e.kind == 'r' || e.kind == 'q'):
		return
	case e.kind == 'r' || e.kind == 'q':
		e.out = v.Text
	case e.kind == 'i':
		e.out = strconv.FormatInt(v.Int, 10)
	}
	c.h.add(e)
}

// ask returns the reply. A read with a write shows the key as it was when the write took its place among all others.
func (c *caller) ask(kind byte, request []any) (respclient.Value, error) {
	if kind != 'q' {
		return c.conn.Do(request...)
	}
	replies, err := c.conn.Pipeline([]any{"MULTI"}, []any{"INCR", "reads{s}"}, request, []any{"EXEC"})
	if err != nil {
		return respclient.Value{}, err
	}
	last := replies[len(replies)-1]
	if last.Err() == nil && len(last.Elems) == 2 {
		return last.Elems[1], nil
	}
	return last, nil
}

// read returns the primary's reply at the end. It may be an error or missing for a while, as replicas are awaited.
func (s *site) read(args ...any) (v respclient.Value) {
	s.t.Helper()
	testkit.Until(s.t, testkit.Slowly(30*time.Second), fmt.Sprint(args[0], " at the end"), func() error {
		var err error
		if v, err = s.primary().Ask(args...); err == nil {
			err = v.Err()
		}
		return err
	})
	return v
}

// finish reads all keys at the end. A reply that waits for replicas may need some time.
func (h *history) finish(s *site) {
	s.t.Helper()
	h.found = h.load.check(s)
	h.lists = map[string][]string{}
	seen := map[string]bool{}
	for _, e := range h.events {
		if seen[e.key] {
			continue
		}
		seen[e.key] = true
		call := h.now()
		if e.key[0] == 'l' {
			h.lists[e.key] = s.read("LRANGE", e.key, 0, -1).Strings()
			continue
		}
		kind := byte('r')
		if e.key[0] == 'c' {
			kind = 'c'
		}
		h.events = append(h.events, event{client: -1, kind: kind, key: e.key, out: s.read("GET", e.key).Text, call: call,
			ret: h.now()})
	}
}
