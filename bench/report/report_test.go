package report

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSample(t *testing.T) {
	s := Sample{5, 1, 3}
	if s.Median() != 3 || s.Min() != 1 || s.Max() != 5 || s[0] != 5 {
		t.Error(s, s.Median(), s.Min(), s.Max())
	}
	if m := (Sample{4, 1, 3, 2}).Median(); m != 2.5 {
		t.Error(m)
	}
	if got := s.Text(Number); got != "3.00 (1.00..5.00)" {
		t.Error(got)
	}
	if got := (Sample{2}).Text(Number); got != "2.00" {
		t.Error(got)
	}
	var none Sample
	if !math.IsNaN(none.Median()) || !math.IsNaN(none.Min()) || !math.IsNaN(none.Max()) || none.Text(Number) != "–" || none.Short(Number) != "–" {
		t.Error("an empty sample has figures")
	}
	// The machine was twice as slow in the second round: the ratio does not see it.
	if r := (Sample{1, 2, 1}).Ratio(Sample{2, 4, 2}); r != 0.5 {
		t.Error(r)
	}
	if r := (Sample{1}).Ratio(Sample{0}); !math.IsNaN(r) {
		t.Error(r)
	}
}

func TestForms(t *testing.T) {
	for got, want := range map[string]string{
		Number(0): "0.00", Number(1234.5): "1234", Number(12.34): "12.3", Number(1.234): "1.23", Number(0.01234): "0.012", Number(0.00001): "1e-05", Number(math.NaN()): "–",
		Thousands(1234567.4): "1,234,567", Thousands(-1000): "-1,000", Thousands(999): "999",
		Duration(1.5e9): "1.50 s", Duration(2.5e6): "2.50 ms", Duration(1500): "1.50 µs", Duration(12): "12.0 ns",
		Micros(420): "0.420", Megabytes(3 << 20): "3.00 MB", Percent(0.005): "0.500 %", Times(0.5): "0.500 ×",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		ours, target, reference float64
		want                    Verdict
	}{{0.4, 0.5, 1, Met}, {0.6, 0.5, 1, Missed}, {1.1, 0.5, 1, Lost}, {1.02, 1.05, 1, MetButLost}, {0.4, 0.5, nan, Met}, {0.6, 0.5, nan, Missed}, {nan, 1, 1, NotDecided}} {
		if got := Judge(c.ours, c.target, c.reference); got != c.want {
			t.Errorf("%v against %v, target %v: %s, want %s", c.ours, c.reference, c.target, got, c.want)
		}
	}
}

func TestReplace(t *testing.T) {
	document := "a\n<!-- bench:x begin -->\nold\n<!-- bench:x end -->\nb <!-- bench:y begin --><!-- bench:y end -->\n"
	got, err := Replace(document, "x", "new\n")
	if want := "a\n<!-- bench:x begin -->\n\nnew\n\n<!-- bench:x end -->\nb <!-- bench:y begin --><!-- bench:y end -->\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	again, err := Replace(got, "x", "new")
	if err != nil || again != got {
		t.Errorf("replacing by the same changes the file: %q", again)
	}
	for broken, want := range map[string]error{
		"": ErrNoMarker, "<!-- bench:x begin -->": ErrNoMarker, document + document: ErrTwoMarkers,
		"<!-- bench:x end --><!-- bench:x begin -->": ErrWrongMarker,
	} {
		if _, err := Replace(broken, "x", ""); !errors.Is(err, want) {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

func section(name string) *Section {
	return &Section{Name: name, Taken: "today", Machine: []string{"a machine"}, Servers: []string{"redis 7"}, Text: []string{"Done so."},
		Commands: []string{"bench run " + name},
		Tables:   []Table{{Title: "T", Columns: []string{"what", "server", "n", "verdict"}, Rows: [][]string{{"a|b", "us", "1", string(Lost)}, {"c", "us", "2", string(Met)}}}},
		Figures:  []Figure{{"speed", "≤ 1", "2", "0.5", Met}, {"size", "≤ 1", "2", "3", Lost}}}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "BENCHMARKS.md")
	for range 2 { // the second time over what the first wrote
		if err := Write(path, []*Section{section("gc"), section("memory")}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- a machine\n", "| speed | ≤ 1 | 2 | 0.5 | met |", "| a\\|b | us | 1 | **lost** |", "| gc | T: a\\|b, us |", "| memory | size: 3 against 2 |", "bench run gc"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if n := strings.Count(string(text), "- a machine\n"); n != 1 {
		t.Errorf("the machine stands there %d times", n)
	}
	if err := Write(path, []*Section{section("nosuch")}); !errors.Is(err, ErrNoMarker) {
		t.Error(err)
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	if err := section("gc").Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir, []string{"memory", "gc"})
	if err != nil || len(got) != 1 || got[0].Markdown() != section("gc").Markdown() {
		t.Error(got, err)
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	table := Table{Title: "T", Columns: []string{"µ", "long column"}, Rows: [][]string{{"abc", "x"}, {"d"}}, Notes: []string{"note"}}
	table.Print(&b)
	if want := "\nT\nµ    long column\nabc  x\nd\nnote\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

func TestPlots(t *testing.T) {
	dir := t.TempDir()
	for _, ext := range []string{".svg", ".png"} {
		bars := filepath.Join(dir, "plots", "bars"+ext)
		if err := Bars(bars, "t", "y", []string{"a", "b"}, []Line{{Name: "redis", Y: []float64{1, 2}}, {Name: "spindle", Y: []float64{1, math.NaN()}}}); err != nil {
			t.Fatal(err)
		}
		lines := filepath.Join(dir, "lines"+ext)
		if err := Lines(lines, "t", "x", "y", true, []Line{{Name: "a", X: []float64{0, 1, 2}, Y: []float64{0, 1, 1}}, {Name: "empty"}}); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{bars, lines} {
			if info, err := os.Stat(file); err != nil || info.Size() < 500 {
				t.Error(file, err)
			}
		}
	}
}
