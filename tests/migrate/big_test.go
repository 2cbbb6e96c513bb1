package migrate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/tests/testkit"
)

// nodes starts a cluster of two spindle nodes, and a redis-server without slots that observes. Node 0 has the lower
// half of the slots.
func nodes(t *testing.T) (all []*testkit.Server, ids []string) {
	t.Helper()
	for i := range 3 {
		all = append(all, testkit.Launch(t, testkit.Spec{Redis: i == 2, Args: []string{"--cluster-enabled", "yes",
			"--cluster-node-timeout", "2000", "--cluster-port", strconv.Itoa(testkit.FreePort(t)),
			"--proto-max-bulk-len", "1gb", "--client-query-buffer-limit", "2gb"}}))
		ids = append(ids, all[i].Do("CLUSTER", "MYID").Text)
		all[i].Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	all[0].Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	all[1].Do("CLUSTER", "ADDSLOTSRANGE", 8192, slots.Count-1)
	line := strings.Fields(all[0].Do("CLUSTER", "NODES").Text)[1]
	_, bus, _ := strings.Cut(line, "@")
	for _, n := range all[1:] {
		n.Do("CLUSTER", "MEET", "127.0.0.1", all[0].Port, bus)
	}
	for _, n := range all {
		testkit.Until(t, testkit.Slowly(30*time.Second), "a well cluster", func() error {
			v, err := n.Ask("CLUSTER", "INFO")
			if err == nil && (!strings.Contains(v.Text, "cluster_state:ok") ||
				!strings.Contains(v.Text, "cluster_known_nodes:3")) {
				err = errors.New(v.Text)
			}
			return err
		})
	}
	return all, ids
}

// keyBelow returns a key in the lower half of the slots.
func keyBelow(name string) (key string, slot int) {
	for i := 0; ; i++ {
		key = fmt.Sprint(name, i)
		if slot = int(slots.Of([]byte(key))); slot < slots.Count/2 {
			return key, slot
		}
	}
}

// longest returns the longest turn of a server since the reset, by CPU time and by the clock.
func longest(n *testkit.Server) (cpu, wall time.Duration) {
	return time.Duration(n.InfoInt("stats", "longest_turn_cpu_usec")) * time.Microsecond,
		time.Duration(n.InfoInt("stats", "longest_turn_usec")) * time.Microsecond
}

// turnMost is the maximum time of a turn here. The long form only reports the time of the longest turn.
const turnMost = 20 * time.Millisecond

// TestBigValuesMove: a large hash and a long string move between nodes while both nodes serve clients. No node marks
// another as failing. No turn on either node takes as long as the move of a value. The long form has 10 M fields and
// 512 MB.
func TestBigValuesMove(t *testing.T) {
	fields, bytes := 100_000, 8<<20
	if testkit.Scale() > 1 {
		fields, bytes = 10_000_000, 512<<20-1
	}
	all, ids := nodes(t)
	from, to := all[0], all[1]
	hash, hashSlot := keyBelow("hash")
	text, textSlot := keyBelow("text")
	const atOnce = 1000
	testkit.Pipe(t, from.Dial(), fields/atOnce, func(i int) []any {
		args := []any{"HSET", hash}
		for j := range atOnce {
			args = append(args, fmt.Sprint("field:", i*atOnce+j), "some value of a field")
		}
		return args
	})
	from.Do("SETRANGE", text, bytes-3, "end")
	for _, n := range all[:2] {
		n.Do("CONFIG", "SET", "measure-turn-cpu", "yes")
	}
	for _, move := range []struct {
		key  string
		slot int
		size func(n *testkit.Server) int64
	}{
		{hash, hashSlot, func(n *testkit.Server) int64 { return n.Do("HLEN", hash).Int }},
		{text, textSlot, func(n *testkit.Server) int64 { return n.Do("STRLEN", text).Int }},
	} {
		before := move.size(from)
		to.Do("CLUSTER", "SETSLOT", move.slot, "IMPORTING", ids[0])
		from.Do("CLUSTER", "SETSLOT", move.slot, "MIGRATING", ids[1])
		for _, n := range all[:2] {
			n.Do("CONFIG", "RESETSTAT")
		}
		ended, began := make(chan error, 1), time.Now()
		go func() {
			conn := from.Dial()
			defer conn.Close()
			conn.SetTimeout(testkit.Slowly(10 * time.Minute))
			v, err := conn.Do("MIGRATE", "127.0.0.1", to.Port, move.key, 0, 300_000)
			ended <- errors.Join(err, v.Err())
		}()
		slowest, asked := time.Duration(0), 0
		for over := false; !over; asked++ {
			select {
			case err := <-ended:
				if over = true; err != nil {
					t.Fatal(err)
				}
			case <-time.After(5 * time.Millisecond):
			}
			for _, n := range all[:2] {
				at := time.Now()
				n.Do("PING")
				slowest = max(slowest, time.Since(at))
			}
			if said := all[2].Do("CLUSTER", "NODES").Text; strings.Contains(said, "fail") {
				t.Fatalf("while %s moves: %s", move.key, said)
			}
		}
		for i, n := range all[:2] {
			cpu, wall := longest(n)
			t.Logf("%s, %d elements or bytes in %v: longest turn of %s %v of CPU, %v by the clock; longest PING of %d %v",
				move.key, before,
				time.Since(began).Round(time.Millisecond), []string{"the source", "the target"}[i], cpu, wall, asked, slowest)
			if cpu > turnMost {
				t.Errorf("a turn of %v", cpu)
			}
		}
		for _, n := range []*testkit.Server{to, from} {
			n.Do("CLUSTER", "SETSLOT", move.slot, "NODE", ids[1])
		}
		if after := move.size(to); after != before || before == 0 {
			t.Errorf("%s: %d are there, were %d", move.key, after, before)
		}
	}
}

// TestManyKeysInASlot: GETKEYSINSLOT, COUNTKEYSINSLOT and DELSLOTS take no longer with many keys. If another node takes
// over a slot, the old owner deletes its keys in slices. The long form has 10 M keys.
func TestManyKeysInASlot(t *testing.T) {
	keys := 200_000
	if testkit.Scale() > 1 {
		keys = 10_000_000
	}
	all, ids := nodes(t)
	n := all[0]
	tag, slot := keyBelow("tag")
	const atOnce = 1000
	testkit.Pipe(t, n.Dial(), keys/atOnce, func(i int) []any {
		args := []any{"MSET"}
		for j := range atOnce {
			args = append(args, fmt.Sprintf("{%s}:%d", tag, i*atOnce+j), "v")
		}
		return args
	})
	n.Do("CONFIG", "SET", "measure-turn-cpu", "yes")
	n.Do("CONFIG", "RESETSTAT")
	step := func(what string) {
		t.Helper()
		cpu, wall := longest(n)
		t.Logf("%s at %d keys: longest turn %v of CPU, %v by the clock", what, keys, cpu, wall)
		if cpu > turnMost {
			t.Errorf("%s: a turn of %v", what, cpu)
		}
		n.Do("CONFIG", "RESETSTAT")
	}
	if got := n.Do("CLUSTER", "COUNTKEYSINSLOT", slot).Int; got != int64(keys) {
		t.Errorf("%d keys in the slot, want %d", got, keys)
	}
	if got := len(n.Do("CLUSTER", "GETKEYSINSLOT", slot, 100).Elems); got != 100 {
		t.Errorf("%d keys, want 100", got)
	}
	step("COUNTKEYSINSLOT, GETKEYSINSLOT")
	if v, err := n.Ask("CLUSTER", "FLUSHSLOTS"); err != nil || v.Err() == nil {
		t.Errorf("FLUSHSLOTS of a node with keys: %v %v", v, err)
	}
	step("FLUSHSLOTS")
	n.Do("CLUSTER", "DELSLOTS", slot)
	step("DELSLOTS")
	n.Do("CLUSTER", "ADDSLOTS", slot)
	all[1].Do("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
	all[1].Do("CLUSTER", "SETSLOT", slot, "NODE", ids[1]) // with a greater epoch, so that this node loses the keys
	testkit.Until(t, testkit.Slowly(2*time.Minute), "the keys of a slot that has left go", func() error {
		return testkit.Equal(n.Do("DBSIZE").Int, 0)
	})
	step("keys of a slot that has left")
}
