package tidy

import (
	"path"
	"regexp"
	"strings"
)

// A Label is the name of a numbered rule, such as "memory.T2": its package's name, a letter and a number. R1 to R6
// belong to ARCHITECTURE.md and have no package.
type Label struct {
	Name string
	File string // below the root
	Line int
}

// A line of a comment or page defines a rule if it begins with a label and a dot. Both may be in bold. Every other
// label cites a rule, unless it is quoted.
var (
	definition = regexp.MustCompile(
		`^(?:\s*//\s*|\s*[-*]\s+\**|\s*\**)((?:[a-z]+\.)?[A-Z][0-9]{1,2})(?:\. |\.?\*\* | [A-Z][^.]*\.\*\*)`)
	citation = regexp.MustCompile(`(?:^|[^\w.'/#%-])((?:[a-z]+\.)?[A-Z][0-9]{1,2})(?:[^\w-]|$)`)
	quoted   = regexp.MustCompile("`[^`]*`|\"(?:[^\"\\\\]|\\\\.)*\"")
	message  = regexp.MustCompile(`invariant\.That\(|Errorf\(|Fatalf\(|fail\(`)
)

// Labels returns the definitions of rules, and every place that cites a rule. It searches comments, messages of
// invariants and of proofs, and the pages DESIGN.md and ARCHITECTURE.md.
func Labels(root string) (defined, cited []Label, err error) {
	err = eachLine(root, []string{".go", ".md"}, func(file string, number int, line string) {
		said := line
		switch name := path.Base(file); {
		case strings.HasSuffix(name, ".go"):
			said = spoken(line)
		case name != "DESIGN.md" && name != "ARCHITECTURE.md":
			return
		}
		if m := definition.FindStringSubmatch(said); m != nil {
			defined = append(defined, Label{Name: m[1], File: file, Line: number})
		}
		for _, name := range citations(said) {
			cited = append(cited, Label{Name: name, File: file, Line: number})
		}
	})
	return defined, cited, err
}

// citations returns the labels in a line, including the label that the line defines.
func citations(said string) (names []string) {
	said = quoted.ReplaceAllString(said, "") // a quoted text is no label: `R1` of a register
	for {
		m := citation.FindStringSubmatchIndex(said)
		if m == nil {
			return names
		}
		names = append(names, said[m[2]:m[3]])
		said = said[m[3]:] // the end of a label may be the begin of the next
	}
}

// spoken returns the part of a line of Go that is text for people: its comment, or the message of an invariant.
func spoken(line string) string {
	code := quoted.ReplaceAllStringFunc(line, func(s string) string { return strings.Repeat("x", len(s)) })
	at := strings.Index(code, "//")
	if at < 0 {
		at = len(line)
	}
	var said strings.Builder
	if message.MatchString(code[:at]) {
		for _, s := range quoted.FindAllString(line[:at], -1) {
			if before, _, ok := strings.Cut(s[1:], ":"); ok { // "memory.R3: a run of %d units"
				said.WriteString(before + " ")
			}
		}
	}
	return said.String() + line[at:]
}

// notOurs reports whether a folder of this name has no text written for readers.
func notOurs(name string) bool {
	return strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "results"
}

// home returns the package name that a label's prefix must have.
func home(file string) string { return path.Base(path.Dir(file)) }
