package dashboard

import (
	"errors"
	"strings"
	"testing"

	"spindle/proxy/store"
)

// TestNoOrderWithoutLead: a dashboard that loses its lead between two commands of a move sends no further one that
// changes a server.
func TestNoOrderWithoutLead(t *testing.T) {
	for _, c := range []struct {
		name, loses string // the lead is lost while a server runs this command
		move        func(d *Dashboard, source, target *fakeServer) error
	}{
		{"a key that the target has", "MIGRATE", func(d *Dashboard, source, target *fakeServer) error {
			c := &carrier{w: &mover{d: d}, from: source.dial(t, d), target: target.address, old: true}
			return c.move(t.Context(), 0, []string{"a", "b"})
		}},
		{"a slot without keys", "GETKEYSINSLOT", func(d *Dashboard, source, target *fakeServer) error {
			r := &resharding{w: &mover{d: d}, source: source.dial(t, d), target: target.dial(t, d), sourceID: "s",
				targetID: "t", sourceHas: make([]bool, clusterSlots), targetHas: make([]bool, clusterSlots)}
			r.sourceHas[5] = true
			return r.move(t.Context(), 5)
		}},
	} {
		d := begin(t, patient)
		var after []string
		reply := func(s *fakeServer, words []string) string {
			held, _, _ := d.lead.now()
			if text := strings.Join(words, " "); held == nil {
				after = append(after, text)
			} else if strings.Contains(text, c.loses) {
				loseLead(d)
			}
			switch {
			case words[0] == "MIGRATE":
				return "-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n"
			case words[0] == "CLUSTER" && words[1] == "GETKEYSINSLOT":
				return "*0\r\n"
			}
			return ""
		}
		source, target := fake(t, reply), fake(t, reply)
		if err := c.move(d, source, target); !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: %v", c.name, err)
		}
		if after != nil {
			t.Errorf("%s: without the lead it sends %v", c.name, after)
		}
	}
}
