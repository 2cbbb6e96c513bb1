package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/bgsave"
	"spindle/bgsave/rdb"
)

// many is an RDB file of n strings that is generated as it is read. Every tenth key has a deadline.
type many struct {
	n, at int
	buf   []byte
	left  []byte
}

func (m *many) Read(p []byte) (int, error) {
	for len(m.left) == 0 {
		switch b := m.buf[:0]; {
		case m.at > m.n:
			return 0, io.EOF
		case m.at == m.n:
			b = rdb.AppendEOF(append(b, byte(rdb.OpEOF)), 0)
			m.at++
			m.buf, m.left = b, b
		default:
			if m.at == 0 {
				b = rdb.AppendSelectDB(rdb.AppendHeader(b, 10), 0, m.n, m.n/10)
			}
			e := &rdb.Encoder{}
			for range min(1000, m.n-m.at) {
				a := rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
				if m.at%10 == 0 {
					a.DeadlineMs = 1 << 42
				}
				b = e.AppendText(e.AppendKey(b, a, rdb.KindString, fmt.Appendf(nil, "user%d:%d", m.at%100, m.at)),
					[]byte("a value of thirty-two bytes, say."))
				m.at++
			}
			m.buf, m.left = b, b
		}
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}

// censusOf returns the census of a file.
func censusOf(t testing.TB, r io.Reader, o reportOptions) *census {
	t.Helper()
	o.top, o.separator, o.depth = max(o.top, 20), ":", max(o.depth, 1)
	c, err := newCensus(&o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bgsave.Read(context.Background(), r, c,
		bgsave.LoadOptions{KeepExpired: true, Foreign: true}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCensus: the sums are right for a million keys, and memory does not grow with the number of keys.
func TestCensus(t *testing.T) {
	const n = 1_000_000
	c := censusOf(t, &many{n: n}, reportOptions{})
	if c.all.Keys != n || len(c.prefixes) != 100 || c.lifetimes[len(lifetimes)-1].Keys != n*9/10 {
		t.Errorf("%d keys, %d prefixes, lifetimes %v", c.all.Keys, len(c.prefixes), c.lifetimes)
	}
	sum := int64(0)
	for _, r := range c.byPrefix() {
		sum += r.Bytes
	}
	if sum != c.all.Bytes || len(c.byPrefix()) != 21 {
		t.Errorf("prefixes come to %d of %d bytes, in %d rows", sum, c.all.Bytes, len(c.byPrefix()))
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 32<<20 {
		t.Errorf("%d bytes of Go heap after a million keys", m.HeapAlloc)
	}
	runtime.KeepAlive(c)
}

// TestPrefixesAreBounded: with too many prefixes no byte is lost, and the largest prefixes are still listed.
func TestPrefixesAreBounded(t *testing.T) {
	var o = reportOptions{top: 5, separator: ":", depth: 1}
	c, err := newCensus(&o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	w := bgsave.Weight{Bytes: 10, Elements: 1}
	for i := range 3 * maxPrefixes {
		key := fmt.Appendf(nil, "p%d:", i)
		if i%7 == 0 {
			key = []byte("large:x")
		}
		c.count(0, key, rdb.None, &w)
	}
	sum, rows := int64(0), c.byPrefix()
	for _, r := range rows {
		sum += r.Bytes
	}
	if len(c.prefixes) > maxPrefixes || sum != c.all.Bytes {
		t.Errorf("%d prefixes, %d of %d bytes", len(c.prefixes), sum, c.all.Bytes)
	}
	if !slices.ContainsFunc(rows, func(r share) bool { return r.Name == "large:" && r.Keys == (3*maxPrefixes+6)/7 }) {
		t.Errorf("the largest prefix is not whole: %v", rows)
	}
}

// report runs rdb report and returns its output.
func report(t *testing.T, args ...string) (out, complaints string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = rdbTool(process{args: append([]string{"report"}, args...), out: &o, err: &e})
	return o.String(), e.String(), code
}

// TestForms: the table, CSV, JSON, the list of keys and the picture of one file agree. No key's name can break their
// format.
func TestForms(t *testing.T) {
	dir := t.TempDir()
	path, picture := filepath.Join(dir, "a.rdb"), filepath.Join(dir, "a.svg")
	e := &rdb.Encoder{}
	p := rdb.AppendSelectDB(rdb.AppendHeader(nil, 11), 2, 2, 1)
	plain := rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
	short := rdb.Attributes{DeadlineMs: time.Now().UnixMilli() + 5000, Idle: rdb.None, Freq: rdb.None}
	p = e.AppendText(e.AppendKey(p, short, rdb.KindString, []byte("a:1")), []byte("1234"))
	p = e.AppendText(e.AppendKey(p, plain, rdb.KindString, []byte("a:<b>\"&,\n\xff\x1b[31m")),
		bytes.Repeat([]byte("v"), 5000))
	p = append(p, "\x01\x06mylist\x02\x01a\x01b"...)
	p = append(rdb.AppendLength(append(p, "\x07\x03doc"...), rdb.ModuleID("ReJSON-RL", 3)), "\x05\x01a\x00"...)
	p = rdb.AppendEOF(append(p, byte(rdb.OpEOF)), 0)
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	out, complaints, code := report(t, "--svg", picture, path)
	for _, want := range []string{": 4 keys, ", "string int ", "string raw ", "list ", "module ", "under a minute ",
		"(none) ", "a: ", `"a:<b>\"&,\n\xff\x1b[31m"`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("the table lacks %q: %d %s %s", want, code, complaints, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a key's escape sequence reaches the terminal")
	}
	out, _, _ = report(t, "--format", "json", path)
	var parsed struct {
		All     total
		Types   []share
		Largest []shownKey
	}
	if err := json.Unmarshal([]byte(out), &parsed); err != nil || parsed.All.Keys != 4 || len(parsed.Types) != 4 ||
		len(parsed.Largest) != 4 {
		t.Errorf("JSON: %v %s", err, out)
	}
	if first := parsed.Largest[0]; first.Bytes < 5000 || first.Database != 2 || first.Type != "string" {
		t.Errorf("the largest key is %+v", first)
	}
	for _, args := range [][]string{{"--format", "csv", path}, {"--keys", path}} {
		out, _, code = report(t, args...)
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || code != 0 || len(rows) < 5 {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); err == nil; {
		_, err = d.Token()
	}
	if err != io.EOF || !bytes.Contains(svg, []byte("&lt;b&gt;")) {
		t.Errorf("the picture: %v %s", err, svg)
	}
}

// TestReportRefuses: bytes that are not an RDB file, a damaged file and wrong arguments are refused with a line that
// says so.
func TestReportRefuses(t *testing.T) {
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut.rdb")
	if err := os.WriteFile(cut, file()[:40], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{cut, "ends too early"}, {filepath.Join(dir, "none.rdb"), "No such file"}, {dir, "is a folder"},
		{"--format xml " + cut, "table, csv or json"},
		{"", "Usage"}, {"--nosuch " + cut, "nosuch"}, {cut + " " + cut, "Usage"}, {"127.0.0.1:1", "refused"},
		{"--depth 0 " + cut, "1 at least"},
	} {
		if out, complaints, code := report(t, strings.Fields(c.args)...); code != 1 || out != "" ||
			!strings.Contains(strings.ToLower(complaints), strings.ToLower(c.want)) {
			t.Errorf("%q: %d %q %q", c.args, code, out, complaints)
		}
	}
}

// BenchmarkCensus makes the census of a file of strings. Watch keys/s: the goal is a million.
func BenchmarkCensus(b *testing.B) {
	n := 1_000_000
	file, err := io.ReadAll(&many{n: n})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		censusOf(b, bytes.NewReader(file), reportOptions{})
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
}
