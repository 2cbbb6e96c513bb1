package cli

import (
	"fmt"
	"html"
	"io"
)

// draw writes a picture of the shares as SVG. It has a bar for each type, prefix, lifetime and large key, in proportion
// to its memory.
func (c *census) draw(w io.Writer) {
	const left, width, bar, step = 260, 560, 16, 22
	parts := []struct {
		title string
		rows  []share
	}{{"Memory by type", c.byType()}, {"Memory by prefix", c.byPrefix()}, {"Memory by lifetime", c.byLifetime()}}
	if len(c.databases) > 1 {
		parts = append(parts, struct {
			title string
			rows  []share
		}{"Memory by database", c.byDatabase()})
	}
	var keys []share
	for _, k := range c.largestFirst() {
		keys = append(keys, share{Name: text(k.Key), total: total{Keys: 1, Bytes: int64(k.Bytes),
			Elements: int64(k.Elements)}})
	}
	keys = c.shares(keys, len(keys), "")
	parts = append(parts, struct {
		title string
		rows  []share
	}{"Largest keys", keys})
	height := 70
	for _, p := range parts {
		height += 40 + step*len(p.rows)
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="%d" viewBox="0 0 1000 %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="20" y="32" font-size="18" font-weight="bold">%s</text>
<text x="20" y="52" fill="#555">%s keys, %s in memory</text>
`, height, height, shownText(c.source, 90), grouped(c.all.Keys), size(c.all.Bytes))
	colours := []string{"#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951"}
	y := 80
	for i, p := range parts {
		fmt.Fprintf(w, "<text x=\"20\" y=\"%d\" font-size=\"14\" font-weight=\"bold\">%s</text>\n", y+4, p.title)
		y += 16
		longest := 0.0
		for _, r := range p.rows {
			longest = max(longest, r.Share)
		}
		for _, r := range p.rows {
			long := 0.0
			if longest > 0 {
				long = width * r.Share / longest
			}
			fmt.Fprintf(w, "<g><title>%s: %s keys, %d bytes, %s elements</title><text x=\"%d\" y=\"%d\" "+
				"text-anchor=\"end\">%s</text>"+
				"<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text x=\"%.1f\" y=\"%d\" fill=\"#333\">%s, "+
				"%.1f%%</text></g>\n",
				shownText(r.Name, 200), grouped(r.Keys), r.Bytes, grouped(r.Elements), left-8, y+bar-4, shownText(r.Name, 38),
				left, y, max(long, 1), bar, colours[i%len(colours)], left+max(long, 1)+6, y+bar-4, size(r.Bytes), 100*r.Share)
			y += step
		}
		y += 24
	}
	fmt.Fprintln(w, "</svg>")
}

// shownText returns text for SVG: escaped, and with at most most characters.
func shownText(s string, most int) string { return html.EscapeString(shortened(s, most)) }
