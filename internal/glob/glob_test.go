package glob

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want, fold    bool
	}{
		{"", "", true, true},
		{"", "a", false, false},
		{"*", "", false, false}, // as in the reference server
		{"a*", "a", true, true},
		{"a***", "a", true, true},
		{"*", "anything", true, true},
		{"h?llo", "hello", true, true},
		{"h?llo", "hllo", false, false},
		{"h*llo", "heeeello", true, true},
		{"h[ae]llo", "hallo", true, true},
		{"h[ae]llo", "hillo", false, false},
		{"h[^e]llo", "hallo", true, true},
		{"h[^e]llo", "hello", false, false},
		{"h[a-b]llo", "hbllo", true, true},
		{"h[b-a]llo", "hallo", true, true},
		{"h[a-b]llo", "hCllo", false, false},
		{"h[a-c]llo", "hBllo", false, true},
		{`h\*llo`, "h*llo", true, true},
		{`h\*llo`, "hello", false, false},
		{`h\`, `h\`, true, true},
		{"[", "[", false, false},
		{"[^", "x", true, true},
		{"[]", "]", false, false},
		{"[a", "a", true, true},
		{`[\]]`, "]", true, true},
		{`[\A]`, "a", false, false},
		{"[a-]", "^", true, true},
		{"[a-\xff]", "\xff", true, true},
		{"[a-\xff]", "b", false, false},
		{"HELLO", "hello", false, true},
		{"*foo*bar", "xfoofoobarbar", true, true},
		{"*foo*bar", "xfoofoobarbaz", false, false},
		{"*a", "aab", false, false},
		{"a*b?c*d", "aXXbXcXXd", true, true},
	} {
		if got := Match([]byte(c.pattern), []byte(c.text)); got != c.want {
			t.Errorf("Match(%q, %q) = %t", c.pattern, c.text, got)
		}
		if got := MatchFold([]byte(c.pattern), []byte(c.text)); got != c.fold {
			t.Errorf("MatchFold(%q, %q) = %t", c.pattern, c.text, got)
		}
	}
}

func TestManyStarsAreNotExponential(t *testing.T) {
	begin := time.Now()
	if Match([]byte(strings.Repeat("a*", 1000)+"b"), bytes.Repeat([]byte{'a'}, 10000)) {
		t.Error("matched")
	}
	if took := time.Since(begin); took > time.Minute { // exponential time would be ages
		t.Errorf("took %v", took)
	}
}

func TestStarsAreBounded(t *testing.T) {
	for stars, want := range map[int]bool{MaxStars: true, MaxStars + 1: false, 20 * MaxStars: false} {
		text := bytes.Repeat([]byte{'a'}, stars)
		if got := Match([]byte(strings.Repeat("*?", stars)), text); got != want {
			t.Errorf("%d runs of stars: %t", stars, got)
		}
		if got := Match([]byte(strings.Repeat("*?", stars)+"*"), text); got != want {
			t.Errorf("%d runs of stars and one at the end: %t", stars, got)
		}
	}
}

// reference is the recursive definition of a pattern's meaning.
func reference(p, s []byte, fold bool) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	if p[0] == '*' {
		for i := 0; i <= len(s); i++ {
			if reference(p[1:], s[i:], fold) {
				return true
			}
		}
		return false
	}
	if len(s) == 0 {
		return false
	}
	next, ok := matchOne(p, 0, s[0], fold)
	return ok && reference(p[next:], s[1:], fold)
}

func FuzzGlob(f *testing.F) {
	f.Add([]byte("a*[b-d]?\\*"), []byte("axxcy*"), false)
	f.Add([]byte("*a*a*b"), []byte("aaaaaaab"), true)
	f.Fuzz(func(t *testing.T, pattern, text []byte, fold bool) {
		got := match(pattern, text, fold)
		if len(pattern) > 12 || len(text) > 24 {
			return // the reference is exponential
		}
		want := reference(pattern, text, fold)
		if len(text) == 0 {
			want = len(pattern) == 0
		}
		if got != want {
			t.Errorf("match(%q, %q, %t) = %t", pattern, text, fold, got)
		}
		if IsLiteral(pattern) && !fold && got != bytes.Equal(pattern, text) {
			t.Errorf("%q is literal and %q: %t", pattern, text, got)
		}
	})
}

// BenchmarkMatch is KEYS over keys that do and do not match. Watch ns/op.
func BenchmarkMatch(b *testing.B) {
	for _, pattern := range []string{"key:*", "*0001", "key:[0-9]*1", "*:*:*"} {
		b.Run(pattern, func(b *testing.B) {
			text := []byte("key:000000000001")
			for b.Loop() {
				Match([]byte(pattern), text)
			}
		})
	}
}
