package lua

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// TestPausesChangeNothing runs programs as a whole and with random small budgets. The results are the same.
// SPINDLE_LUA_PAUSES is the number of pauses, a hundred thousand by default.
func TestPausesChangeNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 3))
	wanted, pauses, ran := 0, 0, 0
	if n, err := strconv.Atoi(os.Getenv("SPINDLE_LUA_PAUSES")); err == nil {
		wanted = n
	}
	try := func(p string) {
		most := 2 + rng.IntN(120)
		want := ours(p, slices)
		if want == tooLong {
			return
		}
		got := ours(p, func() int { pauses++; return rng.IntN(most) })
		if got == tooLong {
			return
		}
		if ran++; normalise(got) != normalise(want) {
			t.Fatalf("%s\n--- first difference, paused and whole\n%s", p, firstDifference(got, want))
		}
	}
	for _, p := range append(corpus(t), limitPrograms()...) {
		try(p)
	}
	for n := 0; n < 300 || pauses < wanted; n++ {
		try(generate(rng))
	}
	t.Logf("%d programs, %d pauses", ran, pauses)
}
