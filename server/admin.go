package server

import (
	"bytes"
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spindle/engine/command"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/scripting"
	"spindle/server/live"
)

// An admin serves what operators and their tools look at, on an address of its own: the live page, /metrics, /healthz,
// /debug/pprof and execution traces. It is off unless admin-address is set. Without admin-token it asks for no
// password: bind it where only operators come.
type admin struct {
	do        func(func()) // runs a function in a turn
	sections  func() []info.Section
	catalogue *command.Catalogue
	scripts   *scripting.Scripts
	health    *health
	// handshakes are TLS handshakes: under way, begun and failed.
	handshakes func() (running, begun, failed int64)
	profiling  func(on bool) // turn only
	profiles   int           // that run or have been asked for; turn only
	page       *live.Page
	at         net.Addr
	tls        *tls.Config                            // nil: in the clear
	figures    func(keys bool) []prometheus.Collector // of the features: with those that name keys, or without
	http       http.Server
	crowd      crowd
}

// What clients of the admin address may cost.
const (
	adminConns    = 64 // connections, at most
	metricsAtOnce = 4  // /metrics that are made or wait for a turn that is held, at most
	profsAtOnce   = 8  // requests for /debug/pprof, at most: a collector may take some kinds at once
	adminHeaders  = 64 << 10
	adminBody     = 64 << 10
	adminRequest  = 30 * time.Second // for a request to arrive
	adminReply    = live.ReplyTime   // a profile's own time comes on top
	adminSoon     = 10 * time.Second // for the page's own files, /healthz and refusals to leave
	adminIdle     = time.Minute      // between two requests
)

// errAdminOpen is for an address that other machines reach, and that asks for no token.
var errAdminOpen = errors.New("it is reached from other machines and needs admin-token, or admin-open yes")

// adminPlace is the socket that address names. Without a host it is all of this machine's, IPv4 and IPv6. An IPv4
// address has no IPv6 socket, nor the other way round. Only a loopback address may be open without a token.
func adminPlace(address, token string, open bool) (network string, at *net.TCPAddr, err error) {
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

// adminPlace is the socket of admin-address.
func (in *instance) adminPlace() (network string, at *net.TCPAddr, err error) {
	address := in.own.Admin.Get()
	network, at, err = adminPlace(address, in.own.AdminToken.Get(), in.own.AdminOpen.Get())
	if err != nil {
		err = fmt.Errorf("admin-address %s: %w", address, err)
	}
	return network, at, err
}

// collected serves the figures, with the names of keys or without.
func (a *admin) collected(keys bool) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(a.figures(keys), &metrics{a}, prometheus.NewGoCollector())...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: metricsAtOnce})
}

// serve serves on listener until close.
func (a *admin) serve(listener net.Listener) {
	mux := http.NewServeMux()
	a.page.Handle(mux)
	mux.Handle("/healthz", a.health)
	named, nameless := a.collected(true), a.collected(false)
	mux.Handle("/metrics", a.page.Locked(func(w http.ResponseWriter, r *http.Request) {
		if a.page.Trusts(r) {
			named.ServeHTTP(w, r)
		} else {
			nameless.ServeHTTP(w, r)
		}
	}))
	few := upTo(profsAtOnce)
	mux.Handle("/debug/pprof/", a.page.Profiled(few(pprof.Index)))
	mux.Handle("/debug/pprof/cmdline", a.page.Profiled(few(showArguments)))
	mux.Handle("/debug/pprof/profile", a.page.Profiled(few(a.profile)))
	mux.Handle("/debug/pprof/symbol", a.page.Profiled(few(pprof.Symbol)))
	mux.Handle("/debug/pprof/trace", a.page.Profiled(few(pprof.Trace)))
	if a.tls != nil {
		listener = tls.NewListener(listener, a.tls)
	}
	a.crowd.most = adminConns
	a.crowd.knows = func(r *http.Request) bool { return a.page.Token != "" && a.page.Opens(r) }
	a.http = http.Server{
		Handler: endOnPanic(a.crowd.whole(mux)), ConnState: a.crowd.note, ConnContext: a.crowd.join,
		MaxHeaderBytes: adminHeaders, ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: adminRequest, WriteTimeout: adminReply, IdleTimeout: adminIdle,
	}
	go a.http.Serve(listener)
}

// A crowd is the connections of the admin address. When it is full, a newcomer takes the place of another connection:
// first of one that has not given the token, see victim. The newcomer itself always stays.
type crowd struct {
	most  int
	knows func(*http.Request) bool // the request gives the token that is set
	mu    sync.Mutex
	all   []*member // the one that has waited or worked for longest comes first
}

// A member is a connection of the crowd.
type member struct {
	conn  net.Conn
	leave context.CancelFunc // ends its request
	busy  bool               // a whole request has arrived, and its reply has not left
	known bool               // it has given the token
}

// memberKey is the key of the member in a request's context.
type memberKey struct{}

// join takes in a connection: http.Server's ConnContext.
func (o *crowd) join(ctx context.Context, c net.Conn) context.Context {
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

// victim is the connection to close for a newcomer. A quarter of the places is for connections that wait for a request.
// If more wait, it is the one that has waited for longest; otherwise the one that works for longest. So neither half
// requests nor long ones keep newcomers out. A connection that has given the token is taken only if all have.
func (o *crowd) victim() *member {
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

// drop closes a connection, without a wait for what it has not read, and ends its request.
func (o *crowd) drop(m *member) {
	if t, ok := m.conn.(*tls.Conn); ok {
		t.NetConn().Close()
	} else {
		m.conn.Close()
	}
	o.remove(m)
}

func (o *crowd) remove(m *member) {
	m.leave()
	o.all = slices.DeleteFunc(o.all, func(other *member) bool { return other == m })
}

// note follows the connections: http.Server's ConnState.
func (o *crowd) note(c net.Conn, state http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.all, func(m *member) bool { return m.conn == c })
	if i < 0 {
		return // it was dropped
	}
	switch state {
	case http.StateIdle:
		o.turn(o.all[i], false)
	case http.StateClosed:
		o.remove(o.all[i])
	}
}

// turn says that from now on m works, or waits.
func (o *crowd) turn(m *member, busy bool) {
	if i := slices.Index(o.all, m); i >= 0 && m.busy != busy {
		m.busy = busy
		o.all = append(slices.Delete(o.all, i, i+1), m)
	}
}

// whole reads a request's body before next serves the request. Until then the connection counts as waiting. The reply
// has to leave soon, unless Guard.Locked allows it more time.
func (o *crowd) whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body []byte
		var err error
		if r.ContentLength != 0 { // -1: the length is not known yet
			body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, adminBody))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		m := r.Context().Value(memberKey{}).(*member)
		o.mu.Lock()
		o.turn(m, true)
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

// replySoon is for a reply that needs no turn and no token: a client that does not read it is not waited for.
func replySoon(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(adminSoon))
}

// upTo lets n profiles be under way at once, and refuses the next.
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

// endOnPanic ends the process if next panics. The HTTP server would continue, and a panic inside a turn would leave the
// turn held for ever.
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

// showArguments is /debug/pprof/cmdline: the program and the names of its options. Values are left out, because
// passwords are among them.
func showArguments(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, strings.Join(config.Redacted(os.Args), "\x00"))
}

func (a *admin) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		a.http.Close()
	}
	a.page.Close()
}

// profile is pprof's CPU profile, with the commands' names as labels while it runs.
func (a *admin) profile(w http.ResponseWriter, r *http.Request) {
	a.label(1)
	defer a.label(-1)
	pprof.Profile(w, r)
}

// label counts who wants labels. pprof refuses a second profile while one runs, and its end must not take the labels
// from that.
func (a *admin) label(change int) {
	a.do(func() {
		if a.profiles += change; a.profiles == 1 && change == 1 || a.profiles == 0 {
			a.profiling(a.profiles > 0)
		}
	})
}

// metrics are the numeric fields of INFO, and the commands' counters, as Prometheus collects them.
type metrics struct{ *admin }

// Describe sends nothing: which fields there are may change.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// figure describes a figure, and its labels.
func figure(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("spindle_"+name, help, labels, nil)
}

var (
	callsDesc          = figure("command_calls_total", "Calls of a command.", "command")
	secondsDesc        = figure("command_seconds_total", "Time spent in a command.", "command")
	failedDesc         = figure("command_failed_total", "Calls answered with an error.", "command")
	scriptCallsDesc    = figure("script_calls_total", "Runs of a script or function.", scriptLabels...)
	scriptSecondsDesc  = figure("script_seconds_total", "Time that a script or function worked.", scriptLabels...)
	scriptPausedDesc   = figure("script_paused_seconds_total", "Time that it had lent to others.", scriptLabels...)
	scriptPausesDesc   = figure("script_pauses_total", "How often it has lent the turn.", scriptLabels...)
	scriptCommandsDesc = figure("script_commands_total", "Commands that it called.", scriptLabels...)
	scriptBytesDesc    = figure("script_run_bytes_max", "The most that one run made, garbage included.", scriptLabels...)
	handshakesDesc     = figure("tls_handshakes_total", "TLS handshakes begun.")
	shakenOffDesc      = figure("tls_handshakes_failed_total", "TLS handshakes that came to nothing.")
	shakingDesc        = figure("tls_handshakes", "TLS handshakes under way.")
	refusedDesc        = figure("command_rejected_total", "Calls refused before they ran.", "command")
)

var scriptLabels = []string{"kind", "name"}

// Collect reads all figures in one turn, so that they belong together.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	running, begun, failed := m.handshakes()
	out <- prometheus.MustNewConstMetric(shakingDesc, prometheus.GaugeValue, float64(running))
	out <- prometheus.MustNewConstMetric(handshakesDesc, prometheus.CounterValue, float64(begun))
	out <- prometheus.MustNewConstMetric(shakenOffDesc, prometheus.CounterValue, float64(failed))
	var w info.Writer
	type counts struct {
		name string
		command.Stats
	}
	var rows []counts
	var scripts []scripting.Figures
	m.do(func() {
		for each := range m.scripts.Each {
			scripts = append(scripts, each)
		}
		for _, s := range m.sections() {
			if s.Name == "Commandstats" || s.Name == "Latencystats" || s.Name == "Replylatency" || s.Name == "Errorstats" {
				continue
			}
			for i := range s.Fields {
				s.Fields[i].Append(&w)
			}
		}
		for _, row := range m.catalogue.All() {
			if row.Stats.Calls+row.Stats.Rejected != 0 {
				rows = append(rows, counts{row.Full, row.Stats})
			}
		}
	})
	for line := range strings.SplitSeq(string(w.B), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		collectField(out, name, value)
	}
	for _, f := range scripts {
		count := func(desc *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, v, f.Kind, f.Name)
		}
		count(scriptCallsDesc, float64(f.Calls))
		count(scriptSecondsDesc, f.Worked.Seconds())
		count(scriptPausedDesc, f.Paused.Seconds())
		count(scriptPausesDesc, float64(f.Pauses))
		count(scriptCommandsDesc, float64(f.Commands))
		out <- prometheus.MustNewConstMetric(scriptBytesDesc, prometheus.GaugeValue, float64(f.Bytes), f.Kind, f.Name)
	}
	for i := range rows {
		r := &rows[i]
		out <- prometheus.MustNewConstMetric(callsDesc, prometheus.CounterValue, float64(r.Calls), r.name)
		out <- prometheus.MustNewConstMetric(secondsDesc, prometheus.CounterValue, float64(r.Nanos)/1e9, r.name)
		out <- prometheus.MustNewConstMetric(failedDesc, prometheus.CounterValue, float64(r.Failed), r.name)
		out <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(r.Rejected), r.name)
	}
}

// collectField sends one INFO line, if it is a number. "db0:keys=1,expires=0" becomes a gauge for each part, labelled
// with the name.
func collectField(out chan<- prometheus.Metric, name, value string) {
	if n, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64); err == nil {
		desc := prometheus.NewDesc("spindle_"+name, "INFO "+name+".", nil, nil)
		out <- prometheus.MustNewConstMetric(desc, prometheus.UntypedValue, n)
		return
	}
	if !strings.HasPrefix(name, "db") || !strings.Contains(value, "=") {
		return
	}
	for part := range strings.SplitSeq(value, ",") {
		key, text, _ := strings.Cut(part, "=")
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			desc := prometheus.NewDesc("spindle_db_"+key, "INFO keyspace "+key+".", []string{"db"}, nil)
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, n, strings.TrimPrefix(name, "db"))
		}
	}
}
