package process

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// logged returns the entries of a command log, the oldest first: the size in bytes and the command's name. It leaves
// out COMMANDLOG itself.
func logged(t *testing.T, s *testkit.Server, log string) string {
	t.Helper()
	v := s.Do("COMMANDLOG", "GET", -1, log)
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range v.Elems {
		if name := e.Elems[3].Elems[0].Text; name != "COMMANDLOG" {
			list = append([]string{fmt.Sprint(e.Elems[2].Int, " ", name)}, list...)
		}
	}
	return strings.Join(list, ", ")
}

// TestCommandlogSizes: COMMANDLOG has the sizes of pipelined requests, and of a request with a streamed argument. It
// also has the sizes of a reply made of chunks, and of a script that lends the turn. A reply that the client does not
// want has no size.
func TestCommandlogSizes(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--commandlog-request-larger-than", "200", "--commandlog-reply-larger-than", "200")
	replica := testkit.Start(t, "--commandlog-request-larger-than", "200", "--replicaof",
		"127.0.0.1 "+strconv.Itoa(s.Port))
	replica.AwaitInfo(20*time.Second, "replication", "master_link_status", "up")
	replica.Do("COMMANDLOG", "RESET", "large-request")

	expect := func(of *testkit.Server, log, want string) {
		t.Helper()
		testkit.Until(t, 10*time.Second, log, func() error { return testkit.Equal(logged(t, of, log), want) })
		of.Do("COMMANDLOG", "RESET", "large-request")
		of.Do("COMMANDLOG", "RESET", "large-reply")
	}
	c := s.Dial()
	long := strings.Repeat("x", 200)
	testkit.Pipe(t, c, 60, func(i int) []any {
		if i%20 == 10 {
			return []any{"SET", "long:" + strconv.Itoa(i), long}
		}
		return []any{"SET", "short:" + strconv.Itoa(i), i}
	})
	expect(s, "large-request", "234 SET, 234 SET, 234 SET")
	expect(replica, "large-request", "234 SET, 234 SET, 234 SET")

	s.Do("SET", "huge", strings.Repeat("y", 3_000_000))
	expect(s, "large-request", "3000035 SET")
	expect(replica, "large-request", "3000035 SET")
	s.Do("MGET", "huge", "huge")
	expect(s, "large-reply", "6000028 MGET")

	s.Do("EVAL", "for i = 1, 3000000 do end; redis.call('GET', KEYS[1]); return redis.call('GET', KEYS[1])"+
		strings.Repeat(" ", 100), 1, "huge")
	if got := logged(t, s, "large-request"); got != "227 EVAL" {
		t.Errorf("of a script: %s", got)
	}
	expect(s, "large-reply", "3000012 GET, 3000012 GET, 3000012 EVAL")

	c.Send("CLIENT", "REPLY", "OFF")
	c.Send("GET", "huge")
	if v, err := c.Do("CLIENT", "REPLY", "ON"); err != nil || v.Text != "OK" {
		t.Fatal(v, err)
	}
	expect(s, "large-reply", "")
}
