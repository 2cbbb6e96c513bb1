package bgsave

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/internal/logging"
	"spindle/tests/testkit"
)

// written returns s as the bytes of a file.
func written(t testing.TB, s *fakeView) []byte {
	var file bytes.Buffer
	if _, err := WriteTo(t.Context(), &file, s, Options{Checksum: true, Compress: true, Header: header}); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// load writes file to disk and loads it. It also returns the log.
func load(t *testing.T, file []byte, to Inserter, o LoadOptions) (Loaded, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.rdb")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o.Log = logging.New(&log)
	l, err := Load(t.Context(), path, to, o)
	return l, log.String(), err
}

func TestLoadExpired(t *testing.T) {
	s := newFakeView(t)
	s.put(0, "past", "x", 999)
	s.put(0, "now", "x", 1000)
	s.put(0, "future", "x", 1001)
	s.put(0, "forever", "x", 0)
	file := written(t, s)
	for _, keep := range []bool{false, true} {
		var p Loading
		got := newFakeInserter()
		l, log, err := load(t, file, got, LoadOptions{NowMs: 1000, KeepExpired: keep, Progress: &p})
		want, line := Loaded{Keys: 3, Expired: 1}, "Done loading RDB, keys loaded: 3, keys expired: 1."
		if keep {
			want, line = Loaded{Keys: 4}, "Done loading RDB, keys loaded: 4, keys expired: 0."
		}
		if err != nil || l.Keys != want.Keys || l.Expired != want.Expired || len(got.keys) != int(want.Keys) ||
			p.LastKeysLoaded.Load() != want.Keys || p.LastKeysExpired.Load() != want.Expired {
			t.Errorf("keep %t: %+v, %v", keep, l, err)
		}
		for _, line := range []string{line, "Loading RDB produced by version 7.4.1", "RDB age 0 seconds",
			"RDB memory usage when created 0.12 Mb", "DB loaded from disk: "} {
			if !strings.Contains(log, line) {
				t.Errorf("the log lacks %q:\n%s", line, log)
			}
		}
	}
}

// TestLoadRefuses: the log has the fault, its place, what to do, and the last line that tools look for.
func TestLoadRefuses(t *testing.T) {
	s := mixed(t, 200)
	good := written(t, s)
	module := append(rdb.AppendHeader(nil, 11), byte(rdb.KindModule2))
	module = rdb.AppendLength(append(module, "\x05mykey"...), rdb.ModuleID("ReJSON-RL", 3))
	module = append(module, "\x05\x01a\x00\xff\x00\x00\x00\x00\x00\x00\x00\x00"...)
	beside := rdb.AppendLength(append(rdb.AppendHeader(nil, 11), byte(rdb.OpModuleAux)), rdb.ModuleID("ft_index0", 1))
	beside = append(beside, "\x02\x02\x00\xff\x00\x00\x00\x00\x00\x00\x00\x00"...)
	twice := append(rdb.AppendHeader(nil, 9), "\x00\x01k\x01a\x00\x01k\x01b\xff\x00\x00\x00\x00\x00\x00\x00\x00"...)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	const corrupt, foreign = "Terminating server after rdb file reading failure.\n",
		"Fatal error loading the DB: Invalid argument. Exiting.\n"
	cases := []struct {
		name string
		file []byte
		says []string
		last string
	}{
		{"empty", nil, []string{"Short read or OOM", "offset 0", "Copy it again"}, corrupt},
		{"foreign", []byte("#!/bin/sh\nexit 0\n"), []string{"Wrong signature trying to load DB from file", "Move it away"},
			foreign},
		{"future", []byte("REDIS0099"), []string{"Can't handle RDB format version 99"}, foreign},
		{"future wrapping", []byte("SPINDLE9zabc"), []string{"does not know"}, foreign},
		{"wrapped half", []byte("SPINDLE1z"), []string{"Short read"}, corrupt},
		{"truncated", good[:len(good)/2], []string{"Short read or OOM",
			"the file ends too early", "only the beginning of a file"}, corrupt},
		{"checksum", flipped, []string{"Wrong RDB checksum expected", "RDB CRC error", "rdbchecksum no"}, corrupt},
		{"opcode", append(rdb.AppendHeader(nil, 9), 0x99),
			[]string{"offset 9", "value type or opcode 153", "check-rdb"}, corrupt},
		{"module", module,
			[]string{`a value of module type "ReJSON-RL" (version 3) at offset 9 cannot be loaded by this version (key "mykey" of database 0)`, "with the server that wrote it"}, corrupt},
		{"module's own", beside, []string{`data of module type "ft_index0" (version 1) at offset 9 cannot be loaded`,
			"module-aux-data skip"}, corrupt},
		{"set", append(rdb.AppendHeader(nil, 9), "\x02\x05myset\x02\x01a\x01a\xff\x00\x00\x00\x00\x00\x00\x00\x00"...),
			[]string{`two elements are equal at offset 9, reading set (table), key "myset" of database 0`, "check-rdb"},
			corrupt},
		{"database", append(rdb.AppendHeader(nil, 9), 0xfe, 16), []string{"database 16", "raise 'databases'",
			"cluster-databases"}, corrupt},
	}
	for _, c := range cases {
		_, log, err := load(t, c.file, newFakeInserter(), LoadOptions{})
		if err == nil || !strings.HasSuffix(log, c.last) {
			t.Errorf("%s: %v, log\n%s", c.name, err, log)
		}
		for _, s := range c.says {
			if !strings.Contains(log, s) {
				t.Errorf("%s: the log lacks %q:\n%s", c.name, s, log)
			}
		}
	}
	if _, err := Load(t.Context(), filepath.Join(t.TempDir(), "none"), newFakeInserter(), LoadOptions{}); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, log, err := load(t, beside, newFakeInserter(), LoadOptions{SkipModuleData: true}); err != nil ||
		!strings.Contains(log, `Skipping data of module type "ft_index0" (version 1), at offset 9`) {
		t.Errorf("told to skip a module's data: %v, log\n%s", err, log)
	}
	if _, _, err := load(t, flipped, newFakeInserter(), LoadOptions{NoChecksum: true}); err != nil {
		t.Errorf("unchecked: %v", err)
	}
	if n := newFakeInserter(); n != nil {
		n.fail = ErrDuplicate
		if l, _, err := load(t, twice, n, LoadOptions{}); !errors.Is(err, ErrDuplicate) || l.Keys != 0 {
			t.Errorf("inserter's error: %v", err)
		}
	}
}

// TestLoadNewer: when a file of a newer server has something unknown, the error has the key, the place and what would
// help. The settings that it names do help.
func TestLoadNewer(t *testing.T) {
	const end = "\xff\x00\x00\x00\x00\x00\x00\x00\x00"
	const array = "REDIS0014\x00\x01a\x01v\x1c\x05array\x01\x00\x00\x00\x01x\x00\x01b\x01v" + end
	const meta = "REDIS0013\x00\x01a\x01v\xf3\x01CLAS\x02\x05\x00\x00\x05known\x01v" + end
	const future = "VALKEY099\x00\x01a\x01v\x63\x06newest\x01v" + end
	const slots = "VALKEY080\xf3\x05job-1\x01\x00\x05\x00\x01a\x01v" + end
	for _, c := range []struct {
		name, file string
		o          LoadOptions
		keys       int64
		fails      bool
		says       []string
	}{
		{"array", array, LoadOptions{}, 0, true, []string{
			`a value of type array at offset 14 cannot be loaded by this version (key "array" of database 0)`,
			"'rdb-unsupported-keys skip' loads the other keys"}},
		{"array, skipped", array, LoadOptions{SkipKeys: true}, 2, false, []string{
			`Skipping key "array" of database 0, at offset 14: it is a value of type array`, "which were skipped: 1"}},
		{"array, told to skip modules' data", array, LoadOptions{SkipModuleData: true}, 0, true, nil},
		{"metadata", meta, LoadOptions{}, 0, true, []string{
			`what modules keep beside a key at offset 23 cannot be loaded by this version (key "known" of database 0)`,
			"module-aux-data skip"}},
		{"metadata, skipped", meta, LoadOptions{SkipModuleData: true}, 2, false, nil},
		{"future", future, LoadOptions{}, 0, true, []string{"Can't handle RDB format version 99 of Valkey",
			"'rdb-version-check relaxed' reads it up to the first thing that is not known"}},
		{"future, relaxed", future, LoadOptions{Relaxed: true}, 1, true, []string{"offset 14 -> value type or opcode 99",
			`key "newest" of database 0`, `delete or convert key "newest"`}},
		{"slots", slots, LoadOptions{}, 1, false, []string{"while 6 slots (0-5) were being imported (job-1)"}},
	} {
		l, log, err := load(t, []byte(c.file), newFakeInserter(), c.o)
		if (err != nil) != c.fails || l.Keys != c.keys {
			t.Errorf("%s: %d keys, %v", c.name, l.Keys, err)
		}
		for _, s := range c.says {
			if !strings.Contains(log, s) {
				t.Errorf("%s: the log lacks %q:\n%s", c.name, s, log)
			}
		}
	}
}

// TestLoadTruncated: a file cut at any byte is refused with the offset, compressed or not.
func TestLoadTruncated(t *testing.T) {
	s := newFakeView(t)
	s.put(0, "key", "value", 4_000_000_000_000)
	s.put(1, "number", 12345, 0)
	s.put(1, "packed", strings.Repeat("z", 100), 0)
	file := written(t, s)
	for cut := range file {
		var format *rdb.FormatError
		if _, err := Read(t.Context(), bytes.NewReader(file[:cut]), newFakeInserter(),
			LoadOptions{Size: int64(cut)}); !errors.As(err, &format) || format.Offset != int64(cut) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

// TestLoadDelay: with key-load-delay each turn loads one key, progress is visible, and cancellation ends the load.
func TestLoadDelay(t *testing.T) {
	file := written(t, mixed(t, 300))
	ctx, cancel := context.WithCancelCause(t.Context())
	got := newFakeInserter()
	var p Loading
	go func() {
		testkit.Holds(testkit.Slowly(20*time.Second), func() bool { return p.LastKeysLoaded.Load() > 0 })
		cancel(ErrAborted)
	}()
	_, err := Read(ctx, bytes.NewReader(file), got, LoadOptions{Delay: func() int64 { return 5000 }, Progress: &p,
		Size: int64(len(file))})
	if !errors.Is(err, ErrAborted) || got.longest != 1 || p.LastKeysLoaded.Load() == 0 || p.LastKeysLoaded.Load() > 100 {
		t.Fatalf("%v; turns of %d keys, %d loaded", err, got.longest, p.LastKeysLoaded.Load())
	}
}

// TestLoadInterval: a turn inserts no more bytes of the file than the interval.
func TestLoadInterval(t *testing.T) {
	s := newFakeView(t)
	for i := range 500 {
		s.put(0, strings.Repeat("k", 100)+string(rune('a'+i%26))+string(rune('a'+i/26)), "v", 0)
	}
	var file bytes.Buffer
	if _, err := WriteTo(t.Context(), &file, s, Options{}); err != nil {
		t.Fatal(err)
	}
	got := newFakeInserter()
	if _, err := Read(t.Context(), &file, got, LoadOptions{Interval: 1024}); err != nil || got.longest > 10 ||
		len(got.keys) != 500 {
		t.Fatalf("%v; turns of %d keys, %d loaded", err, got.longest, len(got.keys))
	}
}

// FuzzLoad: any bytes are data or an error. They cost memory in proportion to their number.
func FuzzLoad(f *testing.F) {
	s := newFakeView(f)
	s.put(0, "key", "value", 4_000_000_000_000)
	s.put(2, "number", -3, 0)
	s.put(2, "packed", strings.Repeat("z", 100), 0)
	f.Add(written(f, s))
	f.Add([]byte(
		"REDIS0012\xfe\x00\xfb\x81\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01k\x81\x10\x00\x00\x00\x00\x00\x00\x00abc"))
	f.Add([]byte("REDIS0001\x16\x00\x00\xff")) // an empty set under an empty name
	f.Add([]byte(
		"VALKEY080\x16\x01h\x02\x01a\x01x\x05\x00\x00\x00\x00\x00\x00\x00\x01b\x01y\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte("REDIS0015\xf2\x01\x01\x01a\x20\x01h\x01\x01x\x1c\x01r\x01\x00\x00\x00\x01x\xff"))
	f.Add([]byte("SPINDLE1s\xff\x06\x00\x00S2sTwO"))
	f.Add([]byte("SPINDLE1z\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, file []byte) {
		plain, wrapped, err := UnwrapReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		defer plain.Close()
		if wrapped && len(file) > 1<<16 {
			return // compressed zeros may take as much memory as they expand to
		}
		got := newFakeInserter()
		l, err := Read(t.Context(), plain, got, LoadOptions{NoChecksum: true})
		if err == nil && int(l.Keys) < len(got.keys) {
			t.Fatalf("%d keys counted, %d there", l.Keys, len(got.keys))
		}
		if int(got.reserved) > 1<<30 {
			t.Fatalf("%d keys reserved for %d bytes", got.reserved, len(file))
		}
	})
}

// BenchmarkLoad decodes keys of 16 bytes with values of 32 and drops them. Watch ns/key.
func BenchmarkLoad(b *testing.B) {
	s := newFakeView(b)
	const keys = 200_000
	for i := range keys {
		s.put(0, "key:"+time.Unix(int64(i), 0).UTC().Format("150405.000000"),
			strings.Repeat("v", 8)+time.Unix(int64(i)*7919, 0).UTC().Format(time.RFC3339Nano), 0)
	}
	file := written(b, s)
	for b.Loop() {
		if _, err := Read(b.Context(), bytes.NewReader(file), nothing{}, LoadOptions{Size: int64(len(file))}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}

type nothing struct{}

func (nothing) Prepare(codec.Env)                  {}
func (nothing) Databases() int                     { return 16 }
func (nothing) Reserve(int, uint64, uint64) error  { return nil }
func (nothing) Finish() error                      { return nil }
func (nothing) Function([]byte) error              { return nil }
func (nothing) Insert(r []rdb.Record) (int, error) { return len(r), nil }
