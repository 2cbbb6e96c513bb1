package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"spindle/internal/crc"
)

func TestLength(t *testing.T) {
	cases := []struct {
		n    uint64
		want string
	}{
		{0, "\x00"},
		{63, "\x3f"},
		{64, "\x40\x40"},
		{16383, "\x7f\xff"},
		{16384, "\x80\x00\x00\x40\x00"},
		{math.MaxUint32, "\x80\xff\xff\xff\xff"},
		{math.MaxUint32 + 1, "\x81\x00\x00\x00\x01\x00\x00\x00\x00"},
		{math.MaxUint64, "\x81\xff\xff\xff\xff\xff\xff\xff\xff"},
	}
	for _, c := range cases {
		got := AppendLength(nil, c.n)
		if string(got) != c.want {
			t.Errorf("AppendLength(%d) = %x, want %x", c.n, got, c.want)
		}
		for cut := range got {
			if _, err := (&cursor{p: got[:cut]}).length(); err != errShort {
				t.Errorf("length of %x cut at %d: %v, want errShort", got, cut, err)
			}
		}
		if n, err := (&cursor{p: got}).length(); n != c.n || err != nil {
			t.Errorf("length(%x) = %d, %v", got, n, err)
		}
	}
	for _, bad := range []string{"\x82", "\xbf", "\xc0\x01"} {
		if _, err := (&cursor{p: []byte(bad + "123456789")}).length(); err == nil || err == errShort {
			t.Errorf("length(%x): %v, want corrupt", bad, err)
		}
	}
}

// texts are strings, and the bytes that redis-server writes for them.
var texts = []struct{ text, want string }{
	{"", "\x00"},
	{"0", "\xc0\x00"},
	{"-1", "\xc0\xff"},
	{"127", "\xc0\x7f"},
	{"128", "\xc1\x80\x00"},
	{"-128", "\xc0\x80"},
	{"-129", "\xc1\x7f\xff"},
	{"32767", "\xc1\xff\x7f"},
	{"32768", "\xc2\x00\x80\x00\x00"},
	{"2147483647", "\xc2\xff\xff\xff\x7f"},
	{"-2147483648", "\xc2\x00\x00\x00\x80"},
	{"2147483648", "\x0a2147483648"},
	{"-2147483649", "\x0b-2147483649"},
	{"007", "\x03007"},
	{"-0", "\x02-0"},
	{"-", "\x01-"},
	{"+1", "\x02+1"},
	{"1 ", "\x021 "},
	{"hello", "\x05hello"},
	{strings.Repeat("x", 20), "\x14" + strings.Repeat("x", 20)},
}

func TestText(t *testing.T) {
	e := &Encoder{Compress: true}
	for _, c := range texts {
		got := e.AppendText(nil, []byte(c.text))
		if string(got) != c.want {
			t.Errorf("AppendText(%q) = %x, want %x", c.text, got, c.want)
		}
		checkText(t, got, c.text)
	}
	for _, n := range []int64{0, -1, 1 << 20, math.MaxInt32, math.MaxInt32 + 1, math.MinInt64, math.MaxInt64} {
		checkText(t, AppendInt(nil, n), fmt.Sprint(n))
	}
}

// TestSparse: a string with runs of zeros survives writing and reading, whatever its pieces and however it is written.
func TestSparse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		type run struct {
			p     []byte
			zeros int
		}
		var runs []run
		var want []byte
		empty := 0
		for range rng.IntN(6) {
			if rng.IntN(2) == 0 {
				n := rng.IntN(4) * PieceMax / (1 + rng.IntN(3))
				runs, want, empty = append(runs, run{zeros: n}), append(want, make([]byte, n)...), empty+n
				continue
			}
			p := make([]byte, rng.IntN(2*PieceMax))
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			runs, want = append(runs, run{p: p}), append(want, p...)
		}
		w := Writer{Encoder: Encoder{Compress: round%2 == 0}}
		w.Sparse(len(want), empty, func(yield func([]byte, int) bool) {
			for _, r := range runs {
				if !yield(r.p, r.zeros) {
					return
				}
			}
		})
		if w.Err != nil {
			t.Fatal(w.Err)
		}
		if empty > len(want)*9/10 && len(w.Buf) > len(want)/5 {
			t.Errorf("round %d: %d bytes, %d of them empty, take %d", round, len(want), empty, len(w.Buf))
		}
		c := cursor{p: w.Buf}
		text, err := c.text()
		if err != nil || c.i != len(w.Buf) {
			t.Fatalf("round %d: %v", round, err)
		}
		if got, err := text.Append(nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: %v, %d bytes of %d", round, err, len(got), len(want))
		}
	}
}

// TestSparseCost: runs of zeros are nearly free. Written byte by byte, this string of 64 GB would take minutes.
func TestSparseCost(t *testing.T) {
	w, n := Writer{Stop: func() bool { return false }}, 0
	w.Spill = func(full []byte) []byte { n += len(full); return full[:0] }
	const size = 1 << 36
	w.Sparse(size, size, func(yield func([]byte, int) bool) { yield(nil, size) })
	if n += len(w.Buf); w.Err != nil || n > size/80 {
		t.Errorf("%d bytes, %v", n, w.Err)
	}
}

// TestSparseRuns: adjacent runs of zeros are joined, like a filter's empty pages. Runs of any length survive, also
// after other bytes.
func TestSparseRuns(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 9, 10, 264, 265, 266, 267, 268, 273, 274, 100_000} {
		w := Writer{}
		w.Sparse(n+3, n, func(yield func([]byte, int) bool) {
			if !yield([]byte("abc"), 0) {
				return
			}
			for range n {
				if !yield(nil, 1) {
					return
				}
			}
		})
		c := cursor{p: w.Buf}
		text, err := c.text()
		if err != nil || w.Err != nil || len(w.Buf) > n/80+20 {
			t.Fatalf("%d zeros: %v, %v, %d bytes", n, err, w.Err, len(w.Buf))
		}
		if got, err := text.Append(nil); err != nil || string(got) != "abc"+string(make([]byte, n)) {
			t.Errorf("%d zeros: %v, %d bytes", n, err, len(got))
		}
	}
}

func checkText(t *testing.T, p []byte, want string) {
	t.Helper()
	for cut := range p {
		if _, err := (&cursor{p: p[:cut]}).text(); err != errShort {
			t.Errorf("text of %.40x cut at %d: %v, want errShort", p, cut, err)
		}
	}
	c := cursor{p: p}
	text, err := c.text()
	if err != nil || c.i != len(p) {
		t.Errorf("text(%.40x): %v, stopped at %d of %d", p, err, c.i, len(p))
		return
	}
	got, err := text.Append([]byte("before"))
	if err != nil || string(got) != "before"+want || text.Size != len(want) {
		t.Errorf("text(%.40x) = %.40q (%d bytes announced), %v; want %.40q", p, got, text.Size, err, want)
	}
	skip := cursor{p: p}
	if err := skipText(&skip); err != nil || skip.i != len(p) {
		t.Errorf("skipText(%.40x): %v, stopped at %d of %d", p, err, skip.i, len(p))
	}
}

func TestTextLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for _, size := range []int{1, 20, 21, 22, 63, 64, 1000, 16383, 16384, 70_000, 200_000} {
		for name, text := range map[string]string{
			"noise":  string(noise[:size]),
			"zeros":  strings.Repeat("0", size),
			"period": strings.Repeat("abcdefgh-", size/9+1)[:size],
		} {
			for _, compress := range []bool{false, true} {
				e := &Encoder{Compress: compress}
				p := e.AppendText(nil, []byte(text))
				checkText(t, p[:min(len(p), 1<<20)], text)
				if name == "zeros" && compress && size > 100 && len(p) > size/8 {
					t.Errorf("%d zeros compress to %d bytes", size, len(p))
				}
			}
		}
	}
}

// TestPieces: pieces compressed one by one and joined are one valid LZF string.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		e := &Encoder{}
		var text, packed []byte
		for range 1 + rng.IntN(5) {
			piece := bytes.Repeat([]byte("spindle "), rng.IntN(3000))
			if rng.IntN(2) == 0 {
				for i := range piece {
					piece[i] = byte(rng.Uint32())
				}
			}
			text = append(text, piece...)
			packed = e.AppendPiece(packed, piece)
		}
		if len(text) == 0 {
			continue
		}
		p := append(appendPackedHeader(nil, len(packed), len(text)), packed...)
		c := cursor{p: p}
		got, err := c.text()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := got.Append(nil); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%d bytes in pieces do not come back: %v", len(text), err)
		}
	}
}

// sample returns a small file with every opcode, and its records as text.
func sample(version int) (file []byte, says []string) {
	e := &Encoder{Compress: true}
	p := AppendHeader(nil, version)
	p = e.AppendAux(p, "redis-ver", "7.4.1")
	p = e.AppendAux(p, "redis-bits", "64")
	p = e.AppendFunction(p, []byte("#!lua name=mylib\nredis.register_function('f', function() return 1 end)"))
	p = AppendSelectDB(p, 0, 5, 2)
	p = append(p, byte(OpSlotInfo), 0x41, 0x00, 2, 1)
	p = e.AppendText(e.AppendKey(p, Attributes{None, None, None}, KindString, []byte("plain")), []byte("value"))
	p = AppendInt(e.AppendKey(p, Attributes{1_900_000_000_123, None, None}, KindString, []byte("12345")), -70_000)
	p = e.AppendText(e.AppendKey(p, Attributes{None, 3600, None}, KindString, []byte("")), bytes.Repeat([]byte("ab"), 50))
	p = e.AppendText(e.AppendKey(p, Attributes{5, None, 200}, KindString, bytes.Repeat([]byte("k"), 30)), nil)
	p = append(p, byte(OpExpireTime), 0x10, 0x27, 0, 0)
	p = e.AppendText(e.AppendKey(p, Attributes{None, None, None}, KindString, []byte("old")), []byte("x"))
	p = AppendSelectDB(p, 15, 1, 0)
	p = e.AppendKey(p, Attributes{None, None, None}, KindList, []byte("list"))
	p = append(p, 2, 1, 'a', 0xc0, 7)
	p = append(p, byte(OpModuleAux), 0x81, 1, 2, 3, 4, 5, 6, 7, 8, 2, 2, 5, 3, 'a', 'b', 'c', 0)
	p = append(p, byte(OpEOF))
	says = []string{
		"AUX redis-ver=7.4.1", "AUX redis-bits=64", "FUNCTION2 70", "SELECTDB 0", "RESIZEDB 5 2", "SLOT_INFO 2 1",
		"0 plain=value -1 -1 -1", "0 12345=-70000 1900000000123 -1 -1", "0 =" + strings.Repeat("ab", 50) + " -1 3600 -1",
		"0 " + strings.Repeat("k", 30) + "= 5 -1 200", "0 old=x 10000000 -1 -1", "SELECTDB 15", "RESIZEDB 1 0",
		"15 list:list (linked) 020161c007 -1 -1 -1", "MODULE_AUX 72623859790382856", "EOF",
	}
	if version >= checksumSince {
		p = AppendEOF(p, crc.Update64(0, p))
	}
	return p, says
}

// read returns a file's records as text.
func read(r io.Reader, o DecoderOptions) (says []string, err error) {
	d := NewDecoder(r, o)
	var b Batch
	for {
		err := d.Next(&b)
		if expanded := b.Expand(nil); expanded != nil { // its fault comes before the error of Next
			err = expanded
		}
		for i := range b.Records {
			says = append(says, say(&b.Records[i]))
		}
		if err == io.EOF {
			return says, nil
		}
		if err != nil {
			return says, err
		}
	}
}

func say(r *Record) string {
	switch r.Op {
	case OpKey:
		if r.Kind != KindString {
			return fmt.Sprintf("%d %s:%s %x %d %d %d", r.DB, r.Key, r.Kind, r.Raw, r.DeadlineMs, r.Idle, r.Freq)
		}
		text, _ := r.Value.Append(nil)
		says := fmt.Sprintf("%d %s=%s %d %d %d", r.DB, r.Key, text, r.DeadlineMs, r.Idle, r.Freq)
		if r.Meta {
			says += " meta"
		}
		return says
	case OpSlotImport:
		return fmt.Sprintf("%v %s %s %d", r.Op, r.Key, r.Value.Bytes, r.Keys)
	case OpAux:
		return fmt.Sprintf("AUX %s=%s", r.Key, r.Value.Bytes)
	case OpFunction2:
		return fmt.Sprintf("FUNCTION2 %d", len(r.Value.Bytes))
	case OpSelectDB:
		return fmt.Sprintf("SELECTDB %d", r.DB)
	case OpResizeDB, OpSlotInfo:
		return fmt.Sprintf("%v %d %d", r.Op, r.Keys, r.Volatile)
	case OpModuleAux:
		return fmt.Sprintf("%v %d", r.Op, r.Keys)
	}
	return r.Op.String()
}

func TestDecoder(t *testing.T) {
	for version := 1; version <= MaxVersion; version++ {
		file, want := sample(version)
		for name, r := range map[string]io.Reader{
			"whole":   bytes.NewReader(file),
			"bytes":   iotest.OneByteReader(bytes.NewReader(file)),
			"halves":  iotest.HalfReader(bytes.NewReader(file)),
			"dataErr": iotest.DataErrReader(bytes.NewReader(file)),
		} {
			for _, o := range []DecoderOptions{{}, {Size: int64(len(file))}, {Live: true}, {NoChecksum: true}} {
				got, err := read(r, o)
				if seeker, ok := r.(io.Seeker); ok {
					seeker.Seek(0, io.SeekStart)
				} else if err == nil {
					r = bytes.NewReader(file)
				}
				if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("version %d, %s, %+v: %v\n got %q\nwant %q", version, name, o, err, got, want)
				}
			}
		}
	}
}

// TestTruncated: a file cut anywhere is refused, and the error has the offset.
func TestTruncated(t *testing.T) {
	file, _ := sample(MaxVersion)
	for cut := range file {
		for _, o := range []DecoderOptions{{}, {Size: int64(cut)}, {Live: true}} {
			_, err := read(bytes.NewReader(file[:cut]), o)
			var format *FormatError
			if !errors.As(err, &format) || !format.Truncated || format.Offset != int64(cut) {
				t.Fatalf("cut at %d of %d, %+v: %v", cut, len(file), o, err)
			}
		}
	}
}

// TestFlipped: a file with one changed bit is refused, by its form or by its checksum.
func TestFlipped(t *testing.T) {
	file, _ := sample(MaxVersion)
	for at := range file {
		for bit := range 8 {
			bad := bytes.Clone(file)
			bad[at] ^= 1 << bit
			if at >= 5 && at < 9 {
				continue // the version's last byte; the other version may be valid, too
			}
			if _, err := read(bytes.NewReader(bad), DecoderOptions{Size: int64(len(bad))}); err == nil {
				t.Fatalf("bit %d of byte %d changed without an error", bit, at)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	head := "REDIS0012"
	cases := []struct{ name, file, want string }{
		{"foreign", "SQLite format 3\x00", "Wrong signature"},
		{"short foreign", "hello!", "Wrong signature"},
		{"version 0", "REDIS0000", "Can't handle RDB format version 0"},
		{"version 16", "REDIS0016", "Can't handle RDB format version 16"},
		{"Valkey's number", "REDIS0080", "Can't handle RDB format version 80"},
		{"Valkey 81", "VALKEY081", "Can't handle RDB format version 81 of Valkey"},
		{"Valkey 11", "VALKEY011", "Can't handle RDB format version 11 of Valkey"},
		{"short Valkey", "VALKEX", "Wrong signature"},
		{"version text", "REDISabcd", `Can't handle RDB format version "abcd"`},
		{"opcode", head + "\x80", "value type or opcode 128, which no version of Redis up to 12 has at offset 9"},
		{"kind 8", head + "\x08", "value type or opcode 8"},
		{"length form", head + "\xfe\x90", "unknown length encoding at offset 10, reading a database number"},
		{"string form", head + "\x00\xc5", "unknown RDB string encoding type 5 at offset 10, reading a key's name"},
		{"value form", head + "\x00\x01k\xc5", `reading string, key "k" of database 0`},
		{"pre-release module", head + "\x06\x01k", "whose end only that module knows"},
		{"pre-release function", head + "\xf6", "which servers no longer read at offset 9"},
		{"LZF too long", head + "\x00\x01k\xc3\x01\x40\xff\x00", "invalid LZF compressed string at offset 13"},
		{"LZF empty", head + "\x00\x01k\xc3\x00\x00", "invalid LZF compressed string"},
		{"LZF wrong", head + "\x00\x01k\xc3\x02\x05\x20\x20\xff", "invalid LZF compressed string"},
		{"huge string", head + "\x00\x01k\x81\x10\x00\x00\x00\x00\x00\x00\x00abc",
			"a length at offset 21 asks for more bytes than follow, at offset 24"},
		{"huge list", head + "\x01\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a", "the file ends too early at offset 23"},
		{"huge database", head + "\xfe\x81\x00\x00\x00\x01\x00\x00\x00\x00", "a database number that no server can have"},
	}
	for _, c := range cases {
		for _, size := range []int64{0, int64(len(c.file))} {
			_, err := read(strings.NewReader(c.file), DecoderOptions{Size: size})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		}
	}
}

func TestChecksumZero(t *testing.T) {
	file, want := sample(9)
	binary.LittleEndian.PutUint64(file[len(file)-8:], 0)
	if got, err := read(bytes.NewReader(file), DecoderOptions{}); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("a file without checksum: %v", err)
	}
	file[len(file)-1] = 1
	var wrong *ChecksumError
	if _, err := read(bytes.NewReader(file), DecoderOptions{}); !errors.As(err, &wrong) ||
		wrong.Offset != int64(len(file)-8) {
		t.Fatalf("a wrong checksum: %v", err)
	}
}

// TestBlocks reads records of all lengths across block borders, and bytes after the file.
func TestBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	e := &Encoder{Compress: true}
	file := AppendHeader(nil, 9)
	var want []string
	for i := range 20_000 {
		size := rng.IntN(40)
		if i%1000 == 0 {
			size = rng.IntN(3 * blockSize)
		}
		key := fmt.Sprintf("key:%s:%d", strings.Repeat("p", i%30), i)
		value := make([]byte, size)
		for j := range value {
			value[j] = byte(rng.Uint32() % 7)
		}
		file = e.AppendText(e.AppendKey(file, Attributes{None, None, i % 256}, KindString, []byte(key)), value)
		want = append(want, fmt.Sprintf("0 %s=%s -1 -1 %d", key, value, i%256))
	}
	want = append(want, "EOF")
	file = append(file, byte(OpEOF))
	file = AppendEOF(file, crc.Update64(0, file))
	size := len(file)
	file = append(file, "the tail"...)
	for _, o := range []DecoderOptions{{}, {Size: int64(size)}, {Live: true}} {
		d := NewDecoder(bytes.NewReader(file), o)
		var got []string
		var batches [2]Batch
		for i := 0; ; i++ {
			b := &batches[i&1]
			err := d.Next(b)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Expand(nil); err != nil {
				t.Fatal(err)
			}
			for i := range b.Records {
				got = append(got, say(&b.Records[i]))
			}
		}
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("%+v: record %d differs", o, i)
			}
		}
		if !strings.HasPrefix("the tail", string(d.Rest())) || d.Offset() != int64(size) {
			t.Fatalf("Rest = %q, Offset = %d, want a part of the tail and %d", d.Rest(), d.Offset(), size)
		}
	}
}

// TestPiecesAreSteppedThroughOnce: a long value that comes in small pieces is scanned once. A new start for each piece
// would take minutes here.
func TestPiecesAreSteppedThroughOnce(t *testing.T) {
	const n = 300_000
	w := Writer{}
	members := func(n int) {
		w.Length(uint64(n))
		for i := range n {
			w.Text(strconv.AppendInt([]byte("member:"), int64(i), 10))
		}
	}
	pending := func(n, each int) {
		w.Length(uint64(n))
		for i := range n * each {
			w.Buf = append(w.Buf, byte(i))
			if (i+1)%each == 0 && each > 16 {
				w.Length(uint64(i))
			}
		}
	}
	values := map[Kind]func(){
		KindSet:  func() { members(n) },
		KindHash: func() { w.Length(1); w.Text([]byte("f")); w.Text([]byte("v")) },
		// The stream has three nodes, then two groups. The second group has many pending entries in its second
		// consumer.
		KindStream3: func() {
			w.Length(3)
			for range 6 {
				w.Text([]byte("sixteen bytes id"))
			}
			for range 8 {
				w.Length(7)
			}
			w.Length(2)
			for group := range 2 {
				w.Text([]byte("group"))
				for range 3 {
					w.Length(1)
				}
				pending(2+group*n, 24)
				w.Length(3)
				for consumer := range 3 {
					w.Text([]byte("consumer"))
					w.Buf = append(w.Buf, make([]byte, 16)...)
					pending(1+consumer%2*group*n, 16)
				}
			}
		},
	}
	e := Encoder{}
	file, want := AppendHeader(nil, MaxVersion), []string(nil)
	for _, kind := range []Kind{KindHash, KindSet, KindHash, KindStream3, KindSet} {
		w.Buf = nil
		values[kind]()
		file = append(e.AppendKey(file, Attributes{None, None, None}, kind, []byte("key")), w.Buf...)
		want = append(want, fmt.Sprintf("%s %x", kind, crc.Update64(0, w.Buf)))
	}
	file = AppendEOF(append(file, byte(OpEOF)), 0)
	for _, piece := range []int{37, 512, 100_000} {
		d := NewDecoder(&pieces{file, piece}, DecoderOptions{Live: true, NoChecksum: true})
		var b Batch
		var got []string
		var err error
		for err == nil {
			if err = d.Next(&b); err == nil {
				for _, r := range b.Records {
					if r.Op == OpKey {
						got = append(got, fmt.Sprintf("%s %x", r.Kind, crc.Update64(0, r.Raw)))
					}
				}
			}
		}
		if err != io.EOF || !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: %v\n%s\n%s", piece, err, got, want)
		}
	}
}

// pieces is a reader that returns size bytes at a time.
type pieces struct {
	rest []byte
	size int
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to[:min(len(to), p.size)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// TestAttributeFlood: attributes without a key cost no memory.
func TestAttributeFlood(t *testing.T) {
	r := io.MultiReader(strings.NewReader("REDIS0009"), io.LimitReader(repeat("\xf9\x01"), 8<<20))
	d := NewDecoder(r, DecoderOptions{})
	var b Batch
	var format *FormatError
	if err := d.Next(&b); !errors.As(err, &format) || cap(b.buf) > 4*blockSize {
		t.Fatalf("%v; the block grew to %d bytes", err, cap(b.buf))
	}
}

type repeat string

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r[i%len(r)]
	}
	return len(p) &^ 1, nil
}

func TestPayload(t *testing.T) {
	p := AppendFooter(AppendInt([]byte{byte(KindString)}, 10), 0, 9)
	if want := "\x00\xc0\x0a\x09\x00"; string(p[:5]) != want || len(p) != 13 {
		t.Fatalf("payload %x", p)
	}
	kind, value, err := Payload(p, Check{})
	if kind != KindString || string(value) != "\xc0\x0a" || err != nil {
		t.Fatalf("Payload = %v, %x, %v", kind, value, err)
	}
	if text, rest, err := StringValue(value); err != nil || text.Int != 10 || len(rest) != 0 {
		t.Fatalf("StringValue = %+v, %x, %v", text, rest, err)
	}
	for at := range p {
		bad := bytes.Clone(p)
		bad[at] ^= 0x40
		if _, _, err := Payload(bad, Check{}); err != ErrPayload {
			t.Errorf("byte %d changed: %v", at, err)
		}
		if _, _, err := Payload(p[:at], Check{}); err != ErrPayload {
			t.Errorf("cut at %d: %v", at, err)
		}
	}
	// This is DUMP's reply of redis-server 7.0.15 for SET k hello: version 10.
	known := []byte("\x00\x05hello\x0a\x00")
	known = binary.LittleEndian.AppendUint64(known, crc.Update64(0, known))
	if _, value, err := Payload(known, Check{}); err != nil || string(value) != "\x05hello" {
		t.Errorf("known payload: %x, %v", value, err)
	}
}

// FuzzDecoder: any bytes are data or an error, however they arrive. They never cost more memory than they can expand
// to.
func FuzzDecoder(f *testing.F) {
	for version := range MaxVersion + 1 {
		file, _ := sample(version)
		f.Add(file)
	}
	f.Add([]byte("REDIS0012\x00\x01k\x81\x10\x00\x00\x00\x00\x00\x00\x00abc"))
	f.Add([]byte("REDIS0012\x0f\x01k\x01\x01a\x01b\x01\x01\x01\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		whole, err := read(bytes.NewReader(file), DecoderOptions{NoChecksum: true})
		cut, errCut := read(iotest.OneByteReader(bytes.NewReader(file)), DecoderOptions{NoChecksum: true, Live: true})
		if (err == nil) != (errCut == nil) || fmt.Sprint(whole) != fmt.Sprint(cut) {
			t.Fatalf("the pieces of a file change its content: %v, %v\n%q\n%q", err, errCut, whole, cut)
		}
		total := 0
		for _, s := range whole {
			total += len(s)
		}
		if total > 200*len(file)+100*len(whole) && !bytes.Contains(file, []byte{byte(OpTemplate)}) { // names come again
			t.Fatalf("%d bytes became %d", len(file), total)
		}
	})
}

// FuzzPayload: any bytes are refused, or are a payload that survives writing and reading.
func FuzzPayload(f *testing.F) {
	for _, c := range texts {
		f.Add(append([]byte{0}, c.want...))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		kind, value, err := Payload(AppendFooter(bytes.Clone(body), 0, 12), Check{})
		if err != nil || kind != KindString {
			return
		}
		text, _, err := StringValue(value)
		if err != nil {
			return
		}
		plain, err := text.Append(nil)
		if err != nil {
			return
		}
		again, rest, err := StringValue((&Encoder{Compress: true}).AppendText(nil, plain))
		if err != nil || len(rest) != 0 {
			t.Fatal(err)
		}
		if back, err := again.Append(nil); err != nil || !bytes.Equal(back, plain) {
			t.Fatalf("%q came back as %q, %v", plain, back, err)
		}
	})
}

// BenchmarkDecoder reads keys of 16 bytes with values of 32. Watch ns/key and allocs/op.
func BenchmarkDecoder(b *testing.B) {
	e := &Encoder{}
	file := AppendHeader(nil, 9)
	const keys = 100_000
	for i := range keys {
		file = e.AppendText(e.AppendKey(file, Attributes{None, None, None}, KindString, fmt.Appendf(nil, "key:%012d", i)),
			bytes.Repeat([]byte{byte(i)}, 32))
	}
	file = append(file, byte(OpEOF))
	file = AppendEOF(file, crc.Update64(0, file))
	b.SetBytes(int64(len(file)))
	var batch Batch
	for b.Loop() {
		d := NewDecoder(bytes.NewReader(file), DecoderOptions{Size: int64(len(file))})
		for d.Next(&batch) == nil {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}
