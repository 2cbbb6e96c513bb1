package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	_ "embed"
)

// The text of BENCHMARKS.md, with places for figures.
//
//go:embed template.md
var words string

// Write writes BENCHMARKS.md in the folder root, a page with all tables of each section in bench/results, and the
// README's picture.
//
// beside has sections of the same scenarios with other servers. Headlines and losses show all.
func Write(root string, sections, beside []*Section) error {
	page, err := Page(sections, beside)
	if err != nil {
		return err
	}
	results := filepath.Join(root, "bench", "results")
	if err := os.MkdirAll(results, 0o755); err != nil {
		return err
	}
	for _, s := range slices.Concat(sections, beside) {
		text := "# " + s.file() + "\n\n" + s.Markdown()
		if err := os.WriteFile(filepath.Join(results, s.file()+".md"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := writeSummary(root, sections); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "BENCHMARKS.md"), page, 0o644)
}

// Page returns the text of BENCHMARKS.md.
func Page(sections, beside []*Section) ([]byte, error) {
	parsed, err := template.New("BENCHMARKS.md").Parse(words)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = parsed.Execute(&page, map[string]string{
		"Machine":   machines(sections),
		"Headlines": text(headlineTable(sections)),
		"Newer":     text(newerTable(beside)),
		"Losses":    losses(slices.Concat(sections, beside)),
		"Missed":    missed(slices.Concat(sections, beside)),
		"Results":   results(slices.Concat(sections, beside)),
		"Plots":     plots(sections),
	})
	return page.Bytes(), err
}

func text(t Table) string {
	var b strings.Builder
	t.markdown(&b)
	return strings.TrimSpace(b.String())
}

// losses returns the table of the lost cases, or a sentence which says that there are none.
func losses(sections []*Section) string {
	if t := lossTable(sections); len(t.Rows) > 0 {
		return text(t)
	}
	return "Nothing, in the runs of this page."
}

// missed returns the table of targets that were not reached even though Redis is not better.
func missed(sections []*Section) string {
	t := Table{Columns: []string{"target missed, Redis not better", "target", "reference", "spindle"}}
	for _, s := range sections {
		for _, f := range s.Figures {
			if f.Verdict == Missed {
				t.Rows = append(t.Rows, []string{s.beside(f.What), f.Target, f.Reference, f.Ours})
			}
		}
	}
	if len(t.Rows) == 0 {
		return "Every other target is met."
	}
	return text(t)
}

// results returns a list of the pages with the full tables, and of the commands that repeat them.
func results(sections []*Section) string {
	t := Table{Columns: []string{"tables", "what", "taken", "beside"}}
	for _, s := range sections {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("[%s](bench/results/%s.md)", s.file(), s.file()), s.Title,
			s.Taken, s.full()})
	}
	return text(t)
}

// plotFiles names the pictures of BENCHMARKS.md. All others are on the pages in bench/results.
var plotFiles = []string{"cpu-p16", "bgsave"}

func plots(sections []*Section) string {
	var b strings.Builder
	for _, s := range sections {
		for _, p := range s.Plots {
			if slices.Contains(plotFiles, strings.TrimSuffix(filepath.Base(p.File), filepath.Ext(p.File))) {
				fmt.Fprintf(&b, "![%s](%s)\n\n", p.Caption, p.File)
			}
		}
	}
	return strings.TrimSpace(b.String())
}

// machines describes each machine of the sections once.
func machines(sections []*Section) string {
	var b strings.Builder
	var seen [][]string
	for _, s := range sections {
		if slices.ContainsFunc(seen, func(m []string) bool { return slices.Equal(m, s.Machine) }) {
			continue
		}
		seen = append(seen, s.Machine)
		var names []string
		for _, o := range sections {
			if slices.Equal(o.Machine, s.Machine) {
				names = append(names, o.Name)
			}
		}
		switch {
		case 2*len(names) > len(sections) && len(names) < len(sections):
			b.WriteString("For all other sections:\n\n")
		case len(names) < len(sections):
			b.WriteString("For " + strings.Join(names, ", ") + ":\n\n")
		}
		for _, line := range s.Machine {
			b.WriteString("- " + line + "\n")
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}
