package engine

import (
	"errors"
	"testing"
)

// TestReplay: commands of a log change the data, and no sink gets their effects. A command that changes neither data
// nor scripts is skipped. An unknown command, a wrong number of arguments and a missing database are refused.
func TestReplay(t *testing.T) {
	s := newTestCore(t)
	cl := NewReplayer()
	run := func(words ...string) (passed bool, err error) {
		var args [][]byte
		for _, w := range words {
			args = append(args, []byte(w))
		}
		s.Do(func() { passed, err = s.Replay(cl, args) })
		return passed, err
	}
	for _, words := range [][]string{{"SELECT", "3"}, {"SET", "k", "v"}, {"set", "n", "1"}, {"INCR", "n"}, {"INCR", "k"}} {
		if passed, err := run(words...); passed || err != nil {
			t.Errorf("%q: %t, %v", words, passed, err)
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
	for _, words := range [][]string{{"CLIENT", "LIST"}, {"MULTI"}, {"PING"}} {
		if passed, err := run(words...); !passed || err != nil {
			t.Errorf("%q: %t, %v", words, passed, err)
		}
	}
	var refused *ReplayError
	for _, words := range [][]string{{"SELECT", "16"}, {"MOVE", "k", "16"}, {"SWAPDB", "0", "16"}} {
		if _, err := run(words...); !errors.As(err, &refused) || refused.Database != 16 {
			t.Errorf("%q: %v", words, err)
		}
	}
	for _, words := range [][]string{{"BLA", "x"}, {"SET", "k"}, {"CLIENT", "BLA"}, {"CLIENT"}} {
		if _, err := run(words...); !errors.As(err, new(*ReplayError)) {
			t.Errorf("%q: %v", words, err)
		}
	}
}
