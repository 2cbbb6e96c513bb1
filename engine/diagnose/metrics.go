package diagnose

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/data/keyspace"
	"spindle/internal/histogram"
)

// /metrics shows hotKeysTold hot keys, and bigKeysTold big keys of each type.
const (
	hotKeysTold = 20
	bigKeysTold = 10
)

// figure returns the description of a metric and its labels.
func figure(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("spindle_"+name, help, labels, nil)
}

var (
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

// figures are the stalls and the reply times, as /metrics shows them.
type figures struct{ d *Deps }

// Describe implements prometheus.Collector. It sends nothing, because the set of commands shown changes.
func (figures) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f figures) Collect(out chan<- prometheus.Metric) {
	var stalls [Kinds]Total
	f.d.Do(func() { stalls = f.d.Stalls().Totals() })
	for kind, n := range stalls {
		name := Kind(kind).String()
		out <- prometheus.MustNewConstMetric(stallsDesc, prometheus.CounterValue, float64(n.Count), name)
		out <- prometheus.MustNewConstMetric(stalledDesc, prometheus.CounterValue, n.Took.Seconds(), name)
	}
	for _, c := range f.d.replyLatency() {
		out <- prometheus.MustNewConstHistogram(replyDesc, c.Total, c.Sum.Seconds(), c.Below(replyBounds), c.Command)
	}
}

// keyFigures are the hot keys and the big keys, as /metrics shows them. Each key is a label, so only a few keys are
// shown.
type keyFigures struct{ d *Deps }

// Describe implements prometheus.Collector. It sends nothing, because the set of keys shown changes.
func (keyFigures) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f keyFigures) Collect(out chan<- prometheus.Metric) {
	var hot []HotKey
	var big []keyspace.BigKey
	f.d.Do(func() {
		big = f.d.Space.BigKeys(bigKeysTold)
		hot = f.d.HotKeys().Top(hotKeysTold)
	})
	collectBig(out, big)
	seen := map[string]bool{}
	for _, k := range hot {
		db, key := strconv.Itoa(k.DB), labelOf(k.Key, k.KeyLen)
		if at := db + " " + key; seen[at] { // two long keys may have the same first bytes
			continue
		} else {
			seen[at] = true
		}
		for _, f := range []struct {
			desc *prometheus.Desc
			v    float64
		}{{hotShareDesc, k.Share}, {hotReadsDesc, k.Reads}, {hotWritesDesc, k.Writes}, {hotBytesDesc, k.Bytes},
			{hotCPUDesc, k.CPU}} {
			out <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, f.v, db, key)
		}
	}
}

// collectBig sends the largest keys.
func collectBig(out chan<- prometheus.Metric, big []keyspace.BigKey) {
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

// labelMost is the number of bytes of a key that a label can show.
const labelMost = 512

// labelOf returns a key as a label. Printable text is unchanged, and other bytes become \xNN. n is the key's length; if
// bytes were cut off, the label gives it.
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
