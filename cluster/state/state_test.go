package state

import (
	"math/rand/v2"
	"testing"

	"spindle/cluster/bus"
	"spindle/internal/logging"
)

// quiet is an Outside that does nothing.
type quiet struct{}

func (quiet) Dial(l *Link)                      {}
func (quiet) Send(*Link, []byte, uint64)        {}
func (quiet) HangUp(*Link)                      {}
func (quiet) Ask(Errand)                        {}
func (quiet) Keys(int) int                      { return 0 }
func (quiet) Mark(int)                          {}
func (quiet) Marked(int) bool                   { return false }
func (quiet) Offset() int64                     { return 0 }
func (quiet) DataAge() int64                    { return 0 }
func (quiet) Loaded() (int64, bool, bool)       { return 0, false, false }
func (quiet) Confirm(bool)                      {}
func (quiet) Log(logging.Level, string, ...any) {}
func fresh() *State {
	return New(quiet{}, Terms{NodeTimeout: 2000, ForgetSeconds: 60, ManualTimeout: 5000, Port: 7000, BusPort: 17000},
		1_700_000_000_000, rand.New(rand.NewPCG(1, 2)))
}

// A scribe counts log lines.
type scribe struct {
	quiet
	lines int
}

func (s *scribe) Log(logging.Level, string, ...any) { s.lines++ }

// TestUnknownExtensions: each unknown type is logged once for each node.
func TestUnknownExtensions(t *testing.T) {
	out := &scribe{}
	s := fresh()
	s.out = out
	a, b := &Node{ID: "a"}, &Node{ID: "b"}
	for range 10 {
		for _, n := range []*Node{a, b} {
			m := &bus.Message{}
			m.Extensions.Unknown = []uint16{4, 5}
			s.takeExtensions(n, m)
		}
	}
	if out.lines != 4 {
		t.Errorf("%d lines for two types of two nodes", out.lines)
	}
}

// TestForgetFor: a forgotten node may be added again after ForgetSeconds.
func TestForgetFor(t *testing.T) {
	for _, seconds := range []int64{5, 600} {
		s := fresh()
		s.Begin()
		s.Terms.ForgetSeconds = seconds
		n := &Node{ID: "a"}
		s.byID[n.ID] = n
		if err := s.Forget(n.ID); err != nil || !s.forgotten(n.ID) {
			t.Fatalf("%v", err)
		}
		s.At(s.now + seconds*1000)
		if !s.forgotten(n.ID) {
			t.Errorf("after %d s: may be added again", seconds)
		}
		s.At(s.now + 2000)
		if s.forgotten(n.ID) {
			t.Errorf("after %d s: still forgotten", seconds+2)
		}
	}
}
