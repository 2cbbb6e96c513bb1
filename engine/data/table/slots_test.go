package table

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"spindle/engine/data/memory"
	hashslots "spindle/internal/slots"
)

// TestDrawsAreUniformInSlots: keys are drawn equally often if one slot has nearly all of them, and if some slots have a
// few.
func TestDrawsAreUniformInSlots(t *testing.T) {
	k := open(t)
	k.table.CountSlots(new(Hidden))
	const inOne, others = 6000, 1000
	for i := range inOne {
		k.add("{tag}"+strconv.Itoa(i), 0)
	}
	for i := range others {
		k.add(strconv.Itoa(i), 0)
	}
	r := rand.New(rand.NewPCG(1, 2))
	pcg, seen := rand.NewPCG(r.Uint64(), r.Uint64()), map[memory.Ref]int{}
	for range 40 * (inOne + others) {
		seen[k.table.Random(pcg)]++
	}
	if d := deviations(seen, inOne+others); d > unfair {
		t.Errorf("%.1f deviations", d)
	}
	slot := hashslots.Of([]byte("tag"))
	if n := k.table.Slots().Count(slot); n < inOne {
		t.Errorf("slot %d has %d keys", slot, n)
	}
	if err := k.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestMarkedSlot: a mark goes with the slot's last key, and does not come back with a new one. It does not change
// counts and draws. A slot without keys gets no mark, and an emptied table has none.
func TestMarkedSlot(t *testing.T) {
	k := open(t)
	k.table.CountSlots(new(Hidden))
	slot, r := hashslots.Of([]byte("tag")), rand.NewPCG(1, 2)
	is := func(when string, keys int, marked bool) {
		t.Helper()
		if s := k.table.Slots(); s.Count(slot) != keys || s.Marked(slot) != marked {
			t.Fatalf("%s: %d keys, marked %t", when, s.Count(slot), s.Marked(slot))
		}
		if err := k.table.Check(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if keys > 0 && k.table.Random(r) == 0 {
			t.Fatalf("%s: no key is drawn", when)
		}
	}
	k.table.Slots().Mark(slot)
	k.add("{tag}1", 0)
	is("marked without keys", 1, false)
	k.table.Slots().Mark(slot)
	k.table.Slots().Mark(slot)
	k.add("{tag}2", 0)
	is("one key more", 2, true)
	k.drop("{tag}1")
	is("the marked key is removed", 1, true)
	k.drop("{tag}2")
	is("the last key is removed", 0, false)
	k.add("{tag}1", 0)
	is("a key comes", 1, false)
	k.table.Slots().Mark(slot)
	k.table.Detach()
	is("the table is emptied", 0, false)
}

// TestSlotPrefixes: a hash begins with its key's slot, reversed, and slotOf returns the slot.
func TestSlotPrefixes(t *testing.T) {
	for i := range 1000 {
		key := strconv.AppendInt(nil, int64(i), 10)
		slot := hashslots.Of(key)
		if hash := slotHash(key); slotOf(hash) != slot || prefixOf(slot) != hash>>(64-slotBits)<<(64-slotBits) {
			t.Fatalf("%s of slot %d has the hash %x", key, slot, hash)
		}
	}
	for _, c := range []struct {
		slot   uint16
		prefix uint64
	}{{0, 0}, {1, 1 << 63}, {2, 1 << 62}, {8192, 1 << 50}, {16383, 0xFFFC << 48}} {
		if got := prefixOf(c.slot); got != c.prefix {
			t.Errorf("slot %d: %x, want %x", c.slot, got, c.prefix)
		}
	}
}

// TestEachOfLargeSlot: all keys of a slot that fills many segments are yielded, in slots of both halves.
func TestEachOfLargeSlot(t *testing.T) {
	const keys = 3000
	for _, tag := range []string{"{tag}", "{a}", "{b}", "{c}"} {
		k := open(t)
		k.table.CountSlots(new(Hidden))
		for i := range keys {
			k.add(tag+strconv.Itoa(i), 0)
		}
		slot, seen := hashslots.Of([]byte(tag)), map[memory.Ref]bool{}
		k.table.EachOf(slot, 2*keys, func(ref memory.Ref) { seen[ref] = true })
		if len(seen) != keys {
			t.Errorf("slot %d: %d of %d keys", slot, len(seen), keys)
		}
	}
}

// TestScanOfSlot: a scan of a slot yields each of its keys, ends, and does not walk the whole table.
func TestScanOfSlot(t *testing.T) {
	testScanOfSlot(t, 3000, 20_000)
	testScanOfSlot(t, 30, 30) // one segment
	testScanOfSlot(t, 100, 200)
}

func testScanOfSlot(t *testing.T, inOne, others int) {
	k := open(t)
	k.table.CountSlots(new(Hidden))
	for i := range others {
		k.add(strconv.Itoa(i), 0)
	}
	for i := range inOne {
		k.add("{tag}"+strconv.Itoa(i), 0)
	}
	slot := hashslots.Of([]byte("tag"))
	seen, passed, calls := map[memory.Ref]bool{}, 0, 0
	for cursor := uint64(0); calls == 0 || cursor != 0; calls++ {
		cursor = k.table.ScanOf(slot, cursor, 50, func(ref memory.Ref) {
			passed++
			if hashslots.Of(k.table.key(ref)) == slot {
				seen[ref] = true
			}
		})
		if calls > inOne {
			t.Fatal("it does not end")
		}
	}
	if want := k.table.Slots().Count(slot); len(seen) != want || want < inOne || passed > want+1000 {
		t.Errorf("%d keys of %d seen, %d passed", len(seen), want, passed)
	}
	if slot = hashslots.Of([]byte("empty")); k.table.ScanOf(slot, 0, 1000, func(memory.Ref) {}) != 0 {
		t.Error("the scan of a small slot continues after it")
	}
}
