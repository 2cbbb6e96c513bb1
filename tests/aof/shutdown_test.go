package aof

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestShutdownEndsARewrite: a server that ends in the middle of a rewrite leaves no file of it, whether the log is on
// or not.
func TestShutdownEndsARewrite(t *testing.T) {
	for _, on := range []string{"yes", "no"} {
		t.Run("appendonly="+on, func(t *testing.T) {
			s := testkit.Start(t, "--appendonly", on, "--rdb-key-save-delay", "100000", "--save", "")
			for i := range 1000 {
				s.Do("SET", fmt.Sprint("k", i), "v")
			}
			s.Do("BGREWRITEAOF")
			temp := s.File("temp-rewriteaof-bg-*.aof")
			testkit.Until(t, testkit.Slowly(20*time.Second), "the rewrite begins", func() error {
				found, _ := filepath.Glob(temp)
				return testkit.Equal(fmt.Sprint(len(found)), "1")
			})
			s.Terminate()
			left, _ := filepath.Glob(temp)
			bases, _ := filepath.Glob(s.File("appendonlydir/*.2.base.*"))
			if len(left)+len(bases) > 0 {
				t.Errorf("%v and %v are left", left, bases)
			}
		})
	}
}
