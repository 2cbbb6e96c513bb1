package admin

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// fields is a collector of INFO fields: names and values in turn.
type fields []string

func (fields) Describe(chan<- *prometheus.Desc) {}

func (f fields) Collect(out chan<- prometheus.Metric) {
	replicas := map[string]bool{}
	for i := 0; i < len(f); i += 2 {
		collectField(out, f[i], f[i+1], replicas)
	}
}

// TestReplicasWithOneAddress: replicas that share an address, or whose address is no UTF-8, have different labels.
func TestReplicasWithOneAddress(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(fields{"slave0", "ip=10.0.0.1,port=6379,state=online,offset=1,lag=0",
		"slave1", "ip=10.0.0.1,port=6379,state=online,offset=2,lag=0", "slave2", "ip=\xff,port=0,state=online,offset=3,lag=0",
		"slave3", "ip=\xfe,port=0,state=online,offset=4,lag=0"})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10.0.0.1:6379", "10.0.0.1:6379 (slave1)", "?:0", "?:0 (slave3)"}
	for _, f := range families {
		var labels []string
		for _, m := range f.Metric {
			labels = append(labels, m.Label[0].GetValue())
		}
		if slices.Sort(labels); !slices.Equal(labels, want) {
			t.Errorf("%s: %q, want %q", f.GetName(), labels, want)
		}
	}
}

// TestDatabases: the keys of a database are figures, and the sizes of keys in INFO keysizes are not.
func TestDatabases(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(fields{"db0", "keys=2,expires=0", "db0_distrib_strings_sizes", "2K=1"})
	families, err := registry.Gather()
	if err != nil || len(families) != 2 || families[0].GetName() != "spindle_db_expires" ||
		families[1].GetName() != "spindle_db_keys" || families[1].Metric[0].Label[0].GetValue() != "0" {
		t.Errorf("%v, %v", families, err)
	}
}
