package engine

import (
	"errors"
	"testing"
)

// TestReplay: commands of a log change the data and are told to nobody; what is none for a log is refused.
func TestReplay(t *testing.T) {
	s := newHouse(t)
	cl := NewReplayer()
	run := func(words ...string) (err error) {
		var args [][]byte
		for _, w := range words {
			args = append(args, []byte(w))
		}
		s.Do(func() { err = s.Replay(cl, args) })
		return err
	}
	for _, words := range [][]string{{"SELECT", "3"}, {"SET", "k", "v"}, {"set", "n", "1"}, {"INCR", "n"}, {"INCR", "k"}} {
		if err := run(words...); err != nil {
			t.Errorf("%q: %v", words, err)
		}
	}
	if got := s.sink.take(); got != "" {
		t.Errorf("the sink heard of %s", got)
	}
	s.Do(func() {
		if n := s.space.DB(3).Len(); n != 2 {
			t.Errorf("%d keys", n)
		}
	})
	for _, words := range [][]string{{"BLA", "x"}, {"SET", "k"}, {"CLIENT", "LIST"}, {"MULTI"}} {
		if err := run(words...); !errors.As(err, new(*ReplayError)) {
			t.Errorf("%q: %v", words, err)
		}
	}
}
