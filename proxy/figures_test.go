package proxy

import (
	"testing"
	"unicode/utf8"
)

// TestLabels: addresses that differ only in odd bytes have different labels. Equal labels would be an error of the
// whole reply.
func TestLabels(t *testing.T) {
	a, b := labelOf("\xff:7000"), labelOf("\xfe:7000")
	if a == b || !utf8.ValidString(a) || !utf8.ValidString(b) {
		t.Errorf("%q and %q", a, b)
	}
	if at := labelOf("10.0.0.1:7000"); at != "10.0.0.1:7000" {
		t.Error(at)
	}
}
