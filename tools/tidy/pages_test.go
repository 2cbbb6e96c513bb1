package tidy

import (
	"slices"
	"strings"
	"testing"
)

func TestPagesArePlain(t *testing.T) {
	t.Parallel()
	findings, err := PlainPages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Errorf("%s:%d: %s\n\t%s", f.File, f.Line, f.Why, f.Text)
	}
}

func TestParagraphsOfAPage(t *testing.T) {
	page := "# A heading\n\nOne [link](to/it.md),\ncontinued.\n\n    code\n\n    more code\n\n- an item\n  of two lines\n" +
		"- another\n\n      code of it\n\n```go\nfenced\n\nstill\n```\n![picture](x.svg)\n\n| a | b c |\n|---|---|\n| d. | `e` |\n"
	var got []string
	for _, p := range paragraphs(strings.Split(page, "\n")) {
		got = append(got, strings.ReplaceAll(p.text, "\n", "/"))
	}
	want := []string{"A heading", "One link,/continued.", "an item/of two lines", "another", "a", "b c", "---|---", "d.",
		"`e`"}
	if !slices.Equal(got, want) {
		t.Errorf("%q,\nwant %q", got, want)
	}
}

func TestRemarksOfAConfiguration(t *testing.T) {
	all := remarks(strings.Split("# ----\n# Network\n#\n# Two\n# lines.\nport 6379\n#bind x\n# Last.", "\n"))
	var got []string
	for _, p := range all {
		got = append(got, strings.ReplaceAll(p.text, "\n", "/"))
	}
	if want := []string{"Network", "Two/lines.", "Last."}; !slices.Equal(got, want) || all[1].line != 4 {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRemarksThatLean: PlainPages finds remarks that refer to the remark before them, and no others.
func TestRemarksThatLean(t *testing.T) {
	for text, want := range map[string]bool{
		"The same for SIGTERM.": true, "The port, likewise.": true, "With which password.": true,
		"Its private key, PEM.": true, "The port of the cluster bus.": false, "Items are compared.": false,
		"Use the same port.": false,
	} {
		if got := leaning.MatchString(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
