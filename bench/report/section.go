package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Section is the result of one scenario. It is stored as JSON, so that BENCHMARKS.md can be written without another
// run.
type Section struct {
	Name      string // of the scenario
	Title     string // what the scenario does
	Reference string // version of the server with which spindle was compared: "7.0.15", "valkey 9.1.2"
	Beside    bool   // the server was named by hand and is not the machine's own redis-server
	Taken     string // date
	Machine   []string
	Servers   []string // name, version and command line
	Text      []string // what was done, in sentences
	Commands  []string // the commands that repeat this section
	Tables    []Table
	Plots     []Plot
	Figures   []Figure
}

// A Table is a table of text cells.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
	Notes   []string
}

// A Plot is a picture file with its caption.
type Plot struct{ File, Caption string }

// A Figure is a line of the summary: a target of the design, with the result.
type Figure struct {
	What, Target, Reference, Ours string
	Verdict                       Verdict
}

// A Verdict is the result of a comparison. A loss is printed as such, without softer words.
type Verdict string

// Met means that the target is reached. Missed means that it is not reached, but Redis is not better. Lost means that
// Redis is better. A target above Redis's figure may allow this.
const (
	Met        Verdict = "met"
	MetButLost Verdict = "met, **lost**"
	Missed     Verdict = "missed"
	Lost       Verdict = "**lost**"
	NotDecided Verdict = "–"
)

// Judge compares figures of which smaller is better. If Redis's figure is unknown (NaN), the verdict cannot be Lost.
func Judge(ours, target, reference float64) Verdict {
	switch {
	case ours != ours:
		return NotDecided
	case ours > reference && ours <= target:
		return MetButLost
	case ours > reference:
		return Lost
	case ours <= target:
		return Met
	}
	return Missed
}

// file returns the name of the section's files, without extension. Sections with another version of Redis have other
// names.
func (s *Section) file() string {
	if s.Beside {
		return s.Name + "-beside-" + strings.ReplaceAll(s.Reference, " ", "-")
	}
	return s.Name
}

// Markdown returns the section as a page in bench/results.
func (s *Section) Markdown() string {
	var b strings.Builder
	if s.Title != "" {
		b.WriteString(s.Title + ".\n\n")
	}
	for _, line := range s.Text {
		b.WriteString(line + "\n")
	}
	if len(s.Text) > 0 {
		b.WriteString("\n")
	}
	if len(s.Figures) > 0 {
		targets := s.Targets()
		targets.markdown(&b)
	}
	for _, t := range s.Tables {
		t.markdown(&b)
	}
	for _, p := range s.Plots {
		fmt.Fprintf(&b, "![%s](../%s)\n\n", p.Caption, strings.TrimPrefix(p.File, "bench/"))
	}
	fmt.Fprintf(&b, "Taken %s. Servers:\n\n", s.Taken)
	for _, line := range s.Servers {
		b.WriteString("- " + line + "\n")
	}
	b.WriteString("\nAgain:\n\n```\n" + strings.Join(s.Commands, "\n") + "\n```\n")
	return b.String()
}

func (t *Table) markdown(b *strings.Builder) {
	if t.Title != "" {
		fmt.Fprintf(b, "**%s**\n\n", t.Title)
	}
	row := func(cells []string) {
		b.WriteString("|")
		for i := range t.Columns {
			cell := ""
			if i < len(cells) {
				cell = strings.ReplaceAll(cells[i], "|", "\\|")
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	row(t.Columns)
	b.WriteString("|" + strings.Repeat("---|", len(t.Columns)) + "\n")
	for _, cells := range t.Rows {
		row(cells)
	}
	b.WriteString("\n")
	for _, note := range t.Notes {
		b.WriteString(note + "\n")
	}
	if len(t.Notes) > 0 {
		b.WriteString("\n")
	}
}

// Print writes the table for a terminal.
func (t *Table) Print(out io.Writer) {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c)
		for _, row := range t.Rows {
			if i < len(row) {
				widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
			}
		}
	}
	line := func(cells []string) {
		var b strings.Builder
		for i, w := range widths {
			cell := ""
			if i < len(cells) {
				cell = cells[i]
			}
			b.WriteString(cell + strings.Repeat(" ", w-utf8.RuneCountInString(cell)+2))
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
	if t.Title != "" {
		fmt.Fprintf(out, "\n%s\n", t.Title)
	}
	line(t.Columns)
	for _, row := range t.Rows {
		line(row)
	}
	for _, note := range t.Notes {
		fmt.Fprintln(out, note)
	}
}

// Save writes the section to dir.
func (s *Section) Save(dir string) error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, s.file()+".json"), append(text, '\n'), 0o644)
}

// Load reads the stored sections in dir, in the order of names. sections has those with the machine's own redis-server,
// and beside those with other versions of Redis. Scenarios that never ran are left out.
func Load(dir string, names []string) (sections, beside []*Section, err error) {
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join(dir, name+"-beside-*.json"))
		if err != nil {
			return nil, nil, err
		}
		for _, file := range append([]string{filepath.Join(dir, name+".json")}, files...) {
			text, err := os.ReadFile(file)
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			s := &Section{}
			if err := json.Unmarshal(text, s); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
			}
			if s.Beside {
				beside = append(beside, s)
			} else {
				sections = append(sections, s)
			}
		}
	}
	return sections, beside, nil
}

// rival returns the name of the server with which spindle was compared: redis or valkey.
func (s *Section) rival() string {
	name, _, other := strings.Cut(s.Reference, " ")
	if !other {
		return "redis"
	}
	return name
}

// full returns the name and the version of the server with which spindle was compared.
func (s *Section) full() string {
	if s.rival() == "redis" {
		return "redis " + s.Reference
	}
	return s.Reference
}

// NameRival puts the name of the server with which spindle was compared where a scenario has written redis.
func (s *Section) NameRival() {
	if s.rival() == "redis" {
		return
	}
	other := func(text string) string { return strings.ReplaceAll(text, "× redis", "× "+s.rival()) }
	for i := range s.Tables {
		for j, column := range s.Tables[i].Columns {
			s.Tables[i].Columns[j] = other(column)
		}
	}
	for i := range s.Figures {
		s.Figures[i].Target = other(s.Figures[i].Target)
	}
}

// Targets returns a table of all figures of a section that have a target.
func (s *Section) Targets() Table {
	t := Table{Title: "Targets", Columns: []string{"what", "target", s.rival(), "spindle", "verdict"}}
	for _, f := range s.Figures {
		t.Rows = append(t.Rows, []string{f.What, f.Target, f.Reference, f.Ours, string(f.Verdict)})
	}
	return t
}

// names returns the cells that identify a row: all cells up to the server's name.
func (t *Table) names(row []string) []string {
	server := slices.Index(t.Columns, "server")
	return row[:min(max(server, 0)+1, len(row))]
}

// lost reports whether Redis is better.
func (v Verdict) lost() bool { return strings.HasSuffix(string(v), string(Lost)) }
