package aof

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestKills: after a SIGKILL in the middle of pipelined transactions, scripts and rewrites the data set is a whole
// number of
// steps: with appendfsync always at least those that were answered, else those that were two seconds before.
func TestKills(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, policy := range []string{"always", "everysec", "no"} {
		t.Run(policy, func(t *testing.T) {
			s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", policy, "--auto-aof-rewrite-percentage", "0")
			from := 0
			for round := range 4 * testkit.Scale() {
				span := time.Duration(20+rng.IntN(200)) * time.Millisecond
				if round == 0 && policy != "always" {
					span = 3 * time.Second
				}
				old, last := write(t, s, rng, from, span)
				s.Kill()
				s.Restart()
				n, promised := steps(t, s, fmt.Sprintf("seed %d, round %d", seed, round)), old
				if policy == "always" {
					promised = last
				}
				if n < promised {
					t.Fatalf("seed %d, round %d: %d steps are there, %d were promised", seed, round, n, promised)
				}
				from = n
			}
		})
	}
}

// script is one step as a script; the transaction is the other form.
const script = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('RPUSH', KEYS[2], ARGV[1]) redis.call('SET', KEYS[3], ARGV[1]) return 1"

// write sends steps from a number on for so long, and says which was the last that was answered, at the end and two
// seconds before.
func write(t *testing.T, s *testkit.Server, rng *rand.Rand, from int, span time.Duration) (old, last int) {
	c := s.Dial()
	defer c.Close()
	old, last = from, from
	if rng.IntN(2) == 0 {
		s.Do("CONFIG", "SET", "aof-use-rdb-preamble", []string{"yes", "no"}[rng.IntN(2)])
		s.Do("BGREWRITEAOF")
	}
	end := time.Now().Add(span)
	for next := from + 1; time.Now().Before(end); {
		batch := 1 + rng.IntN(20)
		replies := 0
		for range batch {
			n := strconv.Itoa(next)
			if next%2 == 0 {
				c.Send("EVAL", script, 3, "a", "l", "b", n)
				replies++
			} else {
				for _, words := range [][]any{{"MULTI"}, {"SET", "a", n}, {"RPUSH", "l", n}, {"SET", "b", n}, {"EXEC"}} {
					c.Send(words...)
					replies++
				}
			}
			next++
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		for range replies {
			if v, err := c.Receive(); err != nil || v.Err() != nil {
				t.Fatalf("%v %v", v, err)
			}
		}
		if last = next - 1; time.Until(end) > 2*time.Second {
			old = last
		}
	}
	return old, last
}

// steps is how many whole steps the data set has had.
func steps(t *testing.T, s *testkit.Server, when string) int {
	a, b, length, last := s.Do("GET", "a").Text, s.Do("GET", "b").Text, s.Do("LLEN", "l").Int, s.Do("LINDEX", "l", "-1").Text
	if a == "" && b == "" && length == 0 {
		return 0
	}
	n, _ := strconv.Atoi(a)
	if a != b || a != last || length != int64(n) {
		t.Fatalf("%s: a is %q, b %q, the list has %d, its last is %q", when, a, b, length, last)
	}
	return n
}
