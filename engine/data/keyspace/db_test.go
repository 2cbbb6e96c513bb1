package keyspace

import (
	"fmt"
	"testing"

	"spindle/engine/data/memory"
)

func open(t testing.TB) *Keyspace {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return New(h, Options{StartMs: 1_000_000, Seed: 1})
}

func TestSmoke(t *testing.T) {
	k := open(t)
	db := k.DB(0)
	for i := range 100000 {
		key := fmt.Appendf(nil, "key:%d", i)
		if !db.SetString(key, fmt.Appendf(nil, "value-%d", i), 0) {
			t.Fatal(i)
		}
	}
	for i := range 100000 {
		key := fmt.Appendf(nil, "key:%d", i)
		v := db.Lookup(key)
		if !v.Exists() || string(v.Bytes(nil)) != fmt.Sprintf("value-%d", i) {
			t.Fatal(i, v.Exists())
		}
	}
	for i := range 100000 {
		key := fmt.Appendf(nil, "key:%d", i)
		if !db.Delete(key) {
			t.Fatal(i)
		}
	}
	if db.Len() != 0 {
		t.Fatal(db.Len())
	}
}

func BenchmarkLookup(b *testing.B) {
	k := open(b)
	db := k.DB(0)
	key := []byte("key:0000000012345")
	for i := range 1000 {
		db.SetString(fmt.Appendf(nil, "key:%013d", i), make([]byte, 32), 0)
	}
	db.SetString(key, make([]byte, 32), 0)
	b.ReportAllocs()
	for b.Loop() {
		db.Lookup(key)
	}
}

func BenchmarkSetInPlace(b *testing.B) {
	k := open(b)
	db := k.DB(0)
	key, val := []byte("key:0000000012345"), make([]byte, 32)
	for i := range 1000 {
		db.SetString(fmt.Appendf(nil, "key:%013d", i), make([]byte, 32), 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		db.SetString(key, val, 0)
	}
}
