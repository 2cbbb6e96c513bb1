//go:build invariants || race

package client

import (
	"testing"

	"spindle/protocol"
)

// alone is a connection that shares its loop with no other.
type alone struct{ socket }

func (*alone) Loop() protocol.Loop { return nil }
func (*alone) Post(uint64, []byte) {}

// TestTurnOnlyFunctionsAskForTheTurn: functions marked "turn only" first check that the caller holds the turn
// (client.H1).
func TestTurnOnlyFunctionsAskForTheTurn(t *testing.T) {
	held := true
	type refused struct{}
	r := NewRegistry()
	r.HeldBy(func() {
		if !held {
			panic(refused{})
		}
	})
	c := &Client{ID: r.NextID(), Conn: &alone{}}
	r.Add(c)
	var a Audience
	seat := a.Add(c)
	for name, f := range map[string]func(){
		"Registry.Add":     func() { r.Add(&Client{ID: 9}) },
		"Registry.Remove":  func() { r.Remove(c) },
		"Registry.Get":     func() { r.Get(1) },
		"Registry.Len":     func() { r.Len() },
		"Registry.All":     func() { r.All(func(*Client) bool { return true }) },
		"Registry.From":    func() { r.From(1) },
		"Client.Note":      func() { c.Note() },
		"Audience.Add":     func() { a.Add(c) },
		"Audience.Move":    func() { a.Move(seat) },
		"Audience.Remove":  func() { a.Remove(seat) },
		"Audience.Speaks":  func() { a.Speaks() },
		"Audience.Send":    func() { a.Send(1, nil, nil, nil) },
		"Ledger's entries": func() { r.Costs.enter(c) },
		"Ledger's leaving": func() { r.Costs.leave(c) },
	} {
		held = false
		func() {
			defer func() {
				if got := recover(); got != (refused{}) {
					t.Errorf("%s does not ask for the turn: %v", name, got)
				}
			}()
			f()
		}()
		held = true
		r.check(t)
	}
	if a.Len() != 1 || r.Len() != 1 {
		t.Errorf("%d in the audience, %d clients: a refused call did something", a.Len(), r.Len())
	}
	a.Send(1, nil, nil, nil)
	r.Remove(c)
}
