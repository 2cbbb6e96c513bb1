package codec

import (
	"os"
	"slices"
	"strings"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

func TestMain(m *testing.M) {
	codecs = append(codecs, &toyCodec) // a module's, so that it replaces no real codec
	os.Exit(m.Run())
}

// newSpace returns a keyspace that also supports the test type's structure.
func newSpace(t testing.TB) *keyspace.Keyspace {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := keyspace.New(h, keyspace.Options{})
	k.Store().Register(toyKind, toyStructure)
	return k
}

// written returns v's bytes in a file, which follow its key, for readers of version newest. The writer spills all the
// time.
func written(t testing.TB, v value.Value, newest int) (kind rdb.Kind, raw []byte) {
	t.Helper()
	w := rdb.Writer{Spill: func(full []byte) []byte {
		raw = append(raw, full...)
		return full[:0]
	}}
	w.Compress = true
	kind = Kind(v, newest)
	Write(&w, kind, v)
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	return kind, append(raw, w.Buf...)
}

// restore reads a value and stores it under key in database 0 of k, a few elements at a time.
func restore(k *keyspace.Keyspace, key string, kind rdb.Kind, raw []byte, env Env) error {
	x := &Expander{Env: env}
	ready, err := x.Read(kind, raw)
	if err != nil {
		return err
	}
	db, t := k.DB(0), TypeOf(kind, raw)
	least := ready.FieldsDeadline
	if ready.Whole() {
		db.PutPacked([]byte(key), t, ready.Encoding, ready.Packed, 0)
	} else {
		b := Start(kind, raw, ready, k.Store(), &env)
		for done := false; !done; {
			if done, err = b.Step(3); err != nil {
				LetGo(k.Store(), t, b)
				return err
			}
		}
		db.PutRoot([]byte(key), t, ready.Encoding, b.Root(), 0)
		if d, ok := b.(Deadlines); ok {
			least = d.PartsDeadline()
		}
	}
	if least != 0 {
		db.SetPartsDeadline(t, []byte(key), least)
	}
	return nil
}

// roundTrip writes key's value for readers of each version, reads it under another name, and compares the texts of
// both.
func roundTrip(t testing.TB, k *keyspace.Keyspace, key string, limits Limits, text func(value.Value) string) {
	t.Helper()
	v := k.DB(0).Peek([]byte(key))
	want := text(v)
	for _, newest := range []int{10, 11, NewestVersion, ValkeyVersion} {
		kind, raw := written(t, k.DB(0).Peek([]byte(key)), newest)
		if err := restore(k, key+" again", kind, raw, Env{Limits: limits}); err != nil {
			t.Fatalf("%s as %s for version %d: %v", key, kind, newest, err)
		}
		got := text(k.DB(0).Peek([]byte(key + " again")))
		if newest == ValkeyVersion && words(got) == words(want) {
			got = want // fields of equal deadlines may come in another order
		}
		if got != want {
			t.Errorf("%s as %s for version %d came back as\n%.300s, it was\n%.300s", key, kind, newest, got, want)
		}
		k.DB(0).Delete([]byte(key + " again"))
	}
}

// words returns the words of text in order.
func words(text string) string {
	w := strings.Fields(text)
	slices.Sort(w)
	return strings.Join(w, " ")
}

// refused checks that each of the bad values is refused, and that good is refused when it is cut at any byte. It also
// checks for leaks and panics.
func refused(t *testing.T, kind rdb.Kind, good string, bad map[string]string) {
	t.Helper()
	k := newSpace(t)
	env := Env{Limits: DefaultLimits}
	for cut := range len(good) {
		if restore(k, "refused", kind, []byte(good[:cut]), env) == nil {
			t.Errorf("the first %d of %d bytes are not refused", cut, len(good))
		}
	}
	for name, raw := range bad {
		if restore(k, "refused", kind, []byte(raw), env) == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if n := k.DB(0).Len(); n != 0 {
		t.Errorf("%d keys", n)
	}
}
