package testkit

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// A Relay forwards a replica's link to its primary. While it is dark, it reads the primary's bytes and drops them.
type Relay struct {
	listener net.Listener
	target   atomic.Int64 // the primary's port
	dark     atomic.Bool
	mu       sync.Mutex
	open     []net.Conn
	cuts     int // calls of Cut
}

// NewRelay makes a relay without a target.
func NewRelay(t testing.TB) *Relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: l}
	t.Cleanup(func() {
		l.Close()
		r.Cut()
	})
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			cuts := r.cuts
			r.mu.Unlock()
			up, err := net.Dial("tcp", "127.0.0.1:"+strconv.FormatInt(r.target.Load(), 10))
			if err != nil || !r.keep(cuts, up, down) {
				down.Close()
				if err == nil {
					up.Close()
				}
				continue
			}
			go func() {
				io.Copy(up, down)
				up.Close()
			}()
			go func() {
				r.pass(up, down)
				down.Close()
			}()
		}
	}()
	return r
}

// keep adds the two ends of a connection. It returns false if the connection must end. The relay is dark then, or Cut
// was called after cuts was read.
func (r *Relay) keep(cuts int, up, down net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dark.Load() || r.cuts != cuts {
		return false
	}
	r.open = append(r.open, up, down)
	return true
}

// pass copies the primary's bytes until the relay is dark. After that, it forwards no more bytes on this connection.
func (r *Relay) pass(up, down net.Conn) {
	b := make([]byte, 64<<10)
	for blind := false; ; {
		n, err := up.Read(b)
		if err != nil {
			return
		}
		if blind = blind || r.dark.Load(); !blind {
			if _, err := down.Write(b[:n]); err != nil {
				return
			}
		}
	}
}

// Port returns the port that the replica connects to.
func (r *Relay) Port() string { return strconv.Itoa(r.listener.Addr().(*net.TCPAddr).Port) }

// To sets the primary. Connections that are open stay with the earlier one.
func (r *Relay) To(s *Server) { r.target.Store(int64(s.Port)) }

// Darken makes the relay dark, or ends that. Connections that were open meanwhile stay dark.
func (r *Relay) Darken(dark bool) { r.dark.Store(dark) }

// Cut closes the connections, and those that are being opened.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		c.Close()
	}
	r.open = nil
	r.cuts++
}
