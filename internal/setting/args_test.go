package setting

import (
	"reflect"
	"testing"
)

func TestSplitArgs(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       []string
		err        error
	}{
		{"nothing", "", []string{}, nil},
		{"blanks", " \t\v ", []string{}, nil},
		{"words", "  save 900\t1 ", []string{"save", "900", "1"}, nil},
		{"empty strings", `a "" ''`, []string{"a", "", ""}, nil},
		{"double quotes", `"a b" "c'd"`, []string{"a b", "c'd"}, nil},
		{"single quotes", `'a b' 'c"d'`, []string{"a b", `c"d`}, nil},
		{"hex", `"\x41\x00\xff"`, []string{"A\x00\xff"}, nil},
		{"half a hex", `"\x4" "\xg1"`, []string{"x4", "xg1"}, nil},
		{"escapes", `"\n\r\t\b\a\\\"\q"`, []string{"\n\r\t\b\a\\\"q"}, nil},
		{"single quotes escape only themselves", `'\'\n'`, []string{`'\n`}, nil},
		{"a quote inside a word", `ab"c d"`, []string{"abc d"}, nil},
		{"zero byte ends a word", "a\x00b", []string{"a", "b"}, nil},
		{"open double", `"abc`, nil, ErrQuotes},
		{"open single", `'abc`, nil, ErrQuotes},
		{"backslash at the end", `"abc\`, nil, ErrQuotes},
		{"text behind a double quote", `"a"b`, nil, ErrQuotes},
		{"text behind a single quote", `'a'b`, nil, ErrQuotes},
	} {
		got, err := SplitArgs(c.line)
		if !reflect.DeepEqual(got, c.want) || err != c.err {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// FuzzQuote: Quote's text is read back as one argument with the same bytes.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a b", "\x00\xff\n", `\"'`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := SplitArgs("name " + Quote(s) + " end")
		if want := []string{"name", s, "end"}; err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q, %v", s, got, err)
		}
		_, _ = SplitArgs(s) // and nothing panics
	})
}
