package report

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	_ "embed"
)

// template is BENCHMARKS.md before the first run.
//
//go:embed template.md
var template string

// The errors of Replace: a file that somebody edited is never guessed at.
var (
	ErrNoMarker    = errors.New("no such pair of markers")
	ErrTwoMarkers  = errors.New("a marker stands there twice")
	ErrWrongMarker = errors.New("an end stands before its begin")
)

func beginMarker(name string) string { return "<!-- bench:" + name + " begin -->" }
func endMarker(name string) string   { return "<!-- bench:" + name + " end -->" }

// Replace puts body between the markers of name and leaves every other byte as it is.
func Replace(document, name, body string) (string, error) {
	begin, end := beginMarker(name), endMarker(name)
	from, to := strings.Index(document, begin), strings.Index(document, end)
	switch {
	case from < 0 || to < 0:
		return "", fmt.Errorf("%s: %w", name, ErrNoMarker)
	case strings.Count(document, begin) > 1 || strings.Count(document, end) > 1:
		return "", fmt.Errorf("%s: %w", name, ErrTwoMarkers)
	case to < from:
		return "", fmt.Errorf("%s: %w", name, ErrWrongMarker)
	}
	return document[:from+len(begin)] + "\n\n" + strings.TrimSpace(body) + "\n\n" + document[to:], nil
}

// Write puts all sections, the summary, the lost cases and the machine into the file at path, which is made if it is not there.
func Write(path string, sections []*Section) error {
	document := template
	if text, err := os.ReadFile(path); err == nil {
		document = string(text)
	} else if !os.IsNotExist(err) {
		return err
	}
	document, err := fill(document, sections)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(document), 0o644)
}

func fill(document string, sections []*Section) (string, error) {
	parts := map[string]string{"machine": machines(sections)}
	var b strings.Builder
	summary := Summary(sections)
	summary.markdown(&b)
	parts["summary"] = b.String()
	b.Reset()
	if lost := LostCases(sections); len(lost.Rows) > 0 {
		lost.markdown(&b)
	} else {
		b.WriteString("None in the runs below.\n")
	}
	parts["lost"] = b.String()
	for _, s := range sections {
		parts[s.Name] = s.Markdown()
	}
	var err error
	for name, body := range parts {
		if document, err = Replace(document, name, body); err != nil {
			return "", err
		}
	}
	return document, nil
}

// machines describes the machine once, or each that a section was taken on.
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
		if len(names) < len(sections) {
			b.WriteString("For " + strings.Join(names, ", ") + ":\n\n")
		}
		for _, line := range s.Machine {
			b.WriteString("- " + line + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}
