package stream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/keyspace"
	"spindle/internal/invariant"
	"spindle/tests/testkit/commandtest"
)

// newCore returns a core whose streams have at most nodeEntries entries a node.
func newCore(t testing.TB, nodeEntries int64) (*commandtest.Core, *keyspace.Keyspace) {
	settings := &Settings{}
	settings.Rows() // sets the defaults
	settings.NodeEntries.Set(nodeEntries)
	core := commandtest.Start(t, Family(settings))
	return core, core.Space
}

// fill makes key a stream of the entries 1-0 to n-0.
func fill(core *commandtest.Core, key string, n int) {
	cl := core.Client(2)
	for i := range n {
		cl.Out.Reset()
		core.Serve(cl, [][]byte{[]byte("XADD"), []byte(key), fmt.Appendf(nil, "%d-0", i+1), []byte("sensor"), []byte("1234"),
			[]byte("temperature"), []byte("19.8")})
	}
}

func run(core *commandtest.Core, lines string) {
	cl := core.Client(2)
	for line := range strings.SplitSeq(lines, ";") {
		cl.Out.Reset()
		core.Serve(cl, commandtest.Words(line))
	}
}

// TestNoAllocations: in steady state no command on streams allocates on the Go heap.
func TestNoAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	core, _ := newCore(t, defaultNodeEntries)
	fill(core, "s", 20_000)
	fill(core, "other", 5000)
	run(core, "XGROUP CREATE s g 0;XGROUP CREATE s h 0;XREADGROUP GROUP h ann COUNT 3000 STREAMS s >;XGROUP CREATE "+
		"other x $")
	commandtest.NoAllocations(t, core,
		"XADD s * sensor 1234 temperature 19.8", "XADD s * sensor 1234 humidity 80 pressure 1013",
		"XADD s MAXLEN ~ 10000 * a b", "XADD s MAXLEN 10000 * a b",
		"XADD s MINID ~ 5 * sensor 1234 temperature 19.8", "XADD nokey NOMKSTREAM * a b", "XADD new * a b;XTRIM new MAXLEN 0",
		"XLEN s", "XRANGE s 15000-0 15010-0", "XRANGE s - + COUNT 10",
		"XREVRANGE s + - COUNT 10", "XRANGE s (15000-0 +  COUNT 2", "XREAD COUNT 10 STREAMS s other 15000 4000",
		"XDEL s 19999-5", "XTRIM s MAXLEN ~ 1000000", "XSETID other 6000-0",
		"XREADGROUP GROUP g bob COUNT 1 STREAMS s >", "XREADGROUP GROUP g bob COUNT 1 NOACK STREAMS s >",
		"XREADGROUP GROUP h ann COUNT 5 STREAMS s 0", "XREADGROUP GROUP x eve STREAMS other >",
		"XACK s h 15-0;XCLAIM s h ann 0 15-0 FORCE JUSTID", "XCLAIM s h bob 0 200-0 201-0;XCLAIM s h ann 0 200-0 201-0",
		"XAUTOCLAIM s h ann 0 0 COUNT 10", "XPENDING s h", "XPENDING s h - + 10 ann",
		"XGROUP CREATE other g 0;XGROUP DESTROY other g", "XGROUP CREATECONSUMER s g new;XGROUP DELCONSUMER s g new",
		"XREADGROUP GROUP h ann COUNT 5 CLAIM 0 STREAMS s >", "XREADGROUP GROUP h ann CLAIM 3600000 MAXCOUNT 1 STREAMS s >",
		"XREAD COUNT 10 MAXCOUNT 15 MAXSIZE 100000 STREAMS s other 15000 4000", "XDELEX s ACKED IDS 2 14000-0 15000-0",
		"XDELEX s DELREF IDS 1 1-0", "XACKDEL s h DELREF IDS 1 20-1", "XADD s ACKED MAXLEN 100000 * a b",
		"XGROUP SETID other x 5 ENTRIESREAD 5",
		"XINFO STREAM other", "XINFO GROUPS s", "XINFO CONSUMERS s h",
	)
}

// TestCutsAreShort: trimming a long stream removes whole subtrees, so the turn does not grow with the stream. The same
// holds for groups. Each entry has its own node here.
func TestCutsAreShort(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which takes long: run it without -race and -tags invariants")
	}
	const n = 50_000
	for _, line := range []string{"XTRIM s MAXLEN 10", "XTRIM s MAXLEN 0", "XTRIM s MINID 49990",
		"XTRIM s MAXLEN ~ 1000 LIMIT 0", "XADD s MAXLEN 100 * a b", "XGROUP DESTROY s g", "XGROUP DELCONSUMER s g ann"} {
		best := time.Hour
		for range 3 { // another process may use the processor
			core, _ := newCore(t, 1)
			core.Mute = true
			fill(core, "s", n)
			run(core, "XGROUP CREATE s g 0;XREADGROUP GROUP g ann STREAMS s >")
			cl, args := core.Client(2), commandtest.Words(line)
			began := time.Now()
			core.Serve(cl, args)
			if best = min(best, time.Since(began)); best < limit {
				break
			}
		}
		t.Logf("%s of %d entries: %v", line, n, best)
		if best > limit {
			t.Errorf("%s took %v", line, best)
		}
	}
}

// limit is too short for freeing each leaf. It is about twenty times what the trimming takes.
const limit = time.Millisecond

// BenchmarkAdd measures XADD to a stream of 1000 entries and of a million, with and without a bound. Watch ns/op;
// allocs/op is 0.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		for _, line := range []string{"XADD s * sensor 1234 temperature 19.8", "XADD s * myfield data",
			"XADD s MAXLEN ~ 1000 * sensor 1234 temperature 19.8", "XADD s MAXLEN 1000 * sensor 1234 temperature 19.8"} {
			b.Run(fmt.Sprintf("n=%d/%s", n, strings.ReplaceAll(line, " ", "_")), func(b *testing.B) { benchmark(b, n, line) })
		}
	}
}

// BenchmarkRead reads ranges, and delivers to a group.
func BenchmarkRead(b *testing.B) {
	for _, line := range []string{"XRANGE s 500000-0 + COUNT 10", "XREVRANGE s + - COUNT 10",
		"XREAD COUNT 100 STREAMS s 500000", "XREADGROUP GROUP g ann COUNT 1 STREAMS s >",
		"XREADGROUP GROUP g ann COUNT 10 STREAMS s 0"} {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) { benchmark(b, 1_000_000, line) })
	}
}

func benchmark(b *testing.B, n int, line string) {
	core, space := newCore(b, defaultNodeEntries)
	core.Mute = true
	fill(core, "s", n)
	run(core, "XGROUP CREATE s g 0")
	cl, args := core.Client(2), commandtest.Words(line)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		cl.Out.Reset()
		core.Serve(cl, args)
		if i++; i%1024 == 0 {
			for space.Heap().Drain(1 << 20) {
			}
		}
	}
}
