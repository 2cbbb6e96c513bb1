package ascii

import (
	"bytes"
	"testing"
)

// TestLower compares every byte with the standard library's result for ASCII.
func TestLower(t *testing.T) {
	for c := range 256 {
		want := byte(c)
		if c < 0x80 {
			want = bytes.ToLower([]byte{byte(c)})[0]
		}
		if got := Lower(byte(c)); got != want {
			t.Errorf("%#x: %#x", c, got)
		}
	}
}

func TestEqualFold(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", true}, {"get", "GET", true}, {"gEt", "GeT", true}, {"get", "gets", false}, {"get", "gat", false},
		{"[", "{", false}, {"@", "`", false}, {"\xc4", "\xe4", false},
		{"k", "\xe2\x84\xaa", false}, // the Kelvin sign is not a K here
	} {
		if got := EqualFold([]byte(c.a), c.b); got != c.want {
			t.Errorf("%q, %q: %t", c.a, c.b, got)
		}
	}
}
