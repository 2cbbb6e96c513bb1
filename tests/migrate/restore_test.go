package migrate

import (
	"fmt"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// TestLargeRestore: a large payload is restored outside the turn, and every client sees it as one step.
func TestLargeRestore(t *testing.T) {
	s := testkit.Start(t)
	c, other := s.Dial(), s.Dial()
	c.Must("SETRANGE", "text", 1<<20, "end")
	args := []any{"SADD", "set"}
	for i := range 20_000 {
		args = append(args, fmt.Sprint("member", i))
	}
	c.Must(args...)
	for _, key := range []string{"text", "set"} {
		payload, digest := c.Must("DUMP", key).Text, c.Must("DEBUG", "DIGEST-VALUE", key).Strings()[0]
		c.Send("RESTORE", "copy", 0, payload)
		c.Send("TYPE", "copy")
		c.Flush()
		if v, err := c.Receive(); err != nil || v.Text != "OK" {
			t.Fatalf("RESTORE: %v, %v", v, err)
		}
		if v, err := c.Receive(); err != nil || v.Text == "none" {
			t.Fatalf("TYPE after it: %v, %v", v, err)
		}
		if got := c.Must("DEBUG", "DIGEST-VALUE", "copy").Strings()[0]; got != digest {
			t.Errorf("%s: digest %s, was %s", key, got, digest)
		}
		for _, form := range []struct {
			want string
			args []any
		}{
			{"BUSYKEY", []any{"RESTORE", "copy", 0, payload}},
			{"OK", []any{"RESTORE", "copy", 60_000, payload, "REPLACE"}},
			{"OK", []any{"RESTORE", "gone", 1, payload, "ABSTTL"}},
			{"ERR DUMP payload",
				[]any{"RESTORE", "broken", 0, payload[:len(payload)-1] + string([]byte{payload[len(payload)-1] ^ 1})}},
			{"ERR DUMP payload", []any{"RESTORE", "broken", 0, "x" + payload[1:]}},
		} {
			v, err := c.Do(form.args...)
			if err != nil || !strings.HasPrefix(v.Text, form.want) {
				t.Errorf("%v …: %v, %v, want %s", form.args[:2], v, err, form.want)
			}
		}
		if n := c.Must("EXISTS", "gone", "broken").Int; n != 0 {
			t.Errorf("%d keys that should not be", n)
		}
		if ttl := c.Must("PTTL", "copy").Int; ttl < 1 || ttl > 60_000 {
			t.Errorf("PTTL %d", ttl)
		}
		c.Must("MULTI")
		c.Must("RESTORE", "copy", 0, payload, "REPLACE")
		if v := c.Must("EXEC"); len(v.Elems) != 1 || v.Elems[0].Text != "OK" {
			t.Errorf("inside MULTI: %v", v)
		}
		leaving := s.Dial()
		leaving.Send("RESTORE", "left", 0, payload, "REPLACE") // the request may or may not arrive
		leaving.Flush()
		leaving.Close()
		other.Must("TYPE", "left") // waits until the key is free, whatever its state
		c.Must("DEL", "copy")
	}
	if s.Info("memory")["used_memory"] == "" {
		t.Error("the server has gone")
	}
}
