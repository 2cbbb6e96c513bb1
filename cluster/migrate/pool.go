package migrate

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"sync"
	"time"
)

// A Dial opens a connection to "host:port".
type Dial func(ctx context.Context, address string) (net.Conn, error)

// A pool keeps connections to targets for later calls. Any goroutine.
//
// migrate.P1. A connection belongs to one call, or is idle. Idle ones are closed after keepFor. open counts both.
type pool struct {
	dial Dial

	mu   sync.Mutex
	idle map[string][]*target
	open int
}

const (
	mostOpen = 64
	keepFor  = 10 * time.Second
	lineMax  = 16 << 10 // of a reply
)

// A target is a connection to a target.
type target struct {
	name   string
	conn   net.Conn
	in     *bufio.Reader
	db     int64 // its selected database; -1: unknown
	usedAt time.Time
}

// take returns the most recently used idle connection to name; nil if there is none.
func (p *pool) take(name string) *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[name]
	if len(list) == 0 {
		return nil
	}
	t := list[len(list)-1]
	if p.idle[name] = list[:len(list)-1]; len(list) == 1 {
		delete(p.idle, name)
	}
	return t
}

// connect opens a connection for the call.
func (p *pool) connect(m *call) (*target, error) {
	p.mu.Lock()
	if p.open >= mostOpen {
		p.closeSome()
	}
	p.mu.Unlock()
	host, port := m.address()
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	conn, err := p.dial(ctx, net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	return &target{name: m.name(), conn: conn, in: bufio.NewReaderSize(conn, lineMax), db: -1}, nil
}

// put makes t idle.
func (p *pool) put(t *target) {
	t.usedAt = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open > mostOpen {
		p.closeNow(t)
		return
	}
	if p.idle == nil {
		p.idle = map[string][]*target{}
	}
	p.idle[t.name] = append(p.idle[t.name], t)
}

// close closes a connection that a call uses.
func (p *pool) close(t *target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeNow(t)
}

func (p *pool) closeNow(t *target) {
	t.conn.Close()
	p.open--
}

// closeSome closes the idle connections to one target.
func (p *pool) closeSome() {
	for name, list := range p.idle {
		for _, t := range list {
			p.closeNow(t)
		}
		delete(p.idle, name)
		return
	}
}

// tick closes connections that were idle for keepFor.
func (p *pool) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, list := range p.idle {
		kept := list[:0]
		for _, t := range list {
			if now.Sub(t.usedAt) > keepFor {
				p.closeNow(t)
			} else {
				kept = append(kept, t)
			}
		}
		clear(list[len(kept):])
		if p.idle[name] = kept; len(kept) == 0 {
			delete(p.idle, name)
		}
	}
}

// count returns the number of connections.
func (p *pool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}
