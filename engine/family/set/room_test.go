package set

import (
	"slices"
	"strings"
	"testing"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
	"spindle/tests/testkit/commandtest"
)

// TestNothingIsLeft: every command clears the shared buffers, even if it fails.
func TestNothingIsLeft(t *testing.T) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heap.Close)
	s := &commands{}
	other := command.Family{Name: "other", Rows: []command.Spec{{Name: "other", Arity: 2, Flags: command.Write,
		Keys: command.FirstArg(insert), Run: func(c *command.Context) error {
			c.DB.SetString(c.Args[1], []byte("text"), 0)
			return nil
		}}}}
	core, err := commandtest.New(keyspace.New(heap, keyspace.Options{Databases: 16}), 1_700_000_000_000, s.family(), other)
	if err != nil {
		t.Fatal(err)
	}
	fillThree(core)
	cl := core.Client(2)
	core.Do(cl, "OTHER", "text")
	for _, keys := range []string{"many", "many texts", "many none", "none many", "many text", "text", "many many",
		"ints texts many", "many ints texts many"} {
		for _, line := range []string{"SINTER @", "SINTERSTORE d @", "SINTERCARD # @", "SUNION @", "SUNIONSTORE d @",
			"SDIFF @", "SDIFFSTORE d @", "SSCAN many 0", "SPOP many 3", "SRANDMEMBER many 3"} {
			request := strings.Fields(strings.NewReplacer("@", keys, "#",
				string(rune('1'+strings.Count(keys, " ")))).Replace(line))
			core.Do(cl, request...)
			left := slices.ContainsFunc(s.sources[:cap(s.sources)], func(x source) bool { return x.v.Exists() || x.n != 0 })
			left = left || slices.ContainsFunc(s.others[:cap(s.others)],
				func(x set.Reader) bool { return x.Encoding() != value.Raw })
			left = left || slices.ContainsFunc(s.found[:cap(s.found)], func(x set.Element) bool { return x.Bytes() != nil })
			if left {
				t.Fatalf("%v leaves something", request)
			}
		}
	}
}
