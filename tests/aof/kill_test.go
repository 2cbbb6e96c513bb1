package aof

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// killsOfOneLife is the number of kills after which the test starts again with an empty folder, so that loads stay
// short.
const killsOfOneLife = 24

// TestKills: SIGKILL comes in the middle of pipelined transactions and scripts, of rewrites, saves and loads.
// Afterwards the data set has no partial step. With appendfsync always it has all answered steps. Otherwise it has all
// steps that were answered two seconds before the kill.
func TestKills(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, policy := range []string{"always", "everysec", "no"} {
		t.Run(policy, func(t *testing.T) {
			var s *testkit.Server
			from, inLoads := 0, 0
			for round := range 9 * testkit.Scale() {
				when := fmt.Sprintf("seed %d, round %d", seed, round)
				if round%killsOfOneLife == 0 {
					if s != nil {
						s.Kill()
					}
					s, from = testkit.Start(t, "--appendonly", "yes", "--appendfsync", policy, "--auto-aof-rewrite-percentage", "0"), 0
				}
				span := time.Duration(20+rng.IntN(200)) * time.Millisecond
				rest := time.Duration(0)
				if policy != "always" && round%killsOfOneLife == 1 {
					span += 2500 * time.Millisecond // otherwise no step would be old enough to be promised
					rest = 2 * time.Millisecond     // the other rounds write at full speed
				}
				w := write(s, from, rest)
				disturb(s, rng, span)
				killed := time.Now()
				s.Kill()
				answered, old, sent := w.end(killed)
				if w.bad != nil {
					t.Fatalf("%s: %v", when, w.bad)
				}
				for rng.IntN(3) == 0 { // in the middle of a load, or soon after
					s.Again()
					testkit.Moment(rng, 40*time.Millisecond)
					s.Kill()
					inLoads++
				}
				s.Restart()
				n, promised := steps(t, s, when), old
				if policy == "always" {
					promised = answered
				}
				if n < promised || n > sent {
					t.Fatalf("%s: %d steps are there, %d were promised, %d sent", when, n, promised, sent)
				}
				from = n
			}
			t.Logf("%d more kills at starts", inLoads)
		})
	}
}

// script makes one step as a script. Other steps are transactions.
const script = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('RPUSH', KEYS[2], ARGV[1]) redis.call('SET', KEYS[3], " +
	"ARGV[1]) return 1"

// A writer sends steps until its server is gone.
type writer struct {
	sent, answered atomic.Int64
	marks          chan mark // one per 50 ms or more
	gone           chan struct{}
	bad            error
}

// A mark is the number of an answered step, with the time of its reply.
type mark struct {
	step int64
	at   time.Time
}

// write starts sending the steps after from, several in a pipeline. It rests after each pipeline.
func write(s *testkit.Server, from int, rest time.Duration) *writer {
	w := &writer{marks: make(chan mark, 1000), gone: make(chan struct{})}
	w.sent.Store(int64(from))
	w.answered.Store(int64(from))
	w.marks <- mark{int64(from), time.Time{}} // the last step before the restart
	c := s.Dial()
	go func() {
		defer close(w.gone)
		defer c.Close()
		rng := rand.New(rand.NewPCG(uint64(from), 1))
		lastMark := time.Now()
		for {
			var replies []int64 // for each reply, the step that it ends, or 0
			for range 1 + rng.IntN(20) {
				next := w.sent.Add(1)
				n := strconv.FormatInt(next, 10)
				if next%2 == 0 {
					c.Send("EVAL", script, 3, "a", "l", "b", n)
				} else {
					for _, words := range [][]any{{"MULTI"}, {"SET", "a", n}, {"RPUSH", "l", n}, {"SET", "b", n}, {"EXEC"}} {
						c.Send(words...)
					}
					replies = append(replies, 0, 0, 0, 0)
				}
				replies = append(replies, next)
			}
			if c.Flush() != nil {
				return
			}
			for _, step := range replies {
				v, err := c.Receive()
				if err != nil {
					return
				}
				if err := v.Err(); err != nil {
					w.bad = err
					return
				}
				if step != 0 {
					w.answered.Store(step)
				}
			}
			if now := time.Now(); now.Sub(lastMark) > 50*time.Millisecond {
				w.marks <- mark{w.answered.Load(), now}
				lastMark = now
			}
			<-time.After(rest)
		}
	}()
	return w
}

// end returns three numbers: steps answered at the kill, steps answered two seconds before it, and steps sent.
func (w *writer) end(killed time.Time) (answered, old, sent int) {
	<-w.gone
	close(w.marks)
	for m := range w.marks {
		if killed.Sub(m.at) > 2*time.Second {
			old = int(m.step)
		}
	}
	return int(w.answered.Load()), old, int(w.sent.Load())
}

// disturb rewrites the log, saves and changes the data set for some time, while a writer runs.
func disturb(s *testkit.Server, rng *rand.Rand, span time.Duration) {
	for end := time.Now().Add(span); time.Now().Before(end); {
		switch rng.IntN(7) {
		case 0:
			s.Do("CONFIG", "SET", "aof-use-rdb-preamble", []string{"yes", "no"}[rng.IntN(2)])
		case 1, 2:
			s.Ask("BGREWRITEAOF") // a rewrite may already run
		case 3:
			s.Ask("BGSAVE")
		case 4:
			s.Ask("SAVE")
		case 5:
			c := s.Dial() // inside EXEC it is one turn, so the writer does not get LOADING
			c.Pipeline([]any{"MULTI"}, []any{"DEBUG", "LOADAOF"}, []any{"EXEC"})
			c.Close()
		}
		testkit.Moment(rng, min(time.Until(end), 60*time.Millisecond))
	}
}

// steps returns the number of steps in the data set, and fails the test if one is partial.
func steps(t *testing.T, s *testkit.Server, when string) int {
	a, b, length, last := s.Do("GET", "a").Text, s.Do("GET", "b").Text, s.Do("LLEN", "l").Int,
		s.Do("LINDEX", "l", "-1").Text
	if a == "" && b == "" && length == 0 {
		return 0
	}
	n, _ := strconv.Atoi(a)
	if a != b || a != last || length != int64(n) {
		t.Fatalf("%s: a is %q, b %q, the list has %d, its last is %q", when, a, b, length, last)
	}
	return n
}
