package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spindle/engine/command"
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
	tls        *tls.Config // nil: in the clear
	sights     prometheus.Collector
	http       http.Server
}

// listen serves on address until close. An address without a host means this machine only.
func (a *admin) listen(address string) (net.Addr, error) {
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&metrics{a}, a.sights, prometheus.NewGoCollector())
	mux := http.NewServeMux()
	a.page.Handle(mux)
	mux.Handle("/healthz", a.health)
	locked := func(path string, h http.Handler) { mux.Handle(path, a.page.Locked(h.ServeHTTP)) }
	locked("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	locked("/debug/pprof/", http.HandlerFunc(pprof.Index))
	locked("/debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline))
	locked("/debug/pprof/profile", http.HandlerFunc(a.profile))
	locked("/debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	locked("/debug/pprof/trace", http.HandlerFunc(pprof.Trace))
	if a.tls != nil {
		listener = tls.NewListener(listener, a.tls)
	}
	a.http = http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go a.http.Serve(listener)
	return listener.Addr(), nil
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

// label counts who wants labels. A second profile is refused by pprof while one runs, and its end must not take the
// labels from that.
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

var (
	callsDesc          = prometheus.NewDesc("spindle_command_calls_total", "Calls of a command.", []string{"command"}, nil)
	secondsDesc        = prometheus.NewDesc("spindle_command_seconds_total", "Time spent in a command.", []string{"command"}, nil)
	failedDesc         = prometheus.NewDesc("spindle_command_failed_total", "Calls answered with an error.", []string{"command"}, nil)
	scriptCallsDesc    = prometheus.NewDesc("spindle_script_calls_total", "Runs of a script or function.", scriptLabels, nil)
	scriptSecondsDesc  = prometheus.NewDesc("spindle_script_seconds_total", "Time that a script or function worked.", scriptLabels, nil)
	scriptPausedDesc   = prometheus.NewDesc("spindle_script_paused_seconds_total", "Time that it had lent to others.", scriptLabels, nil)
	scriptPausesDesc   = prometheus.NewDesc("spindle_script_pauses_total", "How often it has lent the turn.", scriptLabels, nil)
	scriptCommandsDesc = prometheus.NewDesc("spindle_script_commands_total", "Commands that it called.", scriptLabels, nil)
	scriptBytesDesc    = prometheus.NewDesc("spindle_script_run_bytes_max", "The most that one run made, garbage included.", scriptLabels, nil)
	handshakesDesc     = prometheus.NewDesc("spindle_tls_handshakes_total", "TLS handshakes begun.", nil, nil)
	shakenOffDesc      = prometheus.NewDesc("spindle_tls_handshakes_failed_total", "TLS handshakes that came to nothing.", nil, nil)
	shakingDesc        = prometheus.NewDesc("spindle_tls_handshakes", "TLS handshakes under way.", nil, nil)
	refusedDesc        = prometheus.NewDesc("spindle_command_rejected_total", "Calls refused before they ran.", []string{"command"}, nil)
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

// collectField sends one INFO line, if it is a number; "db0:keys=1,expires=0" becomes a gauge for each part, labelled
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
