package report

import (
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
	if !math.IsNaN(none.Median()) || !math.IsNaN(none.Min()) || !math.IsNaN(none.Max()) || none.Text(Number) != "–" ||
		none.Short(Number) != "–" {
		t.Error("an empty sample has figures")
	}
	// The machine was twice as slow in the second run, but the ratio does not change.
	if r := (Sample{1, 2, 1}).Ratio(Sample{2, 4, 2}); r != 0.5 {
		t.Error(r)
	}
	if r := (Sample{1}).Ratio(Sample{0}); !math.IsNaN(r) {
		t.Error(r)
	}
}

func TestForms(t *testing.T) {
	for got, want := range map[string]string{
		Number(0): "0.00", Number(1234.5): "1234", Number(12.34): "12.3", Number(1.234): "1.23", Number(0.01234): "0.012",
		Number(0.00001): "1e-05", Number(math.NaN()): "–",
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
	}{{0.4, 0.5, 1, Met}, {0.6, 0.5, 1, Missed}, {1.1, 0.5, 1, Lost}, {1.02, 1.05, 1, MetButLost}, {0.4, 0.5, nan, Met},
		{0.6, 0.5, nan, Missed}, {nan, 1, 1, NotDecided}} {
		if got := Judge(c.ours, c.target, c.reference); got != c.want {
			t.Errorf("%v against %v, target %v: %s, want %s", c.ours, c.reference, c.target, got, c.want)
		}
	}
}

func section(name string) *Section {
	return &Section{Name: name, Taken: "today", Machine: []string{"a machine"}, Servers: []string{"redis 7"},
		Text:     []string{"Done so."},
		Commands: []string{"bench run " + name},
		Tables: []Table{{Title: "T", Columns: []string{"what", "server", "n", "verdict"},
			Rows: [][]string{{"a|b", "us", "1", string(Lost)}, {"c", "us", "2", string(Met)}}}},
		Figures: []Figure{{"speed", "≤ 1", "2", "0.5", Met}, {"size", "≤ 1", "2", "3", Lost}}}
}

func TestWrite(t *testing.T) {
	root := t.TempDir()
	other := section("gc")
	other.Beside, other.Reference = true, "9.9"
	other.Figures = []Figure{{headlines[0], "≤ 1", "20", "5", Met}}
	third := section("gc")
	third.Beside, third.Reference = true, "valkey 9"
	third.Figures = []Figure{{headlines[0], "≤ 1 × redis", "4", "6", Lost}}
	third.NameRival()
	first := section("throughput")
	first.Reference, first.Figures = "7", append(first.Figures, Figure{headlines[0] + " and more", "≤ 1", "3", "1", Met})
	for range 2 { // the second time it overwrites the first
		if err := Write(root, []*Section{first, section("memory")}, []*Section{other, third}); err != nil {
			t.Fatal(err)
		}
	}
	page := read(t, root, "BENCHMARKS.md")
	for _, want := range []string{
		"- a machine\n", "| what | target | redis 7 | spindle | verdict |",
		"| " + headlines[0] + " and more | ≤ 1 | 3 | 1 | met |",
		"| " + headlines[0] + " | ≤ 1 | redis 9.9 | 20 | 5 | met |",
		"| " + headlines[0] + " | ≤ 1 × valkey | valkey 9 | 4 | 6 | **lost** |",
		"| throughput | T: a\\|b, us: behind Redis | not known | – |", "[gc-beside-9.9](bench/results/gc-beside-9.9.md)",
		"Every other target is met.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
	if n := strings.Count(page, "- a machine\n"); n != 1 {
		t.Errorf("the machine stands there %d times", n)
	}
	for _, want := range []string{"bench run throughput", "| speed | ≤ 1 | 2 | 0.5 | met |",
		"| a\\|b | us | 1 | **lost** |"} {
		if text := read(t, root, "bench/results/throughput.md"); !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	read(t, root, "bench/results/gc-beside-9.9.md")
	if text := read(t, root, "bench/results/gc-beside-valkey-9.md"); !strings.Contains(text,
		"| what | target | valkey |") || !strings.Contains(text, "≤ 1 × valkey |") {
		t.Error(text)
	}
}

func read(t *testing.T, folder, name string) string {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLosses: a cause explains only the lost cases that it names, in one section. It explains no figure that a row
// already has.
func TestLosses(t *testing.T) {
	table := Table{Title: "Pipeline 1", Columns: []string{"size", "server", "× redis", "verdict"}, Rows: [][]string{
		{"SET, 64 KB", "spindle", "1.07", string(Lost)}, {"SET, 1 KB", "spindle", "1.5", string(Lost)},
		{"GET", "spindle", "0.5", string(Met)},
	}}
	got := lossTable([]*Section{{Name: "values", Tables: []Table{table},
		Figures: []Figure{{"worst", "1", "2", "3", Lost}}}})
	if len(got.Rows) != 2 || got.Rows[0][1] != "Pipeline 1: SET, 64 KB, spindle: 1.07 ×" || got.Rows[1][2] != "not known" {
		t.Error(got.Rows)
	}
	for _, k := range known {
		if k.what == "" || k.cause == "" || k.mend == "" {
			t.Errorf("%+v says too little", k)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	if err := section("gc").Save(dir); err != nil {
		t.Fatal(err)
	}
	other := section("gc")
	other.Beside, other.Reference = true, "9.9"
	if err := other.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, beside, err := Load(dir, []string{"memory", "gc"})
	if err != nil || len(got) != 1 || got[0].Markdown() != section("gc").Markdown() || len(beside) != 1 ||
		beside[0].Reference != "9.9" {
		t.Error(got, beside, err)
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	table := Table{Title: "T", Columns: []string{"µ", "long column"}, Rows: [][]string{{"abc", "x"}, {"d"}},
		Notes: []string{"note"}}
	table.Print(&b)
	if want := "\nT\nµ    long column\nabc  x\nd\nnote\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

func TestPlots(t *testing.T) {
	dir := t.TempDir()
	for _, ext := range []string{".svg", ".png"} {
		bars := filepath.Join(dir, "plots", "bars"+ext)
		if err := Bars(bars, "t", "y", []string{"a", "b"},
			[]Line{{Name: "redis", Y: []float64{1, 2}}, {Name: "spindle", Y: []float64{1, math.NaN()}}}); err != nil {
			t.Fatal(err)
		}
		lines := filepath.Join(dir, "lines"+ext)
		if err := Lines(lines, "t", "x", "y", true, []Line{{Name: "a", X: []float64{0, 1, 2}, Y: []float64{0, 1, 1}},
			{Name: "empty"}}); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{bars, lines} {
			if info, err := os.Stat(file); err != nil || info.Size() < 500 {
				t.Error(file, err)
			}
		}
	}
}
