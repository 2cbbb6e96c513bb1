package table

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"spindle/engine/data/memory"
)

// keys is a table of entries that have only a key and perhaps a deadline.
type keys struct {
	t     testing.TB
	h     *memory.Heap
	table Table
	rng   *rand.Rand
}

func open(t testing.TB) *keys {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay with SEED=%d, as far as the seed of the hash does not matter", seed)
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	k := &keys{t: t, h: h, rng: rand.New(rand.NewPCG(seed, 1))}
	k.table.Init(h, Entry, 0)
	h.Register(1, Destroy(func(r *memory.Returner, ref memory.Ref, budget int) (bool, int) {
		r.Free(ref, memory.Keys)
		return true, 1
	}))
	h.Register(2, DestroyDue)
	return k
}

func (k *keys) block(key string, deadline int64) memory.Ref {
	n := 8 + len(key)
	shape := uint32(len(key)) << ShapeKeyLen
	if deadline != 0 {
		n += 8
		shape |= ShapeVolatile
	}
	ref := k.h.Alloc(n, memory.Keys)
	p := memory.Pointer(ref)
	*(*uint64)(p) = uint64(shape) << 32
	at := 8
	if deadline != 0 {
		*(*int64)(unsafe.Add(p, 8)) = deadline
		at = 16
	}
	copy(memory.Bytes(ref, n)[at:], key)
	return ref
}

func (k *keys) add(key string, deadline int64) {
	k.table.Insert(k.table.HashOf([]byte(key)), k.block(key, deadline), k.table.Tick(deadline))
}

func (k *keys) drop(key string) bool {
	p, ref := k.table.Find(k.table.HashOf([]byte(key)), []byte(key))
	if ref == 0 {
		return false
	}
	if k.table.Remove(&p) {
		k.h.SetPosition(0, k.table.HashOf([]byte(key)))
		k.h.Retire(ref, memory.Keys)
	} else {
		k.h.Free(ref, memory.Keys)
	}
	return true
}

func (k *keys) check() {
	k.t.Helper()
	if err := k.table.Check(); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keys) settle() {
	for {
		more := k.h.Drain(1 << 20)
		job, _ := k.h.TakeJob()
		if job == nil {
			if !more {
				return
			}
			continue
		}
		for !job(64) {
		}
	}
}

// TestGrowAndShrink grows a table key by key through all sizes and splits, and empties it again. At the end no memory
// may be left.
func TestGrowAndShrink(t *testing.T) {
	for _, views := range []bool{false, true} {
		t.Run(fmt.Sprintf("views=%t", views), func(t *testing.T) {
			k := open(t)
			empty := k.h.Used()
			const n = 20_000
			var holds []*memory.Hold
			for i := range n {
				k.add(strconv.Itoa(i), int64(i%3)*1000)
				if i&(i-1) == 0 || i%5000 == 0 {
					k.check()
				}
				if views && i%1000 == 999 {
					holds = append(holds, k.h.Freeze())
				}
			}
			for i := range n {
				if !k.drop(strconv.Itoa(i)) {
					t.Fatalf("%d is not there", i)
				}
				if i%1000 == 0 || n-i < 50 {
					k.check()
				}
				if len(holds) > 0 && i%900 == 0 {
					j := k.rng.IntN(len(holds))
					holds[j].Close()
					holds = append(holds[:j], holds[j+1:]...)
					k.h.Drain(100)
				}
			}
			if sh := k.table.Shape(); sh.Segments > 1 || sh.Nodes > 0 {
				t.Errorf("an empty table has %d segments and %d nodes", sh.Segments, sh.Nodes)
			}
			for _, hold := range holds {
				hold.Close()
			}
			k.settle()
			root, due := k.table.Detach()
			k.h.RetireTreeWide(root, 1, 0)
			if due != 0 {
				k.h.RetireTreeWide(due, 2, 0)
			}
			k.settle()
			if used := k.h.Used(); used != empty {
				t.Errorf("%d bytes are left", used-empty)
			}
		})
	}
}

// TestScanGuarantee scans while keys are added and removed, so that segments split, join and resize between any two
// calls. It checks that every key that stays is yielded.
func TestScanGuarantee(t *testing.T) {
	for round := range 12 {
		k := open(t)
		const stay, flux = 500, 6000
		for i := range stay {
			k.add(fmt.Sprintf("stay%d", i), 0)
		}
		present := map[int]bool{}
		seen := map[string]int{}
		growing := round%2 == 0
		if !growing {
			for i := range flux {
				k.add(fmt.Sprintf("flux%d", i), 0)
				present[i] = true
			}
		}
		calls := 0
		for cursor := uint64(0); ; calls++ {
			cursor = k.table.Scan(cursor, 1+k.rng.IntN(20), func(ref memory.Ref) { seen[string(k.table.key(ref))]++ })
			if cursor == 0 {
				break
			}
			for range k.rng.IntN(200) {
				i := k.rng.IntN(flux)
				up := growing
				if k.rng.IntN(4) == 0 || round >= 8 && calls/20%2 == 0 {
					up = !up
				}
				if up && !present[i] {
					k.add(fmt.Sprintf("flux%d", i), 0)
					present[i] = true
				} else if !up && present[i] {
					k.drop(fmt.Sprintf("flux%d", i))
					delete(present, i)
				}
			}
			if calls > 1_000_000 {
				t.Fatal("the scan does not end")
			}
		}
		k.check()
		for i := range stay {
			if seen[fmt.Sprintf("stay%d", i)] == 0 {
				t.Fatalf("round %d: stay%d was there all the time and not passed", round, i)
			}
		}
	}
}

// TestScanAtRest checks that a scan yields each key exactly once, in steps of about count.
func TestScanAtRest(t *testing.T) {
	k := open(t)
	for i := range 5000 {
		k.add(strconv.Itoa(i), 0)
	}
	for _, count := range []int{1, 10, 100, 10_000} {
		seen := map[string]int{}
		calls := 0
		for cursor := uint64(0); ; {
			n := 0
			cursor = k.table.Scan(cursor, count, func(ref memory.Ref) { seen[string(k.table.key(ref))]++; n++ })
			if n > count+4*slots { // some bucket has 18 keys in one run of 20
				t.Errorf("COUNT %d passed %d", count, n)
			}
			if calls++; cursor == 0 {
				break
			}
			if cursor>>63 != 0 {
				t.Fatalf("cursor %d does not fit an int64", cursor)
			}
		}
		if len(seen) != 5000 {
			t.Errorf("%d keys passed with COUNT %d", len(seen), count)
		}
		for key, n := range seen {
			if n != 1 {
				t.Fatalf("%q passed %d times", key, n)
			}
		}
	}
}

// TestScanAnyCursor checks that a scan accepts any number as a cursor.
func TestScanAnyCursor(t *testing.T) {
	k := open(t)
	for i := range 3000 {
		k.add(strconv.Itoa(i), 0)
	}
	for i := range 20_000 {
		cursor := k.rng.Uint64() >> (i % 64)
		k.table.Scan(cursor, 1+i%30, func(memory.Ref) {})
	}
	k.table.Scan(^uint64(0), 1<<62, func(memory.Ref) {})
}

// TestDueIsSmall: NextDue looks at no more than one segment's buckets at a time, even if no key in them is volatile any
// more. Keys made persistent leave bounds that are too low, in a table with other deadlines.
func TestDueIsSmall(t *testing.T) {
	k := open(t)
	const n = 20_000
	for i := range n {
		k.add(strconv.Itoa(i), 1000)
		k.add("late"+strconv.Itoa(i), 1_000_000)
	}
	for i := range n {
		key := []byte(strconv.Itoa(i))
		p, ref := k.table.Find(Hash(key), key)
		k.table.Replace(&p, ref, Never)
	}
	now, groups, empty := k.table.TickNow(2000), 0, 0
	for d := (Due{Most: 1}); k.table.NextDue(now, &d); groups++ {
		if d.N == 0 {
			empty++
		}
		for i := range d.N {
			d.Stays(i, k.table.Tick(1_000_000))
		}
		k.table.EndDue(&d)
	}
	if groups < n/slots || empty == 0 {
		t.Errorf("%d groups, %d of them without a volatile key", groups, empty)
	}
	if k.table.Least() <= now {
		t.Errorf("something is due at %d still", k.table.Least())
	}
}

// TestDue drops the keys that are due. It compares with a map that no other key is dropped.
func TestDue(t *testing.T) {
	k := open(t)
	want := map[string]int64{}
	now := int64(0)
	for step := range 3000 {
		for range 10 {
			key := strconv.Itoa(k.rng.IntN(5000))
			if _, ok := want[key]; ok {
				k.drop(key)
			}
			deadline := int64(0)
			if k.rng.IntN(4) > 0 {
				deadline = now + 1 + k.rng.Int64N(20_000)
			}
			k.add(key, deadline)
			want[key] = deadline
		}
		now += k.rng.Int64N(60)
		d := Due{Most: k.rng.IntN(dueBuckets + 2)}
		for k.table.NextDue(k.table.TickNow(now), &d) {
			if most := max(d.Most, 1) * slots; d.Most != 0 && d.N > most {
				t.Fatalf("%d keys of %d buckets", d.N, d.Most)
			}
			for i := range d.N {
				ref := d.Refs[i]
				deadline := k.table.deadline(ref)
				if deadline >= now {
					d.Stays(i, k.table.Tick(deadline))
					continue
				}
				key := string(k.table.key(ref))
				if want[key] != deadline {
					t.Fatalf("%q dropped at %d, due at %d", key, now, want[key])
				}
				delete(want, key)
				k.table.Drop(&d, i)
				k.h.Free(ref, memory.Keys)
			}
			k.table.EndDue(&d)
		}
		if step%100 == 0 {
			k.check()
			for key, deadline := range want {
				if deadline != 0 && deadline+tickMs < now {
					t.Fatalf("%q is there at %d, due at %d", key, now, deadline)
				}
			}
		}
	}
	if k.table.Len() != len(want) {
		t.Fatalf("%d keys, should be %d", k.table.Len(), len(want))
	}
}

// TestFrozenRoot reads an old root while the table changes completely.
func TestFrozenRoot(t *testing.T) {
	k := open(t)
	for i := range 8000 {
		k.add(strconv.Itoa(i), 0)
	}
	hold, root := k.h.Freeze(), k.table.Root()
	for i := range 8000 {
		if i%3 != 0 {
			k.drop(strconv.Itoa(i))
		}
		k.add("new"+strconv.Itoa(i), 5)
	}
	k.check()
	for i := range 8000 {
		key := []byte(strconv.Itoa(i))
		if ref := FindIn(root, Entry, Hash(key), key); ref == 0 || string(k.table.key(ref)) != string(key) {
			t.Fatalf("%s is not in the frozen root", key)
		}
		key = []byte("new" + strconv.Itoa(i))
		if FindIn(root, Entry, Hash(key), key) != 0 {
			t.Fatalf("%s is in the frozen root", key)
		}
	}
	n := 0
	Walk(root, 0, ^uint64(0), nil, func(ref memory.Ref) bool { n++; return true })
	if n != 8000 {
		t.Fatalf("the walk saw %d keys", n)
	}
	hold.Close()
	k.settle()
	k.check()
}

// TestReserve: however many keys are announced, and however many are added, the table stays correct. The right number
// saves rebuilding.
func TestReserve(t *testing.T) {
	for _, test := range []struct{ told, come int }{{0, 5000}, {5000, 5000}, {200_000, 200_000}, {200_000, 3000},
		{2000, 60_000}} {
		k := open(t)
		k.table.Reserve(test.told)
		for i := range test.come {
			deadline := int64(0)
			if i%3 == 0 {
				deadline = k.table.TickTime(uint32(i + 1))
			}
			k.add(fmt.Sprint("key:", i), deadline)
		}
		k.table.Reserve(0)
		if err := k.table.Check(); err != nil {
			t.Fatalf("%d announced, %d came: %v", test.told, test.come, err)
		}
		if k.table.Len() != test.come {
			t.Fatalf("%d announced, %d came, %d are there", test.told, test.come, k.table.Len())
		}
		shape := k.table.Shape()
		t.Logf("%d announced, %d came: %+v", test.told, test.come, shape)
		for i := range test.come {
			if !k.drop(fmt.Sprint("key:", i)) {
				t.Fatalf("%d announced, %d came: key %d is missing", test.told, test.come, i)
			}
		}
	}
}
