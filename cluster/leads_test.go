package cluster

import (
	"slices"
	"testing"

	"spindle/internal/slots"
)

// TestLeadsWithTheMap: a replica is promoted, and other maps follow. Leads runs once, with the map of the promotion in
// use, and before any other turn.
func TestLeadsWithTheMap(t *testing.T) {
	c := alone(t)
	var led []*slots.Map
	c.parts.Leads = func() { led = append(led, c.parts.Current.Load()) }
	maps := []*slots.Map{{}, {Replica: true}, {}, {OK: true}}
	for _, m := range maps {
		c.publish(m)
		c.errands.add(c.asked...)
		c.asked = nil
	}
	if len(led) > 0 {
		t.Error("Leads ran before the turn of the map")
	}
	c.errands.run()
	if !slices.Equal(led, maps[2:3]) {
		t.Errorf("Leads ran with the maps %v, want %v", led, maps[2:3])
	}
	if c.parts.Current.Load() != maps[3] {
		t.Error("the last map is not in use")
	}
}
