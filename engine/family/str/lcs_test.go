package str

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spindle/engine/command"
)

// table follows the definition: it computes L(i,j) for all i and j, and then goes back through the table as Redis does.
func table(a, b []byte) (length int, runs []matchRun) {
	l := make([][]int, len(a)+1)
	for i := range l {
		l[i] = make([]int, len(b)+1)
		for j := 1; i > 0 && j <= len(b); j++ {
			if a[i-1] == b[j-1] {
				l[i][j] = l[i-1][j-1] + 1
			} else {
				l[i][j] = max(l[i-1][j], l[i][j-1])
			}
		}
	}
	i, j, n := len(a), len(b), 0
	for i > 0 && j > 0 {
		if a[i-1] == b[j-1] {
			i, j, n = i-1, j-1, n+1
			continue
		}
		if n > 0 {
			runs = append(runs, matchRun{i, j, n})
			n = 0
		}
		if l[i-1][j] > l[i][j-1] {
			i--
		} else {
			j--
		}
	}
	if n > 0 {
		runs = append(runs, matchRun{i, j, n})
	}
	return l[len(a)][len(b)], runs
}

// reading is where the grids of these tests are computed: in the turn.
var reading = command.NewReading(nil, nil, 0, func() (steps int) { return math.MaxInt }, nil)

func TestGridAgreesWithTheTable(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	word := func(alphabet, n int) []byte {
		w := make([]byte, n)
		for i := range w {
			w[i] = byte('a' + rng.IntN(alphabet))
		}
		return w
	}
	for step := range 400 {
		alphabet := []int{1, 2, 4, 26}[step%4]
		a, b := word(alphabet, rng.IntN(200)), word(alphabet, []int{0, 1, 63, 64, 65, 128, 129, rng.IntN(200)}[step%8])
		length, runs := table(a, b)
		for _, keep := range []bool{false, true} {
			if g := newGrid(reading, a, b, keep); g.length != length {
				t.Fatalf("seed %d: %q and %q share %d, not %d", seed, a, b, length, g.length)
			}
		}
		if got := slices.Collect(newGrid(reading, a, b, true).runs); !slices.Equal(got, runs) {
			t.Fatalf("seed %d: %q and %q meet at %v, not %v", seed, a, b, runs, got)
		}
	}
}

// TestLCSOfShort: LCS of a long and a short string reads outside the turn, and keeps a byte of each row.
func TestLCSOfShort(t *testing.T) {
	core := newCore(t)
	core.Beside = true
	cl := core.Client(2)
	const rows = 50_000
	core.Do(cl, "SET", "long", strings.Repeat("ab", rows/2))
	core.Do(cl, "SET", "short", "b")
	if got := core.Do(cl, "LCS", "long", "short"); got != "$1\r\nb\r\n" || core.Held != rows {
		t.Errorf("%q, %d bytes are held outside the turn, want %d", got, core.Held, rows)
	}
}

// BenchmarkLCS fills the largest table that the default proto-max-bulk-len allows. Watch ns/op and B/op.
func BenchmarkLCS(b *testing.B) {
	for _, n := range []int{1000, 11_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			x, y := make([]byte, n), make([]byte, n)
			for i := range n {
				x[i], y[i] = byte(rng.IntN(4)), byte(rng.IntN(4))
			}
			b.ReportAllocs()
			for b.Loop() {
				for range newGrid(reading, x, y, true).runs {
				}
			}
		})
	}
}
