package hash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"spindle/tests/testkit/commandtest"
)

// TestLateReplica: a replica that gets each effect long after the primary has the same fields with the same deadlines.
// The same holds for a server that loads a log. Fields past their deadline count until the stream removes them.
func TestLateReplica(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		primary, replica := newCore(t), newCore(t)
		replica.Space.Replica, replica.Space.Trusting = true, true
		start := primary.Now()
		replica.SetNow(start + 1_000_000)
		at, link := primary.Client(2), replica.Client(2)
		now, told := start, []string(nil)
		field := func() string { return fmt.Sprintf("f%d", rng.IntN(4)) }
		pick := func(words ...string) string { return words[rng.IntN(len(words))] }
		for range 60 {
			if rng.IntN(3) == 0 {
				now += rng.Int64N(40)
				primary.SetNow(now)
			}
			a, b, n := field(), field(), 1+rng.IntN(60)
			call := pick(
				"HSET h "+a+" 1", "HSET h "+a+" 1 "+b+" 2", "HSETNX h "+a+" 3", "HDEL h "+a, "HINCRBY h "+a+" 2",
				"HINCRBYFLOAT h "+a+" 1.5", "HGETDEL h FIELDS 2 "+a+" "+b, "HGET h "+a, "HSTRLEN h "+a, "HGETALL h",
				"HPERSIST h FIELDS 2 "+a+" "+b, "HPERSIST h FIELDS 1 "+a, "HGETEX h PERSIST FIELDS 2 "+a+" "+b,
				fmt.Sprint("HPEXPIRE h ", n, pick("", " NX", " XX", " GT", " LT"), " FIELDS 2 ", a, " ", b),
				fmt.Sprint("HPEXPIREAT h ", now+int64(n)-10, " FIELDS 1 ", a),
				fmt.Sprint("HGETEX h PX ", n, " FIELDS 2 ", a, " ", b), fmt.Sprint("HGETEX h PXAT ", now+int64(n)-10, " FIELDS 1 ",
					a),
				fmt.Sprint("HSETEX h ", pick("", "FNX ", "FXX "), pick("", "KEEPTTL ", fmt.Sprint("PX ", n, " ")), "FIELDS 2 ", a,
					" 7 ", b, " 8"),
			)
			told = append(told, fmt.Sprintf("%d: %s", now-start, call))
			primary.Reset()
			primary.Do(at, strings.Fields(call)...)
			for _, e := range primary.Effects {
				told = append(told, fmt.Sprint("  ", e.Args))
				if reply := replica.Do(link, e.Args...); strings.HasPrefix(reply, "-") {
					t.Fatalf("seed %d: %s: %s\n%s", seed, e.Args, reply, strings.Join(told, "\n"))
				}
			}
			if ours, theirs := allOf(primary), allOf(replica); ours != theirs {
				t.Fatalf("seed %d:\n%s\nat the replica\n%s\nafter\n%s", seed, ours, theirs, strings.Join(told, "\n"))
			}
		}
	}
}

// allOf returns the fields of h with their deadlines, including those that have passed.
func allOf(c *commandtest.Core) string {
	cl, now, trusting := c.Client(2), c.Now(), c.Space.Trusting
	c.SetNow(1)
	c.Space.Trusting = true
	defer func() { c.SetNow(now); c.Space.Trusting = trusting }()
	var all []string
	for i := range 4 {
		f := fmt.Sprintf("f%d", i)
		all = append(all, fmt.Sprintf("%s %q %q", f, c.Do(cl, "HGET", "h", f), c.Do(cl, "HPEXPIRETIME", "h", "FIELDS", "1",
			f)))
	}
	return strings.Join(all, "\n")
}
