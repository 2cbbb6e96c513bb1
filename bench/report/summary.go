package report

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// compared has the rows of the README's picture. Each is a headline, given by the beginning of its name, with a label
// for readers.
var compared = []struct{ figure, label string }{
	{"CPU per GET, pipeline 1, spindle gnet", "CPU per GET"},
	{"CPU per SET, pipeline 16, spindle gnet", "CPU per SET, 16 at a time"},
	{"CPU per GET, pipeline 64, spindle gnet", "CPU per GET, 64 at a time"},
	{"memory, 16 B key, 32 B value, 10,000,000 keys", "memory per key"},
	{"memory, zset of 1,000,000 elements", "memory per element of a zset"},
	{"BGSAVE under full write load: wall time", "time to save under full load"},
	{"BGSAVE under full write load: memory", "memory while saving, × before"},
	{"loading a file of redis, one core", "time to load a file"},
}

// These are the sizes of the picture, in its own units.
const (
	pictureWidth = 760
	labelWidth   = 250
	barWidth     = 380
	rowHeight    = 44
	headHeight   = 40
)

// Summary returns the README's picture as SVG. Each row has a pair of bars on its own scale; smaller is better. Rows
// without measurements are left out.
func Summary(sections []*Section) []byte {
	var rows strings.Builder
	y := headHeight
	for _, c := range compared {
		f := find(sections, c.figure)
		if f == nil {
			continue
		}
		theirs, theirText, ok := quantity(f.Reference)
		ours, ourText, also := quantity(f.Ours)
		if !ok || !also || theirs <= 0 || ours <= 0 {
			continue
		}
		most := max(theirs, ours)
		fmt.Fprintf(&rows, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-12, y+19,
			html.EscapeString(c.label))
		bar(&rows, "redis", y, theirs/most, theirText)
		bar(&rows, "spindle", y+16, ours/most, ourText)
		y += rowHeight
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="system-ui, sans-serif" font-size="13" role="img">`+"\n",
		pictureWidth, y, pictureWidth)
	title := "spindle beside redis-server " + references(sections) + ", one core each: less is better"
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(title))
	b.WriteString(`<style>
  svg { background: #ffffff; } text { fill: #1b1f24; } .redis { fill: #999999; } .spindle { fill: #0072b2; } .figure { font-size: 12px; }
  @media (prefers-color-scheme: dark) { svg { background: #0d1117; } text { fill: #e3e8ee; } .spindle { fill: #56b4e9; } }
</style>
`)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-weight="600">%s</text>`+"\n", 12, html.EscapeString(title))
	for i, name := range []string{"redis", "spindle"} {
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="12" width="12" height="12"/><text x="%d" y="22">%s</text>`+"\n",
			name, 580+80*i, 597+80*i, name)
	}
	b.WriteString(rows.String() + "</svg>\n")
	return []byte(b.String())
}

func bar(b *strings.Builder, class string, y int, part float64, text string) {
	width := max(1, part*barWidth)
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="14"/>`, class, labelWidth, y, width)
	fmt.Fprintf(b, `<text class="figure" x="%.1f" y="%d">%s</text>`+"\n", labelWidth+width+6, y+12,
		html.EscapeString(text))
}

// quantity returns the first number of a figure, and its text with the unit but without the part in brackets. "1.38
// (1.35..1.46) µs" gives 1.38 and "1.38 µs".
func quantity(figure string) (n float64, text string, ok bool) {
	if from := strings.Index(figure, "("); from >= 0 {
		if to := strings.Index(figure, ")"); to > from {
			figure = figure[:from] + figure[to+1:]
		}
	}
	words := strings.Fields(strings.Split(figure, ",")[0])
	if len(words) < 2 {
		return 0, "", false
	}
	n, err := strconv.ParseFloat(words[0], 64)
	return n, words[0] + " " + words[1], err == nil
}

// SummaryFile is the picture's path, below the tree's root.
var SummaryFile = filepath.Join("bench", "plots", "summary.svg")

func writeSummary(root string, sections []*Section) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, SummaryFile)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, SummaryFile), Summary(sections), 0o644)
}
