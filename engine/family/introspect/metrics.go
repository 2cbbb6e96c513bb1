package introspect

import "github.com/prometheus/client_golang/prometheus"

// PurposeFigures is memory by purpose as /metrics shows it.
type PurposeFigures struct{ Purposes func() []Purpose }

var purposeDesc = prometheus.NewDesc("spindle_memory_purpose_bytes",
	"Resident memory by what it is for; the sum is the resident set.", []string{"purpose"}, nil)

// Describe implements prometheus.Collector.
func (f PurposeFigures) Describe(out chan<- *prometheus.Desc) { out <- purposeDesc }

// Collect implements prometheus.Collector.
func (f PurposeFigures) Collect(out chan<- prometheus.Metric) {
	for _, p := range f.Purposes() {
		out <- prometheus.MustNewConstMetric(purposeDesc, prometheus.GaugeValue, float64(p.Bytes), p.Name)
	}
}
