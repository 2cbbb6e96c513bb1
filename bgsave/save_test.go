package bgsave

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/bgsave/rdb"
	"spindle/engine/data/value"
	"spindle/internal/logging"
)

var header = Header{ServerVersion: "7.4.1", CreatedUnix: 1_700_000_000, UsedMemory: 123456}

// TestRoundTrip: the loader gets the view's keys, whatever the number of savers and the compression.
func TestRoundTrip(t *testing.T) {
	s := mixed(t, manyKeys)
	want := s.entries()
	for _, savers := range []int{1, 2, 5} {
		for _, compress := range []bool{false, true} {
			var file bytes.Buffer
			var p Progress
			p.expect(s)
			n, err := WriteTo(t.Context(), &file, s, Options{Savers: savers, Compress: compress, Checksum: true,
				Header: header, Progress: &p})
			if err != nil || n != int64(file.Len()) {
				t.Fatalf("wrote %d of %d bytes: %v", n, file.Len(), err)
			}
			if int(p.Keys.Load()) != len(want) || int(p.Total.Load()) != len(want) || p.Bytes.Load() != n {
				t.Errorf("progress says %d of %d keys, %d bytes", p.Keys.Load(), p.Total.Load(), p.Bytes.Load())
			}
			got := newFakeInserter()
			l, err := Read(t.Context(), &file, got, LoadOptions{Size: n})
			if err != nil || l.Version != 9 || l.Keys != int64(len(want)) || l.Expired != 0 || int(got.reserved) != len(want) {
				t.Fatalf("savers %d, compress %t: %+v, %v", savers, compress, l, err)
			}
			if got.longest > turnRecords {
				t.Errorf("a turn of %d keys", got.longest)
			}
			got.equal(t, want)
		}
	}
}

func TestHeader(t *testing.T) {
	h := header
	h.Replication = &ReplicationState{StreamDB: 3, ID: strings.Repeat("ab", 20), Offset: 1234567890123}
	h.AOFBase = true
	h.Functions = [][]byte{[]byte("#!lua name=x")}
	var file bytes.Buffer
	if _, err := WriteTo(t.Context(), &file, newFakeView(t), Options{Header: h}); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(file.Bytes(), []byte("REDIS0010")) {
		t.Errorf("functions need version 10: %.9q", file.Bytes())
	}
	l, err := Read(t.Context(), bytes.NewReader(file.Bytes()), &withFunctions{fakeInserter: newFakeInserter()},
		LoadOptions{})
	if err != nil || l.Replication == nil || *l.Replication != *h.Replication || !l.AOFBase || l.UsedMemory != 123456 {
		t.Fatalf("%+v, %+v, %v", l, l.Replication, err)
	}
	var unsupported *UnsupportedError
	if _, err := Read(t.Context(), &file, newFakeInserter(), LoadOptions{}); !errors.As(err, &unsupported) {
		t.Errorf("a library that no loader accepts: %v", err)
	}
}

type withFunctions struct{ *fakeInserter }

func (withFunctions) Function([]byte) error { return nil }

// TestClock: idle times and counters are written where requested, and read back.
func TestClock(t *testing.T) {
	s := newFakeView(t)
	s.put(0, "a", "x", 0)
	for _, c := range []struct {
		idle int64
		freq int
	}{{77, rdb.None}, {rdb.None, 200}} {
		var file bytes.Buffer
		_, err := WriteTo(t.Context(), &file, s, Options{Clock: func(value.Value) (int64, int) { return c.idle, c.freq }})
		if err != nil {
			t.Fatal(err)
		}
		var b rdb.Batch
		if err := rdb.NewDecoder(&file, rdb.DecoderOptions{}).Next(&b); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Records {
			if r.Op == rdb.OpKey && (r.Idle != c.idle || r.Freq != c.freq) {
				t.Errorf("idle %d, freq %d; want %d, %d", r.Idle, r.Freq, c.idle, c.freq)
			}
		}
	}
}

// TestGolden fixes every byte of a small file, because other servers read such files.
func TestGolden(t *testing.T) {
	s := newFakeView(t)
	s.put(0, "key", "value", 0)
	s.put(0, "n", 300, 0x0102030405060708)
	s.put(9, "7", strings.Repeat("a", 64), 0)
	var file bytes.Buffer
	h := Header{ServerVersion: "7.4.1", CreatedUnix: 1_700_000_000, UsedMemory: 1000}
	if _, err := WriteTo(t.Context(), &file, s, Options{Compress: true, Checksum: true, Header: h}); err != nil {
		t.Fatal(err)
	}
	want := "REDIS0009" +
		"\xfa\x09redis-ver\x057.4.1" + "\xfa\x0aredis-bits\xc0\x40" + "\xfa\x05ctime\xc2\x00\xf1\x53\x65" +
		"\xfa\x08used-mem\xc1\xe8\x03" + "\xfa\x08aof-base\xc0\x00" +
		"\xfe\x00\xfb\x02\x01" + "\x00\x03key\x05value" + "\xfc\x08\x07\x06\x05\x04\x03\x02\x01\x00\x01n\xc1\x2c\x01" +
		"\xfe\x09\xfb\x01\x00" + "\x00\xc0\x07\xc3"
	got := file.String()
	if !strings.HasPrefix(got, want) {
		t.Errorf("got  %q\nwant %q…", got, want)
	}
	if end := got[len(got)-9]; end != 0xff {
		t.Errorf("no EOF before the checksum: %#x", end)
	}
}

// failing is a writer that fails at byte limit.
type failing struct{ limit int }

func (f *failing) Write(p []byte) (int, error) {
	if f.limit -= len(p); f.limit < 0 {
		return len(p) + f.limit, syscall.ENOSPC
	}
	return len(p), nil
}

// TestWriteError: a full disk ends the save at once, whenever it happens, and no goroutine hangs.
func TestWriteError(t *testing.T) {
	s := mixed(t, 5000)
	for limit := 0; limit < 1_000_000; limit += 37_001 {
		_, err := WriteTo(t.Context(), &failing{limit}, s, Options{Savers: 3, Compress: limit%2 == 0})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("full at %d: %v", limit, err)
		}
	}
}

// TestCancel: a save under rdb-key-save-delay ends soon after it is cancelled.
func TestCancel(t *testing.T) {
	s := mixed(t, 1000)
	ctx, cancel := context.WithCancelCause(t.Context())
	began := time.Now()
	time.AfterFunc(20*time.Millisecond, func() { cancel(ErrAborted) })
	_, err := WriteTo(ctx, io.Discard, s, Options{Delay: 10_000_000})
	if !errors.Is(err, ErrAborted) || time.Since(began) > time.Minute { // it would take hours
		t.Fatalf("%v after %v", err, time.Since(began))
	}
}

// TestStream writes and reads the base of a full sync. A view yields the same number of bytes each time, so the bytes
// can be counted first. A live reader leaves the bytes after the file to its caller.
func TestStream(t *testing.T) {
	s := mixed(t, 3000)
	count, err := WriteTo(t.Context(), io.Discard, s, Options{Compress: true, Checksum: true})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if n, err := WriteTo(t.Context(), &file, s, Options{Compress: true, Checksum: true, Savers: 3}); err != nil ||
		n != count || int64(file.Len()) != n {
		t.Fatalf("%d bytes, then %d of which %d came, %v", count, n, file.Len(), err)
	}
	const mark = "0123456789012345678901234567890123456789"
	file.WriteString(mark)
	r := bufio.NewReader(&file)
	got := newFakeInserter()
	l, err := Read(t.Context(), r, got, LoadOptions{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(r)
	if string(l.Rest)+string(rest) != mark {
		t.Errorf("after the file stands %q", string(l.Rest)+string(rest))
	}
	got.equal(t, s.entries())
}

// TestSaveFile: the file is complete, no other file is left, and every compression can be read.
func TestSaveFile(t *testing.T) {
	s := mixed(t, 5000)
	sizes := map[FileCompression]int64{}
	for _, c := range []FileCompression{CompressNone, CompressZstd, CompressS2} {
		dir := t.TempDir()
		path := filepath.Join(dir, "dump.rdb")
		size, err := SaveFile(t.Context(), s, FileOptions{Path: path, Sync: true, Compression: c},
			Options{Checksum: true, Compress: true, Header: header})
		if err != nil {
			t.Fatal(err)
		}
		sizes[c] = size
		list, _ := os.ReadDir(dir)
		if stat, err := os.Stat(path); err != nil || stat.Size() != size || len(list) != 1 {
			t.Fatalf("%v, %d bytes, %d files; %v", c, size, len(list), err)
		}
		got := newFakeInserter()
		var p Loading
		l, err := Load(t.Context(), path, got, LoadOptions{Progress: &p})
		if err != nil || p.Active.Load() || p.Read.Load() != p.Total.Load() && c == CompressNone ||
			p.LastKeysLoaded.Load() != l.Keys {
			t.Fatalf("%v: %v, %d of %d", c, err, p.Read.Load(), p.Total.Load())
		}
		got.equal(t, s.entries())
	}
	if sizes[CompressZstd] >= sizes[CompressNone] {
		t.Errorf("zstd makes it no smaller: %v", sizes)
	}
}

func TestSaveFileErrors(t *testing.T) {
	s := mixed(t, 100)
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		f    FileOptions
		want string
	}{
		{"no folder", FileOptions{Path: filepath.Join(dir, "none", "dump.rdb")},
			"Failed opening the temp RDB file " + dir + "/none/temp-"},
		{"full disk", FileOptions{Path: filepath.Join(dir, "dump.rdb"), Temp: full},
			"Write error while saving DB to the disk(rdbSaveRio): No space left on device"},
		{"name of a folder", FileOptions{Path: dir, Temp: filepath.Join(dir, "temp")}, "Error moving temp DB file"},
	}
	for _, c := range cases {
		var log bytes.Buffer
		c.f.Log = logging.New(&log)
		_, err := SaveFile(t.Context(), s, c.f, Options{})
		if err == nil || !strings.Contains(log.String(), c.want) {
			t.Errorf("%s: %v, log %q; want %q", c.name, err, log.String(), c.want)
		}
		if list, _ := filepath.Glob(filepath.Join(dir, "temp*")); len(list) != 0 {
			t.Errorf("%s: still there: %q", c.name, list)
		}
	}
}

// BenchmarkWriteTo encodes keys of 16 bytes with values of 32. Watch ns/key.
func BenchmarkWriteTo(b *testing.B) {
	s := newFakeView(b)
	const keys = 200_000
	for i := range keys {
		s.put(0, fmt.Sprintf("key:%012d", i), fmt.Sprintf("%032x", uint64(i)*0x9E3779B97F4A7C15), 0)
	}
	for _, compress := range []bool{false, true} {
		b.Run(fmt.Sprintf("lzf=%t", compress), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := WriteTo(b.Context(), io.Discard, s, Options{Checksum: true, Compress: compress}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
		})
	}
}
