package topology

import (
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestUnknownCommand: the link stops before a command that the replica does not have. Log and INFO name the command,
// and the log names the primary's version. Reads still work, unless replica-serve-stale-data is no. With
// replica-ignore-unknown-commands the link continues.
func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--requirepass", "secret")
	s.Do("AUTH", "secret")
	s.Do("SET", "before", "1")
	r := testkit.Start(t, "--replicaof", "127.0.0.1 "+strings.TrimPrefix(s.Addr, "127.0.0.1:"), "--masterauth", "secret")
	up(t, r)
	s.Do("DEBUG", "REPLICATE", "fake-command-1", "arg")
	s.Do("SET", "after", "1")
	const why = "it sent a command that this server does not understand: ERR unknown command 'fake-command-1'"
	limit := testkit.Slowly(20 * time.Second)
	r.AwaitLog(limit, why)
	r.AwaitLog(limit, "The primary "+s.Addr+" is of version 7.4.1")
	r.AwaitInfo(limit, "replication", "master_link_status", "down")
	testkit.Until(t, limit, "the third try", func() error {
		return testkit.Equal(strings.Count(r.Log(), why) >= 3, true)
	})
	if got := r.Info("replication")["master_link_down_reason"]; got != "" && !strings.HasPrefix(got, why) {
		t.Errorf("master_link_down_reason is %q", got)
	}
	if got := strings.Count(r.Log(), "such commands are passed over"); got != 1 {
		t.Errorf("the explanation came %d times", got)
	}
	if before, after := r.Do("GET", "before").Text, r.Do("GET", "after").Text; before != "1" || after != "" {
		t.Errorf("before %q, after %q", before, after)
	}
	if n := s.InfoInt("stats", "sync_full"); n != 1 {
		t.Errorf("%d full copies", n)
	}
	r.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
	if v, err := r.Ask("GET", "before"); err != nil || !strings.HasPrefix(v.Text, "MASTERDOWN") {
		t.Errorf("GET: %v %v", v, err)
	}
	r.Do("CONFIG", "SET", "replica-ignore-unknown-commands", "yes") // the next attempt is immediate
	up(t, r)
	r.Do("CONFIG", "SET", "replica-serve-stale-data", "yes")
	testkit.Until(t, limit, "what came after it", func() error { return testkit.Equal(r.Do("GET", "after").Text, "1") })
	r.AwaitLog(limit,
		"== CRITICAL == This replica is sending an error to its master: 'ERR unknown command 'fake-command-1'")
}

// TestMissingDatabase: a primary has more databases than its replica. The link stops before a SELECT that fails there,
// or before its transaction. Otherwise keys of that database would replace those of another.
func TestMissingDatabase(t *testing.T) {
	t.Run("alone", func(t *testing.T) { testMissingDatabase(t) })
	t.Run("in a transaction", func(t *testing.T) { testMissingDatabase(t, "MULTI", "EXEC") })
}

func testMissingDatabase(t *testing.T, around ...string) {
	t.Parallel()
	s := testkit.Start(t)
	s.Do("SET", "k", "of 0")
	r := testkit.Start(t, "--replicaof", "127.0.0.1 "+strings.TrimPrefix(s.Addr, "127.0.0.1:"), "--databases", "4")
	up(t, r)
	c := s.Dial()
	if around != nil {
		c.Do(around[0])
		c.Do("SET", "k", "of 0")
	}
	c.Do("SELECT", 9)
	c.Do("SET", "k", "of 9")
	if around != nil {
		c.Do(around[1])
	}
	limit := testkit.Slowly(20 * time.Second)
	r.AwaitInfo(limit, "replication", "master_link_status", "down")
	if v := r.Do("GET", "k"); v.Text != "of 0" {
		t.Errorf("database 0 has %q", v.Text)
	}
	r.AwaitLog(limit, "it sent a command that this server does not understand: ERR DB index is out of range")
}
