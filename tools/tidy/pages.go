package tidy

import (
	"path/filepath"
	"regexp"
	"strings"
)

// listed matches a list of names in code, each with an optional remark in brackets. The list counts as one word.
var listed = regexp.MustCompile("`[^`]*`( \\([^)]*\\))?(, `[^`]*`( \\([^)]*\\))?)+")

// PlainPages returns the sentences in the pages and the configurations below root that break a rule about words.
func PlainPages(root string) (findings []Finding, err error) {
	texts := map[string][]string{}
	var order []string
	err = eachLine(root, []string{".md", ".conf"}, func(file string, number int, line string) {
		if number == 1 {
			order = append(order, file)
		}
		texts[file] = append(texts[file], line)
	})
	for _, file := range order {
		if file == "BENCHMARKS.md" { // a program writes this page
			continue
		}
		cut := paragraphs
		if filepath.Ext(file) == ".conf" {
			cut = remarks
		}
		for _, p := range cut(texts[file]) {
			if m := leaning.FindString(p.text); m != "" && filepath.Ext(file) == ".conf" {
				findings = append(findings, Finding{file, p.line, m + ": --help shows a setting without the one before it", p.text})
			}
			for _, s := range sentences(p.text) {
				// A heading or a caption has no verb: "What to watch".
				why := unplain(listed.ReplaceAllString(s, "`X`"))
				if why != "" && (why != clause || strings.HasSuffix(s, ".")) {
					findings = append(findings, Finding{file, p.line, why, s})
				}
			}
		}
	}
	return findings, err
}

// leaning matches words at the start of a setting's remark that only make sense after another setting's remark.
var leaning = regexp.MustCompile(
	`^(The same|Those|That|Its|It|Such|With which|Under which|To which|For how long|Even)\b|\b(likewise|even then)\b`)

// A paragraph is a piece of text of a page, without the marks of Markdown. Each heading, item and table cell is a
// paragraph.
type paragraph struct {
	line int
	text string
}

var (
	picture = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
	link    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	bullet  = regexp.MustCompile(`^\s*([-*]|\d+[.)]) +`)
)

// paragraphs splits a page into paragraphs. It leaves out code: fenced, or indented by four after an empty line.
func paragraphs(lines []string) (all []paragraph) {
	var open []string
	from, fenced, wasEmpty, inList := 0, false, true, false
	flush := func() {
		if len(open) > 0 {
			all = append(all, paragraph{from, strings.Join(open, "\n")})
		}
		open = nil
	}
	for i, line := range lines {
		bare := strings.TrimSpace(strings.ReplaceAll(link.ReplaceAllString(picture.ReplaceAllString(line, ""), "$1"), "**",
			""))
		code := strings.HasPrefix(line, "      ") || strings.HasPrefix(line, "    ") && !inList
		switch {
		case strings.HasPrefix(bare, "```"):
			flush()
			fenced = !fenced
		case fenced, code && len(open) == 0 && (wasEmpty || len(all) == 0):
			continue // the line before it stays empty for the rest of the code
		case bare == "":
			flush()
		case strings.HasPrefix(bare, "#"):
			flush()
			inList = false
			all = append(all, paragraph{i + 1, strings.TrimLeft(bare, "# ")})
		case strings.HasPrefix(bare, "|"):
			flush()
			for _, cell := range strings.Split(strings.Trim(bare, "|"), " | ") {
				all = append(all, paragraph{i + 1, strings.TrimSpace(cell)})
			}
		case bullet.MatchString(line):
			flush()
			inList = true
			from, open = i+1, []string{bullet.ReplaceAllString(bare, "")}
		default:
			if len(open) == 0 {
				from = i + 1
				inList = inList && strings.HasPrefix(line, " ")
			}
			open = append(open, bare)
		}
		wasEmpty = bare == ""
	}
	flush()
	return all
}

// remarks returns the comments of a configuration. A # before a letter begins a setting, not a comment.
func remarks(lines []string) (all []paragraph) {
	var open []string
	for i, line := range append(lines, "") {
		if strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "# ---") {
			open = append(open, line[2:])
			continue
		}
		if len(open) > 0 {
			all = append(all, paragraph{i + 1 - len(open), strings.Join(open, "\n")})
		}
		open = nil
	}
	return all
}
