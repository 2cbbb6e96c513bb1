package zset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/keyspace"
	"spindle/internal/invariant"
	"spindle/tests/testkit/commandtest"
)

func newCore(t testing.TB) (*commandtest.Core, *keyspace.Keyspace) {
	core := commandtest.Start(t, Family())
	return core, core.Space
}

// fill makes key a sorted set of n members of 13 bytes, with scores in random order.
func fill(core *commandtest.Core, key string, n int) {
	cl := core.Client(2)
	add := commandtest.Words("ZADD " + key)
	for i := range n {
		add = append(add, fmt.Appendf(nil, "%d.5", uint32(i)*2_654_435_761>>8), fmt.Appendf(nil, "member%07d", i))
		if len(add) >= 1000 || i == n-1 {
			cl.Out.Reset()
			core.Serve(cl, add)
			add = add[:2]
		}
	}
}

// TestNoAllocations: in steady state no command on single members or short ranges allocates on the Go heap.
func TestNoAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	core, _ := newCore(t)
	fill(core, "short", 100)
	fill(core, "large", 20_000)
	for _, lines := range []string{
		"ZADD @ 3 member0000050; ZADD @ 99999 member0000050", "ZADD @ 1.25 new; ZREM @ new",
		"ZADD @ XX CH 4 member0000051; ZADD @ GT 5 member0000051",
		"ZADD @ INCR 1.5 member0000052", "ZINCRBY @ 0.5 member0000053",
		"ZINCRBY @ -100000 member0000054; ZINCRBY @ 100000 member0000054",
		"ZADD fresh 1 a; ZREM fresh a", "ZSCORE @ member0000055", "ZSCORE @ none",
		"ZMSCORE @ member0000055 none", "ZRANK @ member0000056 WITHSCORE",
		"ZREVRANK @ member0000057", "ZCARD @", "ZCOUNT @ 100 (100000", "ZCOUNT @ -inf +inf", "ZLEXCOUNT @ [a (z",
		"ZRANGE @ 10 20 WITHSCORES", "ZRANGE @ 10 20 REV",
		"ZRANGE @ 100 +inf BYSCORE LIMIT 5 10", "ZRANGEBYSCORE @ (100 20000 WITHSCORES LIMIT 0 10",
		"ZRANGEBYLEX @ - + LIMIT 0 3", "ZRANDMEMBER @", "ZRANDMEMBER @ -5 WITHSCORES",
		"ZADD @ -7 least 16777217 most; ZPOPMIN @; ZPOPMAX @", "ZADD @ -7 least -6 later; ZMPOP 2 none @ MIN COUNT 2",
		"ZADD @ -7 least; BZPOPMIN none @ 0",
		"ZADD @ -7 least; ZREMRANGEBYRANK @ 0 0", "ZADD @ -7 least; ZREMRANGEBYSCORE @ -7 (0", "ZSCAN @ 0",
	} {
		for _, key := range []string{"short", "large"} {
			commandtest.NoAllocations(t, core, strings.ReplaceAll(lines, "@", key))
		}
	}
}

// TestRemovalsAreShort: removing most of a large set passes the removed part to a reclaimer. Removing a few members
// touches nothing else.
func TestRemovalsAreShort(t *testing.T) {
	const n = 20_000
	for line, most := range map[string]bool{
		"ZREMRANGEBYRANK z 0 -101": true, "ZREMRANGEBYRANK z 100 -1": true,
		"ZREMRANGEBYSCORE z -inf +inf": true, "ZPOPMIN z 19900": true,
		"ZREMRANGEBYRANK z 1000 1099": false, "ZPOPMAX z": false, "ZREM z member0000001 member0000002": false,
	} {
		core, space := newCore(t)
		fill(core, "z", n)
		core.Mute = true
		cl := core.Client(2)
		began := time.Now()
		core.Serve(cl, commandtest.Words(line))
		took := time.Since(began)
		left, _ := space.Heap().LazyObjects()
		t.Logf("%s of %d members: %v, %d objects left", line, n, took, left)
		if most != (left == 1) {
			t.Errorf("%s leaves %d objects to be reclaimed", line, left)
		}
	}
}

// BenchmarkSingle measures the commands on one member, in a set of 100 members and of a million. Watch ns/op; allocs/op
// is 0.
func BenchmarkSingle(b *testing.B) {
	for _, n := range []int{100, 1_000_000} {
		for _, line := range []string{"ZADD z 7 member0000050; ZADD z 8 member0000050",
			"ZINCRBY z 1 member0000051", "ZSCORE z member0000052", "ZRANK z member0000053",
			"ZADD z -1 a; ZPOPMIN z", "ZRANGE z 50 59", "ZCOUNT z 100 100000"} {
			b.Run(fmt.Sprintf("n=%d/%s", n, strings.ReplaceAll(line, " ", "_")), func(b *testing.B) { benchmark(b, n, line) })
		}
	}
}

// BenchmarkRemovals removes half of a set of a million members, the most that is removed one by one.
func BenchmarkRemovals(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		core, _ := newCore(b)
		fill(core, "z", 1_000_000)
		core.Mute = true
		cl := core.Client(2)
		b.StartTimer()
		core.Serve(cl, commandtest.Words("ZREMRANGEBYRANK z 0 499999"))
	}
}

// BenchmarkCombine joins two sets of half a million members with half of them in common.
func BenchmarkCombine(b *testing.B) {
	core, _ := newCore(b)
	fill(core, "x", 500_000)
	fill(core, "y", 250_000)
	cl := core.Client(2)
	add := commandtest.Words("ZADD y")
	for i := range 250_000 {
		if add = append(add, []byte("7"), fmt.Appendf(nil, "other%08d", i)); len(add) == 1002 || i == 249_999 {
			core.Serve(cl, add)
			add = add[:2]
		}
	}
	core.Mute = true
	for _, line := range []string{"ZUNIONSTORE z 2 x y", "ZINTERSTORE z 2 x y", "ZDIFFSTORE z 2 x y", "ZINTERCARD 2 x y",
		"ZRANGESTORE z x 0 -1"} {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				cl.Out.Reset()
				core.Serve(cl, commandtest.Words(line))
			}
		})
	}
}

func benchmark(b *testing.B, n int, lines string) {
	core, _ := newCore(b)
	fill(core, "z", n)
	core.Mute = true
	cl := core.Client(2)
	var requests [][][]byte
	for line := range strings.SplitSeq(lines, ";") {
		requests = append(requests, commandtest.Words(line))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		cl.Out.Reset()
		core.Serve(cl, requests[i%len(requests)])
		i++
	}
}
