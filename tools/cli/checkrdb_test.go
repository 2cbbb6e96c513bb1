package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/listpack"
	"spindle/internal/crc"
)

// file returns a valid file with one string key and one list.
func file() []byte {
	e := &rdb.Encoder{Compress: true}
	p := rdb.AppendSelectDB(rdb.AppendHeader(nil, 11), 2, 2, 1)
	p = e.AppendText(e.AppendKey(p, rdb.Attributes{DeadlineMs: 5, Idle: rdb.None, Freq: rdb.None}, rdb.KindString,
		[]byte("mykey")), bytes.Repeat([]byte("v"), 99))
	p = append(p, "\x01\x06mylist\x02\x01a\x01b\xff"...)
	return rdb.AppendEOF(p, crc.Update64(0, p))
}

// packedSet returns a set of two members. If twice is true, the members are equal.
func packedSet(twice bool) []byte {
	second := "b"
	if twice {
		second = "a"
	}
	lp := listpack.AppendElement(listpack.AppendElement(listpack.AppendEmpty(nil), listpack.Of([]byte("a"))),
		listpack.Of([]byte(second)))
	w := rdb.Writer{Buf: append(rdb.AppendHeader(nil, 11), "\x14\x05myset"...)}
	w.Text(lp)
	w.Byte(byte(rdb.OpEOF))
	return rdb.AppendEOF(w.Buf, 0)
}

// oneKey returns a file with one key of the given kind.
func oneKey(kind rdb.Kind, value string) []byte {
	p := append(rdb.AppendHeader(nil, 11), byte(kind))
	return rdb.AppendEOF(append(append(append(p, "\x03key"...), value...), byte(rdb.OpEOF)), 0)
}

func TestCheck(t *testing.T) {
	// node is the node of a stream with one entry and no groups. The stream's length follows it.
	const node = "\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x1d\x1d\x00\x00\x00\x0a\x00\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\xff"
	const behind = "\x01\x01\x01\x01\x00\x00\x01\x00"
	good := file()
	flipped, cut, packed := bytes.Clone(good), good[:len(good)-14], bytes.Clone(good)
	flipped[len(good)-10] ^= 1
	packed[bytes.Index(good, []byte("mykey"))+5+3] = 0xFF
	module := rdb.AppendLength(append(rdb.AppendHeader(nil, 11), "\x07\x03doc"...), rdb.ModuleID("ReJSON-RL", 3))
	module = rdb.AppendEOF(append(module, "\x05\x01a\x00\xff"...), 0)
	cases := []struct {
		name string
		file []byte
		ok   bool
		says []string
	}{
		{"whole", good, true, []string{"[info] 2 keys read\n[info] 1 expires\n[info] 1 already expired\n",
			"[info] RDB version 11\n", "1 x list (linked), 2 elements", "] Checksum OK\n", `\o/ RDB looks OK! \o/`}},
		{"no checksum", rdb.AppendEOF(bytes.Clone(good[:len(good)-8]), 0), true, []string{"Saved without a checksum"}},
		{"flipped", flipped, false, []string{"--- RDB ERROR DETECTED ---\n", "RDB CRC error"}},
		{"cut", cut, false, []string{"--- RDB ERROR DETECTED ---\n", "] the file ends too early",
			"While doing: reading list (linked)", "Reading key 'mylist' of database 2",
			"The last record in order begins at offset 23: KEY 'mykey' of database 2"}},
		{"packed", packed, false, []string{"] invalid LZF", "Reading key 'mykey' of database 2"}},
		{"listpack", packedSet(false), true, []string{"1 x set (listpack), 2 elements"}},
		{"duplicate", packedSet(true), false,
			[]string{"] Set listpack integrity check failed: Set listpack with dup elements",
				"reading set (listpack)", "key 'myset' of database 0"}},
		{"module", module, true, []string{`module type "ReJSON-RL" (version 3)`, "1 x module value\n"}},
		{"scores", oneKey(rdb.KindZSetListpack, "\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x832.5\x04\xff"),
			true, []string{"1 x sorted set (listpack), 2 elements"}},
		{"score", oneKey(rdb.KindZSetListpack, "\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x832.x\x04\xff"),
			false, []string{"Zset listpack integrity check failed: a score is not a number"}},
		{"stream", oneKey(rdb.KindStream2, node+"\x01"+behind), true, []string{"1 x stream (version 2), 1 elements"}},
		{"stream's length", oneKey(rdb.KindStream2, node+"\x02"+behind), false,
			[]string{"] a stream's length is not that of its nodes"}},
		{"stream's node", oneKey(rdb.KindStream2, strings.Replace(node, "\x0a\x00\x01\x01", "\x0a\x00\x02\x01", 1)+"\x01"+
			behind), false, []string{"] Stream listpack integrity check failed"}},
		{"foreign", []byte("<html></html>"), false, []string{"Wrong signature"}},
	}
	for _, c := range cases {
		path := filepath.Join(t.TempDir(), "dump.rdb")
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		k := checker{out: &out, path: path, list: true, nowMs: 10}
		if ok := k.check(); ok != c.ok {
			t.Errorf("%s: %t\n%s", c.name, ok, out.String())
		}
		for _, s := range c.says {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%s: lacks %q:\n%s", c.name, s, out.String())
			}
		}
	}
}

// TestHostileNames: names of fields and keys in a file cannot control the terminal that prints them.
func TestHostileNames(t *testing.T) {
	const escape = "\x1b]0;owned\x07\x1b[2J"
	e := &rdb.Encoder{}
	p := rdb.AppendHeader(nil, 11)
	p = append(p, byte(rdb.OpAux), byte(len(escape)))
	p = append(append(append(p, escape...), 1), 'v')
	none := rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
	p = e.AppendText(e.AppendKey(p, none, rdb.KindString, []byte(escape)), []byte("v"))
	p = e.AppendKey(p, none, rdb.KindString, []byte(escape)) // the file ends here, without a value
	path := filepath.Join(t.TempDir(), "dump.rdb")
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := checkRDB(process{args: []string{"--keys", path}, out: &out, err: &out}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if said := out.String(); strings.ContainsAny(said, "\x1b\x07") || strings.Count(said, `\x1b]0;owned\a`) < 3 {
		t.Errorf("it says %q", said)
	}
}

// TestManyDatabases: a file with a different database for each of its keys needs bounded memory, and no key is lost.
func TestManyDatabases(t *testing.T) {
	const keys = maxPrefixes + 1000
	e := &rdb.Encoder{}
	p := rdb.AppendHeader(nil, 11)
	none := rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
	for db := range keys {
		p = rdb.AppendSelectDB(p, db, 1, 0)
		p = e.AppendText(e.AppendKey(p, none, rdb.KindString, []byte("k")), []byte("v"))
	}
	p = rdb.AppendEOF(append(p, byte(rdb.OpEOF)), 0)
	path := filepath.Join(t.TempDir(), "dump.rdb")
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	args := []string{"report", "--top", "10000000", "--format", "csv", path}
	if code := rdbTool(process{args: args, out: &out, err: &out}); code != 0 {
		t.Fatalf("exit code %d: %.300s", code, out.String())
	}
	if n := strings.Count(out.String(), "\ndatabase,"); n != maxPrefixes+1 {
		t.Errorf("%d rows of databases, want %d", n, maxPrefixes+1)
	}
	if !strings.Contains(out.String(), "\ndatabase,(many more),1000,") {
		t.Error("the databases past the bound are lost")
	}
}

// TestPlainTerminal: a terminal without UTF-8 gets ASCII.
func TestPlainTerminal(t *testing.T) {
	c := &census{o: &reportOptions{ascii: true}}
	for in, want := range map[string]string{"user:": "user:", "日本:": `\u65e5\u672c:`, strings.Repeat("x", 9): "xxxx..."} {
		if got := c.named(in, 5); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for locale, want := range map[string]bool{"": false, "C": false, "C.UTF-8": true, "de_DE.utf8": true, "de_DE": false} {
		if got := speaksUTF8(func(string) string { return locale }); got != want {
			t.Errorf("%q: %t", locale, got)
		}
	}
}

// TestVersionOfCheckRDB: scripts ask redis-check-rdb for its version.
func TestVersionOfCheckRDB(t *testing.T) {
	for _, word := range []string{"-v", "--version"} {
		var out bytes.Buffer
		if code := checkRDB(process{args: []string{word}, out: &out, err: &out}); code != 0 ||
			!strings.HasPrefix(out.String(), "redis-check-rdb v=7.4.1 ") {
			t.Errorf("%s: %d, %q", word, code, out.String())
		}
	}
}
