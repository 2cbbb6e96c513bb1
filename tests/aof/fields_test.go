package aof

import (
	"fmt"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestPersistedFields: a field whose deadline was removed still exists when the log is loaded after that deadline.
func TestPersistedFields(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes")
	s.Do("HSET", "h", "a", 1, "b", 2, "c", 3)
	until := time.Now().Add(testkit.Slowly(time.Second))
	s.Do("HPEXPIREAT", "h", until.UnixMilli(), "FIELDS", 3, "a", "b", "c")
	s.Do("HPERSIST", "h", "FIELDS", 2, "a", "nosuch")
	s.Do("HGETEX", "h", "PERSIST", "FIELDS", 1, "b")
	testkit.Until(t, testkit.Slowly(20*time.Second), "the deadline has passed", func() error {
		if left := time.Until(until); left > 0 {
			return fmt.Errorf("%v left", left)
		}
		return nil
	})
	s.Kill()
	s.Restart()
	if got := fmt.Sprint(s.Do("HGETALL", "h").Strings()); got != "[a 1 b 2]" {
		t.Errorf("after a restart h is %s", got)
	}
}
