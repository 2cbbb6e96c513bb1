package replication

import (
	"reflect"
	"testing"

	"spindle/protocol"
)

// TestDutiesWaitOnce: while a unit is open, each duty of the tick waits for its end, but not once more for each tick.
func TestDutiesWaitOnce(t *testing.T) {
	p := newPrimary(t)
	p.online()
	p.feed.acks.gate = protocol.NewGate()
	p.settings.AckTimeout.Set(0)
	p.Do(func() {
		p.SetCommonAcks(1)
		p.SetCommonAcks(0) // the next tick ends the waits for replicas
	})
	p.Do(p.BeginReload)
	for range 50 {
		p.tick(0)
	}
	p.Do(func() {
		if n := reflect.ValueOf(p.Core).Elem().FieldByName("between").Len(); n != 2 {
			t.Errorf("%d functions wait, want 2: the start of a full copy, and the end of the waits", n)
		}
		p.EndReload(func() {})
	})
	if p.Do(func() { p.Freeze().Close() }); p.feed.acks.on {
		t.Error("replies still wait for replicas")
	}
}
