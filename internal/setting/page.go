package setting

import (
	"regexp"
	"strings"
)

// A Section is a group of settings on the page of settings (spindle.conf), with its text.
type Section struct {
	Title   string
	Text    string
	Entries []Entry
}

// An Entry is the page's text about one directive.
type Entry struct {
	Name string
	Args []string // of each line that states the default
	Text string   // one paragraph
	Idle bool     // a # without a blank stands before it
}

// directiveLine matches a line of the page that states a setting. A # without a blank marks a setting that has no
// effect, or that the server chooses itself while no line sets it (Chosen).
var directiveLine = regexp.MustCompile(`^(#?)([a-z][a-z0-9-]+) (.+)$`)

// ReadPage reads the page of settings. intro is the text before its first section, in paragraphs.
//
// Shape: a section begins with a comment line of dashes, its title, and its text, and ends at a blank line. An entry is
// the comment above a directive's lines.
func ReadPage(page string) (intro string, sections []Section) {
	var said []string // the comment lines above
	var introduced []string
	for line := range strings.SplitSeq(page, "\n") {
		text, isText := strings.CutPrefix(line, "# ")
		if line == "#" { // ends a paragraph of a comment
			text, isText = "", true
		}
		switch m := directiveLine.FindStringSubmatch(line); {
		case strings.HasPrefix(text, "-----"):
			sections = append(sections, Section{})
			said = nil
		case isText:
			said = append(said, text)
		case m != nil && len(sections) > 0:
			s := &sections[len(sections)-1]
			if n := len(s.Entries); n > 0 && s.Entries[n-1].Name == m[2] {
				s.Entries[n-1].Args = append(s.Entries[n-1].Args, m[3])
			} else {
				s.Entries = append(s.Entries, Entry{Name: m[2], Args: []string{m[3]}, Text: strings.Join(said, " "),
					Idle: m[1] != ""})
			}
			said = nil
		case len(said) > 0 && len(sections) == 0:
			introduced = append(introduced, strings.Join(said, "\n"))
			said = nil
		case len(said) > 0 && sections[len(sections)-1].Title == "":
			s := &sections[len(sections)-1]
			s.Title, s.Text = said[0], paragraphs(strings.Join(said[1:], "\n"))
			said = nil
		}
	}
	return paragraphs(strings.Join(introduced, "\n\n")), sections
}

// paragraphs joins the lines of each paragraph. An empty line ends a paragraph.
func paragraphs(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "" && b.Len() > 0 && !strings.HasSuffix(b.String(), "\n\n"):
			b.WriteString("\n\n")
		case line != "":
			if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
				b.WriteByte(' ')
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

// Accepts returns, in short form, which values a row takes: "yes|no", words, bounds, or "" for any text.
func (r *Row) Accepts() string {
	if a, ok := r.codec.(interface{ accepts() string }); ok {
		return a.accepts()
	}
	return ""
}

// Words returns the values that a row takes, if they are words, and nil otherwise.
func (r *Row) Words() []string {
	if a := r.Accepts(); strings.Contains(a, "|") {
		return strings.Split(strings.TrimSuffix(a, " ..."), "|")
	}
	return nil
}

func (c *boolCodec) accepts() string { return "yes|no" }

func (c *enumCodec[T]) accepts() string {
	var names []string
	for _, choice := range c.choices {
		names = append(names, choice.Name)
	}
	words := strings.Join(names, "|")
	if c.flags {
		words += " ..."
	}
	return words
}

func (c *intCodec) accepts() string {
	least, most := formatNumber(c.unit, c.min), formatNumber(c.unit, c.max)
	switch {
	case c.unit == memoryPercent:
		return "bytes or percent"
	case c.unit == memory:
		return "bytes"
	case c.max == 1<<63-1 || c.max == 1<<31-1:
		return "number, at least " + least
	}
	return least + ".." + most
}

func (c *uintCodec) accepts() string { return "bytes" }
