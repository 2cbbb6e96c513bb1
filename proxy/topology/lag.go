package topology

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"spindle/internal/logging"
	"spindle/internal/number"
	"spindle/protocol/respclient"
)

// A standing holds the fields of a server's INFO replication.
type standing struct {
	primary bool
	linked  bool  // a replica's link to its primary is up
	offset  int64 // the offset of the primary's stream, or of the part that the replica has applied
}

// readStanding reads a reply to INFO replication.
func readStanding(reply respclient.Value) (s standing, err error) {
	if err := reply.Err(); err != nil {
		return s, err
	}
	role := ""
	offsets := map[string]int64{}
	for line := range strings.SplitSeq(reply.Text, "\n") {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		switch name {
		case "role":
			role = value
		case "master_link_status":
			s.linked = value == "up"
		case "master_repl_offset", "slave_repl_offset":
			if n, ok := number.ParseInt([]byte(value)); ok && n >= 0 {
				offsets[name] = n
			}
		}
	}
	name := "master_repl_offset"
	if s.primary = role == "master"; !s.primary {
		name = "slave_repl_offset"
	}
	offset, there := offsets[name]
	if role == "" || !there {
		return s, fmt.Errorf("INFO replication has no role and %s", name)
	}
	s.offset = offset
	return s, nil
}

// A history has a primary's offsets at some instants, oldest first. From a replica's offset it estimates the replica's
// lag.
type history struct {
	marks [historyLength]mark
	count int
}

type mark struct {
	at     time.Time
	offset int64
}

const historyLength = 64

// note adds an offset. An offset lower than the last one belongs to another primary, and begins a new history.
func (h *history) note(at time.Time, offset int64) {
	if h.count > 0 && offset < h.marks[h.count-1].offset {
		h.count = 0
	}
	if h.count == historyLength {
		copy(h.marks[:], h.marks[1:])
		h.count--
	}
	h.marks[h.count] = mark{at, offset}
	h.count++
}

// lag returns the age of the newest recorded offset that the replica has reached. known is false if it has reached
// none.
func (h *history) lag(now time.Time, offset int64) (lag time.Duration, known bool) {
	for i := h.count - 1; i >= 0; i-- {
		if h.marks[i].offset <= offset {
			return now.Sub(h.marks[i].at), true
		}
	}
	return 0, false
}

// A gauge measures the lag of one shard's replicas. It keeps its connections open.
type gauge struct {
	access  Access
	log     *logging.Logger
	history history
	clients map[string]*respclient.Client
}

// measure asks the primary, then the replicas. After any error, a replica's lag is unknown until the next time.
func (g *gauge) measure(s *Shard) {
	at := time.Now() // before the primary is asked, so that lags are too long rather than too short
	if primary, err := g.ask(s.Primary); err == nil && primary.primary {
		g.history.note(at, primary.offset)
	}
	for _, r := range s.Replicas {
		replica, err := g.ask(r.Addr)
		if err != nil || replica.primary || !replica.linked {
			r.setLag(0, false)
			continue
		}
		lag, known := g.history.lag(time.Now(), replica.offset)
		r.setLag(lag, known)
	}
	for addr, c := range g.clients {
		if addr != s.Primary && s.replica(addr) == nil {
			c.Close()
			delete(g.clients, addr)
		}
	}
}

func (g *gauge) ask(addr string) (s standing, err error) {
	c := g.clients[addr]
	if c == nil {
		if c, err = g.access.Dial(addr); err != nil {
			g.log.Verbose("proxy: the lag of %s is not known: %v", addr, err)
			return s, err
		}
		g.clients[addr] = c
	}
	reply, err := c.Do("INFO", "replication")
	if err == nil {
		s, err = readStanding(reply)
	}
	if err != nil {
		c.Close()
		delete(g.clients, addr)
		g.log.Verbose("proxy: the lag of %s is not known: %v", addr, err)
	}
	return s, err
}

func (g *gauge) close() {
	for _, c := range g.clients {
		c.Close()
	}
}

// measureLag measures the lag of all replicas at intervals, until the Finder ends.
func (r *rounds) measureLag(k *keeper, access Access, interval time.Duration, log *logging.Logger) {
	go func() {
		gauges := map[string]*gauge{}
		for r.sleep(interval) {
			m := k.Current()
			var all sync.WaitGroup
			alive := map[string]bool{}
			for _, s := range m.Shards {
				alive[s.ID] = true
				g := gauges[s.ID]
				if g == nil {
					g = &gauge{access: access, log: log, clients: map[string]*respclient.Client{}}
					gauges[s.ID] = g
				}
				if len(s.Replicas) > 0 {
					all.Go(func() { g.measure(s) })
				}
			}
			all.Wait()
			for id, g := range gauges {
				if !alive[id] {
					g.close()
					delete(gauges, id)
				}
			}
		}
		for _, g := range gauges {
			g.close()
		}
	}()
}
