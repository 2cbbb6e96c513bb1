package cluster

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestLargeElementsMove: slots with a hash of many fields and a long string move, while a client increments counters in
// them. The move succeeds, both values are as before, and the source takes little more memory meanwhile. At
// SPINDLE_TEST_SCALE 200 the hash has 10,000,000 fields and the string 512 MB.
func TestLargeElementsMove(t *testing.T) {
	t.Parallel()
	const fieldsEach, bytesEach, most = 50_000, 512 << 20 / 200, 200
	scale := min(testkit.Scale(), most)
	fields, size := scale*fieldsEach, scale*bytesEach
	if scale == most {
		size = 512 << 20
	}
	nodes := owners(t, []string{"--save", "", "--enable-debug-command", "yes", "--measure-turn-cpu", "yes",
		"--repl-timeout", "600"}, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	const each = 500 // fields a command
	testkit.Pipe(t, from.Dial(), fields/each, func(i int) []any {
		request := []any{"HSET", "{1}hash"}
		for n := range each {
			request = append(request, i*each+n, "value")
		}
		return request
	})
	block := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{})
	for at := 0; at < size; at += len(block) {
		n := min(len(block), size-at)
		_, _ = source.Read(block[:n])
		from.Do("SETRANGE", "{2}string", at, block[:n])
	}
	keys := []string{"{1}hash", "{2}string"}
	want := digests(from, keys)
	c := count(t, nodes)
	before := from.InfoInt("memory", "used_memory")
	for _, n := range nodes {
		n.Do("CONFIG", "RESETSTAT")
	}
	began, peak := time.Now(), before
	from.Do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", to.Do("CLUSTER", "MYID").Text)
	for state := ""; state != "success"; {
		if state = moveState(from, "state"); state == "failed" {
			t.Fatalf("the move has failed: %s", moveState(from, "message"))
		}
		peak = max(peak, from.InfoInt("memory", "used_memory"))
		testkit.Lapse(10 * time.Millisecond)
	}
	took := time.Since(began)
	for i, n := range nodes {
		t.Logf("node %d has long turns: %s", i, n.Info("everything")["long_turns"])
	}
	c.end(t)
	for key, got := range digests(to, keys) {
		if got != want[key] {
			t.Errorf("%s is %s, not %s", key, got, want[key])
		}
	}
	t.Logf("%d fields and %d MB: %v, memory of the source %d MB, at most %d MB", fields, size>>20,
		took.Round(time.Millisecond), before>>20, peak>>20)
	const spare = 32 << 20 // for what does not grow with the data
	if peak > before+before*2/5+spare {
		t.Errorf("the source uses %d bytes, and had %d before", peak, before)
	}
	if log := from.Log() + to.Log(); strings.Contains(log, "Timing out slot migration") {
		t.Error("the move was thought dead")
	}
}
