package hash

import (
	"strconv"
	"strings"
	"testing"

	"spindle/tests/testkit/commandtest"
)

func newCore(t testing.TB) *commandtest.Core {
	s := &Settings{}
	s.Rows() // the defaults
	return commandtest.Start(t, Family(s))
}

// fillThree makes a hash in each encoding: "few" and "timed" with f0..f19, "many" with f0..f999. In "timed" and "many",
// f0 has a deadline.
func fillThree(core *commandtest.Core) {
	cl := core.Client(2)
	for i := range 1000 {
		n := strconv.Itoa(i)
		if i < 20 {
			core.Do(cl, "HSET", "few", "f"+n, n)
			core.Do(cl, "HSET", "timed", "f"+n, n)
		}
		core.Do(cl, "HSET", "many", "f"+n, n)
	}
	core.Do(cl, "HEXPIRE", "timed", "1000", "FIELDS", "1", "f0")
	core.Do(cl, "HEXPIRE", "many", "1000", "FIELDS", "1", "f0")
}

// TestNoAllocations: in steady state these requests do not allocate on the Go heap. Requests that undo each other are
// one case.
func TestNoAllocations(t *testing.T) {
	core := newCore(t)
	fillThree(core)
	for _, each := range []string{
		"HGET K f5", "HGET K none", "HSET K f5 7", "HSET K f5 text",
		"HSET K new v; HDEL K new", "HSETNX K f5 v", "HMGET K f1 f2 none f0", "HMSET K f1 1 f2 2",
		"HEXISTS K f3", "HSTRLEN K f3", "HLEN K", "HINCRBY K f6 2",
		"HINCRBYFLOAT K f7 0.5", "HGETALL K", "HKEYS K", "HVALS K", "HRANDFIELD K", "HRANDFIELD K -10 WITHVALUES",
		"HGETEX K FIELDS 2 f1 none", "HSETEX K FXX FIELDS 2 f1 1 f2 2", "HSETEX K NX FIELDS 1 f1 1",
		"HSET K new v; HGETDEL K FIELDS 2 new none", "HSETEX fresh FNX PX 1000 FIELDS 1 f v; HDEL fresh f",
		"HSCAN K 0 COUNT 20", "HTTL K FIELDS 2 f0 f1", "HSET fresh f v; HDEL fresh f",
	} {
		for _, key := range []string{"few", "timed", "many"} {
			commandtest.NoAllocations(t, core, strings.ReplaceAll(each, " K", " "+key))
		}
	}
	for _, key := range []string{"timed", "many"} {
		commandtest.NoAllocations(t, core, "HPEXPIRE "+key+" 1000000 FIELDS 1 f0")
		commandtest.NoAllocations(t, core, "HPEXPIRE "+key+" 1000000 FIELDS 2 f0 f1; HPERSIST "+key+" FIELDS 1 f1")
		commandtest.NoAllocations(t, core, "HGETEX "+key+" PX 1000000 FIELDS 2 f0 f1; HGETEX "+key+" PERSIST FIELDS 1 f1")
		commandtest.NoAllocations(t, core, "HSETEX "+key+" KEEPTTL FIELDS 2 f0 1 f1 1")
		commandtest.NoAllocations(t, core, "HSETEX "+key+" PX 1000000 FIELDS 2 f0 1 f1 1; HPERSIST "+key+" FIELDS 1 f1")
	}
}

// BenchmarkSet and BenchmarkGet run the handlers with lookup and reply, without loop and parser. Watch ns/op; allocs/op
// is 0.
func BenchmarkSet(b *testing.B) { benchmark(b, "HSET many f500 value") }

func BenchmarkGet(b *testing.B) { benchmark(b, "HGET many f500") }

func benchmark(b *testing.B, words string) {
	core := newCore(b)
	fillThree(core)
	cl := core.Client(2)
	core.Mute = true
	var args [][]byte
	for _, w := range strings.Fields(words) {
		args = append(args, []byte(w))
	}
	b.ReportAllocs()
	for b.Loop() {
		cl.Out.Reset()
		core.Serve(cl, args)
	}
}
