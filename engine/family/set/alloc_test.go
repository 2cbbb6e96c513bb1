package set

import (
	"strconv"
	"testing"

	"spindle/internal/invariant"
	"spindle/tests/testkit/commandtest"
)

func newCore(t testing.TB) *commandtest.Core { return commandtest.Start(t, Family()) }

// fillThree makes a set in each encoding. "ints" holds 0..99, and "texts" holds a0..a99. "many" holds b0..b999 and the
// members of the other two.
func fillThree(core *commandtest.Core) {
	cl := core.Client(2)
	for i := range 1000 {
		n := strconv.Itoa(i)
		if i < 100 {
			core.Do(cl, "SADD", "ints", n)
			core.Do(cl, "SADD", "texts", "a"+n)
			core.Do(cl, "SADD", "many", n, "a"+n)
		}
		core.Do(cl, "SADD", "many", "b"+n)
	}
}

// TestNoAllocations: in steady state commands on one set do not allocate on the Go heap. Commands on several sets may
// allocate once per call. Requests that undo each other are one case.
func TestNoAllocations(t *testing.T) {
	core := newCore(t)
	fillThree(core)
	commands := []string{
		"SADD ints 5", "SADD texts a5", "SADD many b5", "SADD ints 1000; SREM ints 1000", "SADD many new; SREM many new",
		"SADD many new1 new2 new3; SREM many new1 new2 new3 none", "SREM none x", "SISMEMBER ints 5", "SISMEMBER texts a5",
		"SISMEMBER many b5", "SISMEMBER none x",
		"SMISMEMBER many b1 b2 none", "SCARD many", "SMEMBERS texts", "SMEMBERS many", "SRANDMEMBER ints",
		"SRANDMEMBER texts", "SRANDMEMBER many",
		"SRANDMEMBER many 10", "SRANDMEMBER texts -10", "SADD new x; SREM new x", "SADD new 1; SPOP new",
		"SUNIONSTORE d ints ints", "SSCAN texts 0", "SSCAN many 0 COUNT 20",
	}
	if !invariant.Enabled { // these two allocate in checked builds
		commands = append(commands, "SADD texts new; SREM texts new", "SMOVE many texts b5; SMOVE texts many b5")
	}
	commandtest.NoAllocations(t, core, commands...)
}

// BenchmarkAdd adds and removes a member of a hashtable, with lookup and reply, without loop and parser. Watch ns/op;
// allocs/op is 0.
func BenchmarkAdd(b *testing.B) {
	core := newCore(b)
	fillThree(core)
	cl := core.Client(2)
	core.Mute = true
	add, rem := [][]byte{[]byte("SADD"), []byte("many"), []byte("new")},
		[][]byte{[]byte("SREM"), []byte("many"), []byte("new")}
	b.ReportAllocs()
	for b.Loop() {
		cl.Out.Reset()
		core.Serve(cl, add)
		core.Serve(cl, rem)
	}
}
