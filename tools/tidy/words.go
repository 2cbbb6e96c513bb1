package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxWords is the maximum number of words of a sentence in a comment.
const maxWords = 25

// A mark is a pattern that comments may not contain, with a suggestion for a replacement.
type mark struct {
	pattern *regexp.Regexp
	instead string
}

var marks = []mark{
	{regexp.MustCompile(`(?i)\b(who|whom|whoever)\b`), "name the client or the caller"},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|everybody)\b`), "no client, a caller, each client"},
	{regexp.MustCompile(`(?i)\bsuch a one\b`), "name it"},
	{regexp.MustCompile(`(?i)\bto be had\b`), "is available"},
	{regexp.MustCompile(`(?i)\bas good as\b`), "in effect"},
	{regexp.MustCompile(`(?i)\b(goes|go|went|going) on\b`), "continues"},
	{regexp.MustCompile(`(?i)\bof (its|their) own\b`), "its own"},
	{regexp.MustCompile(`(?i)\bbehind\b`), "after"},
	{regexp.MustCompile(`(?i)\bwhat (is|was|has been|came) (read|there|behind|after)\b`), "the bytes read, the data"},
	{regexp.MustCompile(`(?i)\bin vain\b`), "without success"},
	{regexp.MustCompile(`(?i)\banew\b`), "again"},
	{regexp.MustCompile(`(?i)\bfrom \w+( \w+)? on\b`), "from X to Y, or name the first one"},
}

// clause is the reason of a finding for a sentence that whatOpens matches.
const clause = "opens with a clause"

// whatOpens matches a sentence whose subject is a clause that begins with "what" or "which". A question may begin with
// these words.
var whatOpens = regexp.MustCompile(`^(What|Which|Whatever) `)

// A Finding is a sentence of a comment that is not plain.
type Finding struct {
	File string
	Line int // the first line of the comment
	Why  string
	Text string
}

// theirs are the parts of messages of Redis that have a mark. The last one is of a mark's own pattern.
var theirs = []string{
	"nobody is serving its slots", "somebody is sending POST", "behind master", "(is|was|has been|came)",
}

// PlainWords returns the sentences in the comments below root that break a rule about words. It leaves out directives
// and indented text, which is pictures and code. It also returns each message with a mark: a literal of three words or
// more outside tests.
func PlainWords(root string) (findings []Finding, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && notOurs(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go":
			return nil
		}
		found, err := plainFile(root, file)
		findings = append(findings, found...)
		return err
	})
	return findings, err
}

func plainFile(root, file string) (findings []Finding, err error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	short, err := filepath.Rel(root, file)
	if err != nil {
		return nil, err
	}
	for _, group := range f.Comments {
		for _, s := range sentences(group.Text()) {
			if why := unplain(s); why != "" {
				findings = append(findings, Finding{filepath.ToSlash(short), files.Position(group.Pos()).Line, why, s})
			}
		}
	}
	if strings.HasSuffix(file, "_test.go") {
		return findings, nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, _ := strconv.Unquote(literal.Value)
			if why := unplainMessage(text); why != "" {
				findings = append(findings, Finding{filepath.ToSlash(short), files.Position(literal.Pos()).Line, why, text})
			}
		}
		return true
	})
	return findings, nil
}

// unplainMessage returns the mark of a text that people may read, or "".
func unplainMessage(text string) string {
	isTheirs := func(part string) bool { return strings.Contains(text, part) }
	if len(strings.Fields(text)) < 3 || slices.ContainsFunc(theirs, isTheirs) {
		return ""
	}
	return marked(text)
}

// unplain returns the rule that a sentence breaks, or "".
func unplain(sentence string) string {
	bare := cited.ReplaceAllString(sentence, "X")
	if len(strings.Fields(bare)) > maxWords {
		return "over 25 words"
	}
	if whatOpens.MatchString(bare) && !strings.HasSuffix(bare, "?") {
		return clause
	}
	return marked(bare)
}

// marked returns the first mark in a text with its replacement, or "".
func marked(text string) string {
	for _, m := range marks {
		if found := m.pattern.FindString(text); found != "" {
			return found + ": " + m.instead
		}
	}
	return ""
}

var (
	// cited matches text from other places: a message, a command's words, a name in code.
	cited = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
	// ends matches the end of a sentence within a paragraph.
	ends = regexp.MustCompile(`[.?!]["')\]]*(\s|$)`)
	item = regexp.MustCompile(`^\s*([-*]|\d+[.)])\s`)
)

// sentences splits a comment's text into sentences. An empty line, a list item and a row of a table also end a
// sentence.
func sentences(text string) (all []string) {
	var paragraph []string
	flush := func() {
		rest := strings.Join(strings.Fields(strings.Join(paragraph, " ")), " ")
		paragraph = paragraph[:0]
		for rest != "" {
			end := len(rest)
			if at := ends.FindStringIndex(rest); at != nil {
				end = at[1]
			}
			if s := strings.TrimSpace(rest[:end]); s != "" {
				all = append(all, s)
			}
			rest = rest[end:]
		}
	}
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "|"):
			flush()
			continue
		case item.MatchString(line):
			flush()
		case strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  ") && len(paragraph) == 0:
			flush()
			continue
		}
		paragraph = append(paragraph, line)
	}
	flush()
	return all
}

func isIn(file string, folders []string) bool {
	for _, folder := range folders {
		if within(file, folder) {
			return true
		}
	}
	return false
}

func within(file, folder string) bool {
	return folder == "." || file == folder || strings.HasPrefix(file, strings.TrimSuffix(folder, "/")+"/")
}
