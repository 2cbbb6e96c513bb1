package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spindle/internal/histogram"
	"spindle/reactor"
)

// The proxy's figures: /metrics, /healthz and profiles on admin-address.
//
// Each worker counts for itself. A request for figures adds the workers' counts, on their loops.
type figures struct {
	shards map[string]*shardFigure
	rows   []rowFigure // by row number plus 1
	whole  histogram.H // from the request's batch to its reply
}

// A shardFigure is the calls of one server: how long their replies took.
type shardFigure struct {
	failed uint64
	took   histogram.H
}

func (f *shardFigure) add(nanos int64, failed bool) {
	f.took.Add(nanos, 1)
	if failed {
		f.failed++
	}
}

// A rowFigure is the calls of one command.
type rowFigure struct {
	calls, failed uint64
	nanos         int64
	took          *histogram.H // nil: no call yet
}

func (f *rowFigure) add(nanos int64, failed bool) {
	f.calls++
	f.nanos += nanos
	if f.took == nil {
		f.took = &histogram.H{}
	}
	f.took.Add(nanos, 1)
	if failed {
		f.failed++
	}
}

// shard returns the figure of an address.
func (f *figures) shard(at string) *shardFigure {
	if f.shards == nil {
		f.shards = map[string]*shardFigure{}
	}
	if f.shards[at] == nil {
		f.shards[at] = &shardFigure{}
	}
	return f.shards[at]
}

func (f *figures) row(number int) *rowFigure {
	for number >= len(f.rows) {
		f.rows = append(f.rows, make([]rowFigure, 64)...)
	}
	return &f.rows[number]
}

// A sum is the figures of all workers, and what they are busy with.
type sum struct {
	figures
	waiting map[string]int // calls by server
	owed    int
	later   int
}

// sum asks each loop. Any goroutine but theirs.
func (p *Proxy) sum() *sum {
	all := &sum{waiting: map[string]int{}}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for loop, w := range p.workers {
		asked.Add(1)
		reactor.Run(loop, func() {
			defer asked.Done()
			mu.Lock()
			defer mu.Unlock()
			all.add(w)
		})
	}
	asked.Wait()
	return all
}

// merge adds the figures of another worker.
func (f *figures) merge(other *figures) {
	for at, from := range other.shards {
		to := f.shard(at)
		to.failed += from.failed
		to.took.Merge(&from.took)
	}
	for i := range other.rows {
		from, to := &other.rows[i], f.row(i)
		to.calls, to.failed, to.nanos = to.calls+from.calls, to.failed+from.failed, to.nanos+from.nanos
		if from.took != nil {
			if to.took == nil {
				to.took = &histogram.H{}
			}
			to.took.Merge(from.took)
		}
	}
	f.whole.Merge(&other.whole)
}

func (all *sum) add(w *worker) {
	all.merge(&w.figures)
	for u := range w.ups {
		all.waiting[u.at] += u.calls.n
	}
	for s := range w.sessions {
		all.owed += s.owed.n
	}
	all.later += len(w.later)
}

func figure(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("spindle_proxy_"+name, help, labels, nil)
}

var (
	requestsDesc  = figure("requests_total", "Requests of clients.")
	redirectsDesc = figure("redirects_total", "MOVED and ASK that the proxy followed.")
	retriesDesc   = figure("retries_total", "Calls that were sent again.")
	failuresDesc  = figure("failures_total", "Calls that no shard answered.")
	splitsDesc    = figure("splits_total", "Requests that were cut by slot.")
	cutDesc       = figure("cut_connections_total",
		"Connections to shards that the proxy closed because of what they sent.")
	clientsDesc   = figure("clients", "Connected clients.")
	owedDesc      = figure("owed_replies", "Replies that clients wait for.")
	laterDesc     = figure("waiting_retries", "Calls that wait to be sent again.")
	shardsDesc    = figure("shards", "Shards of the topology.")
	versionDesc   = figure("topology_version", "Version of the topology; it grows with each change.")
	wholeDesc     = figure("request_seconds", "Time from a request to its reply, that of the shard included.")
	shardDesc     = figure("shard_seconds", "Time from a call to the shard's reply.", "shard")
	shardFailDesc = figure("shard_errors_total", "Replies of a shard that were errors.", "shard")
	queueDesc     = figure("shard_queue", "Calls that wait for a shard's reply.", "shard")
	rowCallsDesc  = figure("command_calls_total", "Calls of a command that shards answered.", "command")
	rowFailDesc   = figure("command_failed_total", "Calls of a command that shards answered with an error.", "command")
	rowTimeDesc   = figure("command_shard_seconds_total", "Time that shards took for a command.", "command")
)

// Describe implements prometheus.Collector. It sends nothing: shards come and go.
func (p *Proxy) Describe(chan<- *prometheus.Desc) {}

// labelOf returns text as a label. Text that is no UTF-8 is quoted, because two equal labels would be an error of the
// whole reply.
func labelOf(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strconv.Quote(text)
}

// Collect implements prometheus.Collector.
func (p *Proxy) Collect(out chan<- prometheus.Metric) {
	all, stats, m := p.sum(), p.reactor.Stats(), p.finder.Current()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	spread := func(d *prometheus.Desc, h *histogram.H, labels ...string) {
		out <- prometheus.MustNewConstHistogram(d, h.Total, h.Sum.Seconds(), h.Below(histogram.Bounds()), labels...)
	}
	for d, n := range map[*prometheus.Desc]int64{requestsDesc: p.count.requests.Load(),
		redirectsDesc: p.count.redirects.Load(), retriesDesc: p.count.retries.Load(), failuresDesc: p.count.failed.Load(),
		splitsDesc: p.count.splits.Load(), cutDesc: p.count.cut.Load()} {
		send(d, prometheus.CounterValue, float64(n))
	}
	for d, n := range map[*prometheus.Desc]int{clientsDesc: int(stats.Open), owedDesc: all.owed, laterDesc: all.later,
		shardsDesc: len(m.Shards), versionDesc: int(m.Version)} {
		send(d, prometheus.GaugeValue, float64(n))
	}
	spread(wholeDesc, &all.whole)
	for at, f := range all.shards {
		label := labelOf(at) // a shard's redirect may have odd bytes
		spread(shardDesc, &f.took, label)
		send(shardFailDesc, prometheus.CounterValue, float64(f.failed), label)
		send(queueDesc, prometheus.GaugeValue, float64(all.waiting[at]), label)
	}
	if h := p.cache; h.isOn() {
		send(cacheHitsDesc, prometheus.CounterValue, float64(h.hits.Load()))
		send(cacheReadsDesc, prometheus.CounterValue, float64(h.fills.Load()))
		send(cacheChangesDesc, prometheus.CounterValue, float64(h.voided.Load()))
		keys, bytes := h.size()
		send(cacheKeysDesc, prometheus.GaugeValue, float64(keys))
		send(cacheBytesDesc, prometheus.GaugeValue, float64(bytes))
	}
	if m := p.mirror; m != nil {
		send(mirrorQueueDesc, prometheus.GaugeValue, float64(m.queued()))
		send(mirrorAnsweredDesc, prometheus.CounterValue, float64(m.count.answered.Load()))
		send(mirrorDifferDesc, prometheus.CounterValue, float64(m.count.differ.Load()))
		for reason, n := range map[string]*atomic.Int64{"queue": &m.count.dropped, "node": &m.count.lost,
			"database": &m.count.skipped} {
			send(mirrorLostDesc, prometheus.CounterValue, float64(n.Load()), reason)
		}
	}
	for _, r := range p.settings.Rules.Get() {
		send(rulePassedDesc, prometheus.CounterValue, float64(r.passed.Load()), r.name)
		send(ruleRefusedDesc, prometheus.CounterValue, float64(r.refused.Load()), r.name)
	}
	rows := p.table().Rows()
	for i := range all.rows {
		if f := &all.rows[i]; f.calls > 0 && i <= len(rows) {
			name := labelOf(rows[i-1].Name)
			send(rowCallsDesc, prometheus.CounterValue, float64(f.calls), name)
			send(rowFailDesc, prometheus.CounterValue, float64(f.failed), name)
			send(rowTimeDesc, prometheus.CounterValue, float64(f.nanos)/1e9, name)
		}
	}
}

var (
	rulePassedDesc  = figure("rule_passed_total", "Requests that a rule concerned and let pass.", "rule")
	ruleRefusedDesc = figure("rule_refused_total", "Requests that a rule refused.", "rule")

	cacheHitsDesc    = figure("cache_hits_total", "GETs that the proxy answered from its cache of hot keys.")
	cacheReadsDesc   = figure("cache_reads_total", "Hot keys that the proxy read from a shard.")
	cacheChangesDesc = figure("cache_changes_total", "Cached keys of which a shard said that they changed.")
	cacheKeysDesc    = figure("cache_keys", "Keys in the cache.")
	cacheBytesDesc   = figure("cache_bytes", "Bytes that the cache takes.")

	mirrorQueueDesc    = figure("mirror_queue_bytes", "Writes that wait for the mirror, in bytes.")
	mirrorAnsweredDesc = figure("mirror_answered_total", "Writes that the mirror has answered.")
	mirrorDifferDesc   = figure("mirror_differences_total", "Writes that the mirror has answered otherwise.")
	mirrorLostDesc     = figure("mirror_lost_total",
		"Writes that the mirror lacks: the queue was full, its node did not answer, or they were of a database other than 0.", "reason")
)

var errOpenAdmin = errors.New("it must be a loopback address: nothing there asks for a password")

// showFigures serves the figures on an address until stop is closed. "": nowhere.
func (p *Proxy) showFigures(address string, stop <-chan struct{}) error {
	if address == "" {
		return nil
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	if !at.IP.IsLoopback() {
		return errOpenAdmin
	}
	listener, err := net.ListenTCP("tcp", at)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(p, prometheus.NewGoCollector())
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("/healthz", p.health)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go server.Serve(listener)
	go func() {
		<-stop
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx) // what is left ends with the process
	}()
	p.log.Notice("Metrics, health and profiles are on http://%s", listener.Addr())
	return nil
}

// health answers 200 while the proxy takes requests and knows a primary for each shard, else 503 with the reason.
func (p *Proxy) health(w http.ResponseWriter, _ *http.Request) {
	reason := ""
	m := p.finder.Current()
	if len(m.Shards) == 0 {
		reason = "no shard is known"
	}
	for _, s := range m.Shards {
		if s.Primary == "" {
			reason = fmt.Sprintf("the shard %s has no primary", s.ID)
		}
	}
	if p.draining.Load() {
		reason = "the proxy is stopping"
	}
	if reason != "" {
		http.Error(w, reason, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
