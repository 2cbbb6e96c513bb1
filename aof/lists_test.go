package aof

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/tests/testkit/faulty"
)

// listRounds is how many data sets TestListsUnderRewrites makes. It grows with SPINDLE_CRASH_SEEDS.
func listRounds() uint64 { return crashSeeds() / 25 }

// TestListsUnderRewrites: lists that change in every way while a base is written from a view come back whole. The base
// is written late, after the view's lists have changed in the data set. Scattered blocks are moved in between.
func TestListsUnderRewrites(t *testing.T) {
	for seed := range listRounds() {
		d := faulty.New(seed)
		s := newServer(t, d)
		rng := rand.New(rand.NewPCG(seed, 3))
		s.set.Preamble.Set(rng.IntN(2) == 0)
		s.set.Percentage.Set(0)
		release := func() {}
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		s.freezing = func() { release = d.Stall(faulty.Open) } // in the turn of the freeze
		var moving keyspace.Defrag
		for range 3 {
			changeLists(s, rng, 60)
			s.Do(func() { s.aof.startRewrite() })
			s.waitFor("the freeze", func() bool { return s.aof.rw.job.cut > 0 })
			changeLists(s, rng, 40)
			s.Do(func() { release() })
			changeLists(s, rng, 10)
			s.waitFor("the base", func() bool { return !s.aof.Rewriting() })
			s.Do(func() {
				s.heap.Drain(1 << 20)
				if !s.heap.Holding() && s.space.Defragment(&moving, func() bool { return rng.IntN(20) == 0 }) {
					moving = keyspace.Defrag{}
				}
			})
		}
		s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.Synced(s.cl) })
		want := s.lists()
		next := d.Crash()
		s.close()
		s = newServer(t, next)
		if err := s.start(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := s.lists(); got != want {
			t.Fatalf("seed %d: the lists are\n%s, they were\n%s", seed, got, want)
		}
		s.close()
	}
}

const listKeys = 6

// changeLists runs n commands on lists.
func changeLists(s *server, rng *rand.Rand, n int) {
	element := func() string {
		return strings.Repeat(string(rune('a'+rng.IntN(4))), 1+rng.IntN(1<<rng.IntN(12))) // some longer than a leaf in use
	}
	for range n {
		key, other := fmt.Sprint("l", rng.IntN(listKeys)), fmt.Sprint("l", rng.IntN(listKeys))
		at := fmt.Sprint(rng.IntN(40) - 20)
		switch op := rng.IntN(16); op {
		case 0, 1, 2, 3:
			s.do("RPUSH", key, element(), fmt.Sprint(rng.IntN(100)), element())
		case 4, 5:
			s.do("LPUSH", key, element(), fmt.Sprint(rng.IntN(1000)))
		case 6:
			s.do("LPOP", key, fmt.Sprint(rng.IntN(6)))
		case 7:
			s.do("RPOP", key)
		case 8:
			s.do("LTRIM", key, fmt.Sprint(rng.IntN(5)), fmt.Sprint(-1-rng.IntN(5)))
		case 9:
			s.do("LSET", key, at, element())
		case 10:
			s.do("LINSERT", key, "BEFORE", fmt.Sprint(rng.IntN(100)), element())
		case 11:
			s.do("LREM", key, at, fmt.Sprint(rng.IntN(100)))
		case 12:
			s.do("LMOVE", key, other, "LEFT", "RIGHT")
		case 13:
			s.do("RENAME", key, other)
		case 14:
			s.do("COPY", key, other, "REPLACE")
		case 15:
			if rng.IntN(8) == 0 {
				s.do("DEL", key)
			} else {
				for range 50 { // so that there are several leaves
					s.do("RPUSH", key, element())
				}
			}
		}
	}
}

// lists returns the text of all lists.
func (s *server) lists() (all string) {
	for i := range listKeys {
		reply, _ := s.do("LRANGE", fmt.Sprint("l", i), "0", "-1")
		length, _ := s.do("LLEN", fmt.Sprint("l", i))
		all += fmt.Sprintf("l%d %q: %q\n", i, length, reply)
	}
	return all
}
