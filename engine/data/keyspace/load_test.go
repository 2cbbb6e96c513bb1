package keyspace

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// TestLoader: with any announced number, every added key is in the database at the end, once. Views contain the keys
// that had settled before. A duplicate is reported and leaves no memory.
func TestLoader(t *testing.T) {
	for _, announced := range []int{0, 40_000, 400_000, 1 << 40} {
		t.Run(fmt.Sprint(announced), func(t *testing.T) {
			m := newModel(t, 2, 60_000, false)
			empty := m.k.heap.Used()
			for range 1000 {
				m.step()
			}
			db, want := m.k.DB(0), m.dbs[0]
			touched, added, duplicates, told := 0, 0, map[string]bool{}, 0
			m.k.Watching, m.k.Hooks.Touched = 1, func(int, []byte) { touched++ }
			db.Reserve(announced)
			l := db.Loader(announced)
			tell := func(duplicate []byte) {
				if duplicate != nil {
					if told++; !duplicates[string(duplicate)] {
						t.Fatalf("%q is told as a duplicate", duplicate)
					}
				}
			}
			for i := range scaled(12_000) {
				key, val, deadline := m.key(), m.text(), m.deadline()
				if _, there := want[string(key)]; there {
					duplicates[string(key)] = true
				} else {
					m.put(0, key, string(val), deadline)
					added++
				}
				if v := l.AddString(key, val, deadline); !bytes.Equal(v.Key(), key) || v.Deadline() != deadline {
					t.Fatalf("%q @%d was added as %q @%d", key, deadline, v.Key(), v.Deadline())
				}
				for l.Full() {
					tell(l.Settle())
				}
				if i%3000 == 2999 {
					content := modelDB{}
					db.All(func(v value.Value) bool {
						content[string(v.Key())] = modelKey{text(v), v.Deadline()}
						return true
					})
					m.views = append(m.views, modelView{v: m.k.Freeze(), dbs: []modelDB{content, m.cloned()[1]}})
				}
			}
			for duplicate, done := l.Finish(); !done; duplicate, done = l.Finish() {
				tell(duplicate)
			}
			db.Reserve(0)
			if _, done := l.Finish(); !done || l.Full() {
				t.Error("the end has no end")
			}
			if touched != added || told == 0 || told > len(duplicates)*20 {
				t.Errorf("%d keys were added, %d touched; %d of %d duplicates were told", added, touched, told, len(duplicates))
			}
			m.k.Watching = 0
			m.check()
			m.end(empty)
		})
	}
}

// TestLoaderForms: a loaded value is stored in the same form as by the command that sets it.
func TestLoaderForms(t *testing.T) {
	for _, val := range []string{"", "-12", "007", "9223372036854775808", string(make([]byte, 44)),
		string(make([]byte, 45)), string(make([]byte, value.MaxInline)), string(make([]byte, 300_000))} {
		for _, key := range []string{"k", "", string(make([]byte, 300))} {
			for _, deadline := range []int64{0, 2_000_000} {
				k := open(t)
				set, loaded := k.DB(0), k.DB(1)
				set.SetString([]byte(key), []byte(val), deadline)
				l := loaded.Loader(0)
				l.AddString([]byte(key), []byte(val), deadline)
				l.Finish()
				a, b := set.Peek([]byte(key)), loaded.Peek([]byte(key))
				if !b.Exists() || value.FormOf(a) != value.FormOf(b) || text(a) != text(b) || a.Deadline() != b.Deadline() ||
					a.Clock() != b.Clock() {
					t.Errorf("%.20q of %d bytes under %.20q: %+v, should be %+v", val, len(val), key, value.FormOf(b), value.FormOf(a))
				}
			}
		}
	}
}

// TestLoaderPacked loads packed collections, inline and outside their entry. A duplicate leaves no memory.
func TestLoaderPacked(t *testing.T) {
	k := open(t)
	db := k.DB(0)
	empty := k.heap.Used()
	for _, n := range []int{20, 3000, 60_000} {
		b := bytes.Repeat([]byte{7}, n)
		l := db.Loader(0)
		l.AddPacked([]byte("k"), value.Hash, value.Listpack, b, 5_000_000)
		l.AddPacked([]byte("k"), value.Hash, value.Listpack, b, 0)
		duplicate, _ := l.Finish()
		v := db.Peek([]byte("k"))
		if string(duplicate) != "k" || !bytes.Equal(v.Packed(), b) || v.Type() != value.Hash ||
			v.Encoding() != value.Listpack || v.Deadline() != 5_000_000 || db.Len() != 1 {
			t.Errorf("%d bytes: duplicate %q, %d bytes, %s, %s", n, duplicate, len(v.Packed()), v.Type(), v.Encoding())
		}
		db.Flush()
		reclaim(k)
		if used := k.heap.Used(); used != empty {
			t.Errorf("%d bytes: %d are left", n, used-empty)
		}
	}
}

// TestWriter: an entry made by a Writer and added by a Loader equals that of SetString, whichever goroutine's turns
// serve the writer. Entries left over, and the stock, leave no memory.
func TestWriter(t *testing.T) {
	k := open(t)
	empty := k.heap.Used()
	var turns sync.Mutex
	turn := func(f func()) {
		turns.Lock()
		defer turns.Unlock()
		f()
	}
	set, loaded := k.DB(0), k.DB(1)
	const batch = 500
	batches, ended := make(chan []Written, 2), make(chan bool)
	of := func(i int) (key, val []byte, deadline int64) {
		key = fmt.Appendf(nil, "key:%0*d", i%300, i)
		switch i % 50 {
		case 0:
			val = bytes.Repeat([]byte{'x'}, i%20_000)
		case 1:
			key, val = fmt.Appendf(nil, "%0*d", 8100+i%100, i), fmt.Append(nil, i)
		default:
			val = fmt.Append(nil, i, "12345678901234567890"[:i%4*6])
		}
		return key, val, int64(i%3) * 2_000_000
	}
	keys := max(30_000, scaled(30_000)) / batch * batch // of fewer, the loader gets none
	w := k.Writer(turn)
	go func() {
		for i := 0; i < keys; i += batch {
			b := make([]Written, batch)
			for j := range b {
				b[j] = w.String(of(i + j))
			}
			batches <- b
		}
		close(batches)
		close(ended)
	}()
	l, at, left := loaded.Loader(keys), 0, 0
	for b := range batches {
		for done := 0; done < len(b); {
			turn(func() {
				w.Serve()
				if l.Full() {
					l.Settle()
				} else if n := l.AddWritten(b[done:]); n > 0 {
					done += n
				} else {
					l.AddString(of(at + done))
					left++
					done++
				}
			})
		}
		if b[0] != (Written{}) || b[batch-1] != (Written{}) {
			t.Fatal("a taken entry was not zeroed")
		}
		at += batch
	}
	<-ended
	over := []Written{w.String([]byte("one"), []byte("too many"), 0), {}, w.Int([]byte("another"), 1, 5)}
	turn(func() { w.Discard(over) })
	w.Close()
	for done := false; !done; {
		var duplicate []byte
		if duplicate, done = l.Finish(); duplicate != nil {
			t.Fatalf("%.30q is a duplicate", duplicate)
		}
	}
	if at != keys || loaded.Len() != keys || left == 0 || left > keys/20 {
		t.Errorf("%d keys of %d are there, %d were left to the loader", loaded.Len(), keys, left)
	}
	for i := range keys {
		key, val, deadline := of(i)
		set.SetString(key, val, deadline)
		a, b := set.Peek(key), loaded.Peek(key)
		if !b.Exists() || value.FormOf(a) != value.FormOf(b) || text(a) != text(b) || a.Deadline() != b.Deadline() ||
			a.Clock() != b.Clock() {
			t.Fatalf("%d bytes under %.20q: %+v, should be %+v", len(val), key, value.FormOf(b), value.FormOf(a))
		}
		if set.Len() == 1000 {
			set.Flush()
		}
	}
	set.Flush()
	loaded.Flush()
	reclaim(k)
	if used := k.heap.Used(); used != empty {
		t.Errorf("%d bytes are left", used-empty)
	}
}

// TestWriterIsServed: a writer that other turns serve in passing needs few turns itself, and allocates nothing on the
// Go heap.
func TestWriterIsServed(t *testing.T) {
	k, turns := open(t), 0
	w := k.Writer(func(f func()) { turns++; f() })
	key, val, i := []byte("key:0000"), []byte("0123456789abcdef0123456789abcdef"), 0
	one := func() {
		if w.String(key, val, 0) == (Written{}) {
			t.Fatal("not written")
		}
		if i++; i%100 == 0 {
			w.Serve()
		}
	}
	if w.String(key, []byte("the only one of its length"), 0) == (Written{}) {
		t.Fatal("not written")
	}
	for range 10 * stockMost {
		one()
	}
	before := turns
	n := testing.AllocsPerRun(10*stockMost, one)
	if before != turns || before > 10 {
		t.Errorf("%d turns while the stock grew, then %d", before, turns-before)
	}
	if n != 0 && !invariant.Enabled {
		t.Errorf("%v allocations a key", n)
	}
}

// TestLoaderDoesNotAllocate: adding a key allocates nothing on the Go heap.
func TestLoaderDoesNotAllocate(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	k := open(t)
	l := k.DB(0).Loader(1 << 20)
	key, i := []byte("key:000000"), 0
	val := []byte("0123456789abcdef0123456789abcdef")
	if n := testing.AllocsPerRun(20_000, func() {
		for j, at := len(key)-1, i; at > 0; j, at = j-1, at/10 {
			key[j] = '0' + byte(at%10)
		}
		i++
		l.AddString(key, val, 0)
		for l.Full() {
			l.Settle()
		}
	}); n != 0 {
		t.Errorf("%v allocations a key", n)
	}
}

// BenchmarkLoader adds keys of 16 bytes with values of 32 bytes to a database of 4 M keys, one key per op. Compare with
// BenchmarkSet/new.
func BenchmarkLoader(b *testing.B) {
	val := []byte("0123456789abcdef0123456789abcdef")
	key := make([]byte, 0, 16)
	b.ReportAllocs()
	for n := 0; n < b.N; {
		b.StopTimer()
		h, err := memory.New(memory.Options{})
		if err != nil {
			b.Fatal(err)
		}
		db := New(h, Options{StartMs: 1_000_000}).DB(0)
		db.Reserve(benchKeys)
		l := db.Loader(benchKeys)
		b.StartTimer()
		for i := 0; i < benchKeys && n < b.N; i, n = i+1, n+1 {
			key = fmt.Appendf(key[:0], "key:%012d", i)
			l.AddString(key, val, 0)
			for l.Full() {
				l.Settle()
			}
		}
		for _, done := l.Finish(); !done; _, done = l.Finish() {
		}
		b.StopTimer()
		h.Close()
		b.StartTimer()
	}
}
