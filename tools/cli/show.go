package cli

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"spindle/bgsave"
	"spindle/bgsave/rdb"
)

// text returns a key or prefix for people. It is quoted only if it has quotes or bytes that may harm a terminal.
func text(key []byte) string {
	plain := utf8.Valid(key)
	for _, r := range string(key) {
		plain = plain && (unicode.IsPrint(r) && r != '"' && r != '\\')
	}
	if plain && len(key) > 0 {
		return string(key)
	}
	return strconv.Quote(string(key))
}

// harmless returns a file's bytes for output between quotes. It escapes them if they may harm a terminal.
func harmless(b []byte) string {
	if s := string(b); utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(string(b))
	return quoted[1 : len(quoted)-1]
}

// speaksUTF8 reports whether the locale of the environment uses UTF-8.
func speaksUTF8(getenv func(string) string) bool {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	locale = strings.ToUpper(locale)
	return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
}

// named returns a name for the table, with at most most runes.
func (c *census) named(s string, most int) string {
	if s = shortened(s, most); !c.o.ascii {
		return s
	}
	s = strings.ReplaceAll(s, "…", "...")
	if strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) {
		quoted := strconv.QuoteToASCII(s)
		s = quoted[1 : len(quoted)-1]
	}
	return s
}

// largestFirst returns the largest keys in order.
func (c *census) largestFirst() []largeKey {
	sorted := slices.Clone(c.largest)
	slices.SortFunc(sorted, func(a, b largeKey) int {
		if a.Bytes != b.Bytes {
			return b.Bytes - a.Bytes
		}
		return strings.Compare(string(a.Key), string(b.Key))
	})
	return sorted
}

// table prints the report as tables for people.
func (c *census) table() {
	fmt.Fprintf(c.out, "%s: %s keys, %s in memory here; RDB version %d, %s\n",
		c.source, grouped(c.all.Keys), size(c.all.Bytes), c.version, size(c.fileBytes))
	c.section("TYPE", c.byType())
	c.section("PREFIX", c.byPrefix())
	c.section("LIFETIME", c.byLifetime())
	if len(c.databases) > 1 {
		c.section("DATABASE", c.byDatabase())
	}
	if len(c.largest) == 0 {
		return
	}
	fmt.Fprintf(c.out, "\n%-22s %12s %14s  %-4s %-17s %s\n", "LARGEST KEYS", "MEMORY", "ELEMENTS", "DB", "LIFETIME", "KEY")
	for _, k := range c.largestFirst() {
		fmt.Fprintf(c.out, "%-22s %12s %14s  %-4d %-17s %s\n",
			k.Type.String()+" "+k.Encoding.String(), size(int64(k.Bytes)), grouped(int64(k.Elements)),
			k.DB, lifetimes[c.lifetime(k.DeadlineMs)].name, c.named(text(k.Key), 120))
	}
}

// section prints one part of the table.
func (c *census) section(title string, rows []share) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(c.out, "\n%-32s %14s %12s %7s %14s %12s %12s\n",
		title, "KEYS", "MEMORY", "SHARE", "ELEMENTS", "MEAN", "LARGEST")
	for _, r := range rows {
		fmt.Fprintf(c.out, "%-32s %14s %12s %6.1f%% %14s %12s %12s\n",
			c.named(r.Name, 32), grouped(r.Keys), size(r.Bytes), 100*r.Share, grouped(r.Elements),
			size(r.Bytes/max(r.Keys, 1)), size(r.Largest))
	}
}

// grouped returns n with commas between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// shortened returns s with at most most runes.
func shortened(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// A shownKey is a key in the report's JSON.
type shownKey struct {
	Database int    `json:"database"`
	Key      string `json:"key"`
	Type     string `json:"type"`
	Encoding string `json:"encoding"`
	Bytes    int    `json:"bytes"`
	Elements int    `json:"elements"`
	Deadline int64  `json:"deadline,omitempty"` // Unix ms
}

// json prints the report as JSON for programs.
func (c *census) json() {
	report := struct {
		Source     string     `json:"source"`
		RDBVersion int        `json:"rdb_version"`
		RDBBytes   int64      `json:"rdb_bytes"`
		All        total      `json:"all"`
		Types      []share    `json:"types"`
		Prefixes   []share    `json:"prefixes"`
		Lifetimes  []share    `json:"lifetimes"`
		Databases  []share    `json:"databases"`
		Largest    []shownKey `json:"largest"`
	}{c.source, c.version, c.fileBytes, c.all, c.byType(), c.byPrefix(), c.byLifetime(), c.byDatabase(), []shownKey{}}
	for _, k := range c.largestFirst() {
		shown := shownKey{k.DB, text(k.Key), k.Type.String(), k.Encoding.String(), k.Bytes, k.Elements, 0}
		if k.DeadlineMs != rdb.None {
			shown.Deadline = k.DeadlineMs
		}
		report.Largest = append(report.Largest, shown)
	}
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(report) // the writer keeps its error for Flush
}

// csv prints the report as one table: the kind of row, its name, and its figures.
func (c *census) csv() {
	w := csv.NewWriter(c.out)
	_ = w.Write([]string{"of", "name", "keys", "bytes", "share", "elements", "largest"})
	row := func(of, name string, t *total) {
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		_ = w.Write([]string{of, name, number(t.Keys), number(t.Bytes),
			strconv.FormatFloat(float64(t.Bytes)/float64(max(c.all.Bytes, 1)), 'f', 6, 64), number(t.Elements),
			number(t.Largest)})
	}
	row("all", "", &c.all)
	for _, part := range []struct {
		of   string
		rows []share
	}{{"type", c.byType()}, {"prefix", c.byPrefix()}, {"lifetime", c.byLifetime()}, {"database", c.byDatabase()}} {
		for _, r := range part.rows {
			row(part.of, r.Name, &r.total)
		}
	}
	for _, k := range c.largestFirst() {
		row("key", text(k.Key), &total{1, int64(k.Bytes), int64(k.Elements), int64(k.Bytes)})
	}
	w.Flush()
}

// line prints the line of a key for --keys.
func (c *census) line(db int, key []byte, deadlineMs int64, w *bgsave.Weight) {
	p := c.out.AvailableBuffer()
	p = append(strconv.AppendInt(p, int64(db), 10), ',')
	p = append(append(append(append(p, w.Type.String()...), ','), w.Encoding.String()...), ',')
	p = append(strconv.AppendInt(p, int64(w.Bytes), 10), ',')
	p = append(strconv.AppendInt(p, int64(w.Elements), 10), ',')
	if deadlineMs != rdb.None {
		p = strconv.AppendInt(p, deadlineMs, 10)
	}
	p = append(p, ',', '"')
	p = append(p, strings.ReplaceAll(text(key), `"`, `""`)...)
	_, _ = c.out.Write(append(p, '"', '\n'))
}
