package codec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
)

// hashText returns a hash's encoding and fields. The order of a packed hash matters.
func hashText(v value.Value) string {
	var fields []string
	hashes.All(v, func(field, val listpack.Element, deadline int64) bool {
		text := fmt.Sprintf("%s=%s", field.Append(nil), val.Append(nil))
		if deadline != 0 {
			text += fmt.Sprintf("@%d", deadline)
		}
		fields = append(fields, text)
		return true
	})
	if v.Packed() == nil {
		slices.Sort(fields)
	}
	return v.Encoding().String() + " " + strings.Join(fields, " ")
}

// makeHash makes key a hash of words "field=value" or "field=value@deadline", as commands would.
func makeHash(k *keyspace.Keyspace, key string, l Limits, words ...string) {
	limits := hashes.Limits{Entries: l.HashEntries, Value: l.HashValue}
	db := k.DB(0)
	db.Delete([]byte(key))
	e := db.Create([]byte(key), value.Hash, value.Listpack, listpack.EmptyLen)
	listpack.AppendEmpty(e.Packed()[:0])
	for _, w := range words {
		w, _, _ := strings.Cut(w, "@")
		field, val, _ := strings.Cut(w, "=")
		hashes.Set(e, []byte(field), []byte(val), false, limits)
	}
	for _, w := range words {
		w, at, volatile := strings.Cut(w, "@")
		field, _, _ := strings.Cut(w, "=")
		if volatile {
			deadline := int64(0)
			fmt.Sscan(at, &deadline)
			hashes.AllowDeadlines(e)
			hashes.Expire(e, []byte(field), deadline, hashes.Always, false)
		}
	}
	db.SetFieldsDeadline([]byte(key), hashes.Least(e.Value()))
}

// rawHash returns a hash in a file, field by field.
func rawHash(texts ...string) string {
	w := rdb.Writer{}
	w.Length(uint64(len(texts) / 2))
	for _, t := range texts {
		w.Text([]byte(t))
	}
	return string(w.Buf)
}

// rawHashTTL returns a hash with deadlines in a file; parts are ttl, field, value in turn. If least is 0, it is left
// out.
func rawHashTTL(least uint64, parts ...any) string {
	w := rdb.Writer{}
	if least != 0 {
		w.Uint64(least)
	}
	w.Length(uint64(len(parts) / 3))
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			w.Length(uint64(p))
		case string:
			w.Text([]byte(p))
		}
	}
	return string(w.Buf)
}

// rawHash2 returns a hash in Valkey's form; parts are field, value, deadline in turn.
func rawHash2(parts ...any) string {
	w := rdb.Writer{}
	w.Length(uint64(len(parts) / 3))
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			w.Uint64(uint64(p))
		case string:
			w.Text([]byte(p))
		}
	}
	return string(w.Buf)
}

// least8 is the field before a listpack of triplets.
const least8 = "\xd0BL\xa6,\x1e\x00\x00"

// TestHashRoundTrip: every encoding, with its deadlines, survives writing for every version and reading.
func TestHashRoundTrip(t *testing.T) {
	k := newSpace(t)
	var many, volatile []string
	for i := range 1500 {
		many = append(many, fmt.Sprintf("field %d=%d", i, i*i))
		volatile = append(volatile, fmt.Sprintf("field %d=%d@%d", i, i, 5_000_000_000_000+i%700*999))
	}
	for key, words := range map[string][]string{
		"listpack": {"a=1", "b=two", "300000=-1", "="}, "listpackex": {"a=1", "b=2@5000000000000", "c=3@4000000000000",
			"d=4@5000000000000"},
		"table": many, "table with deadlines": volatile,
		"some with deadlines": append(volatile[:40:40], many[40:]...),
		"long":                {strings.Repeat("x", 100_000) + "=1", "a=" + strings.Repeat("abc", 50_000)}, "one": {"x=1"},
	} {
		makeHash(k, key, DefaultLimits, words...)
		roundTrip(t, k, key, DefaultLimits, hashText)
	}
}

// TestHashWithoutDeadlines: for readers of version 12, a listpackex without deadlines is written as one. Older readers
// get a plain hash.
func TestHashWithoutDeadlines(t *testing.T) {
	k := newSpace(t)
	makeHash(k, "k", DefaultLimits, "a=1@4000000000000", "300000=-70000", "c=three")
	hashes.Persist(k.DB(0).Edit([]byte("k")), []byte("a"), 1)
	for newest, want := range map[int]string{10: "listpack", 11: "listpack", 12: "listpackex", 80: "listpack"} {
		kind, raw := written(t, k.DB(0).Peek([]byte("k")), newest)
		if kind.Since() > newest {
			t.Errorf("%s for version %d", kind, newest)
		}
		if err := restore(k, "again", kind, raw, Env{Limits: DefaultLimits}); err != nil {
			t.Fatal(newest, err)
		}
		if got := hashText(k.DB(0).Peek([]byte("again"))); got != want+" 300000=-70000 c=three a=1" {
			t.Errorf("for version %d: %s", newest, got)
		}
	}
}

// TestHashReferenceBytes: payloads of redis-server 7.4.1 are read. They are written with the same bytes if the order of
// fields is fixed.
func TestHashReferenceBytes(t *testing.T) {
	k := newSpace(t)
	for _, c := range []struct {
		name, want string
		limits     int
		kind       rdb.Kind
		raw        string
		same       bool
	}{
		{"listpack", "listpack a=1 b=two c=300000", 512, rdb.KindHashListpack,
			"\x1c\x1c\x00\x00\x00\x06\x00\x81a\x02\x01\x01\x81b\x02\x83two\x04\x81c\x02\xf2\xe0\x93\x04\x04\xff", true},
		{"listpackex", "listpackex c=3@33177117410000 b=two@33177117420000 a=1", 512, rdb.KindHashTTLListpack,
			least8 + "//\x00\x00\x00\t\x00\x81c\x02\x03\x01\xf4\xd0BL\xa6,\x1e" +
				"\x00\x00\t\x81b\x02\x83two\x04\xf4\xe0iL\xa6,\x1e\x00\x00\t\x81a\x02\x01\x01\x00\x01\xff", true},
		{"table", "hashtable a=1 b=two", 0, rdb.KindHash, "\x02\x01b\x03two\x01a\xc0\x01", false},
		{"table with deadlines", "hashtable a=1 b=two@33177117420000 c=3@33177117410000", 0, rdb.KindHashTTL,
			least8 + "\x03\x01\x01c\xc0\x03g\x11\x01b\x03two\x00\x01a\xc0\x01", false},
	} {
		l := DefaultLimits
		l.HashEntries = c.limits
		if err := restore(k, c.name, c.kind, []byte(c.raw), Env{Limits: l}); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		v := k.DB(0).Peek([]byte(c.name))
		if got := hashText(v); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		w, kind := rdb.Writer{}, Kind(v, NewestVersion)
		Write(&w, kind, v)
		if raw := w.Buf; kind != c.kind || c.same && string(raw) != c.raw || len(raw) != len(c.raw) {
			t.Errorf("%s: written as %s %q, read from %s %q", c.name, kind, raw, c.kind, c.raw)
		}
		if strings.Contains(c.want, "@") == (k.DB(0).FieldsDeadline([]byte(c.name)) == 0) {
			t.Errorf("%s: first due at %d", c.name, k.DB(0).FieldsDeadline([]byte(c.name)))
		}
	}
}

// TestValkeyBytes: the payload of valkey-server 9.1.2 for a hash with a field deadline is read, and written with the
// same bytes. Here the payload's fields are in the order of their deadlines.
func TestValkeyBytes(t *testing.T) {
	const raw = "\x02\x01a\xc0\x01\x00\xd8\xc3\x2c\xbb\x03\x00\x00\x01b\xc0\x02\xff\xff\xff\xff\xff\xff\xff\xff"
	k := newSpace(t)
	if err := restore(k, "k", rdb.KindHash2, []byte(raw), Env{Limits: DefaultLimits}); err != nil {
		t.Fatal(err)
	}
	if got := hashText(k.DB(0).Peek([]byte("k"))); got != "listpackex a=1@4102444800000 b=2" {
		t.Error(got)
	}
	if k.DB(0).FieldsDeadline([]byte("k")) != 4102444800000 {
		t.Errorf("first due at %d", k.DB(0).FieldsDeadline([]byte("k")))
	}
	if kind, got := written(t, k.DB(0).Peek([]byte("k")), ValkeyVersion); kind != rdb.KindHash2 || string(got) != raw {
		t.Errorf("written as %s %q", kind, got)
	}
}

// TestHashLimits: a hash that is read gets the encoding that the current settings ask for.
func TestHashLimits(t *testing.T) {
	k := newSpace(t)
	l := DefaultLimits
	l.HashEntries, l.HashValue = 3, 5
	for _, c := range []struct {
		kind rdb.Kind
		raw  string
		want string
	}{
		{rdb.KindHash, rawHash("b", "1", "a", "2", "c", "3"), "listpack b=1 a=2 c=3"},
		{rdb.KindHash, rawHash("b", "1", "a", "2", "c", "3", "d", "4"), "hashtable a=2 b=1 c=3 d=4"},
		{rdb.KindHash, rawHash("b", "1", "a", "123456"), "hashtable a=123456 b=1"},
		{rdb.KindHash, rawHash("b", "1", "abcdef", "2"), "hashtable abcdef=2 b=1"},
		{rdb.KindHashListpack, rawText(packedOf("a", "1", "b", "2", "c", "3")), "listpack a=1 b=2 c=3"},
		{rdb.KindHashListpack, rawText(packedOf("a", "1", "b", "2", "c", "3", "d", "4")), "hashtable a=1 b=2 c=3 d=4"},
		// As in Redis, only the number of entries counts.
		{rdb.KindHashListpack, rawText(packedOf("a", "longer than five")), "listpack a=longer than five"},
		{rdb.KindHashTTL, rawHashTTL(1000, 0, "a", "1", 1, "b", "2", 11, "c", "3"), "listpackex b=2@1000 c=3@1010 a=1"},
		{rdb.KindHashTTL, rawHashTTL(1000, 5, "a", "1", 5, "b", "2", 0, "c", "3"), "listpackex b=2@1004 a=1@1004 c=3"},
		{rdb.KindHashTTL, rawHashTTL(1000, 5, "a", "1", 5, "b", "2", 0, "c", "3", 1, "d", "4"),
			"hashtable a=1@1004 b=2@1004 c=3 d=4@1000"},
		{rdb.KindHashTTL, rawHashTTL(1000, 5, "a", "123456"), "hashtable a=123456@1004"},
		{rdb.KindHashTTLPre, rawHashTTL(0, 5000, "a", "1", 0, "b", "2"), "listpackex a=1@5000 b=2"},
		{rdb.KindHashTTLPackPre, rawText(packedOf("a", "1", "5000", "b", "2", "0")), "listpackex a=1@5000 b=2"},
		{rdb.KindHashTTLListpack, least8 + rawText(packedOf("a", "1", "5000", "b", "2", "0", "c", "3", "0", "d", "4", "0")),
			"hashtable a=1@5000 b=2 c=3 d=4"},
		{rdb.KindHash2, rawHash2("a", "1", -1, "b", "2", 1010, "c", "3", 1000), "listpackex c=3@1000 b=2@1010 a=1"},
		{rdb.KindHash2, rawHash2("a", "1", -1, "b", "2", 1010, "c", "3", 1000, "d", "4", 0),
			"hashtable a=1 b=2@1010 c=3@1000 d=4@1"},
		{rdb.KindHash2, rawHash2("a", "123456", 1<<60), "hashtable a=123456@281474976710655"},
		{rdb.KindHashZipmap, rawText([]byte("\x02\x01a\x01\x001\x01b\x02\x002x\xff")), "listpack a=1 b=2x"},
		{rdb.KindHashZipmap, rawText([]byte("\x01\x01a\x06\x00123456\xff")), "hashtable a=123456"},
		{rdb.KindHashZiplist, rawText([]byte("\x0f\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\xf2\x02\xf3\xff")),
			"listpack 1=2"},
	} {
		k.DB(0).Delete([]byte("k"))
		if err := restore(k, "k", c.kind, []byte(c.raw), Env{Limits: l}); err != nil {
			t.Errorf("%s %q: %v", c.kind, c.raw, err)
		} else if got := hashText(k.DB(0).Peek([]byte("k"))); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.kind, c.raw, got, c.want)
		}
	}
}

// TestHashRefused: a hash that is cut or wrong anywhere is refused.
func TestHashRefused(t *testing.T) {
	far := fmt.Sprint(int64(hashes.MaxDeadline) + 1)
	refused(t, rdb.KindHash, rawHash("a", "1", "b", "2"), map[string]string{
		"empty": rawHash(), "twice": rawHash("a", "1", "a", "2"), "false count": "\xbf\xff\xff\xff\xff\x01a",
		"behind":           rawHash("a", "1") + "x",
		"twice in a table": rawHash("a", "1", strings.Repeat("x", 70), "1", "a", "2"),
		"behind a table":   rawHash("a", strings.Repeat("x", 70)) + "x",
	})
	refused(t, rdb.KindHashTTL, rawHashTTL(1000, 1, "a", "1", 0, "b", strings.Repeat("x", 70)), map[string]string{
		"empty": rawHashTTL(1000), "twice": rawHashTTL(1000, 0, "a", "1", 5, "a", "2"),
		"late": rawHashTTL(1000, 1<<48, "a", "1"), "least": rawHashTTL(1<<60, 1, "a", "1"),
		"later":            rawHashTTL(1000, 1<<60, "a", "1"),
		"twice in a table": rawHashTTL(1000, 3, "a", strings.Repeat("x", 70), 5, "a", "2"),
	})
	refused(t, rdb.KindHash2, rawHash2("a", "1", 5, "b", strings.Repeat("x", 70), -1), map[string]string{
		"empty": rawHash2(), "twice": rawHash2("a", "1", 7, "a", "2", 5), "negative": rawHash2("a", "1", -2),
		"twice in a table": rawHash2("a", strings.Repeat("x", 70), 7, "a", "2", 5), "behind": rawHash2("a", "1", 7) + "x",
		"false count": "\xbf\xff" + rawHash2("a", "1", 7)[1:], "negative in a table": rawHash2("a", strings.Repeat("x", 70),
			-2),
	})
	refused(t, rdb.KindHashListpack, rawText(packedOf("a", "1", "b", "2")), map[string]string{
		"empty": rawText(packedOf()), "odd": rawText(packedOf("a", "1", "b")), "twice": rawText(packedOf("a", "1", "a", "1")),
	})
	refused(t, rdb.KindHashTTLListpack, least8+rawText(packedOf("a", "1", "5", "b", "2", "0")), map[string]string{
		"empty": least8 + rawText(packedOf()), "pairs": least8 + rawText(packedOf("a", "1", "b", "2")),
		"no number": least8 + rawText(packedOf("a", "1", "x")), "negative": least8 + rawText(packedOf("a", "1", "-5")),
		"late": least8 + rawText(packedOf("a", "1", far)), "order": least8 + rawText(packedOf("a", "1", "6", "b", "1", "5")),
		"behind none": least8 + rawText(packedOf("a", "1", "0", "b", "1", "5")),
		"twice":       least8 + rawText(packedOf("a", "1", "5", "a", "1", "0")),
	})
	refused(t, rdb.KindHashZipmap, rawText([]byte("\x01\x01a\x01\x001\xff")),
		map[string]string{"twice": rawText([]byte("\x02\x01a\x01\x001\x01a\x01\x002\xff"))})
}

// FuzzReadHash: any bytes are refused, or are a valid hash that survives writing and reading.
func FuzzReadHash(f *testing.F) {
	for _, raw := range []string{
		rawHash("a", "1", "b", "2"), rawHashTTL(1000, 5, "a", "1", 5, "b", "2"),
		least8 + rawText(packedOf("a", "1", "5", "b", "2", "0")),
		rawText(packedOf("a", "1", "b", "2")), rawHash("a", strings.Repeat("x", 70)),
		rawHashTTL(1000, 5, "a", strings.Repeat("x", 70)),
		rawHash2("a", "1", 5, "b", "2", -1), rawHash2("a", strings.Repeat("x", 70), 5),
		rawText([]byte("\x01\x01a\x01\x001\xff")),
	} {
		for i := range hashCodec.Kinds {
			f.Add(byte(i), []byte(raw))
		}
	}
	l := DefaultLimits
	l.HashEntries, l.HashValue = 4, 20
	k := newSpace(f)
	f.Fuzz(func(t *testing.T, kind byte, raw []byte) {
		defer k.DB(0).Flush()
		if restore(k, "k", hashCodec.Kinds[int(kind)%len(hashCodec.Kinds)], raw, Env{Limits: l}) != nil {
			return
		}
		v := k.DB(0).Peek([]byte("k"))
		if v.Encoding() == value.ListpackEx {
			if _, ok := hashes.Deadlines(v.Packed()); !ok {
				t.Fatalf("out of order: %s", hashText(v))
			}
		}
		big := Env{Limits: Limits{HashEntries: 1 << 30, HashValue: 1 << 30}}
		if v.Packed() == nil {
			big.Limits = Limits{}
		}
		want := hashText(v)
		for _, newest := range []int{NewestVersion, ValkeyVersion} {
			again, bytes := written(t, k.DB(0).Peek([]byte("k")), newest)
			if err := restore(k, "again", again, bytes, big); err != nil {
				t.Fatalf("%s: written for %d, and refused: %v", want, newest, err)
			}
			got := hashText(k.DB(0).Peek([]byte("again")))
			if newest == ValkeyVersion && !strings.Contains(want, "@") { // a listpackex without deadlines
				got = strings.Replace(got, "listpack ", "listpackex ", 1)
				want = strings.Replace(want, "listpack ", "listpackex ", 1)
			}
			if got != want && (newest != ValkeyVersion || words(got) != words(want)) { // equal deadlines may change places
				t.Fatalf("%s came back as %s", want, got)
			}
			k.DB(0).Delete([]byte("again"))
		}
	})
}
