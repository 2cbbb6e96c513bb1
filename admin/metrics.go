package admin

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spindle/engine/command"
	"spindle/internal/info"
	"spindle/scripting"
)

// collected serves the figures, with or without the names of keys.
func (a *Server) collected(keys bool) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(a.Figures(keys), &metrics{a}, prometheus.NewGoCollector())...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: metricsAtOnce})
}

// metrics are the numeric fields of INFO, and the commands' counters, in the form that Prometheus collects.
type metrics struct{ *Server }

// Describe sends nothing, because the set of fields may change.
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
	certificateDesc    = figure("tls_certificate_expires_in_seconds", "Time until a certificate in use ends.",
		"certificate")
	refusedDesc = figure("command_rejected_total", "Calls refused before they ran.", "command")
)

var scriptLabels = []string{"kind", "name"}

// Collect reads all figures in one turn, so that they are consistent.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	running, begun, failed := m.Handshakes()
	out <- prometheus.MustNewConstMetric(shakingDesc, prometheus.GaugeValue, float64(running))
	out <- prometheus.MustNewConstMetric(handshakesDesc, prometheus.CounterValue, float64(begun))
	out <- prometheus.MustNewConstMetric(shakenOffDesc, prometheus.CounterValue, float64(failed))
	m.Certificates(func(name string, left int64) {
		out <- prometheus.MustNewConstMetric(certificateDesc, prometheus.GaugeValue, float64(left), name)
	})
	var w info.Writer
	type counts struct {
		name string
		command.Stats
	}
	var rows []counts
	var scripts []scripting.Figures
	m.Do(func() {
		for each := range m.Scripts {
			scripts = append(scripts, each)
		}
		for _, s := range m.Sections() {
			switch s.Name {
			case "Commandstats", "Latencystats", "Replylatency", "Errorstats", "TLS": // these have their own figures
				continue
			}
			for i := range s.Fields {
				s.Fields[i].Append(&w)
			}
		}
		for _, row := range m.Catalogue.All() {
			if row.Stats.Calls+row.Stats.Rejected != 0 {
				rows = append(rows, counts{row.Full, row.Stats})
			}
		}
	})
	replicas := map[string]bool{}
	for line := range strings.SplitSeq(string(w.B), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		collectField(out, name, value, replicas)
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

// collectField sends one INFO field, if it is a number or a state. "db0:keys=1,expires=0" becomes a gauge for each
// part, labelled with the name. So does "slave0:ip=1.2.3.4,port=6379,offset=10,lag=0", labelled with the address.
// "ack_state:ok" becomes a gauge for each state: 1 for the one that holds, else 0.
//
// replicas has the labels of the replicas so far. Two replicas may have one address, if it is translated on the way.
// The field's name then makes their labels differ: two equal ones would be an error of the whole reply.
func collectField(out chan<- prometheus.Metric, name, value string, replicas map[string]bool) {
	gauge := func(name, text, label, of string) {
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			desc := prometheus.NewDesc("spindle_"+name, "INFO "+name+".", []string{label}, nil)
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, n, of)
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
	if state, is := states[value]; is && err != nil {
		n, err = state, nil
	}
	if name == "ack_state" { // one of several words
		for _, state := range ackStates {
			n := 0.0
			if state == value {
				n = 1
			}
			gauge(name, strconv.FormatFloat(n, 'f', 0, 64), "state", state)
		}
		return
	}
	number, isReplica := strings.CutPrefix(name, "slave")
	_, notReplica := strconv.Atoi(number)
	db, isDB := strings.CutPrefix(name, "db")
	_, notDB := strconv.Atoi(db)
	switch {
	case err == nil:
		desc := prometheus.NewDesc("spindle_"+name, "INFO "+name+".", nil, nil)
		out <- prometheus.MustNewConstMetric(desc, prometheus.UntypedValue, n)
	case isReplica && notReplica == nil:
		of := map[string]string{}
		for part := range strings.SplitSeq(value, ",") {
			key, text, _ := strings.Cut(part, "=")
			of[key] = text
		}
		address := strings.ToValidUTF8(net.JoinHostPort(of["ip"], of["port"]), "?") // the replica chooses its ip
		if replicas[address] {
			address += " (" + name + ")"
		}
		replicas[address] = true
		gauge("replica_lag_seconds", of["lag"], "replica", address)
		gauge("replica_offset", of["offset"], "replica", address)
	case isDB && notDB == nil && strings.Contains(value, "="): // not a field of INFO keysizes
		for part := range strings.SplitSeq(value, ",") {
			key, text, _ := strings.Cut(part, "=")
			gauge("db_"+key, text, "db", db)
		}
	}
}

// ackStates are the values of INFO's ack_state.
var ackStates = []string{"ok", "waiting", "failing", "degraded"}

// states are the words of INFO that say whether something works: 1 means that it does, 0 that it does not.
var states = map[string]float64{"ok": 1, "err": 0, "up": 1, "down": 0}
