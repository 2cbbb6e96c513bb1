// Package admin is the admin address: HTTP for operators and their tools. It has the live page, /metrics, /healthz,
// profiles and the console.
//
// Owner: goroutines of the HTTP server. Functions that need the turn come from the caller (Parts).
// Start at Serve; connections.go bounds the connections.
package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spindle/admin/live"
	"spindle/engine/command"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/scripting"
)

// Parts are the functions through which the address reaches the rest of the server.
type Parts struct {
	Do         func(func())                             // runs a function in a turn
	Sections   func() []info.Section                    // turn only
	Catalogue  *command.Catalogue                       // its figures: turn only
	Scripts    func(yield func(scripting.Figures) bool) // turn only
	Health     *Health
	Handshakes func() (running, begun, failed int64) // TLS handshakes that are running, have begun, and have failed
	// Certificates calls f for each TLS certificate in use, with its name and the seconds until it expires.
	Certificates func(f func(name string, left int64))
	Profiling    func(on bool)                          // marks profiles with commands' names; turn only
	Figures      func(keys bool) []prometheus.Collector // figures of the features, with or without the names of keys
	Page         *live.Page
	TLS          *tls.Config // nil: no TLS
}

// A Server is the admin address. It serves the live page, /metrics, /healthz, /debug/pprof and execution traces to
// operators and their tools. Without a token it asks for no password.
type Server struct {
	Parts
	profiles    int // running or requested profiles; turn only
	http        http.Server
	connections connections
}

// Bounds on the cost of clients.
const (
	Conns         = 64 // most connections
	metricsAtOnce = 4  // most requests for /metrics that are made, or wait for a turn
	profsAtOnce   = 8  // most requests for /debug/pprof: a collector may fetch some kinds at once
	adminHeaders  = 64 << 10
	adminBody     = 64 << 10
	adminRequest  = 30 * time.Second // how long a request may take to arrive
	adminReply    = live.ReplyTime   // in addition to a profile's own time
	adminSoon     = 10 * time.Second // how long the client may take to read the page's own files, /healthz and refusals
	adminIdle     = time.Minute      // between two requests
)

// errAdminOpen is for an address that other machines can reach and that requires no token.
var errAdminOpen = errors.New("it is reached from other machines and needs admin-token, or admin-open yes")

// Resolve returns the socket that address names. Without a host it is all addresses of this machine, IPv4 and IPv6. An
// IPv4 address has no IPv6 socket, and an IPv6 address has no IPv4 socket. Only a loopback address may be open without
// a token.
func Resolve(address, token string, open bool) (network string, at *net.TCPAddr, err error) {
	network = "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil {
		host, _, _ = strings.Cut(host, "%")
		switch ip := net.ParseIP(host); {
		case ip == nil:
		case ip.To4() != nil:
			network = "tcp4"
		default:
			network = "tcp6"
		}
	}
	at, err = net.ResolveTCPAddr(network, address)
	if err == nil && token == "" && !open && !at.IP.IsLoopback() {
		err = errAdminOpen
	}
	return network, at, err
}

// Serve serves on listener until Close.
func (a *Server) Serve(listener net.Listener) {
	mux := http.NewServeMux()
	a.Page.Handle(mux)
	mux.Handle("/healthz", a.Health)
	named, nameless := a.collected(true), a.collected(false)
	mux.Handle("/metrics", a.Page.Locked(func(w http.ResponseWriter, r *http.Request) {
		if a.Page.Trusts(r) {
			named.ServeHTTP(w, r)
		} else {
			nameless.ServeHTTP(w, r)
		}
	}))
	few := upTo(profsAtOnce)
	mux.Handle("/debug/pprof/", a.Page.Profiled(few(pprof.Index)))
	mux.Handle("/debug/pprof/cmdline", a.Page.Profiled(few(showArguments)))
	mux.Handle("/debug/pprof/profile", a.Page.Profiled(few(a.profile)))
	mux.Handle("/debug/pprof/symbol", a.Page.Profiled(few(pprof.Symbol)))
	mux.Handle("/debug/pprof/trace", a.Page.Profiled(few(pprof.Trace)))
	if a.TLS != nil {
		listener = tls.NewListener(listener, a.TLS)
	}
	a.connections.most = Conns
	a.connections.knows = func(r *http.Request) bool { return a.Page.Token != "" && a.Page.Opens(r) }
	a.http = http.Server{
		Handler: endOnPanic(a.connections.whole(mux)), ConnState: a.connections.note, ConnContext: a.connections.join,
		MaxHeaderBytes: adminHeaders, ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: adminRequest, WriteTimeout: adminReply, IdleTimeout: adminIdle,
	}
	go a.http.Serve(listener)
}

// replySoon gives a reply that needs no turn and no token a short deadline. The server does not wait for a client that
// does not read it.
func replySoon(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(adminSoon))
}

// upTo lets n profiles run at once, and refuses the next.
func upTo(n int) func(http.HandlerFunc) http.HandlerFunc {
	places := make(chan struct{}, n)
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				next(w, r)
			default:
				replySoon(w)
				http.Error(w, fmt.Sprintf("%d profiles are under way: ask again later", n), http.StatusServiceUnavailable)
			}
		}
	}
}

// endOnPanic ends the process if next panics. Otherwise the HTTP server would continue, and a panic inside a turn would
// leave the turn held for ever.
func endOnPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over := false
		defer func() {
			if over {
				return
			}
			why := recover()
			if why == nil || why == http.ErrAbortHandler {
				panic(http.ErrAbortHandler) // the reply is broken off
			}
			stack := debug.Stack()
			go func() { panic(fmt.Sprintf("%v\n\nin a request of the admin address:\n%s", why, stack)) }()
			select {}
		}()
		next.ServeHTTP(w, r)
		over = true
	})
}

// showArguments serves /debug/pprof/cmdline: the program and the names of its options. It leaves out values, because
// some are passwords.
func showArguments(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, strings.Join(config.Redacted(os.Args), "\x00"))
}

// Close ends the address. Running requests get a second.
func (a *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		a.http.Close()
	}
	a.Page.Close()
}

// profile runs pprof's CPU profile, with the commands' names as labels meanwhile.
func (a *Server) profile(w http.ResponseWriter, r *http.Request) {
	a.label(1)
	defer a.label(-1)
	pprof.Profile(w, r)
}

// label counts the requests that want labels. pprof refuses a second profile while one runs. The end of the refused
// request must not remove the labels of the first.
func (a *Server) label(change int) {
	a.Do(func() {
		if a.profiles += change; a.profiles == 1 && change == 1 || a.profiles == 0 {
			a.Profiling(a.profiles > 0)
		}
	})
}
