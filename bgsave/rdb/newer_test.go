package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"spindle/engine/data/listpack"
	"spindle/internal/crc"
)

// packed returns a string that is a listpack of these texts.
func packed(texts ...string) string {
	lp := listpack.AppendEmpty(nil)
	for _, s := range texts {
		lp = listpack.AppendElement(lp, listpack.Of([]byte(s)))
	}
	return string(AppendLength(nil, uint64(len(lp)))) + string(lp)
}

// finished returns a file with EOF and checksum.
func finished(file string) []byte {
	p := append([]byte(file), byte(OpEOF))
	return AppendEOF(p, crc.Update64(0, p))
}

// newest has files of newer servers, and their records as text.
var newest = map[string]struct {
	file string
	says []string
}{
	"Valkey 9": {
		"VALKEY080\xfa\x0avalkey-ver\x059.1.2" +
			"\xfe\x00\xfb\x02\x00\xf3\x03job\x02\x00\x05\x40\x64\x7f\xff" +
			"\x16\x01h\x02\x01a\xc0\x01\xe8\x03\x00\x00\x00\x00\x00\x00\x01b\x01x\xff\xff\xff\xff\xff\xff\xff\xff" +
			"\x00\x01s\x01v",
		[]string{"AUX valkey-ver=9.1.2", "SELECTDB 0", "RESIZEDB 2 0", "SLOT_IMPORT job 0-5 100-16383 16290",
			"0 h:hash with field deadlines (Valkey) 020161c001e8030000000000000162" + "0178ffffffffffffffff -1 -1 -1",
			"0 s=v -1 -1 -1"},
	},
	"Redis 8.6": {
		"REDIS0013" + "\xfe\x00\xfb\x02\x00" +
			"\xf3\x02CLAS\x02\x05\x05\x03abc\x00\x01\x02\x03\x04\x00" + "\x00\x01m\x01v" +
			"\x1a\x01s" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00" + "\x40\x64\x0a\x01\x02p1\x01\x02id\x05\x01\x07\x08",
		[]string{"SELECTDB 0", "RESIZEDB 2 0", "0 m=v -1 -1 -1 meta",
			"0 s:stream (version 4) 00000000000000000000" + "40640a010270310102696405010708 -1 -1 -1"},
	},
	"Redis 8.8": {
		"REDIS0014" + "\x1b\x01s" + "\x00\x00\x05\x01\x00\x00\x00\x00\x05" +
			"\x01\x01g\x05\x01\x05\x01" + strings.Repeat("\x00", 15) + "\x01" + strings.Repeat("\x00", 8) + "\x02" + "\x00" +
			"\x01" + strings.Repeat("\x00", 15) + "\x01" + "\x00\x00\x00\x00\x00" +
			"\x1c\x01a\x04\x01\x09" + "\x00\x00\x0alonger str" + "\x01\x01\x07\x00\x00\x00\x00\x00\x00\x00" +
			"\x02\x02\x00\x00\x00\x00\x00\x00\xf0\x3f" + "\x05\x03\x02ab" + "\x00\x01k\x01v",
		[]string{"0 s:stream (version 5) 000005010000000005" + "01016705010501" + strings.Repeat("00", 15) + "01" +
			strings.Repeat("00", 8) + "0200" + "01" + strings.Repeat("00", 15) + "010000000000 -1 -1 -1",
			"0 a:array 04010900000a6c6f6e67657220737472010107000000000000000202000000000000f03f05030" + "26162 -1 -1 -1",
			"0 k=v -1 -1 -1"},
	},
	"Redis 8.10": {
		"REDIS0015" + "\xf2\x07\x02\x03age\x04name" + "\xf2\x40\x80\x01\x01f" +
			"\x1e\x01p" + packed("7", "42", "Ann") + "\x20\x01q\x07\xc0\x05\x03Bob" + "\x20\x01r\x40\x80\x01x" +
			"\x1d\x01s\x00" + packed("a", "b") + packed("9", "1", "z") + "\x1f\x01t\x01\x01\x01f\x01v",
		[]string{"HASH_TEMPLATE", "HASH_TEMPLATE",
			"0 p:hash (table) 0203616765c02a046e616d6503416e6e -1 -1 -1",
			"0 q:hash (table) 0203616765c005046e616d6503426f62 -1 -1 -1", "0 r:hash (table) 0101660178 -1 -1 -1",
			"0 s:hash (table) 020161c0010162017a -1 -1 -1", "0 t:hash (table) 0101660176 -1 -1 -1"},
	},
}

// TestNewer: files of newer servers are read in pieces of any size. A file that is cut is refused.
func TestNewer(t *testing.T) {
	for name, c := range newest {
		file := finished(c.file)
		want := fmt.Sprint(append(c.says, "EOF"))
		for how, r := range map[string]io.Reader{
			"whole": bytes.NewReader(file), "bytes": iotest.OneByteReader(bytes.NewReader(file)),
			"halves": iotest.HalfReader(bytes.NewReader(file)),
		} {
			if got, err := read(r, DecoderOptions{Live: how != "whole"}); err != nil || fmt.Sprint(got) != want {
				t.Errorf("%s, %s: %v\n got %q\nwant %s", name, how, err, got, want)
			}
		}
		for cut := range file {
			_, err := read(bytes.NewReader(file[:cut]), DecoderOptions{Size: int64(cut)})
			var format *FormatError
			if !errors.As(err, &format) || !format.Truncated || format.Offset != int64(cut) {
				t.Errorf("%s cut at %d: %v", name, cut, err)
			}
		}
	}
}

// TestNewerRefused: wrong parts of the newer forms are errors that name the key.
func TestNewerRefused(t *testing.T) {
	const v15 = "REDIS0015\xf2\x07\x02\x01a\x01b"
	for name, c := range map[string]struct{ file, want string }{
		"a template twice":      {v15 + "\xf2\x07\x01\x01c", "the names of a hash template are not valid"},
		"a template of no name": {"REDIS0015\xf2\x07\x00", "the names of a hash template are not valid"},
		"no such template": {v15 + "\x20\x01k\x08\x01v",
			`a hash refers to a template that the file does not have at offset 20, reading hash (template of the file), key "k"`},
		"no such packed one":    {v15 + "\x1e\x01k" + packed("8", "v"), "refers to a template that the file does not have"},
		"a number that is none": {v15 + "\x1e\x01k" + packed("x", "v"), "refers to a template that the file does not have"},
		"an empty listpack":     {v15 + "\x1e\x01k" + packed(), "refers to a template that the file does not have"},
		"too few values": {v15 + "\x1e\x01k" + packed("7", "v"),
			"a hash has not as many values as its template has names"},
		"too many":               {v15 + "\x1e\x01k" + packed("7", "v", "w", "x"), "not as many values"},
		"names of no known form": {"REDIS0015\x1f\x01k\x02\x01\x01f\x01v", "the names of a hash template are not valid"},
		"a listpack that is bad": {v15 + "\x1e\x01k\x07\x07\x00\x00\x00\x01\x00\x80", "listpack"},
		"an array's flag":        {"REDIS0014\x1c\x01k\x01\x02", "an array's flag is neither 0 nor 1"},
		"an array's element":     {"REDIS0014\x1c\x01k\x01\x00\x00\x04", "an array's element is of no known form"},
		"slots beyond the last":  {"VALKEY080\xf3\x01j\x01\x00\x80\x00\x00\x40\x00", "a range of slots that no cluster has"},
		"a range backwards":      {"VALKEY080\xf3\x01j\x01\x02\x01", "a range of slots that no cluster has"},
		"Redis's in Valkey's": {"VALKEY080\x18\x01k",
			`value type or opcode 24, which no version of Valkey up to 80 has at offset 9, reading the next opcode, key "k"`},
		"a template in Valkey's": {"VALKEY080\xf2\x01\x01\x01f", "opcode 242, which no version of Valkey"},
	} {
		for _, o := range []DecoderOptions{{}, {Size: int64(len(c.file))}, {Live: true}} {
			if _, err := read(strings.NewReader(c.file), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %+v: %v", name, o, err)
			}
		}
	}
}

// TestRelaxed: a file of an unknown version is read up to its first unknown part. The error names that part's key.
func TestRelaxed(t *testing.T) {
	for _, head := range []string{"REDIS0099", "VALKEY099"} {
		good := head + "\xfe\x00\xfb\x02\x00\x00\x01s\x01v"
		if _, err := read(bytes.NewReader(finished(good)), DecoderOptions{}); !errors.Is(err, ErrVersion) {
			t.Errorf("strictly: %v", err)
		}
		if got, err := read(bytes.NewReader(finished(good)), DecoderOptions{Relaxed: true}); err != nil || len(got) != 4 {
			t.Errorf("%q, %v", got, err)
		}
		file := good + "\x63\x06newest\x01\x02\x03"
		for how, r := range map[string]io.Reader{"whole": strings.NewReader(file),
			"bytes": iotest.OneByteReader(strings.NewReader(file))} {
			for _, o := range []DecoderOptions{{Relaxed: true}, {Relaxed: true, Live: true},
				{Relaxed: true, Size: int64(len(file))}} {
				got, err := read(r, o)
				if s, ok := r.(io.Seeker); ok {
					s.Seek(0, io.SeekStart)
				} else {
					r = iotest.OneByteReader(strings.NewReader(file))
				}
				var format *FormatError
				if len(got) != 3 || !errors.As(err, &format) || !format.Unknown || format.Offset != 19 || format.Key != "newest" {
					t.Errorf("%s, %+v: %q, %v", how, o, got, err)
				}
			}
		}
	}
}

// TestTemplatesInBatches: the bytes that templates add to the values of a batch are bounded, however short the values
// are.
func TestTemplatesInBatches(t *testing.T) {
	name := strings.Repeat("n", 100_000)
	file := "REDIS0015\xf2\x07\x01" + string(AppendLength(nil, uint64(len(name)))) + name
	for range 1000 {
		file += "\x20\x01k\x07\xc0\x05"
	}
	d := NewDecoder(bytes.NewReader(finished(file)), DecoderOptions{})
	var b Batch
	keys := 0
	for {
		err := d.Next(&b)
		sum := 0
		for _, r := range b.Records {
			if r.Op == OpKey {
				keys++
			}
			sum += len(r.Raw)
		}
		if sum > 2*blockSize {
			t.Fatalf("a batch of %d bytes", sum)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if keys != 1000 {
		t.Errorf("%d keys", keys)
	}
}

// TestPayloadDialect: the version number of a payload decides what its type byte means.
func TestPayloadDialect(t *testing.T) {
	pre, hash2 := "\x16\x01\x00\x01f\x01v", "\x16\x01\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff"
	for _, c := range []struct {
		body    string
		version int
		check   Check
		kind    Kind
		value   string
		err     error
	}{
		{pre, 12, Check{}, KindHashTTLPre, pre[1:], nil},
		{hash2, 80, Check{}, KindHash2, hash2[1:], nil},
		{hash2, 81, Check{}, 0, "", ErrPayload},
		{hash2, 81, Check{Relaxed: true}, KindHash2, hash2[1:], nil},
		{"\x00\x01v", 15, Check{}, KindString, "\x01v", nil},
		{"\x00\x01v", 16, Check{}, 0, "", ErrPayload},
		{"\x00\x01v", 16, Check{Relaxed: true}, KindString, "\x01v", nil},
		{"\x18" + strings.Repeat("\x00", 9), 80, Check{}, 0, "", ErrPayloadData},
		{"\x1f\x01\x02\x01a\x01b\x01x\xc0\x01", 15, Check{}, KindHash, "\x02\x01a\x01x\x01b\xc0\x01", nil},
		{"\x1d\x00" + packed("a") + packed("5", "x"), 15, Check{}, KindHash, "\x01\x01a\x01x", nil},
		{"\x1d\x00" + packed("a") + packed("5"), 15, Check{}, 0, "", ErrPayloadData},
		{"\x1d\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a", 15, Check{}, 0, "", ErrPayloadData},
		{"\x1e" + packed("5", "x"), 15, Check{}, 0, "", ErrPayloadData},
		{"\x20\x05\x01x", 15, Check{}, 0, "", ErrPayloadData},
		{"\xf3\x01CLAS\x02\x05\x00\x00\x01v", 13, Check{}, 0, "", ErrPayloadData},
		{"\xf3\x01CLAS\x02\x05\x00\x00\x01v", 13, Check{SkipMeta: true}, KindString, "\x01v", nil},
		{"\xf3\x01CLAS\x02\x05\x00", 13, Check{SkipMeta: true}, 0, "", ErrPayloadData},
		{"\xf3\x01CLAS\x02\x05\x00\x00\x01v", 80, Check{SkipMeta: true}, 0, "", ErrPayloadData},
	} {
		kind, value, err := Payload(AppendFooter([]byte(c.body), 0, c.version), c.check)
		if kind != c.kind || string(value) != c.value || err != c.err {
			t.Errorf("%q of version %d, %+v: %v %q %v", c.body, c.version, c.check, kind, value, err)
		}
	}
	for version, want := range map[int]error{12: ErrPayload, 15: nil, 80: ErrPayload} { // without a sum
		p := AppendFooter([]byte("\x00\x01v"), 0, version)
		clear(p[len(p)-8:])
		if _, _, err := Payload(p, Check{}); err != want {
			t.Errorf("version %d with the checksum 0: %v", version, err)
		}
	}
}

// TestRestamp: a payload that gets another version equals one that was made with that version.
func TestRestamp(t *testing.T) {
	const meta, body = "\xf3\x01CLAS\x02\x05\x00", "\x00\x05hello"
	for _, version := range []int{1, 9, 10, 12, 15, 16, 80, 255, 300} {
		p := AppendFooter([]byte(body), 0, version)
		if got, want := Restamp(p, 9), AppendFooter([]byte(body), 0, 9); !bytes.Equal(got, want) {
			t.Errorf("of version %d: %q, want %q", version, got, want)
		}
	}
	for name, p := range map[string][]byte{
		"without a sum":        append(AppendFooter([]byte(body), 0, 15)[:len(body)+2], make([]byte, 8)...),
		"with a module's data": AppendFooter([]byte(meta+body), 0, 13),
		"with both":            append(AppendFooter([]byte(meta+body), 0, 15)[:len(meta+body)+2], make([]byte, 8)...),
	} {
		if got, want := Restamp(p, 10), AppendFooter([]byte(body), 0, 10); !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// FuzzNewer: any bytes after the header of a newer version are data or an error, however they arrive.
func FuzzNewer(f *testing.F) {
	for _, c := range newest {
		f.Add(c.file[:9], []byte(c.file[9:]))
	}
	f.Fuzz(func(t *testing.T, head string, rest []byte) {
		for _, known := range []string{"REDIS0015", "VALKEY080", "REDIS0099"} {
			if len(head) == 0 || head[len(head)-1]&3 == known[len(known)-1]&3 {
				head = known
			}
		}
		file := append([]byte(head), rest...)
		whole, err := read(bytes.NewReader(file), DecoderOptions{NoChecksum: true, Relaxed: true})
		cut, errCut := read(iotest.OneByteReader(bytes.NewReader(file)), DecoderOptions{NoChecksum: true, Live: true,
			Relaxed: true})
		if (err == nil) != (errCut == nil) || fmt.Sprint(whole) != fmt.Sprint(cut) {
			t.Fatalf("how the bytes come changes the records: %v, %v\n%q\n%q", err, errCut, whole, cut)
		}
	})
}

// FuzzTemplatePayload: a payload of a hash with a template is refused, or becomes a plain hash.
func FuzzTemplatePayload(f *testing.F) {
	f.Add([]byte("\x1f\x01\x02\x01a\x01b\x01x\xc0\x01"))
	f.Add([]byte("\x1d\x00" + packed("a") + packed("5", "x")))
	f.Add([]byte("\x1d\x01\x02\x01a\x01b" + packed("5", "x", "7")))
	f.Fuzz(func(t *testing.T, body []byte) {
		kind, value, err := Payload(AppendFooter(bytes.Clone(body), 0, 15), Check{})
		if err != nil || len(body) == 0 || body[0] != byte(KindTmpl) && body[0] != byte(KindTmplPacked) {
			return
		}
		c := cursor{p: value}
		if n, err := c.length(); kind != KindHash || err != nil || n == 0 || n > uint64(len(value)) {
			t.Fatalf("%q became %v %q", body, kind, value)
		}
	})
}
