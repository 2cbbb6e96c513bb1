package tidy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamplesAreReal: the examples in STYLE.md equal the code in the tree.
func TestExamplesAreReal(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "STYLE.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := Examples(string(page))
	if len(all) < 8 {
		t.Errorf("only %d examples: the test looks at the wrong place", len(all))
	}
	for _, e := range all {
		switch why, err := e.Differs(root); {
		case err != nil:
			t.Error(err)
		case why != "":
			t.Errorf("STYLE.md, example %q of %q: %s", e.Symbol, e.File, why)
		}
	}
}

func TestExamplesThatDiffer(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nvar x = 1\nvar y = 2\nvar z = 3\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]string{
		"var x = 1\nvar y = 2\n":          "",
		"var x = 1\n// …\nvar z = 3\n":    "",
		"package a\n// …\nvar x = 1\n":    "",
		"var x = 1\nvar z = 3\n":          "the file does not have",
		"var z = 3\n// …\nvar x = 1\n":    "the file does not have",
		"var x = 1\n// …\nvar y = 2222\n": "the file does not have",
		"var y = 2\n":                     "x is not in it",
	} {
		page := "Text.\n\nFrom `a.go`, `x`:\n\n```go\n" + code + "```\n\nText.\n"
		all := Examples(page)
		if len(all) != 1 || all[0].Code != code {
			t.Fatalf("%q is read as %q", page, all)
		}
		if why, err := all[0].Differs(dir); err != nil || !strings.HasPrefix(why, want) || want == "" && why != "" {
			t.Errorf("%q: %q, %v, want %q", code, why, err, want)
		}
	}
	if all := Examples("```go\nvar x\n```\n"); len(all) != 1 || all[0].File != "" {
		t.Errorf("an example without a file: %q", all)
	}
}
