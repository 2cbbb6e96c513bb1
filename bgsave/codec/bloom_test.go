package codec

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
	"spindle/internal/compress/lzf"
)

// bloomByHand writes bytes as RedisBloom would, field by field. They are composed by hand, because the tests have no
// server with RedisBloom.

// bloomText returns all data of a filter as text.
func bloomText(v value.Value) string {
	r := bloom.Read(v)
	var b bytes.Buffer
	fmt.Fprintln(&b, r.Items(), r.Growth(), r.Options())
	for i := range r.Links() {
		fmt.Fprintf(&b, "%+v\n", r.Link(i))
	}
	for i := range r.Links() {
		r.Bits(i, func(p []byte, zeros int) bool {
			b.Write(p)
			b.Write(make([]byte, zeros))
			return true
		})
	}
	return b.String()
}

func newFilter(t testing.TB, k *keyspace.Keyspace, key string, p bloom.Params, items int) {
	root, err := bloom.New(k.Store(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := k.DB(0).CreateRoot([]byte(key), value.Module, value.Raw, root)
	for i := range items {
		if _, err := bloom.Add(e, fmt.Appendf(nil, "item %d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBloom: filters of one page, many pages, no items and many links survive writing and reading.
func TestBloom(t *testing.T) {
	k := newSpace(t)
	for _, c := range []struct {
		p     bloom.Params
		items int
	}{
		{bloom.Params{Error: 0.01, Capacity: 100, Growth: 2}, 0},
		{bloom.Params{Error: 0.01, Capacity: 100, Growth: 2}, 100},
		{bloom.Params{Error: 0.01, Capacity: 10, Growth: 2}, 20_000},
		{bloom.Params{Error: 0.5, Capacity: 1, Growth: 1}, 60},
		{bloom.Params{Error: 0.001, Capacity: 50_000, Fixed: true}, 50_000}, // random bits: not compressed
		{bloom.Params{Error: 0.0001, Capacity: 3_000_000, Growth: 2}, 5_000},
	} {
		key := fmt.Sprint(c)
		newFilter(t, k, key, c.p, c.items)
		roundTrip(t, k, key, DefaultLimits, bloomText)
	}
}

// bloomByHand writes a filter of one link in a version of the format.
func bloomByHand(version int, items, options, growth uint64, l bloom.Link, bits []byte) string {
	w := rdb.Writer{}
	number := func(n uint64) { w.Length(2); w.Length(n) }
	double := func(f float64) { w.Length(4); w.Float64(f) }
	w.Length(rdb.ModuleID("MBbloom--", version))
	number(items)
	number(1)
	if version >= 2 {
		number(options)
	}
	if version >= 4 {
		number(growth)
	}
	number(l.Capacity)
	double(l.Error)
	number(uint64(l.Hashes))
	double(l.PerItem)
	number(l.Bits)
	number(uint64(l.Power))
	w.Length(5)
	w.Length(uint64(len(bits)))
	w.Raw(bits)
	number(l.Items)
	w.Length(0)
	return string(w.Buf)
}

// one is a link for ten items at a rate of 0.005, with the figures of RedisBloom's published tests.
var one = bloom.Link{Capacity: 10, Error: 0.005, PerItem: 11.027754, Bits: 128, Items: 1, Hashes: 8}

// TestBloomByHand: every version of the format is read, and payloads with invalid numbers are refused.
func TestBloomByHand(t *testing.T) {
	bits := bytes.Repeat([]byte{0xff}, 16)
	old := one
	old.Bits, old.Power = 100, 7 // less than the bytes hold
	for version, l := range map[int]bloom.Link{1: old, 2: old, 3: one, 4: one} {
		k := newSpace(t)
		if err := restore(k, "k", rdb.KindModule2, []byte(bloomByHand(version, 1, 5, 3, l, bits)), Env{}); err != nil {
			t.Errorf("version %d: %v", version, err)
			continue
		}
		r := bloom.Read(k.DB(0).Peek([]byte("k")))
		growth, options := uint32(2), bloom.Options(5)
		if version >= 4 {
			growth = 3
		}
		if version < 2 {
			options = 0
		}
		l.Bytes = 16
		if r.Growth() != growth || r.Options() != options || r.Link(0) != l || !r.Has([]byte("anything")) {
			t.Errorf("version %d: growth %d, options %d, %+v", version, r.Growth(), r.Options(), r.Link(0))
		}
		roundTrip(t, k, "k", DefaultLimits, bloomText)
	}
	changed := func(change func(l *bloom.Link)) string {
		l := one
		change(&l)
		return bloomByHand(4, 1, 5, 2, l, bits)
	}
	refused(t, rdb.KindModule2, bloomByHand(4, 1, 5, 2, one, bits), map[string]string{
		"version 0":    bloomByHand(0, 1, 5, 2, one, bits),
		"version 5":    bloomByHand(5, 1, 5, 2, one, bits),
		"option":       bloomByHand(4, 1, 16, 2, one, bits),
		"few bits":     bloomByHand(4, 1, 5, 2, one, bits[:15]),
		"no bits":      bloomByHand(4, 1, 5, 2, one, nil),
		"behind":       bloomByHand(4, 1, 5, 2, one, bits) + "x",
		"rate":         changed(func(l *bloom.Link) { l.Error = 1 }),
		"no hashes":    changed(func(l *bloom.Link) { l.Hashes = 0 }),
		"many hashes":  changed(func(l *bloom.Link) { l.PerItem, l.Hashes = 1e6, 693148 }),
		"power":        changed(func(l *bloom.Link) { l.Power = 8 }),
		"power 64":     changed(func(l *bloom.Link) { l.Power = 64 }),
		"more bits":    changed(func(l *bloom.Link) { l.Bits = 129 }),
		"no bits said": changed(func(l *bloom.Link) { l.Bits = 0 }),
	})
}

// TestBloomOfZeros: the number of steps to read an empty filter of 512 MB depends on the payload's pages, not on the
// filter's. Reading it takes no memory.
func TestBloomOfZeros(t *testing.T) {
	k := newSpace(t)
	newFilter(t, k, "k", bloom.Params{Error: 0.01, Capacity: 400_000_000, Growth: 2}, 0)
	kind, raw := written(t, k.DB(0).Peek([]byte("k")), NewestVersion)
	x := &Expander{}
	ready, err := x.Read(kind, raw)
	if err != nil {
		t.Fatal(err)
	}
	b := Start(kind, raw, ready, k.Store(), &Env{})
	used, steps := k.Store().Heap.Used(), 0
	for done := false; !done; steps++ {
		if done, err = b.Step(1); err != nil {
			t.Fatal(err)
		}
	}
	if most := len(raw)/2048 + 10; steps > most {
		t.Errorf("%d steps for a payload of %d bytes, want %d at most", steps, len(raw), most)
	}
	if used = k.Store().Heap.Used() - used; used > 4096 {
		t.Errorf("an empty filter of 512 MB takes %d bytes", used)
	}
	LetGo(k.Store(), value.Module, b)
}

// unpacked expands packed with an unpacker.
func unpacked(t testing.TB, packed []byte) (text []byte, ok bool) {
	var u unpacker
	for rest := packed; len(rest) > 0; {
		before := len(rest)
		piece, zeros, ok := u.next(&rest)
		if !ok {
			return nil, false
		}
		if len(piece) > bloom.PageBytes+264 || len(piece) > 0 && zeros > 0 || len(piece)+zeros == 0 || len(rest) >= before {
			t.Fatalf("a piece of %d bytes and %d zeros, from %d", len(piece), zeros, before-len(rest))
		}
		text = append(append(text, piece...), make([]byte, zeros)...)
	}
	return text, true
}

// likeLZF fails unless an unpacker and package lzf expand packed to the same text.
func likeLZF(t testing.TB, packed []byte) {
	t.Helper()
	room := make([]byte, 100*len(packed))
	n, err := lzf.Decompress(room, packed)
	got, ok := unpacked(t, packed)
	if ok != (err == nil) || ok && !bytes.Equal(got, room[:n]) {
		t.Fatalf("%d bytes of LZF became %d bytes, %v; want %d, %v", len(packed), len(got), ok, n, err)
	}
}

// TestUnpacker: compressed texts expand to the original texts.
func TestUnpacker(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c lzf.Compressor
	for round := range 50 {
		text := make([]byte, rng.IntN(200_000)+50)
		for i := range text { // runs, repetitions near and far, and noise
			switch {
			case i > 10_000 && i%1000 < 400:
				text[i] = text[i-1-rng.IntN(3)*4000]
			case i%7000 < 1500:
				text[i] = byte(rng.IntN(256))
			}
		}
		packed := make([]byte, len(text)*2)
		packed = packed[:c.Compress(packed, text)]
		if got, ok := unpacked(t, packed); !ok || !bytes.Equal(got, text) {
			t.Fatalf("round %d: %d bytes differ, %v", round, len(text), ok)
		}
	}
}

// TestUnpackerLikeLZF: random items, cut off anywhere, are expanded or refused exactly as package lzf does.
func TestUnpackerLikeLZF(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		var packed []byte
		made := 0
		reference := func(size, distance int) {
			made += size
			if size -= 2; size < 7 {
				packed = append(packed, byte(size<<5|(distance-1)>>8), byte(distance-1))
			} else {
				packed = append(packed, byte(7<<5|(distance-1)>>8), byte(size-7), byte(distance-1))
			}
		}
		for range 1 + rng.IntN(60) {
			switch what := rng.IntN(8); {
			case what < 3 || made == 0: // literal bytes, zeros or others
				n := 1 + rng.IntN(32)
				packed = append(packed, byte(n-1))
				for range n {
					packed = append(packed, byte(rng.IntN(256)*(what&1)))
				}
				made += n
			case what < 5: // the same reference repeated
				size, distance := 3+rng.IntN(262), 1+rng.IntN(min(made, 8))
				for range rng.IntN(1 << rng.IntN(13)) {
					reference(size, distance)
				}
			case what < 7: // as far back as the text reaches, or nearly
				reference(3+rng.IntN(262), max(1, min(made, 1<<13)-rng.IntN(3)))
			case rng.IntN(20) == 0: // perhaps too far
				reference(3+rng.IntN(262), 1+rng.IntN(1<<13))
			default:
				reference(3+rng.IntN(262), 1+rng.IntN(min(made, 1<<13)))
			}
		}
		likeLZF(t, packed)
		for range 5 {
			likeLZF(t, packed[:rng.IntN(len(packed)+1)])
		}
		for cut := range min(len(packed), 60) {
			likeLZF(t, packed[:cut])
		}
	}
}

// FuzzUnpacker: any bytes are expanded or refused exactly as package lzf does.
func FuzzUnpacker(f *testing.F) {
	f.Add([]byte("\x00\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\x01ab\x20\x01"))
	f.Add([]byte("\x02abc\xe0\x10\x02\x20\x05"))
	f.Fuzz(func(t *testing.T, packed []byte) { likeLZF(t, packed) })
}

// FuzzReadBloom: any bytes are refused, or are a filter that survives writing and reading.
func FuzzReadBloom(f *testing.F) {
	bits := bytes.Repeat([]byte{7}, 16)
	f.Add([]byte(bloomByHand(4, 1, 5, 2, one, bits)))
	f.Add([]byte(bloomByHand(2, 1, 5, 2, one, bits)))
	k := newSpace(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer k.DB(0).Delete([]byte("k"))
		if restore(k, "k", rdb.KindModule2, raw, Env{Limits: DefaultLimits}) != nil ||
			TypeOf(rdb.KindModule2, raw) != value.Module {
			return
		}
		v := k.DB(0).Peek([]byte("k"))
		if !bloom.IsFilter(v) {
			return // the test's module type
		}
		if err := bloom.Check(v); err != nil {
			t.Fatal(err)
		}
		bloom.Read(v).Has([]byte("item"))
		roundTrip(t, k, "k", DefaultLimits, bloomText)
	})
}
