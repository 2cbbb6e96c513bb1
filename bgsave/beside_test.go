package bgsave

import (
	"testing"
	"time"

	"spindle/engine/data/memory"
)

// A builderOf is a Builder of cheap elements, which take no time, and then of costly ones, which take slow each.
type builderOf struct {
	cheap, costly int
	slow          time.Duration
	most          int // the most elements requested at once
}

func (b *builderOf) Root() memory.Ref { return 0 }

func (b *builderOf) Step(n int) (done bool, err error) {
	b.most = max(b.most, n)
	for ; n > 0 && b.costly > 0; n-- {
		if b.cheap > 0 {
			b.cheap--
			continue
		}
		for began := time.Now(); time.Since(began) < b.slow; {
		}
		b.costly--
	}
	return b.costly == 0, nil
}

// TestPace: after many cheap elements, build does not request many costly ones at once. It requests slow elements one
// by one.
func TestPace(t *testing.T) {
	b := &builderOf{cheap: 1_000_000, costly: 200, slow: 200 * time.Microsecond}
	p := pace(1)
	for done := false; !done; {
		var err error
		if done, err = p.build(b, besideSlice); err != nil {
			t.Fatal(err)
		}
	}
	if b.most > maxPace {
		t.Errorf("%d elements at once, want %d at most", b.most, maxPace)
	}
	if p != 1 {
		t.Errorf("%d elements at once where each takes a whole slice", p)
	}
}
