package keyspace

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"spindle/engine/data/value"
)

// filled returns a keyspace with n keys of 16 bytes, whose values have 32 bytes.
func filled(t testing.TB, n int, deadline func(i int) int64) (*Keyspace, *DB) {
	k := open(t)
	db := k.DB(0)
	var key []byte
	val := []byte("0123456789abcdef0123456789abcdef")
	for i := range n {
		key = fmt.Appendf(key[:0], "key:%012d", i)
		d := int64(0)
		if deadline != nil {
			d = deadline(i)
		}
		db.SetString(key, val, d)
	}
	return k, db
}

// someKeys returns m of the n keys that filled makes, in random order.
func someKeys(n, m int) [][]byte {
	keys := make([][]byte, m)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%012d", rand.IntN(n))
	}
	return keys
}

const benchKeys = 4_000_000

// BenchmarkLookup finds one key that is in the CPU's cache, and random keys out of 4 M that are not. It finds those one
// by one, and in batches of 16 with overlapping misses. Watch allocs/op: 0.
func BenchmarkLookup(b *testing.B) {
	b.Run("cached", func(b *testing.B) {
		_, db := filled(b, 1000, nil)
		key := []byte("key:000000000123")
		b.ReportAllocs()
		for b.Loop() {
			db.Lookup(key)
		}
	})
	_, db := filled(b, benchKeys, nil)
	keys := someKeys(benchKeys, 1<<20)
	b.Run("random", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if !db.Lookup(keys[i&(1<<20-1)]).Exists() {
				b.Fatal(i)
			}
			i++
		}
	})
	b.Run("prefetched", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if i&15 == 0 {
				for _, key := range keys[i&(1<<20-1):][:16] {
					db.Prefetch(key)
				}
				db.k.Prefetched()
			}
			if !db.Lookup(keys[i&(1<<20-1)]).Exists() {
				b.Fatal(i)
			}
			i++
		}
	})
}

// BenchmarkSet writes one key in place that is in the CPU's cache. It also writes random keys out of 4 M, with and
// without a view, and new keys. Watch allocs/op: 0.
func BenchmarkSet(b *testing.B) {
	val := []byte("0123456789abcdef0123456789abcdef")
	b.Run("cached", func(b *testing.B) {
		_, db := filled(b, 1000, nil)
		key := []byte("key:000000000123")
		b.ReportAllocs()
		for b.Loop() {
			db.SetString(key, val, 0)
		}
	})
	b.Run("incr", func(b *testing.B) {
		_, db := filled(b, 1000, nil)
		key := []byte("key:000000000123")
		db.SetInt(key, 0, 0)
		b.ReportAllocs()
		for b.Loop() {
			n, _ := db.LookupWrite(key).Int()
			db.SetInt(key, n+1, KeepTTL)
		}
	})
	b.Run("new", func(b *testing.B) {
		_, db := filled(b, 0, nil)
		key := []byte("key:000000000000")
		b.ReportAllocs()
		for b.Loop() {
			for i := 15; ; i-- {
				if key[i]++; key[i] <= '9' {
					break
				}
				key[i] = '0'
			}
			db.SetString(key, val, 0)
		}
	})
	for _, view := range []bool{false, true} {
		b.Run(fmt.Sprintf("random/view=%t", view), func(b *testing.B) {
			k, db := filled(b, benchKeys, nil)
			keys := someKeys(benchKeys, 1<<20)
			if view {
				defer k.Freeze().Close()
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				db.SetString(keys[i&(1<<20-1)], val, 0)
				i++
			}
		})
	}
}

// BenchmarkWalk reads a view of 4 M keys, one key per op.
func BenchmarkWalk(b *testing.B) {
	k, _ := filled(b, benchKeys, nil)
	v := k.Freeze()
	defer v.Close()
	v.Keep()
	b.ReportAllocs()
	b.ResetTimer()
	n, sum := 0, 0
	for n < b.N {
		v.Walk(0, 0, 1, func(v value.Value) bool {
			text, _ := v.Contiguous()
			sum += len(text)
			n++
			return n < b.N
		})
	}
}

// BenchmarkExpire removes keys that are all due, one key per op.
func BenchmarkExpire(b *testing.B) {
	k, _ := filled(b, b.N, func(i int) int64 { return 1_000_000 + int64(i)%1000 })
	b.ResetTimer()
	b.ReportAllocs()
	removed := 0
	for ms := int64(1); removed < b.N; ms++ {
		k.SetNow(1_000_000 + ms*10)
		n, _ := k.ExpireDue(time.Hour)
		removed += n
	}
}
