package server

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/data/keyspace"
	"spindle/engine/family/observe"
	"spindle/engine/family/sight"
	"spindle/engine/insight"
	"spindle/internal/histogram"
	"spindle/internal/info"
)

// Always-on insight, for its commands and for /metrics.

// sightDeps are what HOTKEYS and STALLS ask of the rest.
func (in *instance) sightDeps() sight.Deps {
	return sight.Deps{HotKeys: in.core.HotKeys, Stalls: in.core.Stalls}
}

// A CommandLatency is how long replies of a command took, from the request's reading to the reply's writing.
type CommandLatency struct {
	Command string
	histogram.H
}

// replyLatency gives the commands that have run, in the order of COMMAND. Any goroutine.
func (in *instance) replyLatency() (list []CommandLatency) {
	if in.reactor == nil {
		return nil
	}
	all := in.catalogue.All()
	names := make([]string, in.catalogue.IDs())
	for _, row := range all {
		names[row.ID] = row.Full
	}
	for row, h := range in.reactor.Timings {
		list = append(list, CommandLatency{names[row], *h})
	}
	return list
}

// replySection is INFO replylatency: "reply_usec_get:calls=3,mean=21.3,p50=18.4,p99=33.0,p99.9=33.0,max=33.0".
func (in *instance) replySection() info.Section {
	return info.Section{Name: "Replylatency", Fields: []info.Field{info.Lines("reply_usec", func(w *info.Writer) {
		for _, c := range in.replyLatency() {
			b := append(append(w.B, "reply_usec_"...), c.Command...)
			b = strconv.AppendUint(append(b, ":calls="...), c.Total, 10)
			for _, f := range []struct {
				name string
				d    time.Duration
			}{{"mean", c.Sum / time.Duration(max(c.Total, 1))}, {"p50", c.Percentile(50)}, {"p99", c.Percentile(99)},
				{"p99.9", c.Percentile(99.9)}, {"max", c.Max}} {
				b = append(append(append(b, ','), f.name...), '=')
				b = strconv.AppendFloat(b, float64(f.d)/1e3, 'f', 1, 64)
			}
			w.B = append(b, '\r', '\n')
		}
	})}}
}

// A sightMetrics is always-on insight as Prometheus collects it. What a key is called decides no more than a label, and
// how many are named is bounded.
type sightMetrics struct {
	in   *instance
	keys bool // name keys
}

// How many keys /metrics names: hot ones, and big ones of each type.
const (
	hotKeysTold = 20
	bigKeysTold = 10
)

// figure describes a figure, and its labels.
func figure(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("spindle_"+name, help, labels, nil)
}

var (
	purposeDesc   = figure("memory_purpose_bytes", "Resident memory by what it is for; the sum is the resident set.", "purpose")
	stallsDesc    = figure("stalls_total", "Times that a turn was held past stall-threshold.", "kind")
	stalledDesc   = figure("stall_seconds_total", "How long turns were held then.", "kind")
	replyDesc     = figure("reply_seconds", "Time from reading a request to writing its reply.", "command")
	replyBounds   = histogram.Bounds()
	hotShareDesc  = figure("hotkey_share", "Share of all uses of keys, of the hottest keys.", "db", "key")
	hotReadsDesc  = figure("hotkey_reads_per_second", "Reads of a hot key.", "db", "key")
	hotWritesDesc = figure("hotkey_writes_per_second", "Writes of a hot key.", "db", "key")
	hotBytesDesc  = figure("hotkey_bytes_per_second", "Bytes of requests for a hot key and of their replies.", "db", "key")
	bigBytesDesc  = figure("bigkey_bytes", "Bytes of one of the largest keys of a type.", "db", "type", "key")
	bigCountDesc  = figure("bigkey_elements", "Elements of one of the largest keys of a type.", "db", "type", "key")
	hotCPUDesc    = figure("hotkey_cpu_seconds_per_second", "Time in turns for a hot key.", "db", "key")
)

// Describe sends nothing: which keys are named changes.
func (m sightMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m sightMetrics) Collect(out chan<- prometheus.Metric) {
	var hot []insight.HotKey
	var big []keyspace.BigKey
	var purposes []observe.Purpose
	var stalls [insight.Kinds]insight.Total
	m.in.core.Do(func() {
		if m.keys {
			big = m.in.space.BigKeys(bigKeysTold)
			hot = m.in.core.HotKeys().Top(hotKeysTold)
		}
		stalls = m.in.core.Stalls().Totals()
		purposes = observe.Purposes(m.in.space)
	})
	m.collectBig(out, big)
	for _, p := range purposes {
		out <- prometheus.MustNewConstMetric(purposeDesc, prometheus.GaugeValue, float64(p.Bytes), p.Name)
	}
	for kind, n := range stalls {
		name := insight.Kind(kind).String()
		out <- prometheus.MustNewConstMetric(stallsDesc, prometheus.CounterValue, float64(n.Count), name)
		out <- prometheus.MustNewConstMetric(stalledDesc, prometheus.CounterValue, n.Took.Seconds(), name)
	}
	for _, c := range m.in.replyLatency() {
		out <- prometheus.MustNewConstHistogram(replyDesc, c.Total, c.Sum.Seconds(), c.Below(replyBounds), c.Command)
	}
	seen := map[string]bool{}
	for _, k := range hot {
		db, key := strconv.Itoa(k.DB), labelOf(k.Key, k.KeyLen)
		if at := db + " " + key; seen[at] { // two long keys that begin alike
			continue
		} else {
			seen[at] = true
		}
		for _, f := range []struct {
			desc *prometheus.Desc
			v    float64
		}{{hotShareDesc, k.Share}, {hotReadsDesc, k.Reads}, {hotWritesDesc, k.Writes}, {hotBytesDesc, k.Bytes}, {hotCPUDesc, k.CPU}} {
			out <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, f.v, db, key)
		}
	}
}

// collectBig sends the largest keys.
func (m sightMetrics) collectBig(out chan<- prometheus.Metric, big []keyspace.BigKey) {
	seen := map[[3]string]bool{}
	for _, k := range big {
		at := [3]string{strconv.Itoa(k.DB), k.TypeName, labelOf(k.Key[:min(len(k.Key), labelMost)], len(k.Key))}
		if seen[at] {
			continue
		}
		seen[at] = true
		out <- prometheus.MustNewConstMetric(bigBytesDesc, prometheus.GaugeValue, float64(k.Bytes), at[:]...)
		out <- prometheus.MustNewConstMetric(bigCountDesc, prometheus.GaugeValue, float64(k.Elements), at[:]...)
	}
}

// labelMost is how many bytes of a key a label has.
const labelMost = 512

// labelOf is a key as a label: text that can be shown stays, all else is \xNN. n is the key's length: what was cut off
// is said.
func labelOf(key string, n int) string {
	var b strings.Builder
	for i := 0; i < len(key); {
		r, size := utf8.DecodeRuneInString(key[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && size == 1 || !unicode.IsPrint(r):
			for _, c := range []byte(key[i : i+size]) {
				b.WriteString(`\x` + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]))
			}
		default:
			b.WriteString(key[i : i+size])
		}
		i += size
	}
	if n > len(key) {
		b.WriteString("... (" + strconv.Itoa(n-len(key)) + " more bytes)")
	}
	return b.String()
}
