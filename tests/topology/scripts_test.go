package topology

import (
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestQueuedScripts: EXEC checks a queued script by the script's own flags, in the role that the server has at that
// time.
func TestQueuedScripts(t *testing.T) {
	s, other := testkit.Start(t), testkit.Start(t)
	c := s.Dial()
	c.Do("MULTI")
	c.Do("EVAL", "#!lua\nreturn 1", 0)
	reads := s.Dial()
	reads.Do("MULTI")
	reads.Do("EVAL", "#!lua flags=no-writes\nreturn 1", 0)
	s.Do("REPLICAOF", "127.0.0.1", other.Port)
	up(t, s)
	want := "EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica."
	if v, _ := c.Do("EXEC"); v.Text != want {
		t.Errorf("EXEC of a script that may write: %v", v)
	}
	if v, _ := reads.Do("EXEC"); v.Err() != nil {
		t.Errorf("EXEC of a script that may not: %v", v)
	}
}

// TestScriptOutlivesReplicas: a script that has written may continue to write even if min-replicas-to-write is no
// longer met.
func TestScriptOutlivesReplicas(t *testing.T) {
	s := testkit.Start(t, "--busy-reply-threshold", "10")
	r := follow(t, s, false)
	online(t, s)
	s.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	c, done := s.Dial(), make(chan string, 1)
	go func() {
		v, err := c.Do("EVAL", `
			redis.call('SET', 'x', 'before')
			while not string.find(redis.call('INFO', 'replication'), 'connected_slaves:0') do end
			redis.call('SET', 'x', 'after')
			return 'done'`, 0)
		if err != nil {
			v.Text = err.Error()
		}
		done <- v.Text
	}()
	testkit.Until(t, testkit.Slowly(10*time.Second), "a busy script", func() error {
		v, err := s.Ask("PING")
		if err == nil && !strings.HasPrefix(v.Text, "BUSY") {
			err = testkit.Equal(v.Text, "BUSY")
		}
		return err
	})
	r.Do("REPLICAOF", "NO", "ONE")
	if got := <-done; got != "done" {
		t.Errorf("the script ended with %s", got)
	}
	if v := s.Do("GET", "x"); v.Text != "after" {
		t.Errorf("x is %v", v)
	}
	if v, _ := s.Ask("SET", "x", "y"); !strings.HasPrefix(v.Text, "NOREPLICAS") {
		t.Errorf("a write without replicas: %v", v)
	}
}
