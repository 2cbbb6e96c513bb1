package tidy

import (
	"go/ast"
	"go/parser"
	"testing"
)

func TestTestsArePlain(t *testing.T) {
	t.Parallel()
	findings, err := PlainTests(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Errorf("%s:%d: %s\n\t%s", f.File, f.Line, f.Why, f.Text)
	}
}

func TestNamesThatAreNotPlain(t *testing.T) {
	for name, want := range map[string]string{
		"TestEndBehindManyBytes": "behind: after",
		"TestServesNoClient":     "",
		"TestHTTPWhoAsks":        "who: name the client or the caller",
		"who":                    "", // not a test
		"newBoard":               "board: a plain name",
		"dashboard":              "",
	} {
		if got := unplainName(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestMessagesOfTests(t *testing.T) {
	for text, want := range map[string]string{
		`t.Errorf("nobody asked: %v", x)`: "nobody asked: %v",
		`t.Run("nobody", f)`:              "",
		`log.Fatal("nobody")`:             "",
		`b.Log(x)`:                        "",
	} {
		call, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := printed(call.(*ast.CallExpr)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
