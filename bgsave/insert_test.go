package bgsave

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
)

// settle lets reclaimers free all retired memory.
func (b *testServer) settle() {
	for range 100 {
		for job, _ := b.space.Heap().TakeJob(); job != nil; job, _ = b.space.Heap().TakeJob() {
			for !job(1 << 20) {
			}
		}
	}
}

// sets returns a file with one set per name and its size. With twice, each set repeats its first member.
func sets(sizes map[string]int, twice bool) []byte {
	w := rdb.Writer{Buf: rdb.AppendHeader(nil, 9)}
	for name, n := range sizes {
		w.Buf = w.AppendKey(w.Buf, rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None},
			rdb.KindSet, []byte(name))
		more := 0
		if twice {
			more = 1
		}
		w.Length(uint64(n + more))
		for i := range n {
			w.Text(fmt.Appendf(nil, "member %d", i))
		}
		if twice {
			w.Text([]byte("member 0"))
		}
	}
	return rdb.AppendEOF(append(w.Buf, byte(rdb.OpEOF)), 0)
}

// members returns a set's number of members.
func members(v value.Value) int {
	r := set.Read(v)
	return r.Len()
}

// TestBuild: structures are built in short turns while views come and go. They are invisible until they are complete.
// Empty keys are skipped, and damaged values are freed.
func TestBuild(t *testing.T) {
	sizes := map[string]int{"empty": 0, "small": 3, "in one turn": 400, "large": 20_000}
	b := newTestServer(t)
	db := b.space.DB(0)
	turns := 0
	var views []*keyspace.View
	into := &Into{Space: b.space, Turn: func(f func()) {
		if turns++; turns%7 == 3 {
			views = append(views, b.space.Freeze())
		}
		f()
		if turns%7 == 6 && len(views) > 0 {
			views[0].Close()
			views = views[1:]
		}
		if v := db.Peek([]byte("large")); v.Exists() && members(v) != sizes["large"] {
			t.Fatalf("half a set is there: %d members", members(v))
		}
	}}
	l, log, err := load(t, sets(sizes, false), into, LoadOptions{})
	if err != nil || l.Keys != 3 || l.Empty != 1 || turns < 5 {
		t.Fatalf("%+v in %d turns, %v", l, turns, err)
	}
	for _, line := range []string{"rdbLoadObject skipping empty key: empty",
		"keys loaded: 3, keys expired: 0, empty keys skipped: 1."} {
		if !strings.Contains(log, line) {
			t.Errorf("the log lacks %q:\n%s", line, log)
		}
	}
	for name, want := range map[string]string{"small": "listpack 3", "in one turn": "hashtable 400",
		"large": "hashtable 20000"} {
		v := db.Peek([]byte(name))
		if got := fmt.Sprint(v.Encoding(), " ", members(v)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, v := range views {
		v.Close()
	}
	db.Flush()
	b.settle()
	empty := b.space.Heap().Used()
	var format *rdb.FormatError
	for range 2 {
		if _, _, err := load(t, sets(map[string]int{"large": 20_000}, true), &Into{Space: b.space},
			LoadOptions{}); !errors.As(err, &format) || format.Key != "large" {
			t.Errorf("a duplicate: %v", err)
		}
	}
	b.settle()
	if used := b.space.Heap().Used(); used != empty || db.Len() != 0 {
		t.Errorf("%d bytes used, %d before; %d keys", used, empty, db.Len())
	}
}

// TestBuildInto: an existing key makes a load fail, or is replaced.
func TestBuildInto(t *testing.T) {
	for _, n := range []int{3, 5000} {
		for _, replace := range []bool{false, true} {
			b := newTestServer(t)
			b.space.DB(0).SetString([]byte("k"), []byte("v"), 0)
			_, _, err := load(t, sets(map[string]int{"k": n}, false), &Into{Space: b.space, Replace: replace}, LoadOptions{})
			if replace && (err != nil || members(b.space.DB(0).Peek([]byte("k"))) != n) ||
				!replace && (!errors.Is(err, ErrDuplicate) || b.get("k") == "") {
				t.Errorf("%d members, replace %t: %v, %s", n, replace, err, b.space.DB(0).Peek([]byte("k")).Type())
			}
		}
	}
}

// TestVersion: a file's version depends on the encodings used since the keyspace was last empty. Field deadlines only
// count while they exist.
func TestVersion(t *testing.T) {
	packedEx := []byte("\x0d\x00\x00\x00\x03\x00\x81a\x02\x01\x01\x00\x01\xff") // a field without a deadline any more
	packedEx[0] = byte(len(packedEx))
	for _, c := range []struct {
		newest, want int
		set          int // members of a set
		then         func(db *keyspace.DB)
	}{
		{12, 9, 0, func(db *keyspace.DB) { db.SetInt([]byte("n"), 1, 0) }},
		{12, 9, 5000, nil},
		{12, 11, 3, nil},
		{10, 10, 3, nil},
		{12, 9, 3, func(db *keyspace.DB) { db.Flush() }},
		{10, 12, 5000, func(db *keyspace.DB) { db.SetFieldsDeadline([]byte("h"), 1) }},
		{12, 12, 5000, func(db *keyspace.DB) { db.SetFieldsDeadline([]byte("h"), 1) }},
		{10, 9, 5000, func(db *keyspace.DB) { db.SetFieldsDeadline([]byte("h"), 1); db.SetFieldsDeadline([]byte("h"), 0) }},
		{80, 80, 5000, func(db *keyspace.DB) { db.SetFieldsDeadline([]byte("h"), 1) }},
		{80, 11, 3, nil},
		{80, 9, 5000, func(db *keyspace.DB) { db.PutPacked([]byte("h"), value.Hash, value.ListpackEx, packedEx, 0) }},
		{10, 9, 5000, func(db *keyspace.DB) { db.PutPacked([]byte("h"), value.Hash, value.ListpackEx, packedEx, 0) }},
		{12, 12, 5000, func(db *keyspace.DB) { db.PutPacked([]byte("h"), value.Hash, value.ListpackEx, packedEx, 0) }},
	} {
		b := newTestServer(t)
		if _, _, err := load(t, sets(map[string]int{"k": c.set}, false), &Into{Space: b.space}, LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		if c.then != nil {
			c.then(b.space.DB(0))
		}
		if got := codec.Version(b.space.Store().Used, c.newest, b.space.FieldsHaveDeadlines()); got != c.want {
			t.Errorf("%d members: version %d, want %d", c.set, got, c.want)
		}
	}
}

// FuzzRestore: any payload is refused and leaves nothing, or is a value whose own payload restores the same value.
func FuzzRestore(f *testing.F) {
	const fieldsDeadline = "\x19\x00\xd8\xc3,\xbb\x03\x00\x00\x1d\x1d\x00\x00\x00\x06\x00\x81a\x02\x01\x01\xf4\x00" +
		"\xd8\xc3,\xbb\x03\x00\x00\x09\x81b\x02\x02\x01\x00\x01\xff"
	seeds := []string{
		"\x00\x05hello", "\x00\xc3\x05\x15\x01zz\xe0\x0b\x00", "\x01\x02\x01a\xc0\x05", "\x02\x02\x01a\x01b",
		"\x02\x02\xc0\x01\xc0\x02", "\x03\x01\x01a\x031.5", "\x04\x01\x01f\x01v",
		"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x3f", "\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x02\x00",
		"\x09\x08\x01\x01a\x01\x00b\xff", "\x0d\x11\x11\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\x01b\xff",
		"\x10\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff", "\x11\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff",
		"\x14\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff",
		"\x12\x01\x02\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff", "\x12\x02\x01\x01a\x01\x01b",
		"\x15\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01>>\x00\x00\x00\x18\x00\x02\x01" +
			"\x01\x01\x01\x01\x81f\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\x03\x01\x00\x01\x01\x01\x81" +
			"w\x02\x04\x01" +
			"\x00\x01\x01\x01\x00\x01\x02\x01\x81g\x02\x81x\x02\x81h\x02\x81y\x02\x08\x01\xff\x02\x02\x01\x01\x01\x01" +
			"\x02\x03\x01\x01g\x02\x01\x03\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01" +
			"\x81l\xfe\xfe\xa1\x01\x00\x00\x01" +
			"\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x81l\xfe\xfe\xa1\x01\x00\x00\x01\x01" +
			"\x01c\x81l\xfe\xfe\xa1\x01\x00\x00\x81l\xfe\xfe\xa1\x01\x00\x00\x02" +
			"\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00" +
			"\x00\x00\x00\x00\x00\x01",
		fieldsDeadline,
		"\x18\x00\xd8\xc3,\xbb\x03\x00\x00\x02\x00\x01b@A" + strings.Repeat("x", 65) + "\x01\x01a\xc0\x01",
		"\x11\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x832.5\x04\xff",
		"\x05\x02\x01a\x00\x00\x00\x00\x00\x00\xf0?@A" + strings.Repeat("x", 65) + "\x00\x00\x00\x00\x00\x00\xf0\xff",
		"\x12\x02\x02\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\x02\x0c\x0c\x00\x00\x00\x02\x00\x81c\x02\x01\x01\xff",
	}
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	b := newTestServer(f)
	b.AnyChecksum = true
	b.run("restore", "k", "0", rdb11(fieldsDeadline)) // the table of fields' deadlines stays allocated
	b.space.DB(0).Delete([]byte("k"))
	b.settle()
	f.Fuzz(func(t *testing.T, body []byte) {
		b.t = t
		before := b.space.Heap().Used()
		reply := b.run("restore", "k", "0", rdb11(string(body)))
		if reply == "+OK\r\n" {
			v := b.space.DB(0).Peek([]byte("k"))
			encoding, payload := v.Encoding(), b.dumped("k")
			if got := b.run("restore", "again", "0", payload); got != "+OK\r\n" {
				t.Fatalf("%q dumps as %q, which is refused: %s", body, payload, got)
			}
			// Such a value is written field by field, and restored as an ordinary hash.
			lost := encoding == value.ListpackEx && !b.space.FieldsHaveDeadlines()
			if v := b.space.DB(0).Peek([]byte("again")); !lost &&
				(v.Encoding() != encoding || len(b.dumped("again")) != len(payload)) {
				t.Fatalf("%q dumps as %q, which is restored as %q", body, payload, b.dumped("again"))
			}
			b.space.DB(0).Delete([]byte("again"))
			b.space.DB(0).Delete([]byte("k"))
		} else if b.space.DB(0).Len() != 0 {
			t.Fatalf("%q: %q, and a key", body, reply)
		}
		b.settle()
		if used := b.space.Heap().Used(); used != before {
			t.Fatalf("%q: %d bytes used, %d before", body, used, before)
		}
	})
}

// TestInto: keys from the loader and keys that are inserted directly end up in one keyspace, in any order of the file.
// A key that comes twice is an error, and no part of it stays.
func TestInto(t *testing.T) {
	const keys = 6000
	write := func(replace bool) []byte {
		w := rdb.Writer{Buf: rdb.AppendHeader(nil, 12)}
		none := rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
		for i := range keys {
			if i%1000 == 0 {
				w.Buf = rdb.AppendLength(append(w.Buf, byte(rdb.OpSelectDB)), uint64(i/1000%2))
			}
			if i == 0 || i == 3000 {
				w.Buf = rdb.AppendLength(rdb.AppendLength(append(w.Buf, byte(rdb.OpResizeDB)), uint64(i*20)), 0)
			}
			a := none
			if i%5 == 0 {
				a.DeadlineMs = 4_000_000_000_000
			}
			if i%11 == 0 {
				a.Idle = 1000
			}
			kind, key := rdb.KindString, fmt.Appendf(nil, "key:%d", i)
			if i%7 == 3 {
				kind = rdb.KindSet
			}
			w.Buf = w.AppendKey(w.Buf, a, kind, key)
			switch {
			case i%7 != 3:
				w.Text(fmt.Appendf(nil, "value of %d", i))
			case i%700 == 3:
				w.Length(1000) // a value that must be built
				for j := range 1000 {
					w.Text(fmt.Appendf(nil, "member %d", j))
				}
			default:
				w.Length(1)
				w.Text(key)
			}
			if replace && i%3 == 0 {
				w.Buf = w.AppendKey(w.Buf, none, rdb.KindString, key)
				w.Text([]byte("again"))
			}
		}
		return rdb.AppendEOF(append(w.Buf, byte(rdb.OpEOF)), 0)
	}
	b := newTestServer(t)
	empty := b.space.Heap().Used()
	for _, replace := range []bool{false, true, false} {
		if l, _, err := load(t, write(replace), &Into{Space: b.space, Replace: replace}, LoadOptions{}); err != nil ||
			replace == (l.Keys == keys) {
			t.Fatalf("replace %t: %+v, %v", replace, l, err)
		}
		if n := b.space.DB(0).Len() + b.space.DB(1).Len(); n != keys {
			t.Fatalf("replace %t: %d keys", replace, n)
		}
		for i := range keys {
			v := b.space.DB(i / 1000 % 2).Peek(fmt.Appendf(nil, "key:%d", i))
			again := replace && i%3 == 0
			switch {
			case !v.Exists():
				t.Fatalf("replace %t: key %d is missing", replace, i)
			case (v.Deadline() != 0) != (i%5 == 0 && !again):
				t.Fatalf("replace %t: key %d has the deadline %d", replace, i, v.Deadline())
			case i%11 == 0 && !again && b.space.IdleMs(v) < 900_000:
				t.Fatalf("replace %t: key %d was idle for %d", replace, i, b.space.IdleMs(v))
			case again && string(v.Bytes(nil)) != "again":
				t.Fatalf("key %d is not the second one", i)
			case !again && i%7 != 3 && string(v.Bytes(nil)) != fmt.Sprintf("value of %d", i):
				t.Fatalf("replace %t: key %d is %q", replace, i, v.Bytes(nil))
			case !again && i%7 == 3 && members(v) != map[bool]int{true: 1000, false: 1}[i%700 == 3]:
				t.Fatalf("replace %t: key %d has %d members", replace, i, members(v))
			}
		}
		if !replace {
			_, log, err := load(t, write(false), &Into{Space: b.space}, LoadOptions{})
			if !errors.Is(err, ErrDuplicate) || b.space.DB(0).Len()+b.space.DB(1).Len() != keys ||
				!strings.Contains(err.Error(), ", before offset ") ||
				!strings.Contains(log, "Terminating server after rdb file reading failure.") {
				t.Fatalf("a second time: %v, %d keys", err, b.space.DB(0).Len()+b.space.DB(1).Len())
			}
		}
		b.space.DB(0).Flush()
		b.space.DB(1).Flush()
		b.settle()
		if used := b.space.Heap().Used(); used != empty {
			t.Fatalf("replace %t: %d bytes used, %d before", replace, used, empty)
		}
	}
}

// TestIntoBrokenOff: however a load of plain keys ends, no entry written in advance stays without a key. That holds
// even if the splitter hangs in a connection and resumes later.
func TestIntoBrokenOff(t *testing.T) {
	const keys = 40_000
	w, none := rdb.Writer{Buf: rdb.AppendHeader(nil, 12)},
		rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
	for i := range keys {
		w.Buf = w.AppendKey(w.Buf, none, rdb.KindString, fmt.Appendf(nil, "key:%d", i))
		w.Text(fmt.Appendf(nil, "value of %d", i))
	}
	file := w.Buf
	damaged := slices.Clone(file)
	damaged = append(damaged[:len(file)*2/3], 0xF0, 0xF0, 0xF0)
	for name, given := range map[string][]byte{"cut": file[:len(file)*2/3], "damaged": damaged, "no end": file} {
		b := newTestServer(t)
		empty := b.space.Heap().Used()
		if _, _, err := load(t, given, &Into{Space: b.space}, LoadOptions{}); err == nil || b.space.DB(0).Len() < keys/2 {
			t.Errorf("%s: %d keys, %v", name, b.space.DB(0).Len(), err)
		}
		b.space.DB(0).Flush()
		b.settle()
		if used := b.space.Heap().Used(); used != empty {
			t.Errorf("%s: %d bytes are left", name, used-empty)
		}
	}

	b := newTestServer(t)
	empty := b.space.Heap().Used()
	r, feed := io.Pipe()
	returned, sent := make(chan bool), make(chan bool)
	go func() {
		defer close(sent)
		feed.Write(file[:len(file)/2])
		<-returned // the splitter waits for more bytes meanwhile
		feed.Write(file[len(file)/2:])
		feed.Close()
	}()
	ctx, cancel := context.WithCancel(t.Context())
	var turns sync.Mutex
	taken := 0
	into := &Into{Space: b.space, Turn: func(f func()) {
		turns.Lock()
		defer turns.Unlock()
		if f(); taken == 10 {
			cancel()
		}
		taken++
	}}
	if _, err := Read(ctx, r, into, LoadOptions{Live: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(returned)
	time.Sleep(50 * time.Millisecond) // the splitter resumes
	go io.Copy(io.Discard, r)
	<-sent
	turns.Lock()
	defer turns.Unlock()
	b.space.DB(0).Flush()
	b.settle()
	if used := b.space.Heap().Used(); used != empty {
		t.Errorf("a connection: %d bytes are left", used-empty)
	}
}

// TestIntoExpired: expired plain keys of several databases are left out, wherever they are. The entries written in
// advance for other keys still go to the right keys.
func TestIntoExpired(t *testing.T) {
	const keys, now = 10_000, 1_000_000
	w := rdb.Writer{Buf: rdb.AppendHeader(nil, 12)}
	deadline := func(i int) int64 {
		switch i % 5 {
		case 1, 4:
			return now - 1
		case 2:
			return now + int64(i)
		}
		return rdb.None
	}
	for db := range 3 {
		w.Buf = rdb.AppendSelectDB(w.Buf, db, keys, keys*3/5)
		for i := range keys {
			w.Buf = w.AppendKey(w.Buf, rdb.Attributes{DeadlineMs: deadline(i), Idle: rdb.None, Freq: rdb.None}, rdb.KindString,
				fmt.Appendf(nil, "key:%d:%d", db, i))
			w.Text(fmt.Appendf(nil, "value of %d in %d", i, db))
		}
	}
	b := newTestServer(t)
	b.space.SetNow(now)
	empty := b.space.Heap().Used()
	// The end is missing, so the checksum is not checked.
	_, _, err := load(t, w.Buf, &Into{Space: b.space}, LoadOptions{NowMs: now})
	if err == nil {
		t.Error("a file without an end was loaded")
	}
	for db := range 3 {
		d := b.space.DB(db)
		if d.Len() != keys*3/5 {
			t.Errorf("database %d has %d keys, want %d", db, d.Len(), keys*3/5)
		}
		for i := range keys {
			v := d.Peek(fmt.Appendf(nil, "key:%d:%d", db, i))
			at := deadline(i)
			if v.Exists() != (at == rdb.None || at >= now) {
				t.Fatalf("key %d of database %d: %t", i, db, v.Exists())
			}
			if !v.Exists() {
				continue
			}
			if got, _ := v.Contiguous(); string(got) != fmt.Sprintf("value of %d in %d", i, db) ||
				v.Volatile() != (at != rdb.None) || v.Volatile() && v.Deadline() != at {
				t.Fatalf("key %d of database %d: %q until %d", i, db, got, v.Deadline())
			}
		}
		d.Flush()
	}
	b.settle()
	if used := b.space.Heap().Used(); used != empty {
		t.Errorf("%d bytes are left", used-empty)
	}
}

// TestIntoSeveral: one call inserts records of several databases into the right ones.
func TestIntoSeveral(t *testing.T) {
	b := newTestServer(t)
	zero := rdb.Record{Key: []byte("k"), Value: rdb.Text{Bytes: []byte("x")}, DeadlineMs: rdb.None,
		Idle: rdb.None, Freq: rdb.None}
	one := zero
	one.DB = 1
	into := &Into{Space: b.space}
	n, err := into.Insert([]rdb.Record{zero, one, one, zero})
	if n != 3 || !errors.Is(err, ErrDuplicate) || !strings.Contains(err.Error(), "database 1") {
		t.Errorf("%d keys were taken over, %v", n, err)
	}
	if err := into.Finish(); err != nil || b.space.DB(0).Len() != 1 || b.space.DB(1).Len() != 1 {
		t.Errorf("%d and %d keys, %v", b.space.DB(0).Len(), b.space.DB(1).Len(), err)
	}
}

// TestAnnouncedWithoutEnd: key counts that are announced again and again cost no memory before a key comes.
func TestAnnouncedWithoutEnd(t *testing.T) {
	b := newTestServer(t)
	into := &Into{Space: b.space}
	for i := range 10_000 {
		if err := into.Reserve(i%2, 1<<30, 0); err != nil {
			t.Fatal(err)
		}
	}
	if into.loader != nil || len(into.reserved) != 2 {
		t.Errorf("a loader: %t, %d databases", into.loader != nil, len(into.reserved))
	}
	record := rdb.Record{Key: []byte("k"), DB: 1, Value: rdb.Text{Bytes: []byte("x")}, DeadlineMs: rdb.None,
		Idle: rdb.None, Freq: rdb.None}
	if n, err := into.Insert([]rdb.Record{record}); n != 1 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
	if err := into.Finish(); err != nil || b.space.DB(1).Len() != 1 {
		t.Errorf("%d keys, %v", b.space.DB(1).Len(), err)
	}
}

// TestLeastInOneTurn: hashes with field deadlines are inserted directly, and share turns. A duplicate among them is
// reported.
func TestLeastInOneTurn(t *testing.T) {
	b := newTestServer(t)
	fields := listpack.AppendElement(listpack.AppendElement(listpack.AppendElement(listpack.AppendEmpty(nil),
		listpack.Of([]byte("f"))), listpack.Of([]byte("v"))), listpack.OfInt(4_000_000_000_000))
	var records []rdb.Record
	for i := range 60 {
		r := rdb.Record{Key: fmt.Appendf(nil, "h%d", i), Kind: rdb.KindHashTTLListpack,
			Encoding: uint8(value.ListpackEx), Packed: fields,
			Least: 4_000_000_000_000, DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
		if i == 20 { // between them, one that goes through the loader
			r = rdb.Record{Key: []byte("s"), Value: rdb.Text{Bytes: []byte("x")}, DeadlineMs: rdb.None,
				Idle: rdb.None, Freq: rdb.None}
		}
		records = append(records, r)
	}
	records = append(records, records[59])
	turns := 0
	into := &Into{Space: b.space, Turn: func(f func()) { turns++; f() }}
	n, err := into.Insert(records)
	if n != 60 || !errors.Is(err, ErrDuplicate) || turns != 3 {
		t.Errorf("%d keys in %d turns, %v", n, turns, err)
	}
	if err := into.Finish(); err != nil || b.space.DB(0).Len() != 60 ||
		b.space.DB(0).FieldsDeadline([]byte("h0")) != 4_000_000_000_000 {
		t.Errorf("%d keys, %v", b.space.DB(0).Len(), err)
	}
}

// TestReplacedPlain: a replaced key keeps nothing of its old state, not even its access clock.
func TestReplacedPlain(t *testing.T) {
	b := newTestServer(t)
	b.space.Policy = keyspace.AllKeysLFU
	db := b.space.DB(0)
	db.SetString([]byte("k"), []byte("v"), 0)
	db.SetInt([]byte("n"), 1, 0)
	for _, key := range []string{"k", "n"} {
		b.space.SetFrequency(db.Peek([]byte(key)), 200)
	}
	w := rdb.Writer{Buf: rdb.AppendHeader(nil, 12)}
	for _, key := range []string{"k", "n"} {
		w.Buf = w.AppendKey(w.Buf, rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None},
			rdb.KindString, []byte(key))
		w.Text([]byte("new"))
	}
	if _, _, err := load(t, rdb.AppendEOF(append(w.Buf, byte(rdb.OpEOF)), 0), &Into{Space: b.space, Replace: true},
		LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k", "n"} {
		if v := db.Peek([]byte(key)); string(v.Bytes(nil)) != "new" || b.space.Frequency(v) > 100 {
			t.Errorf("%s is %q, used %d times", key, v.Bytes(nil), b.space.Frequency(v))
		}
	}
}

// FuzzRestoreNewer: a payload of a newer server is refused and leaves nothing, or is a value whose own payload restores
// the same value. Replicas get a payload that they can read.
func FuzzRestoreNewer(f *testing.F) {
	hash2 := "\x16\x02\x01a\x01x\x00\xd8\xc3\x2c\xbb\x03\x00\x00\x01b\x01y\xff\xff\xff\xff\xff\xff\xff\xff"
	stream4 := "\x1a" + strings.Repeat("\x00", 10) + "\x40\x64\x0a\x01\x02p1\x01\x02id\x05\x01\x07\x08"
	for body, version := range map[string]int{
		hash2: 80, stream4: 15, "\x16\x01\x01a@A" + strings.Repeat("x", 65) + "\x00\xd8\xc3\x2c\xbb\x03\x00\x00": 80,
		"\x1f\x01\x02\x01a\x01b\x01x\xc0\x01": 15, "\x1d\x01\x01\x01a\x0c\x0c\x00\x00\x00\x02\x00\x05\x01\x81x\x02\xff": 15,
		"\x1b\x00\x00\x05\x01\x00\x00\x00\x00\x05\x01\x01g\x05\x01\x05\x01" + strings.Repeat("\x00", 15) + "\x01" +
			strings.Repeat("\x00", 8) + "\x02\x00\x01" + strings.Repeat("\x00", 15) + "\x01\x00\x00\x00\x00\x00": 15,
		"\xf3\x01CLAS\x02\x05\x00\x00\x01v": 13, "\x1c\x01\x00\x00\x00\x01x": 14,
	} {
		f.Add([]byte(body), version == 80)
	}
	b := newTestServer(f)
	b.AnyChecksum = true
	b.Settings.ModuleData.Set(SkipModuleData)
	b.run("restore", "k", "0", string(rdb.AppendFooter([]byte(hash2), 0, 80)))
	b.space.DB(0).Delete([]byte("k"))
	b.run("restore", "k", "0", string(rdb.AppendFooter([]byte(stream4), 0, 15))) // tables keep their first segments
	b.space.DB(0).Delete([]byte("k"))
	b.settle()
	f.Fuzz(func(t *testing.T, body []byte, valkey bool) {
		b.t = t
		b.space.DB(0).Delete([]byte("k")) // of a failed call
		b.settle()
		before, version := b.space.Heap().Used(), rdb.MaxVersion
		if valkey {
			version = rdb.ValkeyVersion
		}
		reply := b.run("restore", "k", "0", string(rdb.AppendFooter(slices.Clone(body), 0, version)))
		switch {
		case reply == "+OK\r\n":
			said := b.told
			told, ok := strings.CutPrefix(said, "restore k 0 ")
			kind, known := rdb.KindOf([]byte(told))
			deadlines := kind.Since() == codec.NewestVersion && rdb.PayloadVersion([]byte(told)) == codec.NewestVersion
			if !ok || !known || rdb.PayloadVersion([]byte(told)) > codec.CommonVersion && !deadlines {
				t.Fatalf("%q is told as %q", body, said)
			}
			was := b.dumped("k")
			length := len(was)
			if was[0] == byte(rdb.KindHash) { // its encoding may have room for deadlines, which the payload does not say
				length = 0
			}
			for _, payload := range []string{told, was} {
				got := b.run("restore", "k", "0", payload, "REPLACE")
				if length == 0 {
					length = len(b.dumped("k"))
				}
				if got != "+OK\r\n" || len(b.dumped("k")) != length {
					t.Fatalf("%q became %q: %s %q, was %q", body, payload, got, b.dumped("k"), was)
				}
			}
			b.space.DB(0).Delete([]byte("k"))
		case b.space.DB(0).Len() != 0:
			t.Fatalf("%q: %q, and a key", body, reply)
		}
		b.settle()
		if used := b.space.Heap().Used(); used != before {
			t.Fatalf("%q: %d bytes used, %d before", body, used, before)
		}
	})
}
