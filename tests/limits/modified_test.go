package limits

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestModifiedInUnits: under allkeys-lrm a key becomes recent when a transaction or a script changes it, also on a
// replica. Reads in a transaction or a script do not make it recent.
func TestModifiedInUnits(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--maxmemory-policy", "allkeys-lrm")
	r := testkit.Start(t, "--maxmemory-policy", "allkeys-lrm", "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port))
	r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
	keys := []string{"exec read", "exec write", "eval read", "eval write", "alone"}
	for _, key := range keys {
		s.Do("SET", key, "1")
	}
	s.Do("WAIT", "1", "60000")
	for _, at := range []*testkit.Server{s, r} {
		testkit.Until(t, testkit.Slowly(20*time.Second), "all keys are old", func() error {
			for _, key := range keys {
				if n := at.Do("OBJECT", "IDLETIME", key).Int; n < 4 {
					return fmt.Errorf("%s was changed %d s ago", key, n)
				}
			}
			return nil
		})
	}
	s.Do("MULTI")
	s.Do("GET", "exec read")
	s.Do("INCR", "exec write")
	s.Do("EXEC")
	s.Do("EVAL", "redis.call('GET', KEYS[1]) return redis.call('APPEND', KEYS[2], 'x')", 2, "eval read", "eval write")
	s.Do("WAIT", "1", "60000")
	for _, at := range []*testkit.Server{s, r} {
		for _, key := range keys {
			n := at.Do("OBJECT", "IDLETIME", key).Int
			if recent := n < 4; recent != strings.HasSuffix(key, "write") {
				t.Errorf("%s: changed %d s ago", key, n)
			}
		}
	}
}
