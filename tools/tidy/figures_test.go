package tidy

import (
	"testing"
)

// layered are the packages whose files are in layers, with the number of arrows that may point up.
var layered = []struct {
	dir     string
	allowed int
}{
	{"server", 13},
	{"engine", 0},
	{"replication", 18},
}

func TestFilesStandInLayers(t *testing.T) {
	for _, l := range layered {
		arrows, err := ReadArrows(root, l.dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(arrows) == 0 {
			t.Fatalf("%s has no arrows: the test looks at the wrong place", l.dir)
		}
		_, backward := arrows.Backward()
		t.Logf("%s: %d arrows between its files point up (%d allowed)", l.dir, len(backward), l.allowed)
		if len(backward) > l.allowed {
			for _, b := range backward {
				t.Errorf("%s: %s", l.dir, b)
			}
		}
	}
}

func TestBackwardFindsTheFewestArrows(t *testing.T) {
	arrows := Arrows{
		"a.go": {"b.go": true, "c.go": true},
		"b.go": {"c.go": true},
		"c.go": {"a.go": true}, // one cycle
	}
	if order, backward := arrows.Backward(); len(backward) != 1 {
		t.Errorf("%v points up in %v, want one arrow", backward, order)
	}
	if _, backward := (Arrows{"z.go": {"a.go": true}, "m.go": {"z.go": true}}).Backward(); len(backward) != 0 {
		t.Errorf("%v points up in a chain", backward)
	}
}
