package tidy

import (
	"flag"
	"strings"
	"testing"
)

var wordsIn = flag.String("words", "", "list the findings of this folder alone")

func TestCommentsArePlain(t *testing.T) {
	t.Parallel()
	findings, err := PlainWords(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if *wordsIn != "" && !within(f.File, *wordsIn) {
			continue
		}
		t.Errorf("%s:%d: %s\n\t%s", f.File, f.Line, f.Why, f.Text)
	}
}

func TestSentencesThatAreNotPlain(t *testing.T) {
	for text, want := range map[string]string{
		"Who comes first is served first.":              "Who: name the client or the caller",
		"What came is kept.":                            "opens with a clause",
		"What is a turn?":                               "",
		"It says \"who goes on\" and ends.":             "",
		"The client goes on.":                           "goes on: continues",
		"A cut from here on is safe.":                   "from here on: from X to Y, or name the first one",
		strings.Repeat("word ", 26) + "end.":            "over 25 words",
		strings.Repeat("word ", 24) + "end.":            "",
		"The picture:\n\n\twho is in it\n\nends there.": "",
		"- one item\n- nobody here":                     "nobody: no client, a caller, each client",
	} {
		got := ""
		for _, s := range sentences(text) {
			if why := unplain(s); why != "" {
				got = why
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMessagesThatAreNotPlain(t *testing.T) {
	for text, marked := range map[string]bool{
		"nobody asks for it":                         true,
		"a loop of its own":                          true,
		"no client asks for it":                      false,
		"behind":                                     false,
		"offset 9 behind master, lag=2":              false,
		"The file continues behind this value's end": true,
	} {
		if got := unplainMessage(text); (got != "") != marked {
			t.Errorf("%q: %q", text, got)
		}
	}
}
