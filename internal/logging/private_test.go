package logging

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

type keyError struct{ key string }

func (e keyError) Error() string  { return "no " + e.key }
func (e keyError) Public() string { return "no key" }

// TestHide: while hiding is set, lines leave out users' data, also data inside errors. Afterwards they show them again.
func TestHide(t *testing.T) {
	var out strings.Builder
	l := New(&out)
	say := func() string {
		out.Reset()
		l.Warning("%s %q %s %v %d %v", Client("id=3 name=bob db=0 user=al lib=x"), Data("k"), Data("v"),
			fmt.Errorf("load: %w, at 3", keyError{"secret"}), 7, errors.New("plain"))
		_, text, _ := strings.Cut(out.String(), " # ")
		return strings.TrimSpace(text)
	}
	const open = `id=3 name=bob db=0 user=al lib=x "k" v load: no secret, at 3 7 plain`
	if got := say(); got != open {
		t.Error(got)
	}
	l.Hide(true)
	const hidden = `id=3 name=*redacted* db=0 user=*redacted* lib=x "*redacted*" *redacted* load: no key, at 3 7 plain`
	if got := say(); got != hidden {
		t.Error(got)
	}
	l.Hide(false)
	if got := say(); got != open {
		t.Error(got)
	}
}
