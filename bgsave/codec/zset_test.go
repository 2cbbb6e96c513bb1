package codec

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// zsetText returns a sorted set's encoding, and its members and scores in order.
func zsetText(v value.Value) string { return fmt.Sprint(v.Encoding(), zsetPairs(v)) }

func zsetPairs(v value.Value) string {
	var b strings.Builder
	zset.Each(v, 0, zset.Len(v), false, func(m listpack.Element, score float64) bool {
		fmt.Fprintf(&b, " %s=%s", m.Append(nil), number.AppendDouble(nil, score))
		return true
	})
	return b.String()
}

// A pair is a member and its score.
type pair struct {
	member string
	score  float64
}

// makeZSet makes key a sorted set, as a command would.
func makeZSet(k *keyspace.Keyspace, key string, pairs ...pair) {
	limits := zset.Limits{Entries: DefaultLimits.ZSetEntries, Value: DefaultLimits.ZSetValue}
	e := k.DB(0).Create([]byte(key), value.ZSet, value.Listpack, listpack.EmptyLen)
	listpack.AppendEmpty(e.Packed()[:0])
	for _, p := range pairs {
		zset.Add(e, p.score, []byte(p.member), 0, limits)
	}
}

// rawZSet2 returns a sorted set in a file, with binary scores.
func rawZSet2(pairs ...pair) string {
	w := rdb.Writer{}
	w.Length(uint64(len(pairs)))
	for _, p := range pairs {
		w.Text([]byte(p.member))
		w.Float64(p.score)
	}
	return string(w.Buf)
}

// rawZSet returns a sorted set in a file, with these bytes as scores.
func rawZSet(texts ...string) string {
	w := rdb.Writer{}
	w.Length(uint64(len(texts) / 2))
	for i := 0; i+1 < len(texts); i += 2 {
		w.Text([]byte(texts[i]))
		w.Raw([]byte(texts[i+1]))
	}
	return string(w.Buf)
}

// rawZiplist returns a ziplist in a file.
func rawZiplist(texts ...string) string { return rawText([]byte(ziplistOf(texts...))) }

// TestZSetRoundTrip: every encoding with its scores survives writing for every version and reading.
func TestZSetRoundTrip(t *testing.T) {
	k := newSpace(t)
	var many []pair
	for i := range 3000 {
		many = append(many, pair{fmt.Sprint("member ", i), float64(i%37) / 8}, pair{fmt.Sprint(i * i), -1 / float64(i+1)})
	}
	edges := []pair{{"low", math.Inf(-1)}, {"high", math.Inf(1)}, {"least", 5e-324}, {"most", math.MaxFloat64},
		{"minus zero", math.Copysign(0, -1)},
		{"2^53+", 9007199254740993}, {"2^62", 1 << 62}, {"1e300", 1e300}, {"pi", math.Pi}, {"", 0}, {"12", -12}}
	for key, pairs := range map[string][]pair{
		"one": {{"x", 1}}, "small": {{"b", 2}, {"a", 2}, {"10", 2}, {"9", 2}, {"c", -2.5}}, "edges": edges,
		"edges in a skiplist": append([]pair{{strings.Repeat("x", 65), 7}}, edges...),
		"long":                {{strings.Repeat("compress ", 10_000), 1}, {"b", 0}}, "large": many,
	} {
		makeZSet(k, key, pairs...)
		roundTrip(t, k, key, DefaultLimits, zsetText)
	}
}

// TestExpanderLetsGo: an Expander frees the memory that it needed to check a long listpack, because the core keeps one
// Expander for RESTORE.
func TestExpanderLetsGo(t *testing.T) {
	var texts []string
	for i := range 100_000 {
		texts = append(texts, fmt.Sprint("member ", i), "1")
	}
	x := &Expander{Env: Env{Limits: DefaultLimits}}
	ready, err := x.Read(rdb.KindZSetListpack, []byte(rawText(packedOf(texts...))))
	if err != nil || ready.Encoding != value.SkipList {
		t.Fatal(ready.Encoding, err)
	}
	if n := max(cap(x.scored), cap(x.distinct.items), cap(x.distinct.slots)); n > 1<<16 {
		t.Errorf("room for %d members is kept", n)
	}
}

// TestZSetOldKinds: each kind is read, in any order of members, and gets the encoding that the current settings ask
// for.
func TestZSetOldKinds(t *testing.T) {
	k := newSpace(t)
	l := DefaultLimits
	l.ZSetEntries, l.ZSetValue = 3, 5
	for _, c := range []struct {
		kind rdb.Kind
		raw  string
		want string
	}{
		{rdb.KindZSet, rawZSet("c", "\x011", "b", "\x04-1.5", "a", "\x011"), "listpack b=-1.5 a=1 c=1"},
		{rdb.KindZSet, rawZSet("c", "\xfe", "b", "\xff", "9", "\x011", "10", "\x011"), "skiplist b=-inf 10=1 9=1 c=inf"},
		{rdb.KindZSet, rawZSet("c", "\xfe", "b", "\xff", "a", "\x0519e-1"), "listpack b=-inf a=1.9 c=inf"},
		{rdb.KindZSet, rawZSet("c", "\x160.10000000000000000555"), "listpack c=0.1"},
		{rdb.KindZSet, rawZSet("longer", "\x011", "b", "\x012"), "skiplist longer=1 b=2"},
		{rdb.KindZSet2, rawZSet2(pair{"10", 1}, pair{"9", 1}, pair{"a", -1}), "listpack a=-1 10=1 9=1"},
		{rdb.KindZSet2, rawZSet2(pair{"123456", 1}), "skiplist 123456=1"},
		{rdb.KindZSet2, rawZSet2(pair{"d", 4}, pair{"c", 3}, pair{"b", 2}, pair{"a", 1}), "skiplist a=1 b=2 c=3 d=4"},
		{rdb.KindZSetListpack, rawText(packedOf("a", "1", "b", "1.5", "c", "inf")), "listpack a=1 b=1.5 c=inf"},
		{rdb.KindZSetListpack, rawText(packedOf("b", "2", "c", "-0", "a", "2")), "listpack c=0 a=2 b=2"}, // out of order
		{rdb.KindZSetListpack, rawText(packedOf("a", "-inf", "b", "-0.1", "c", "1e5")), "listpack a=-inf b=-0.1 c=100000"},
		{rdb.KindZSetListpack, rawText(packedOf("a", "1", "c", "3", "b", "2", "d", "4")), "skiplist a=1 b=2 c=3 d=4"},
		// As in Redis, only the number of entries counts.
		{rdb.KindZSetListpack, rawText(packedOf("longer than five", "1")), "listpack longer than five=1"},
		{rdb.KindZSetZiplist, rawZiplist("a", "1", "b", "0.10000000000000001"), "listpack b=0.1 a=1"},
		{rdb.KindZSetZiplist, rawZiplist("a", "1", "b", "2", "17", "3.5"), "listpack a=1 b=2 17=3.5"},
		{rdb.KindZSetZiplist, rawZiplist("a", "1", "b", "2", "c", "3", "d", "4"), "skiplist a=1 b=2 c=3 d=4"},
	} {
		if err := restore(k, "k", c.kind, []byte(c.raw), Env{Limits: l}); err != nil {
			t.Errorf("%s %q: %v", c.kind, c.raw, err)
		} else if got := zsetText(k.DB(0).Peek([]byte("k"))); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.kind, c.raw, got, c.want)
		}
		k.DB(0).Delete([]byte("k"))
	}
}

// TestZSetRefused: a sorted set that is cut, names a member twice, has a wrong score or is otherwise wrong is refused
// in every encoding. No part of it stays in memory.
func TestZSetRefused(t *testing.T) {
	k := newSpace(t)
	small := DefaultLimits
	small.ZSetEntries, small.ZSetValue = 1, 2
	nan := math.NaN()
	for _, c := range []struct {
		kind rdb.Kind
		raw  string
		want error // nil: any error
	}{
		{rdb.KindZSet2, rawZSet2(), ErrEmpty},
		{rdb.KindZSet2, rawZSet2(pair{"a", 1}, pair{"b", 2}, pair{"a", 3}), errDuplicate},
		{rdb.KindZSet2, rawZSet2(pair{"1", 1}, pair{"1", 1}), errDuplicate},
		{rdb.KindZSet2, rawZSet2(pair{"a", nan}), errScore},
		{rdb.KindZSet2, rawZSet2(pair{"a", 1}, pair{"abc", nan}), errScore},
		{rdb.KindZSet2, rawZSet2(pair{"a", 1}, pair{"b", 2}) + "x", nil},
		{rdb.KindZSet2, "\x80\x7f\xff\xff\xff\x01a12345678", nil},
		{rdb.KindZSet, rawZSet(), ErrEmpty},
		{rdb.KindZSet, rawZSet("a", "\xfd"), errScore},
		{rdb.KindZSet, rawZSet("a", "\x03nan"), errScore},
		{rdb.KindZSet, rawZSet("a", "\x00"), errScore},
		{rdb.KindZSet, rawZSet("a", "\x031 2"), errScore},
		{rdb.KindZSet, rawZSet("a", "\x011", "a", "\x012"), errDuplicate},
		{rdb.KindZSet, rawZSet("a", "\x091"), nil},
		{rdb.KindZSetListpack, rawText(packedOf()), ErrEmpty},
		{rdb.KindZSetListpack, rawText(packedOf("a", "1", "b")), errOdd},
		{rdb.KindZSetListpack, rawText(packedOf("a", "1", "a", "2")), errDuplicate},
		{rdb.KindZSetListpack, rawText(packedOf("a", "nan")), errScore},
		{rdb.KindZSetListpack, rawText(packedOf("a", "1", "b", "x")), errScore},
		{rdb.KindZSetListpack, rawText(packedOf("a", "")), errScore},
		{rdb.KindZSetListpack, rawText([]byte("no listpack at all")), nil},
		{rdb.KindZSetZiplist, rawZiplist("a", "1", "b"), errOdd},
		{rdb.KindZSetZiplist, rawZiplist("a", "1", "a", "2"), errDuplicate},
		{rdb.KindZSetZiplist, rawZiplist("a", "b"), errScore},
		{rdb.KindZSetZiplist, rawZiplist(), ErrEmpty},
	} {
		for _, l := range []Limits{DefaultLimits, small} {
			err := restore(k, "k", c.kind, []byte(c.raw), Env{Limits: l})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s %q: %v, want %v", c.kind, c.raw, err, c.want)
			}
		}
	}
	for kind, raw := range map[rdb.Kind]string{
		rdb.KindZSet2:        rawZSet2(pair{"abc", 1}, pair{"17", 2}, pair{strings.Repeat("z", 100), 3}),
		rdb.KindZSet:         rawZSet("abc", "\x0212", "17", "\x011"),
		rdb.KindZSetListpack: rawText(packedOf("abc", "1", "d", "2.5")),
		rdb.KindZSetZiplist:  rawZiplist("abc", "1", "d", "2.5"),
	} {
		refused(t, kind, raw, nil)
		for cut := range len(raw) {
			if restore(k, "k", kind, []byte(raw[:cut]), Env{Limits: small}) == nil {
				t.Errorf("the first %d of %d bytes are taken", cut, len(raw))
			}
		}
	}
	if n := k.DB(0).Len(); n != 0 {
		t.Errorf("%d keys", n)
	}
}

// FuzzReadZSet: any bytes are refused, or are a sorted set that survives writing and reading.
func FuzzReadZSet(f *testing.F) {
	f.Add(byte(0), rawZSet("a", "\x011", "b", "\xfe"))
	f.Add(byte(1), rawZSet2(pair{"a", 1.5}, pair{"1", -1}))
	f.Add(byte(2), rawZiplist("a", "1", "b", "0.10000000000000001"))
	f.Add(byte(3), rawText(packedOf("b", "2", "a", "2.5", "7", "inf")))
	kinds := zsetCodec.Kinds
	k := newSpace(f)
	f.Fuzz(func(t *testing.T, kind byte, raw string) {
		env := Env{Limits: DefaultLimits}
		if len(raw)%2 == 0 {
			env.Limits.ZSetEntries = 2
		}
		if restore(k, "k", kinds[int(kind)%len(kinds)], []byte(raw), env) != nil {
			return
		}
		last, score := "", math.Inf(-1)
		zset.Each(k.DB(0).Peek([]byte("k")), 0, math.MaxInt, false, func(m listpack.Element, x float64) bool {
			if text := string(m.Append(nil)); x < score || x == score && last != "" && text <= last {
				t.Errorf("%q %v stands after %q %v", text, x, last, score)
			} else {
				last, score = text, x
			}
			return true
		})
		roundTrip(t, k, "k", env.Limits, zsetPairs)
		k.DB(0).Delete([]byte("k"))
	})
}
