package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
)

// connections are the connections of the admin address. When all places are taken, a newcomer gets the place of another
// connection, preferably of one that has not shown the token (see victim). The newcomer itself always stays.
type connections struct {
	most  int
	knows func(*http.Request) bool // reports whether the request shows the token
	mu    sync.Mutex
	all   []*member // longest waiting or working first
}

// A member is one of the connections.
type member struct {
	conn  net.Conn
	leave context.CancelFunc // ends its request
	busy  bool               // a whole request has arrived, and its reply is not sent yet
	known bool               // it has shown the token
}

// memberKey is the key of the member in a request's context.
type memberKey struct{}

// join adds a connection. It is http.Server's ConnContext.
func (o *connections) join(ctx context.Context, c net.Conn) context.Context {
	ctx, leave := context.WithCancel(ctx)
	m := &member{conn: c, leave: leave}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) >= o.most {
		o.drop(o.victim())
	}
	o.all = append(o.all, m)
	return context.WithValue(ctx, memberKey{}, m)
}

// victim returns the connection to close for a new one. Connections that have shown the token are closed last.
//
// If more than a quarter of the places belong to connections without a request, victim returns the one of them that has
// waited longest. Otherwise it returns the one whose request has run longest. So neither unfinished nor long requests
// keep new connections out.
func (o *connections) victim() *member {
	for _, known := range []bool{false, true} {
		var waiting, busy []*member
		for _, m := range o.all {
			switch {
			case m.known != known:
			case m.busy:
				busy = append(busy, m)
			default:
				waiting = append(waiting, m)
			}
		}
		if len(busy) > 0 && len(waiting) <= o.most/4 {
			return busy[0]
		}
		if len(waiting) > 0 {
			return waiting[0]
		}
	}
	return nil
}

// drop closes a connection without waiting until the client has read everything, and ends its request.
func (o *connections) drop(m *member) {
	if t, ok := m.conn.(*tls.Conn); ok {
		t.NetConn().Close()
	} else {
		m.conn.Close()
	}
	o.remove(m)
}

func (o *connections) remove(m *member) {
	m.leave()
	o.all = slices.DeleteFunc(o.all, func(other *member) bool { return other == m })
}

// note follows the states of connections. It is http.Server's ConnState.
func (o *connections) note(c net.Conn, state http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.all, func(m *member) bool { return m.conn == c })
	if i < 0 {
		return // it was dropped
	}
	switch state {
	case http.StateIdle:
		o.setBusy(o.all[i], false)
	case http.StateClosed:
		o.remove(o.all[i])
	}
}

// setBusy notes that m begins to work, or to wait.
func (o *connections) setBusy(m *member, busy bool) {
	if i := slices.Index(o.all, m); i >= 0 && m.busy != busy {
		m.busy = busy
		o.all = append(slices.Delete(o.all, i, i+1), m)
	}
}

// whole reads a request's body before next serves the request. Until then the connection counts as waiting. The reply
// must be read soon, unless Guard.Locked allows more time.
func (o *connections) whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body []byte
		var err error
		if r.ContentLength != 0 { // -1: the length is not known yet
			body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, adminBody))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		m := r.Context().Value(memberKey{}).(*member)
		o.mu.Lock()
		o.setBusy(m, true)
		m.known = m.known || o.knows(r)
		o.mu.Unlock()
		replySoon(w)
		if err != nil {
			w.Header().Set("Connection", "close")
			http.Error(w, "the body is too long, or did not arrive", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
