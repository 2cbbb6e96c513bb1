package set

import (
	"slices"
	"strconv"
	"testing"
)

// TestPopPropagates: the commands that SPOP propagates remove the same members, and none is too long.
func TestPopPropagates(t *testing.T) {
	for _, c := range []struct {
		what              string
		member            func(i int) string
		size, count       int
		commands, longest int
	}{
		{"integers", strconv.Itoa, 300, 100, 1, 102},
		{"most of the integers", strconv.Itoa, 300, 299, 1, 301},
		{"texts", func(i int) string { return "m" + strconv.Itoa(i) }, 100, 50, 1, 52},
		{"few of many", func(i int) string { return "m" + strconv.Itoa(i) }, 5000, 1024, 1, 1026},
		{"some of many", func(i int) string { return "m" + strconv.Itoa(i) }, 5000, 2500, 3, 1026},
		{"most of many", func(i int) string { return "m" + strconv.Itoa(i) }, 5000, 4990, 5, 1026},
	} {
		core := newCore(t)
		cl := core.Client(2)
		for i := range c.size {
			core.Do(cl, "SADD", "here", c.member(i))
			core.Do(cl, "SADD", "there", c.member(i))
		}
		core.Reset()
		core.Do(cl, "SPOP", "here", strconv.Itoa(c.count))
		effects := slices.Clone(core.Effects)
		if len(effects) != c.commands {
			t.Errorf("%s: %d commands, want %d", c.what, len(effects), c.commands)
		}
		for _, e := range effects {
			if e.Args[0] != "SREM" || e.Args[1] != "here" || len(e.Args) > c.longest {
				t.Fatalf("%s: %s of %d words", c.what, e.Args[0], len(e.Args))
			}
			core.Do(cl, append([]string{"SREM", "there"}, e.Args[2:]...)...)
		}
		left := strconv.Itoa(c.size - c.count)
		for _, request := range [][]string{{"SCARD", "here"}, {"SCARD", "there"}, {"SINTERCARD", "2", "here", "there"}} {
			if got := core.Do(cl, request...); got != ":"+left+"\r\n" {
				t.Errorf("%s: %v answers %q, want %s", c.what, request, got, left)
			}
		}
	}
}
