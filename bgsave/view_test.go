package bgsave

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// A fakeView is a View with values made for a test.
type fakeView struct {
	heap   *memory.Heap
	store  value.Store
	dbs    map[int][]value.Value
	closed int
}

func newFakeView(t testing.TB) *fakeView {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeView{heap: h, dbs: map[int][]value.Value{}}
	s.store.Init(h)
	return s
}

func (s *fakeView) put(db int, key string, val any, deadline int64) {
	var f value.Form
	text, isText := val.(string)
	if isText {
		f.OfString(len(key), len(text), deadline != 0)
	} else {
		f = value.Form{Type: value.String, Encoding: value.Int, Volatile: deadline != 0, KeyLen: len(key)}
	}
	ref := s.heap.Alloc(f.Size(), memory.Keys)
	ref, payload := s.store.NewEntry(&f, []byte(key), deadline, 0)
	v := value.At(ref)
	switch {
	case !isText:
		binary.LittleEndian.PutUint64(value.PayloadBytes(payload, 8), uint64(int64(val.(int))))
	case f.Rooted:
		v.SetRoot(s.store.NewLong([]byte(text)))
	default:
		copy(value.PayloadBytes(payload, len(text)), text)
	}
	s.dbs[db] = append(s.dbs[db], v)
}

func (s *fakeView) DBs() (dbs []int) {
	for db := range s.dbs {
		dbs = append(dbs, db)
	}
	slices.Sort(dbs)
	return dbs
}
func (s *fakeView) Len(db int) int { return len(s.dbs[db]) }
func (s *fakeView) Volatile(db int) (n int) {
	for _, v := range s.dbs[db] {
		if v.Deadline() != 0 {
			n++
		}
	}
	return n
}
func (s *fakeView) Walk(db, part, parts int, yield func(value.Value) bool) {
	for i := part; i < len(s.dbs[db]); i += parts {
		if !yield(s.dbs[db][i]) {
			return
		}
	}
}
func (s *fakeView) Close() { s.closed++ }

// entries returns the view's keys in the same form as a fakeInserter's entries.
func (s *fakeView) entries() map[string]string {
	m := map[string]string{}
	for db, values := range s.dbs {
		for _, v := range values {
			m[fmt.Sprintf("%d %s", db, v.Key())] = fmt.Sprintf("%s @%d", v.Bytes(nil), v.Deadline())
		}
	}
	return m
}

// A fakeInserter is an Inserter that records keys.
type fakeInserter struct {
	mu        sync.Mutex
	keys      map[string]string
	databases int
	reserved  uint64
	longest   int // the most records of one Insert
	finished  int
	fail      error
}

func newFakeInserter() *fakeInserter { return &fakeInserter{keys: map[string]string{}, databases: 16} }

func (n *fakeInserter) Prepare(codec.Env) {}
func (n *fakeInserter) Databases() int    { return n.databases }
func (n *fakeInserter) Finish() error     { n.finished++; return nil }
func (n *fakeInserter) Reserve(_ int, keys, _ uint64) error {
	n.reserved += keys
	return nil
}
func (n *fakeInserter) Function(code []byte) error { return fmt.Errorf("no functions here") }
func (n *fakeInserter) Insert(records []rdb.Record) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.longest = max(n.longest, len(records))
	for i := range records {
		r := &records[i]
		if r.Empty {
			continue
		}
		text, err := r.Value.Append(nil)
		if err != nil || r.Value.Form == rdb.Packed {
			return i, fmt.Errorf("not expanded: %v", err)
		}
		if n.fail != nil {
			return i, n.fail
		}
		n.keys[fmt.Sprintf("%d %s", r.DB, r.Key)] = fmt.Sprintf("%s @%d", text, max(0, r.DeadlineMs))
	}
	return len(records), nil
}

func (n *fakeInserter) equal(t *testing.T, want map[string]string) {
	t.Helper()
	if len(n.keys) != len(want) {
		t.Errorf("%d keys, want %d", len(n.keys), len(want))
	}
	wrong := 0
	for k, w := range want {
		if n.keys[k] != w && wrong < 5 {
			wrong++
			t.Errorf("key %.60q is %.60q, want %.60q", k, n.keys[k], w)
		}
	}
}

// manyKeys is enough keys for several parts and buffers. Builds with invariants are slow, so they use fewer.
var manyKeys = map[bool]int{false: 20_000, true: 9_000}[invariant.Enabled]

// mixed returns a fakeView with all kinds of strings.
func mixed(t testing.TB, keys int) *fakeView {
	s := newFakeView(t)
	rng := rand.New(rand.NewPCG(7, uint64(keys)))
	noise := make([]byte, 400_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for i := range keys {
		deadline := int64(0)
		if i%5 == 0 {
			deadline = 4_000_000_000_000 + int64(i)
		}
		key, db := fmt.Sprintf("key:%d", i), []int{0, 0, 0, 3, 15}[i%5]
		switch i % 7 {
		case 0:
			s.put(db, key, rng.IntN(1<<40)-1<<39, deadline)
		case 1:
			s.put(db, key, "", deadline)
		case 2:
			s.put(db, key+string(bytes.Repeat([]byte("k"), i%100)), fmt.Sprint(rng.IntN(1000)), deadline)
		case 3:
			s.put(db, key, string(bytes.Repeat([]byte("abc"), rng.IntN(2000))), deadline)
		default:
			s.put(db, key, string(noise[:rng.IntN(60)]), deadline)
		}
	}
	s.put(0, "long noise", string(noise), 0)
	s.put(0, "long zeros", string(make([]byte, 1_500_000)), 4_000_000_000_001)
	s.put(0, "long both", string(append(bytes.Repeat([]byte("spindle"), 90_000), noise...)), 0)
	s.put(3, "just long", string(noise[:rdb.PieceMax+1]), 0)
	s.put(3, "long key "+string(noise[:100_000]), "v", 0)
	return s
}
