package keys

import (
	"bytes"
	"math"
	"testing"

	"spindle/engine/command"
)

func TestCondition(t *testing.T) {
	for _, c := range []struct {
		options   string
		old, when int64
		holds     bool
	}{
		{"", 0, 5, true}, {"NX", 0, 5, true}, {"nx", 3, 5, false}, {"XX", 0, 5, false}, {"XX", 3, 5, true},
		{"GT", 0, 5, false}, {"GT", 5, 5, false}, {"GT", 4, 5, true}, {"LT", 0, 5, true}, {"LT", 5, 5, false},
		{"LT", 6, 5, true},
		{"XX GT", 4, 5, true}, {"XX LT", 0, 5, false}, {"LT", 0, -5, true},
	} {
		var k condition
		if err := k.parse(bytes.Fields([]byte(c.options))); err != nil {
			t.Fatalf("%s: %v", c.options, err)
		}
		if got := k.holds(c.old, c.when); got != c.holds {
			t.Errorf("%s, %d → %d: %t", c.options, c.old, c.when, got)
		}
	}
	for _, options := range []string{"NX XX", "NX GT", "LT NX", "GT LT", "foo"} {
		var k condition
		if k.parse(bytes.Fields([]byte(options))) == nil {
			t.Errorf("%s is accepted", options)
		}
	}
}

func TestParseCursor(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "17": 17, "18446744073709551615": math.MaxUint64, "007": 7, "+5": 5, " 5": 5, "\t5": 5, "-05": ^uint64(0) - 4,
	} {
		if got, ok := command.ParseCursor([]byte(text)); !ok || got != want {
			t.Errorf("%q: %d, %t; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1x", "18446744073709551616", "5 ", "1.5", "+", " "} {
		if got, ok := command.ParseCursor([]byte(text)); ok {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}
