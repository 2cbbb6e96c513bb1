package whole

import (
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestConfigDuringTransaction: CONFIG SET looks a host name up outside the turns, and sets the other settings when it
// has the answer. If a transaction runs by then, it sets them after the transaction.
func TestConfigDuringTransaction(t *testing.T) {
	t.Parallel()
	for _, pair := range [][]any{{"maxmemory", "104857600"}, {"appendonly", "no"}} { // in checked builds the second panics
		s := testkit.Start(t, "--appendonly", "yes")
		sleeps, sets, tx := known(t, s), known(t, s), known(t, s)
		before := s.Do("CONFIG", "GET", pair[0]).Elems[1].Text
		for again := true; again; {
			for _, words := range [][]any{{"MULTI"}, {"CLIENT", "LIST"}, {"CONFIG", "GET", pair[0]}, {"DEBUG", "SLEEP", "0.02"},
				{"EVAL", `local t = os.clock() repeat until os.clock() - t > 0.1`, 0}, {"CONFIG", "GET", pair[0]}} {
				if v, err := tx.Do(words...); err != nil || v.Err() != nil {
					t.Fatal(words, v, err)
				}
			}
			// While the first command holds the turn, the other two arrive. So the transaction begins right after CONFIG SET.
			sleep := sentBy(sleeps, "DEBUG", "SLEEP", "0.2")
			testkit.Lapse(50 * time.Millisecond)
			config := sentBy(sets, append([]any{"CONFIG", "SET", "bind", "localhost"}, pair...)...)
			testkit.Lapse(20 * time.Millisecond)
			exec, err := tx.Do("EXEC")
			if err != nil || len(exec.Elems) != 5 {
				t.Fatal(exec, err)
			}
			sleep.answer(t)
			if v := config.answer(t); v.Text != "OK" {
				t.Errorf("CONFIG SET: %v", v)
			}
			got := func(i int) string { return exec.Elems[i].Elems[1].Text }
			if again = got(1) != before || !strings.Contains(exec.Elems[0].Text, "cmd=config|set"); again { // another order
				s.Do("CONFIG", "SET", "bind", "127.0.0.1", pair[0], before)
			} else if got(4) != before {
				t.Errorf("%s is %s at first in a transaction, and then %s", pair[0], before, got(4))
			}
		}
		if v := s.Do("CONFIG", "GET", pair[0]).Strings(); len(v) != 2 || v[1] != pair[1] {
			t.Errorf("it is %q", v)
		}
	}
}
