package intset

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay with SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// check compares set with want, an ascending slice, through every function that reads a set.
func check(t *testing.T, set []byte, want []int64) {
	t.Helper()
	if err := Validate(set, true); err != nil {
		t.Fatalf("%v: %x", err, set)
	}
	var got []int64
	for i, n := range All(set) {
		if Get(set, i) != n {
			t.Fatalf("Get(%d) is %d, not %d", i, Get(set, i), n)
		}
		got = append(got, n)
	}
	if !slices.Equal(got, want) || Len(set) != len(want) || Bytes(set) != len(set) {
		t.Fatalf("have %v, want %v", got, want)
	}
	if len(want) > 0 && (Min(set) != want[0] || Max(set) != want[len(want)-1]) {
		t.Fatalf("from %d to %d, want %v", Min(set), Max(set), want)
	}
}

// build returns the intset of these integers, added one by one.
func build(ints ...int64) []byte {
	set := AppendEmpty(nil)
	for _, n := range ints {
		set, _ = Add(set, n)
	}
	return set
}

// remove removes n from set, which must end where the intset ends.
func remove(set []byte, n int64) (shorter []byte, removed bool) {
	index, found := Find(set, n)
	if !found {
		return set, false
	}
	RemoveAt(set, index, 1).Open(set)
	return set[:Bytes(set)], true
}

// anyInt returns a random integer of at most bits bits. About every fourth one is near a limit of a width.
func anyInt(rng *rand.Rand, bits int) int64 {
	n := int64(rng.Uint64()) >> (64 - bits)
	if rng.IntN(4) == 0 {
		n = []int64{math.MinInt16, math.MaxInt16, math.MinInt32, math.MaxInt32, math.MinInt64,
			math.MaxInt64}[min(rng.IntN(6), bits/11)] + int64(rng.IntN(3)) - 1
	}
	return n
}

// TestModel takes random steps on an intset and on a sorted slice, with a frozen copy that must not change.
func TestModel(t *testing.T) {
	rng := random(t)
	for range 60 {
		set, want := AppendEmpty(nil), []int64{}
		var frozen []byte
		var then []int64
		for step := range 300 {
			if step == 150 {
				frozen, then = set, slices.Clone(want)
			}
			n := anyInt(rng, min(64, 6+step/4))
			if len(want) > 0 && rng.IntN(3) == 0 {
				n = want[rng.IntN(len(want))]
			}
			index, has := slices.BinarySearch(want, n)
			if i, found := Find(set, n); i != index || found != has || Contains(set, n) != has {
				t.Fatalf("Find(%d) is %d, %t; want %d, %t in %v", n, i, found, index, has, want)
			}
			var s Splice
			var ok, insert bool
			if insert = rng.IntN(5) < 3; insert {
				s, ok = Insert(set, n)
				has = !has
				if has {
					want = slices.Insert(want, index, n)
				}
			} else if ok = has; has {
				s = RemoveAt(set, index, 1)
				want = slices.Delete(want, index, index+1)
			}
			if ok != has {
				t.Fatalf("an edit with %d, insert %t, is planned: %t", n, insert, ok)
			}
			width := Width(set)
			switch {
			case !ok:
			case step%2 == 0 || frozen != nil && &set[0] == &frozen[0]: // as a copy
				dup := make([]byte, Bytes(set)+s.Grow())
				if s.Widen {
					s.Upgrade(dup, set, n)
				} else {
					copy(dup, set[:s.Off])
					copy(dup[s.Off+s.Ins:], set[s.Off+s.Del:Bytes(set)])
					if s.Finish(dup); insert {
						s.Put(dup, n)
					}
				}
				set = dup
			case insert:
				set, _ = Add(set, n)
			default:
				set, _ = remove(set, n)
			}
			if ok && insert {
				width = max(width, widthOf(n))
			}
			if Width(set) != width {
				t.Fatalf("intset.I3: width %d, want %d", Width(set), width)
			}
			check(t, set, want)
			if len(want) > 0 {
				if n := Random(set, rng.Uint64()); !slices.Contains(want, n) {
					t.Fatalf("Random is %d, not of %v", n, want)
				}
			}
		}
		check(t, frozen, then)
		check(t, build(want...), want)
	}
}

func TestRemoveAt(t *testing.T) {
	set := build(1, 2, 3, 4, 70_000)
	s := RemoveAt(set, 1, 3)
	s.Open(set)
	check(t, set[:Bytes(set)], []int64{1, 70_000})
}

// TestRandom: the least and the greatest draw return the least and the greatest integer, and every integer has its
// share of the draws.
func TestRandom(t *testing.T) {
	set := build(-5, 7, 9)
	if Random(set, 0) != -5 || Random(set, math.MaxUint64) != 9 || Random(set, math.MaxUint64/2) != 7 {
		t.Error("draws fall upon the wrong integers")
	}
}

// golden are intsets from DUMP payloads of redis-server 7.4.1, taken after the commands named.
var golden = []struct {
	commands string
	set      string
	want     []int64
}{
	{"SADD k 1 2 3", "0200000003000000010002000300", []int64{1, 2, 3}},
	{"SADD k -32768 32767 0", "020000000300000000800000ff7f", []int64{-32768, 0, 32767}},
	{"SADD k 32768 5", "04000000020000000500000000800000", []int64{5, 32768}},
	{"SADD k -32769 5 6", "0400000003000000ff7fffff0500000006000000", []int64{-32769, 5, 6}},
	{"SADD k 2147483647 -2147483648", "040000000200000000000080ffffff7f", []int64{-2147483648, 2147483647}},
	{"SADD k 1 2147483648", "080000000200000001000000000000000000008000000000", []int64{1, 2147483648}},
	{"SADD k -9223372036854775808 9223372036854775807 0",
		"080000000300000000000000000000800000000000000000ffffffffffffff7f",
		[]int64{-9223372036854775808, 0, 9223372036854775807}},
	{"SREM after SADD 5000000000", "080000000200000001000000000000000200000000000000", []int64{1, 2}},
}

func TestGolden(t *testing.T) {
	for _, c := range golden {
		want, err := hex.DecodeString(c.set)
		if err != nil {
			t.Fatal(err)
		}
		check(t, want, c.want)
		set := AppendEmpty(nil)
		for _, i := range rand.Perm(len(c.want)) {
			set, _ = Add(set, c.want[i])
		}
		if c.commands[:4] == "SREM" { // the wide integer was there and has been removed
			set, _ = Add(set, 5_000_000_000)
			set, _ = remove(set, 5_000_000_000)
		}
		if !bytes.Equal(set, want) {
			t.Errorf("%s: %x, want %x", c.commands, set, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		set  string
		err  error
	}{
		{"empty", "\x02\x00\x00\x00\x00\x00\x00\x00", nil},
		{"no bytes", "", ErrSize},
		{"half a header", "\x02\x00\x00\x00", ErrSize},
		{"width 3", "\x03\x00\x00\x00\x00\x00\x00\x00", ErrWidth},
		{"width 0", "\x00\x00\x00\x00\x01\x00\x00\x00", ErrWidth},
		{"one", "\x02\x00\x00\x00\x01\x00\x00\x00\x05\x00", nil},
		{"one too few", "\x02\x00\x00\x00\x02\x00\x00\x00\x05\x00", ErrSize},
		{"one byte more", "\x02\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00", ErrSize},
		{"length that overflows", "\x08\x00\x00\x00\xff\xff\xff\xff\x05\x00", ErrSize},
		{"length that overflows to the right size", "\x08\x00\x00\x00\x00\x00\x00\x20", ErrSize},
		{"twice", "\x02\x00\x00\x00\x02\x00\x00\x00\x05\x00\x05\x00", ErrOrder},
		{"descending", "\x02\x00\x00\x00\x02\x00\x00\x00\x05\x00\xff\xff", ErrOrder},
		{"wider than needed", "\x04\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x00", nil},
	} {
		if err := Validate([]byte(c.set), true); err != c.err {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
	if err := Validate([]byte("\x02\x00\x00\x00\x02\x00\x00\x00\x05\x00\x05\x00"), false); err != nil {
		t.Errorf("integers are looked at without deep: %v", err)
	}
}

// FuzzValidate: if Validate accepts an intset, Find finds each of its integers, and edits keep it valid.
func FuzzValidate(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x02\x00\x00\x00\x05\x00\x06\x00"), int64(7))
	f.Add(build(-1<<40, 5, 1<<40), int64(-1))
	f.Add(build(-1<<20, 5), int64(1<<50))
	f.Fuzz(func(t *testing.T, p []byte, n int64) {
		if len(p) > HeaderLen && len(p) < 1<<12 && len(p)%2 == 0 { // a header that agrees with the size, and the bytes sorted
			p = bytes.Clone(p)
			binary.LittleEndian.PutUint32(p, 2)
			binary.LittleEndian.PutUint32(p[4:], uint32(len(p)-HeaderLen)/2)
			if p[0]&1 == 1 {
				sorted := make([]int64, Len(p))
				for i, n := range All(p) {
					sorted[i] = n
				}
				slices.Sort(sorted)
				p = build(sorted...)
			}
		}
		if Validate(p, true) != nil {
			return
		}
		var want []int64
		for i, n := range All(p) {
			want = append(want, n)
			if at, found := Find(p, n); at != i || !found {
				t.Fatalf("%d at %d is found at %d, %t", n, i, at, found)
			}
		}
		check(t, slices.Clip(p), want)
		index, has := slices.BinarySearch(want, n)
		longer, added := Add(bytes.Clone(p), n)
		if added == has {
			t.Fatalf("%d is added: %t", n, added)
		}
		if !has {
			check(t, longer, slices.Insert(slices.Clone(want), index, n))
		}
		shorter, removed := remove(longer, n)
		if !removed {
			t.Fatalf("%d is not removed", n)
		}
		if has {
			want = slices.Delete(want, index, index+1)
		}
		check(t, shorter, want)
	})
}

// BenchmarkFind searches for integers in a set of 512. Watch ns/op.
func BenchmarkFind(b *testing.B) {
	for _, wide := range []int64{1, 1 << 20, 1 << 40} {
		var ints []int64
		for i := range int64(512) {
			ints = append(ints, i*wide*3)
		}
		set := build(ints...)
		b.Run("width="+strconv.Itoa(Width(set)), func(b *testing.B) {
			b.ReportAllocs()
			n, found := int64(0), 0
			for b.Loop() {
				n = (n + 997) & 1023
				if Contains(set, n*wide) {
					found++
				}
			}
		})
	}
}
