package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// An Example is code on a page. The page says from which file of the tree it was copied.
type Example struct {
	File, Symbol string
	Code         string
}

var (
	exampleFrom = regexp.MustCompile("(?ms)(?:^From `([^`\n]+)`, `([^`\n]+)`:\n\n)?^```go\n(.*?)^```$")
	leftOut     = regexp.MustCompile(`(?m)^\s*// …\n`)
)

// Examples returns the Go code of a page. File is empty if the page does not name the source of the code.
func Examples(page string) (all []Example) {
	for _, m := range exampleFrom.FindAllStringSubmatch(page, -1) {
		all = append(all, Example{m[1], m[2], m[3]})
	}
	return all
}

// Differs returns how e differs from its file below root, or "". The lines between two marks "// …" must be contiguous
// in the file, and the parts must have the file's order.
func (e Example) Differs(root string) (why string, err error) {
	if e.File == "" {
		return "no line says which file it is from", nil
	}
	if !regexp.MustCompile(`\b` + regexp.QuoteMeta(e.Symbol) + `\b`).MatchString(e.Code) {
		return e.Symbol + " is not in it", nil
	}
	text, err := os.ReadFile(filepath.Join(root, e.File))
	if err != nil {
		return "", err
	}
	rest := "\n" + string(text)
	for _, part := range leftOut.Split(e.Code, -1) {
		at := strings.Index(rest, "\n"+part)
		if at < 0 {
			return "the file does not have, in this order:\n" + part, nil
		}
		rest = rest[at+len(part):] // the part's last newline stays
	}
	return "", nil
}
