package report

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

// TestSummary: each measured row has a pair of bars, and the longer one has full width. The picture is valid XML.
func TestSummary(t *testing.T) {
	s := &Section{Reference: "7.0.15", Figures: []Figure{
		{What: "CPU per GET, pipeline 64, spindle gnet", Reference: "1.38 (1.35..1.46) µs",
			Ours: "0.276 (0.25..0.28) µs, 0.200 ×"},
		{What: "memory, 16 B key, 32 B value, 10,000,000 keys", Reference: "50 B", Ours: "<100 B"},
		{What: "loading a file of redis, one core", Reference: "1.00 s", Ours: "2.00 s"},
	}}
	text := string(Summary([]*Section{s}))
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`class="redis" x="250" y="40" width="380.0"`, `class="spindle" x="250" y="56" width="76.0"`,
		">1.38 µs<", ">0.276 µs<",
		`class="redis" x="250" y="84" width="190.0"`, `class="spindle" x="250" y="100" width="380.0"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "memory") {
		t.Error("a row without a figure is drawn")
	}
}
