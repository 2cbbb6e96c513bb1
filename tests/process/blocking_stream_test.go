package process

import (
	"testing"

	"spindle/tests/testkit"
)

// TestBlockedOnStreams: a client that waits for entries gets the new ones. XREADGROUP gets an error when its group is
// destroyed. No other event unblocks a client. The expected replies are those of Redis.
func TestBlockedOnStreams(t *testing.T) {
	s := testkit.Start(t)
	const (
		noGroup   = "(error) NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"
		wrongType = "(error) WRONGTYPE Operation against a key holding the wrong kind of value"
	)
	do := func(commands ...[]any) {
		for _, c := range commands {
			s.Do(c...)
		}
	}
	groupOf := func(consumer string) []any {
		return []any{"XREADGROUP", "GROUP", "g", consumer, "BLOCK", 0, "STREAMS", "s", ">"}
	}
	for name, f := range map[string]func(w *waitingRoom){
		"all that read": func(w *waitingRoom) {
			s.Do("XADD", "s", "1-1", "a", "b")
			a, b, c := w.await("XREAD", "BLOCK", 0, "STREAMS", "s", "$"), w.await("XREAD", "BLOCK", 0, "STREAMS", "s", "1-1"),
				w.await("XREAD", "BLOCK", 0, "STREAMS", "s", "7")
			s.Do("XADD", "s", "2-1", "c", "d")
			a.gets(`[[s [[2-1 [c d]]]]]`)
			b.gets(`[[s [[2-1 [c d]]]]]`)
			w.waits(1)
			s.Do("XADD", "s", "9-0", "e", "f")
			c.gets(`[[s [[9-0 [e f]]]]]`)
		},
		"several streams, the last entry": func(w *waitingRoom) {
			a := w.await("XREAD", "COUNT", 3, "BLOCK", 0, "STREAMS", "s", "t", "u", "+", "+", "0")
			do([]any{"MULTI"}, []any{"XADD", "t", "1-0", "a", "b"}, []any{"XADD", "t", "2-0", "a", "c"},
				[]any{"XADD", "u", "1-1", "x", "y"}, []any{"EXEC"})
			a.gets(`[[t [[2-0 [a c]]]] [u [[1-1 [x y]]]]]`)
		},
		"what reading does not hear of": func(w *waitingRoom) {
			a := w.await("XREAD", "BLOCK", 0, "STREAMS", "s", "r", "$", "$")
			do([]any{"MULTI"}, []any{"XADD", "s", "1-0", "a", "b"}, []any{"DEL", "s"}, []any{"RPUSH", "s", "x"}, []any{"EXEC"})
			do([]any{"SET", "s", "v"}, []any{"DEL", "s"}, []any{"XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"},
				[]any{"DEL", "s"}, []any{"ZADD", "s", 1, "m"}, []any{"DEL", "s"})
			w.waits(1)
			s.Do("XADD", "s", "5-0", "c", "d")
			a.gets(`[[s [[5-0 [c d]]]]]`)
		},
		"a stream that ran dry": func(w *waitingRoom) {
			do([]any{"XADD", "s", "666", "a", "b"}, []any{"XDEL", "s", "666"})
			a := w.await("XREAD", "BLOCK", 0, "STREAMS", "s", "665")
			s.Do("XADD", "s", "667", "a", "b")
			a.gets(`[[s [[667-0 [a b]]]]]`)
		},
		"each entry to one of the group": func(w *waitingRoom) {
			s.Do("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
			a, b := w.await(groupOf("ann")...), w.await(groupOf("bob")...)
			s.Do("XADD", "s", "1-0", "a", "b")
			a.gets(`[[s [[1-0 [a b]]]]]`)
			w.waits(1)
			s.Do("XADD", "s", "2-0", "c", "d")
			b.gets(`[[s [[2-0 [c d]]]]]`)
		},
		"the group is destroyed": func(w *waitingRoom) {
			do([]any{"XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"}, []any{"XGROUP", "CREATE", "s", "other", "$"})
			a := w.await(groupOf("ann")...)
			s.Do("XGROUP", "DESTROY", "s", "other")
			w.waits(1)
			s.Do("XGROUP", "DESTROY", "s", "g")
			a.gets(noGroup)
		},
		"deleted": func(w *waitingRoom) {
			s.Do("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
			a, b := w.await(groupOf("ann")...), w.await(groupOf("bob")...)
			s.Do("DEL", "s")
			a.gets(noGroup)
			b.gets(noGroup)
		},
		"overwritten": func(w *waitingRoom) {
			s.Do("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
			a := w.await(groupOf("ann")...)
			s.Do("SET", "s", "v")
			a.gets(wrongType)
		},
		"flushed": func(w *waitingRoom) {
			s.Do("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
			a := w.await(groupOf("ann")...)
			s.Do("FLUSHALL")
			a.gets(noGroup)
		},
		"another stream is moved there": func(w *waitingRoom) {
			do([]any{"XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"}, []any{"XADD", "t", "1-0", "a", "b"},
				[]any{"XGROUP", "CREATE", "t", "g", "0"})
			a := w.await(groupOf("ann")...)
			s.Do("RENAME", "t", "s")
			a.gets(`[[s [[1-0 [a b]]]]]`)
			w.waits(0)
			s.Do("XADD", "t", "1-0", "a", "b")
			b := w.await(groupOf("bob")...)
			s.Do("RENAME", "t", "s")
			b.gets(noGroup)
		},
		"time is up": func(w *waitingRoom) {
			s.Do("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
			w.await("XREAD", "BLOCK", 300, "STREAMS", "s", "$").gets(`(nil)`)
			w.waits(0)
			w.await("XREADGROUP", "GROUP", "g", "ann", "BLOCK", 300, "STREAMS", "s", ">").gets(`(nil)`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Do("FLUSHALL")
			w := &waitingRoom{t: t, s: s}
			f(w)
			w.waits(0)
		})
	}
}
