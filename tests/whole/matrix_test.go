package whole

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/tests/testkit"
)

var (
	cellsFlag = flag.Int("cells", 0, "how many cells the matrix plays; 0: 2000, times SPINDLE_TEST_SCALE")
	seedFlag  = flag.Uint64("seed", 0, "what all cells follow from; 0: chance")
	cellFlag  = flag.String("cell", "", "play this cell alone, as a failure names it: column/row/seed")
	timesFlag = flag.Int("times", 50, "how often -cell is played: its moments vary from run to run")
	keepFlag  = flag.Bool("notes", false, "print the servers' logs of a failed cell, too")
	firstFlag = flag.Bool("first", false, "stop at the first failure")
	onlyFlag  = flag.String("columns", "", "draw from these columns alone, parted by commas")
)

// enough is after how many failures the matrix stops.
const enough = 40

// A draw is one cell before it is played.
type draw struct {
	column *column
	row    *row
	seed   uint64
}

func (d draw) String() string { return fmt.Sprintf("%s/%s/%d", d.column.name, d.row.name, d.seed) }

// TestMatrix plays random cells of units and observers. A failure names its cell, which -cell plays again.
func TestMatrix(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	draws := drawn(t, seed)
	lanes := map[*kind][]draw{}
	for _, d := range draws {
		lanes[d.column.kind] = append(lanes[d.column.kind], d)
	}
	failed := &failures{seen: map[string]int{}}
	began := time.Now()
	var group sync.WaitGroup
	for k, all := range lanes {
		for i := range k.lanes {
			group.Go(func() {
				own := []draw{}
				for at := i; at < len(all); at += k.lanes {
					own = append(own, all[at])
				}
				from := time.Now()
				k.play(t, own, failed)
				t.Logf("%s, lane %d: %d cells in %v", k.name, i, len(own), time.Since(from).Round(time.Millisecond))
			})
		}
	}
	group.Wait()
	t.Logf("%d cells of seed %d in %v", len(draws), seed, time.Since(began).Round(time.Millisecond))
	for name, n := range failed.seen {
		t.Logf("%d failures of %s", n, name)
	}
}

// drawn are the cells to play.
func drawn(t *testing.T, seed uint64) (draws []draw) {
	if *cellFlag != "" {
		words := strings.Split(*cellFlag, "/")
		if len(words) != 3 {
			t.Fatalf("-cell %s: want column/row/seed", *cellFlag)
		}
		c := slices.IndexFunc(columns, func(c *column) bool { return c.name == words[0] })
		r := slices.IndexFunc(rows, func(r *row) bool { return r.name == words[1] })
		own, err := strconv.ParseUint(words[2], 10, 64)
		if c < 0 || r < 0 || err != nil {
			t.Fatalf("-cell %s: no such cell", *cellFlag)
		}
		return slices.Repeat([]draw{{columns[c], rows[r], own}}, *timesFlag)
	}
	n := *cellsFlag
	if n == 0 {
		n = 2000 * testkit.Scale()
	}
	rng, total := rand.New(rand.NewPCG(seed, 0)), 0
	var from []*column
	for _, c := range columns {
		if *onlyFlag == "" || slices.Contains(strings.Split(*onlyFlag, ","), c.name) {
			from, total = append(from, c), total+c.weight
		}
	}
	for range n {
		at := rng.IntN(total)
		for _, c := range from {
			if at -= c.weight; at < 0 {
				draws = append(draws, draw{c, c.rows[rng.IntN(len(c.rows))], rng.Uint64() >> 1})
				break
			}
		}
	}
	return draws
}

// failures are counted over all lanes.
type failures struct {
	mu     sync.Mutex
	n      int
	played atomic.Int64
	seen   map[string]int // by column and row
}

func (f *failures) add(t *testing.T, d draw, wrong, notes string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.seen[d.column.name+"/"+d.row.name]++
	if !*keepFlag {
		notes = ""
	}
	t.Errorf("-cell %v, the %dth: %s\n%s", d, f.played.Load(), wrong, notes)
}

func (f *failures) enough() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n >= enough || f.n > 0 && *firstFlag
}

// A kind is a set of servers on which some columns play.
type kind struct {
	name  string
	lanes int // how many of them play side by side
	set   func(s *scene)
}

// play plays draws one after another. A stage on which a cell has failed is left, and the next cell has a new one.
func (k *kind) play(t *testing.T, draws []draw, failed *failures) {
	var s *scene
	for i, d := range draws {
		if failed.enough() {
			break
		}
		if s == nil {
			s = &scene{stage: &stage{TB: t}}
		}
		failed.played.Add(1)
		s.try(d, k)
		if s.Failed() {
			wrong, notes := s.close()
			failed.add(t, d, wrong, notes)
			s = nil
			continue
		}
		if i == len(draws)-1 {
			if wrong, notes := s.close(); wrong != "" {
				failed.add(t, d, "at the end: "+wrong, notes)
			}
			return
		}
	}
	if s != nil {
		s.close()
	}
}

// try plays one cell, on servers that it starts if there are none.
func (s *scene) try(d draw, k *kind) {
	c := &cell{scene: s, draw: d, rng: rand.New(rand.NewPCG(d.seed, 1))}
	defer func() {
		c.leave()
		if what := recover(); what != nil {
			if _, ours := what.(failure); !ours {
				panic(what)
			}
		}
	}()
	if s.p == nil {
		k.set(s)
	}
	c.play()
	s.allRun()
}
