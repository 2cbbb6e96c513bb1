package whole

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// enough is the number of failures after which the matrix stops.
const enough = 40

// A draw is a cell that has not been played yet.
type draw struct {
	column *column
	row    *row
	seed   uint64
}

func (d draw) String() string { return fmt.Sprintf("%s/%s/%d", d.column.name, d.row.name, d.seed) }

// TestMatrix plays random cells of units and observers. A failure names its cell, which the flag -cell plays again.
func TestMatrix(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	draws := drawn(t, seed)
	queues := map[*kind]chan draw{}
	for _, d := range draws {
		if queues[d.column.kind] == nil {
			queues[d.column.kind] = make(chan draw, len(draws))
		}
		queues[d.column.kind] <- d
	}
	results := &results{failed: map[string]int{}, took: map[string]time.Duration{}, played: map[string]int{}}
	began := time.Now()
	var group sync.WaitGroup
	for k, queue := range queues {
		close(queue)
		for range k.lanes {
			group.Go(func() {
				k.play(t, queue, results)
				t.Logf("a lane of %s is over after %v", k.name, time.Since(began).Round(time.Millisecond))
			})
		}
	}
	group.Wait()
	t.Logf("%d cells of seed %d in %v", len(draws), seed, time.Since(began).Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(results.took)) {
		t.Logf("%5d cells of %-22s %v", results.played[name], name, results.took[name].Round(time.Millisecond))
	}
	for name, n := range results.failed {
		t.Logf("%d failures of %s", n, name)
	}
}

// drawn returns the cells to play, in random order: each unit once with each observer, and the others at random.
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
			for _, r := range c.rows {
				draws = append(draws, draw{c, r, rng.Uint64() >> 1})
			}
		}
	}
	for len(draws) < n {
		at := rng.IntN(total)
		for _, c := range from {
			if at -= c.weight; at < 0 {
				draws = append(draws, draw{c, c.rows[rng.IntN(len(c.rows))], rng.Uint64() >> 1})
				break
			}
		}
	}
	rng.Shuffle(len(draws), func(i, j int) { draws[i], draws[j] = draws[j], draws[i] })
	return draws[:n]
}

// results has the results of all cells. All lanes share it.
type results struct {
	mu     sync.Mutex
	n      int            // cells played
	bad    int            // cells failed
	failed map[string]int // by column and row
	played map[string]int // by column
	took   map[string]time.Duration
}

func (r *results) add(d draw, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	r.played[d.column.name]++
	r.took[d.column.name] += took
}

func (r *results) fail(t *testing.T, d draw, wrong, notes string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad++
	r.failed[d.column.name+"/"+d.row.name]++
	if !*keepFlag {
		notes = ""
	}
	t.Errorf("-cell %v, the %dth: %s\n%s", d, r.n, wrong, notes)
}

func (r *results) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad >= enough || r.bad > 0 && *firstFlag
}

// A kind is a set of servers on which some columns play.
type kind struct {
	name  string
	lanes int // how many copies of the server set run in parallel
	set   func(s *scene)
}

// play plays the cells of a queue one after another. After a failed cell, the next one gets new servers.
func (k *kind) play(t *testing.T, queue <-chan draw, results *results) {
	var s *scene
	var last draw
	for d := range queue {
		if results.enough() {
			break
		}
		if s == nil {
			s = &scene{serverSet: &serverSet{TB: t}}
		}
		began := time.Now()
		s.try(d, k)
		results.add(d, time.Since(began))
		if last = d; s.Failed() {
			wrong, notes := s.close()
			results.fail(t, d, wrong, notes)
			s = nil
		}
	}
	if s != nil {
		if wrong, notes := s.close(); wrong != "" {
			results.fail(t, last, "at the end: "+wrong, notes)
		}
	}
}

// try plays one cell. It starts the servers if there are none.
func (s *scene) try(d draw, k *kind) {
	c := &cell{scene: s, draw: d, rng: rand.New(rand.NewPCG(d.seed, 1))}
	defer func() {
		if c.leave(); c.moving != nil {
			c.moving.end()
		}
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
