package tidy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var ofArchitecture = regexp.MustCompile(`^R[1-6]$`) // ARCHITECTURE.md's rules

// TestLabels: a label names only one rule in the whole tree, and every cited rule is defined.
func TestLabels(t *testing.T) {
	t.Parallel()
	defined, cited, err := Labels(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(defined) < 50 || len(cited) < 2*len(defined) {
		t.Fatalf("%d rules, cited %d times: the test looks at the wrong place", len(defined), len(cited))
	}
	at := map[string]Label{}
	letters := map[string]bool{} // "memory.T": the package has rules of this letter
	for _, l := range defined {
		if first, twice := at[l.Name]; twice {
			t.Errorf("%s:%d defines %s, as %s:%d does", l.File, l.Line, l.Name, first.File, first.Line)
			continue
		}
		at[l.Name] = l
		pkg, bare, qualified := strings.Cut(l.Name, ".")
		switch {
		case l.File == "ARCHITECTURE.md":
			if !ofArchitecture.MatchString(l.Name) {
				t.Errorf("%s:%d defines %s: its rules are R1 to R6", l.File, l.Line, l.Name)
			}
		case !qualified:
			t.Errorf("%s:%d defines %s: call it %s.%s", l.File, l.Line, l.Name, home(l.File), l.Name)
		case pkg != home(l.File):
			t.Errorf("%s:%d defines %s, in package %s", l.File, l.Line, l.Name, home(l.File))
		default:
			letters[pkg+"."+bare[:1]] = true
		}
	}
	for _, l := range cited {
		_, isDefined := at[l.Name]
		_, _, qualified := strings.Cut(l.Name, ".")
		switch {
		case isDefined:
		case qualified:
			t.Errorf("%s:%d cites %s, a rule that does not exist", l.File, l.Line, l.Name)
		case letters[home(l.File)+"."+l.Name[:1]]: // in other packages it may be an opcode, a cache or a format
			t.Errorf("%s:%d cites %s: say which package's", l.File, l.Line, l.Name)
		}
	}
}

func TestCitations(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"// memory.T2. Free pages are counted.", "memory.T2"},
		{"	x := 1 // as tree.E1 to tree.E4 say, and T1", "tree.E1 tree.E4 T1"},
		{`	invariant.That(ok, "memory.H3, memory.R1: %d of B2 left", n)`, "memory.H3 memory.R1"},
		{`	fmt.Println("memory.H3: no message of an invariant")`, ""},
		{"	a.B1 = 5 // neither is `C7`, \"memory.T9\", 0xD8, C3PO nor file.go/T1", ""},
		{`	return fmt.Errorf("R1: a run") // R3`, "R1 R3"},
	} {
		if got := strings.Join(citations(spoken(c.line)), " "); got != c.want {
			t.Errorf("%s\ncites %q, want %q", c.line, got, c.want)
		}
	}
	if !slices.Equal(definition.FindStringSubmatch("- **R1 One order.** Exactly one")[1:], []string{"R1"}) {
		t.Error("a rule in bold is none")
	}
}
