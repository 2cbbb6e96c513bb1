package codec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/intset"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
)

// setText returns a set's encoding and members. The order of a packed set matters.
func setText(v value.Value) string {
	return fmt.Sprint(v.Encoding(), " ", setMembers(v))
}

func setMembers(v value.Value) string {
	var members []string
	r := set.Read(v)
	r.All(func(e set.Element) bool {
		members = append(members, string(e.Append(nil)))
		return true
	})
	if v.Packed() == nil {
		slices.Sort(members)
	}
	return strings.Join(members, " ")
}

// makeSet makes key a set of members, as a command would.
func makeSet(k *keyspace.Keyspace, key string, l Limits, members ...string) {
	limits := set.Limits{IntSet: l.SetIntset, Entries: l.SetEntries, Value: l.SetValue}
	var b set.Builder
	b.Begin(k.Store(), limits, limits.First([]byte(members[0]), 1), 0)
	for _, m := range members {
		b.Add(set.ElementOf([]byte(m)))
	}
	if p := b.Packed(); p != nil {
		k.DB(0).PutPacked([]byte(key), value.Set, b.Encoding(), p, 0)
	} else {
		k.DB(0).PutRoot([]byte(key), value.Set, value.HashTable, b.Root(), 0)
	}
}

// rawSet returns a set in a file, member by member.
func rawSet(members ...string) string {
	w := rdb.Writer{}
	w.Length(uint64(len(members)))
	for _, m := range members {
		w.Text([]byte(m))
	}
	return string(w.Buf)
}

// rawText returns a string in a file.
func rawText(b []byte) string {
	w := rdb.Writer{}
	w.Text(b)
	return string(w.Buf)
}

func packedOf(members ...string) []byte {
	lp := listpack.AppendEmpty(nil)
	for _, m := range members {
		lp = listpack.AppendElement(lp, listpack.Of([]byte(m)))
	}
	return lp
}

func integersOf(members ...int64) []byte {
	set := intset.AppendEmpty(nil)
	for _, n := range members {
		set, _ = intset.Add(set, n)
	}
	return set
}

// TestSetRoundTrip: every encoding survives writing for every version and reading.
func TestSetRoundTrip(t *testing.T) {
	k := newSpace(t)
	var many, integers []string
	for i := range 2000 {
		many = append(many, fmt.Sprint("member ", i), fmt.Sprint(i*i))
		integers = append(integers, fmt.Sprint(i*77_777_777_777))
	}
	for key, members := range map[string][]string{
		"integers": {"3", "1", "2", "-70000"}, "text": {"1", "5", "a", "b", "3"}, "text first": {"a", "1"}, "table": many,
		"a table of integers": integers, "long": {strings.Repeat("x", 100_000), "a", "1"}, "one": {"x"}, "empty member": {""},
	} {
		makeSet(k, key, DefaultLimits, members...)
		roundTrip(t, k, key, DefaultLimits, setText)
	}
}

// TestSetLimits: a set that is read gets the encoding that the current settings ask for.
func TestSetLimits(t *testing.T) {
	k := newSpace(t)
	l := DefaultLimits
	l.SetIntset, l.SetEntries, l.SetValue = 4, 3, 5
	for _, c := range []struct {
		kind rdb.Kind
		raw  string
		want string
	}{
		{rdb.KindSet, rawSet("3", "1", "2", "4"), "intset 1 2 3 4"},
		{rdb.KindSet, rawSet("3", "1", "2", "4", "5"), "hashtable 1 2 3 4 5"},
		{rdb.KindSet, rawSet("3", "1", "a"), "listpack 1 3 a"},
		{rdb.KindSet, rawSet("a", "3", "1"), "listpack a 3 1"},
		{rdb.KindSet, rawSet("3", "1", "2", "a"), "hashtable 1 2 3 a"},
		{rdb.KindSet, rawSet("a", "b", "c", "d"), "hashtable a b c d"},
		{rdb.KindSet, rawSet("a", "abcdef"), "hashtable a abcdef"},
		{rdb.KindSet, rawSet("123456", "a"), "hashtable 123456 a"},
		{rdb.KindSet, rawSet("123456", "1"), "intset 1 123456"},
		{rdb.KindSetIntset, rawText(integersOf(1, 2, 3, 4)), "intset 1 2 3 4"},
		{rdb.KindSetIntset, rawText(integersOf(1, 2, 3, 4, 5)), "hashtable 1 2 3 4 5"},
		{rdb.KindSetListpack, rawText(packedOf("c", "b", "a")), "listpack c b a"},
		{rdb.KindSetListpack, rawText(packedOf("c", "b", "a", "7")), "hashtable 7 a b c"},
		// As in Redis, only the number of entries counts.
		{rdb.KindSetListpack, rawText(packedOf("longer than five")), "listpack longer than five"},
	} {
		if err := restore(k, "k", c.kind, []byte(c.raw), Env{Limits: l}); err != nil {
			t.Errorf("%s %q: %v", c.kind, c.raw, err)
		} else if got := setText(k.DB(0).Peek([]byte("k"))); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.kind, c.raw, got, c.want)
		}
		k.DB(0).Delete([]byte("k"))
	}
}

// TestSetRefused: a set that is cut, names a member twice or is otherwise wrong is refused in every encoding. Nothing
// of it stays in memory.
func TestSetRefused(t *testing.T) {
	k := newSpace(t)
	small := DefaultLimits
	small.SetIntset, small.SetEntries = 1, 1
	bad := integersOf(1, 2, 3)
	bad[8] = 9
	for _, c := range []struct {
		kind rdb.Kind
		raw  string
		want error // nil: any error
	}{
		{rdb.KindSet, rawSet("a", "b", "a"), errDuplicate},
		{rdb.KindSet, rawSet("1", "2", "1"), errDuplicate},
		{rdb.KindSet, rawSet(), ErrEmpty},
		{rdb.KindSet, rawSet("a", "b") + "x", nil},
		{rdb.KindSet, "\x80\x7f\xff\xff\xff\x01a", nil},
		{rdb.KindSetIntset, rawText(bad), nil},
		{rdb.KindSetIntset, rawText(integersOf()), ErrEmpty},
		{rdb.KindSetIntset, rawText([]byte("\x03\x00\x00\x00\x00\x00\x00\x00")), nil},
		{rdb.KindSetIntset, rawText(integersOf(1, 2)) + "x", nil},
		{rdb.KindSetListpack, rawText(packedOf("a", "b", "a")), errDuplicate},
		{rdb.KindSetListpack, rawText(packedOf()), ErrEmpty},
		{rdb.KindSetListpack, rawText(packedOf("a"))[:4], nil},
		{rdb.KindSetListpack, rawText([]byte("no listpack at all")), nil},
	} {
		for _, l := range []Limits{DefaultLimits, small} {
			err := restore(k, "k", c.kind, []byte(c.raw), Env{Limits: l})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s %q: %v, want %v", c.kind, c.raw, err, c.want)
			}
		}
	}
	for _, raw := range []string{rawSet("abc", "17", "x"), rawSet("abc", strings.Repeat("z", 100), "x")} {
		for cut := range len(raw) {
			for _, l := range []Limits{DefaultLimits, small} {
				if restore(k, "k", rdb.KindSet, []byte(raw[:cut]), Env{Limits: l}) == nil {
					t.Errorf("the first %d of %d bytes are taken", cut, len(raw))
				}
			}
		}
	}
	if n := k.DB(0).Len(); n != 0 {
		t.Errorf("%d keys", n)
	}
}

// FuzzReadSet: any bytes are refused, or are a set that survives writing and reading.
func FuzzReadSet(f *testing.F) {
	f.Add(byte(0), rawSet("a", "1", "b"))
	f.Add(byte(1), rawText(integersOf(1, 2, 1<<40)))
	f.Add(byte(2), rawText(packedOf("a", "1", "long long long")))
	kinds := []rdb.Kind{rdb.KindSet, rdb.KindSetIntset, rdb.KindSetListpack}
	k := newSpace(f)
	f.Fuzz(func(t *testing.T, kind byte, raw string) {
		env := Env{Limits: DefaultLimits}
		if len(raw)%2 == 0 {
			env.Limits.SetIntset, env.Limits.SetEntries = 2, 2
		}
		if restore(k, "k", kinds[int(kind)%3], []byte(raw), env) != nil {
			return
		}
		roundTrip(t, k, "k", env.Limits, func(v value.Value) string {
			members := strings.Split(setMembers(v), " ")
			slices.Sort(members)
			return strings.Join(members, " ")
		})
		k.DB(0).Delete([]byte("k"))
	})
}
