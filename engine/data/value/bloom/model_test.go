package bloom_test

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
	"spindle/internal/invariant"
)

func newSpace(t testing.TB) *keyspace.Keyspace {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return keyspace.New(h, keyspace.Options{Databases: 2})
}

func create(t testing.TB, k *keyspace.Keyspace, key string, p bloom.Params) *value.Edit {
	root, err := bloom.New(k.Store(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k.DB(0).CreateRoot([]byte(key), value.Module, value.Raw, root)
}

// A model is the simplest correct implementation: a set of the items added.
type model struct{ items map[uint64]bool }

// digest returns a hash of everything in a filter.
func digest(v value.Value) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.Write(bloom.Read(v).AppendHeader(nil))
	bloom.Written(v, func(link int, leaf uint64, p []byte) {
		maphash.WriteComparable(&h, [2]uint64{uint64(link), leaf})
		h.Write(p)
	})
	return h.Sum64()
}

var seed = maphash.MakeSeed()

// bytesOf returns everything in a filter.
func bytesOf(v value.Value) []byte {
	r := bloom.Read(v)
	b := r.AppendHeader(nil)
	for i := range r.Links() {
		r.Bits(i, func(p []byte, zeros int) bool {
			b = append(append(b, p...), make([]byte, zeros)...)
			return true
		})
	}
	return b
}

// TestModel does random steps on filters, while views are opened, read and closed. Each added item is found, a view
// shows the state when it was opened, and at the end no memory is left.
func TestModel(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

type frozen struct {
	view *keyspace.View
	want map[string]uint64 // digests
}

func runModel(t *testing.T, rng *rand.Rand) {
	k := newSpace(t)
	db := k.DB(0)
	drain(k)
	before := k.Heap().Used()
	models := map[string]*model{}
	params := []bloom.Params{
		{Error: 0.01, Capacity: 10, Growth: 2}, {Error: 0.001, Capacity: 20_000, Growth: 1},
		{Error: 0.3, Capacity: 5, Growth: 1},
		{Error: 0.01, Capacity: 4_000_000, Growth: 2}, {Error: 0.01, Capacity: 300, Fixed: true},
		{Error: 0.01, Capacity: 1 << 30, Growth: 2},
	}
	var views []frozen
	key := func() string { return fmt.Sprint("key", rng.IntN(6)) }
	steps := 3000
	if invariant.Enabled { // each step is many times slower
		steps = 800
	}
	for step := range steps {
		name := key()
		m := models[name]
		switch op := rng.IntN(100); {
		case m == nil:
			create(t, k, name, params[rng.IntN(len(params))])
			models[name] = &model{items: map[uint64]bool{}}
		case op < 85:
			e := db.Edit([]byte(name))
			n := rng.Uint64N(2000)
			item := fmt.Appendf(nil, "item %d", n)
			had := bloom.Read(e.Value()).Has(item)
			if m.items[n] && !had {
				t.Fatalf("step %d: %s has lost %s", step, name, item)
			}
			items := bloom.Read(e.Value()).Items()
			added, err := bloom.Add(e, item, nil)
			switch {
			case err == bloom.ErrFull:
			case err != nil:
				t.Fatal(err)
			case added == had:
				t.Fatalf("step %d: there before: %t, added: %t", step, had, added)
			default:
				m.items[n] = true
				if added {
					items++
				}
			}
			if got := bloom.Read(e.Value()).Items(); got != items {
				t.Fatalf("step %d: %d items, want %d", step, got, items)
			}
		case op < 88:
			db.Delete([]byte(name))
			delete(models, name)
		case op < 91:
			to := key()
			if to != name && db.Rename([]byte(name), []byte(to)) {
				models[to] = m
				delete(models, name)
			}
		case op < 94:
			to := key()
			if to != name {
				db.CopyTo([]byte(name), db, []byte(to))
				dup := &model{items: map[uint64]bool{}}
				for n := range m.items {
					dup.items[n] = true
				}
				models[to] = dup
			}
		case op < 97 && len(views) < 3:
			f := frozen{view: k.Freeze(), want: map[string]uint64{}}
			for name := range models {
				f.want[name] = digest(db.Peek([]byte(name)))
			}
			views = append(views, f)
		case len(views) > 0:
			i := rng.IntN(len(views))
			verify(t, views[i])
			views = append(views[:i], views[i+1:]...)
		}
		if models[name] != nil && step%16 == 0 {
			if err := bloom.Check(db.Peek([]byte(name))); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		if step%50 == 0 {
			drain(k)
		}
	}
	for _, f := range views {
		verify(t, f)
	}
	for name, m := range models {
		v := db.Peek([]byte(name))
		for n := range m.items {
			if !bloom.Read(v).Has(fmt.Appendf(nil, "item %d", n)) {
				t.Fatalf("%s has lost item %d", name, n)
			}
		}
		db.Delete([]byte(name))
	}
	drain(k)
	if got := k.Heap().Used(); got != before {
		t.Errorf("%d bytes used at the end, %d before", got, before)
	}
	if err := k.Heap().Check(); err != nil {
		t.Error(err)
	}
}

// verify compares a view with the state when it was opened, and closes the view.
func verify(t *testing.T, f frozen) {
	t.Helper()
	seen := 0
	f.view.Walk(0, 0, 1, func(v value.Value) bool {
		if want, ok := f.want[string(v.Key())]; ok {
			seen++
			if digest(v) != want {
				t.Fatalf("%s has changed under a view", v.Key())
			}
		}
		return true
	})
	if seen != len(f.want) {
		t.Fatalf("%d filters in the view, %d when it was taken", seen, len(f.want))
	}
	f.view.Close()
}

// drain does the work of reclaimers.
func drain(k *keyspace.Keyspace) {
	for more := true; more; {
		more = k.Heap().Drain(1 << 20)
		if job, _ := k.Heap().TakeJob(); job != nil {
			for !job(7) {
			}
			more = true
		}
	}
}

// TestReadersDuringWrites: a saver reads a view while items are added to the same filters. Some filters have one page,
// others many.
func TestReadersDuringWrites(t *testing.T) {
	k := newSpace(t)
	for name, capacity := range map[string]uint64{"one": 100, "grows": 10, "many": 300_000} {
		e := create(t, k, name, bloom.Params{Error: 0.01, Capacity: capacity, Growth: 2})
		for i := range 50 {
			if _, err := bloom.Add(e, fmt.Appendf(nil, "item %d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 {
		view := k.Freeze()
		view.Keep() // it is walked more than once
		want := map[string][]byte{}
		view.Walk(0, 0, 1, func(v value.Value) bool {
			want[string(v.Key())] = bytesOf(v)
			return true
		})
		done := make(chan string)
		go func() {
			changed := ""
			for range 20 {
				view.Walk(0, 0, 1, func(v value.Value) bool {
					if !bytes.Equal(bytesOf(v), want[string(v.Key())]) {
						changed = string(v.Key())
					}
					return true
				})
			}
			done <- changed
		}()
		for i := range 3000 {
			for name := range want {
				if _, err := bloom.Add(k.DB(0).Edit([]byte(name)),
					fmt.Appendf(nil, "item %d", rand.Uint64N(1e6)+uint64(i)), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if changed := <-done; changed != "" {
			t.Errorf("%s has changed under a view", changed)
		}
		view.Close()
		drain(k)
	}
}

// TestFalsePositives: a filter filled to its capacity errs as often as theory predicts. The bounds are six standard
// deviations of a binomial distribution wide, so one run in a billion would fail by chance. The items are always the
// same.
func TestFalsePositives(t *testing.T) {
	const asked = 200_000
	for _, rate := range []float64{0.2, 0.05, 0.01, 0.001} {
		for _, fixed := range []bool{true, false} {
			for _, capacity := range []uint64{1000, 30_000} {
				k := newSpace(t)
				e := create(t, k, "k", bloom.Params{Error: rate, Capacity: capacity, Growth: 2, Fixed: fixed})
				tried := 0
				for bloom.Read(e.Value()).Items() < capacity {
					if _, err := bloom.Add(e, fmt.Appendf(nil, "in %d", tried), nil); err != nil {
						t.Fatal(err)
					}
					tried++
				}
				r, wrong := bloom.Read(e.Value()), 0
				for i := range asked {
					if r.Has(fmt.Appendf(nil, "out %d", i)) {
						wrong++
					}
				}
				// This many bits are set; false positives add none. Each of the k bits of an item, out of m, is set
				// with this probability:
				l := r.Link(0)
				expected := math.Pow(1-math.Exp(-float64(l.Hashes)*float64(tried)/float64(l.Bits)), float64(l.Hashes))
				// Allow 5 %, because the k bits of an item are not quite independent of each other.
				bound := 0.05*asked*expected + 6*math.Sqrt(asked*expected*(1-expected))
				if diff := float64(wrong) - asked*expected; math.Abs(diff) > bound {
					t.Errorf("rate %g, fixed %t, %d items: %d of %d wrong, want %.0f ± %.0f",
						rate, fixed, capacity, wrong, asked, asked*expected, bound)
				}
				// The promised rate holds, except for fixed filters with high rates, because more items than their
				// capacity were added.
				if !fixed && expected > rate || expected > 1.3*rate {
					t.Errorf("rate %g, fixed %t: made for %g", rate, fixed, expected)
				}
			}
		}
	}
}

// TestChainRate: a chain that has grown many times errs at most as often as promised.
func TestChainRate(t *testing.T) {
	const asked = 200_000
	for _, rate := range []float64{0.1, 0.01} {
		k := newSpace(t)
		e := create(t, k, "k", bloom.Params{Error: rate, Capacity: 100, Growth: 2})
		for i := range 50_000 {
			if _, err := bloom.Add(e, fmt.Appendf(nil, "in %d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		r, wrong := bloom.Read(e.Value()), 0
		for i := range asked {
			if r.Has(fmt.Appendf(nil, "out %d", i)) {
				wrong++
			}
		}
		if most := asked*rate + 6*math.Sqrt(asked*rate); float64(wrong) > most || r.Links() < 8 {
			t.Errorf("rate %g: %d of %d wrong, want at most %.0f; %d links", rate, wrong, asked, most, r.Links())
		}
	}
}

// TestLongestChain: a chain whose filters take one item each grows until its rate would be 0, and keeps its items.
func TestLongestChain(t *testing.T) {
	k := newSpace(t)
	e := create(t, k, "k", bloom.Params{Error: 0.5, Capacity: 1, Growth: 1})
	added := 0
	for ; ; added++ {
		if added%100 == 0 {
			view := k.Freeze() // from time to time the root is copied
			defer view.Close()
		}
		_, err := bloom.Add(e, fmt.Appendf(nil, "%d", added), nil)
		if err == bloom.ErrNoRoom {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := bloom.Read(e.Value())
	if r.Links() != 1073 { // their rates are 2^-2 to 2^-1074; half of that is 0
		t.Errorf("%d links", r.Links())
	}
	for i := range added {
		if !r.Has(fmt.Appendf(nil, "%d", i)) {
			t.Fatalf("%d is lost", i)
		}
	}
	if err := bloom.Check(e.Value()); err != nil {
		t.Error(err)
	}
}

// TestCopyOnWrite: an item added while a view is open copies pages, not the filter. Bits never written cost nothing.
func TestCopyOnWrite(t *testing.T) {
	k := newSpace(t)
	e := create(t, k, "k", bloom.Params{Error: 0.01, Capacity: 1 << 28, Growth: 2}) // 370 MB of bits
	for i := range 3000 {
		if _, err := bloom.Add(e, fmt.Appendf(nil, "%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	drain(k)
	used := k.Heap().Used()
	if used > 3000*8*(4096+64)+1<<20 {
		t.Errorf("%d bytes for 3000 items", used)
	}
	v := k.Freeze()
	if _, err := bloom.Add(e, []byte("new"), nil); err != nil {
		t.Fatal(err)
	}
	if more := k.Heap().Used() + k.Heap().Retained() - used; more > 8*(4096+2*4352)+64<<10 {
		t.Errorf("%d bytes more for one item under a view", more)
	}
	v.Close()
}

// TestPowerOfTwo: for a rate that is a power of 2, the computed number of hashes is close to an integer. RedisBloom's
// constants, and a logarithm rounded to the nearest double, give the larger number (computed with glibc).
func TestPowerOfTwo(t *testing.T) {
	for power, want := range map[int]uint32{1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9} {
		k := newSpace(t)
		e := create(t, k, "k", bloom.Params{Error: math.Ldexp(1, -power), Capacity: 100, Fixed: true})
		if got := bloom.Read(e.Value()).Link(0).Hashes; got != want {
			t.Errorf("rate 2^-%d: %d hashes, noted %d", power, got, want)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, snapshot := range []bool{false, true} {
		b.Run(fmt.Sprintf("snapshot=%t", snapshot), func(b *testing.B) {
			k := newSpace(b)
			e := create(b, k, "k", bloom.Params{Error: 0.01, Capacity: 10_000_000, Growth: 2})
			if snapshot {
				defer k.Freeze().Close()
			}
			var item []byte
			b.ReportAllocs()
			for i := range b.N {
				item = fmt.Appendf(item[:0], "item %d", i)
				if _, err := bloom.Add(e, item, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestChainIsBounded: a header may announce no more bytes than a chain may have, however many filters they are divided
// into.
func TestChainIsBounded(t *testing.T) {
	for _, c := range []struct {
		capacity uint64
		taken    bool
	}{{1000, true}, {30_000_000_000, false}} {
		k := newSpace(t)
		e := create(t, k, "k", bloom.Params{Error: 0.01, Capacity: c.capacity, Growth: 2})
		r := bloom.Read(e.Value())
		if 2*r.Link(0).Bytes > bloom.MaxBytes == c.taken {
			t.Fatalf("one filter has %d bytes", r.Link(0).Bytes)
		}
		header := r.AppendHeader(nil)
		const link = 53
		header = append(header, header[len(header)-link:]...)
		header[8] = 2
		ref, err := bloom.FromHeader(k.Store(), header, nil)
		if (err == nil) != c.taken {
			t.Errorf("two filters of %d bytes: %v", r.Link(0).Bytes, err)
		}
		if err == nil {
			k.DB(0).PutRoot([]byte("twice"), value.Module, value.Raw, ref, 0)
		}
	}
}
