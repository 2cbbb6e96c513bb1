package process

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// besideSleep has try ask the lane of a fresh server while DEBUG SLEEP holds the turn. A machine that takes longer than
// the turn gets a longer one. after comes when the turn is over.
func besideSleep(t *testing.T, before func(s *testkit.Server, dial func() *respclient.Client), try, after func()) {
	t.Helper()
	for seconds := 1; ; seconds *= 4 {
		s, dial := withLane(t)
		before(s, dial)
		busy := occupy(t, s, "DEBUG", "SLEEP", seconds)
		over := make(chan struct{})
		go func() {
			busy.Receive()
			close(over)
		}()
		try()
		select {
		case <-over:
			if seconds > 100 {
				t.Fatalf("the lane does not answer within a turn of %d s", seconds)
			}
		default:
			<-over
			after()
			return
		}
	}
}

// field is a value of a reply to HELLO 3, or of another map.
func field(v respclient.Value, name string) respclient.Value {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if v.Elems[i].Text == name {
			return v.Elems[i+1]
		}
	}
	return respclient.Value{}
}

// TestLaneID: HELLO beside the turn tells the id that the client has in it. No two clients have the same.
func TestLaneID(t *testing.T) {
	var s *testkit.Server
	var lane []*respclient.Client
	var told []int64
	var open func() *respclient.Client
	besideSleep(t, func(server *testkit.Server, dial func() *respclient.Client) {
		s, open, told = server, dial, nil
		lane = []*respclient.Client{dial()}
		lane[0].Must("PING")
	}, func() {
		lane = append(lane, open(), open())
		for _, c := range lane {
			told = append(told, field(quickly(t, c, "HELLO", 3), "id").Int)
		}
	}, func() {
		late := s.Dial()
		all := append(slices.Clone(told), late.Must("CLIENT", "ID").Int)
		slices.Sort(all)
		if len(slices.Compact(all)) != len(lane)+1 || all[0] <= 0 {
			t.Errorf("ids %v", all)
		}
		for i, c := range slices.Backward(lane) { // who came last is the first whom the core hears of
			if id := c.Must("CLIENT", "ID").Int; id != told[i] {
				t.Errorf("CLIENT ID is %d, HELLO told %d", id, told[i])
			}
		}
		var listed []int64
		for line := range strings.Lines(late.Must("CLIENT", "LIST").Text) {
			var id int64
			fmt.Sscanf(line, "id=%d ", &id)
			listed = append(listed, id)
		}
		if !slices.IsSorted(listed) || len(listed) < len(lane)+1 {
			t.Errorf("CLIENT LIST has ids %v", listed)
		}
	})
}

// TestLaneWrongPasswords: wrong passwords given beside the turn are in ACL LOG and in INFO for the first who asks when
// the turn is free, also those of a client that has left. No more entries are kept for that than ACL LOG keeps.
func TestLaneWrongPasswords(t *testing.T) {
	var s *testkit.Server
	var old, leaves *respclient.Client
	var open func() *respclient.Client
	besideSleep(t, func(server *testkit.Server, dial func() *respclient.Client) {
		s, open, old = server, dial, dial()
		old.Must("CLIENT", "SETNAME", "guesser")
		old.Must("CONFIG", "SET", "acllog-max-len", 3)
	}, func() {
		for _, args := range [][]any{
			{"AUTH", "first", "x"}, {"AUTH", "nobody", "x"}, {"AUTH", "nobody", "y"},
			{"HELLO", "3", "AUTH", "default2", "x"}, {"AUTH", "nobody", "z"},
		} {
			if v := quickly(t, old, args...); !strings.HasPrefix(v.Text, "WRONGPASS") {
				t.Errorf("%v: %v", args, v)
			}
		}
		leaves = open()
		quickly(t, leaves, "auth", "gone", "x")
		leaves.Close()
	}, func() {
		asks := s.Dial()
		entries := asks.Must("ACL", "LOG").Elems
		type entry struct {
			count                 int64
			reason, context       string
			object, user, cl, cmd string
		}
		var got []entry
		for _, e := range entries {
			info := field(e, "client-info").Text
			word := func(name string) string {
				_, rest, _ := strings.Cut(info, " "+name+"=")
				w, _, _ := strings.Cut(rest, " ")
				return w
			}
			got = append(got, entry{field(e, "count").Int, field(e, "reason").Text, field(e, "context").Text,
				field(e, "object").Text, field(e, "username").Text, word("name") + "/" + word("user"), word("cmd")})
		}
		want := []entry{
			{1, "auth", "toplevel", "auth", "gone", "/default", "auth"},
			{3, "auth", "toplevel", "AUTH", "nobody", "guesser/default", "auth"},
			{1, "auth", "toplevel", "HELLO", "default2", "guesser/default", "hello"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("ACL LOG:\n%+v, want\n%+v", got, want)
		}
		info := asks.Must("INFO", "stats", "errorstats").Text
		for _, line := range []string{"acl_access_denied_auth:6", "total_error_replies:6", "errorstat_WRONGPASS:count=6"} {
			if !strings.Contains(info, line+"\r\n") {
				t.Errorf("no %s in\n%s", line, info)
			}
		}
	})
}
