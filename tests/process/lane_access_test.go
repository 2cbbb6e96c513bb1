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
