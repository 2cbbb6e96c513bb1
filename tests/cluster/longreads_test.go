package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"spindle/internal/slots"
	"spindle/tests/testkit"
)

// TestKeysWhileSlotsMoveIn: a node answers KEYS beside its turns while slots with keys move to it. Each answer has all
// keys of these slots, or none.
func TestKeysWhileSlotsMoveIn(t *testing.T) {
	t.Parallel()
	const own, coming, last = 20_000, 3000, 16383
	nodes := owners(t, []string{"--long-read-elements", "1000", "--save", ""}, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	move := func(first, end int) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(patience), "a move begins", func() error {
			v, err := from.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, end, "NODE", to.Do("CLUSTER", "MYID").Text)
			return errors.Join(err, testkit.Equal(v.Text, "OK"))
		})
	}
	move(last, last)
	moved(t, from, "success")
	tag := 0
	for slots.Of([]byte(fmt.Sprint(tag))) != last {
		tag++
	}
	testkit.Pipe(t, to.Dial(), own, func(i int) []any { return []any{"SET", fmt.Sprintf("{%d}own:%d", tag, i), i} })
	testkit.Pipe(t, from.Dial(), coming, func(i int) []any {
		key := fmt.Sprint("coming:", i)
		if slots.Of([]byte(key)) == last {
			key = "coming"
		}
		return []any{"SET", key, i}
	})
	all := int(from.Do("DBSIZE").Int)
	reader := to.Dial()
	answers := func() (n int) {
		t.Helper()
		v, err := reader.Do("KEYS", "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range v.Strings() {
			if strings.HasPrefix(key, "coming") {
				n++
			}
		}
		if n != 0 && n != all || len(v.Elems) != own+n {
			t.Fatalf("KEYS has %d keys, and %d of the %d that move", len(v.Elems), n, all)
		}
		return n
	}
	before := to.InfoInt("stats", "total_long_reads")
	move(0, last-1)
	during := 0
	testkit.Until(t, testkit.Slowly(patience), "the keys", func() error {
		during++
		return testkit.Equal(answers(), all)
	})
	moved(t, from, "success")
	n := to.InfoInt("stats", "total_long_reads") - before
	if n < int64(during) {
		t.Errorf("%d long reads, %d of KEYS", n, during)
	}
	t.Logf("%d answers", during)
	v, err := reader.Do("CLUSTER", "GETKEYSINSLOT", last, own-1)
	if err != nil || len(v.Elems) != own-1 || to.InfoInt("stats", "total_long_reads") != before+n+1 {
		t.Errorf("GETKEYSINSLOT replies %d keys as a long read, want %d: %v", len(v.Elems), own-1, err)
	}
	for _, key := range v.Strings() {
		if slots.Of([]byte(key)) != last {
			t.Fatalf("%s is of another slot", key)
		}
	}
}
