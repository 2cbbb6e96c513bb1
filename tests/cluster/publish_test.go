package cluster

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// linkBytes reads mem_cluster_links.
var linkBytes = regexp.MustCompile(`mem_cluster_links:(\d+)`)

// TestPublishedMessagesCount: during a transaction, messages published to other nodes count in mem_cluster_links. Soon
// afterwards they have been sent, and all arrive in order.
func TestPublishedMessagesCount(t *testing.T) {
	t.Parallel()
	const messages, size = 50, 10_000
	one, other := node(t, false), node(t, false)
	create(t, []*testkit.Server{one, other, node(t, false)}, 0)
	hears := other.Dial()
	defer hears.Close()
	if _, err := hears.Do("SUBSCRIBE", "news"); err != nil {
		t.Fatal(err)
	}
	bytesOf := func(info string) int {
		t.Helper()
		m := linkBytes.FindStringSubmatch(info)
		if m == nil {
			t.Fatalf("no mem_cluster_links in %q", info)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	before := bytesOf(one.Do("INFO", "memory").Text)
	one.Do("MULTI")
	one.Do("INFO", "memory")
	for i := range messages {
		one.Do("PUBLISH", "news", fmt.Sprintf("%0*d", size, i))
	}
	one.Do("INFO", "memory")
	all := one.Do("EXEC").Elems
	if grew := bytesOf(all[messages+1].Text) - bytesOf(all[0].Text); grew < messages*size {
		t.Errorf("%d bytes were published and the links' memory grew by %d", messages*size, grew)
	}
	for i := range messages {
		v, err := hears.Receive()
		if err != nil || len(v.Elems) != 3 || strings.TrimLeft(v.Elems[2].Text,
			"0") != strings.TrimLeft(strconv.Itoa(i), "0") {
			t.Fatalf("message %d: %.40v, %v", i, v, err)
		}
	}
	// Heartbeats are sent at the same time, so the figure may differ by some bytes.
	testkit.Until(t, testkit.Slowly(patience), "the memory is given back", func() error {
		if now := bytesOf(one.Do("INFO", "memory").Text); now > before+messages*size/4 {
			return fmt.Errorf("%d bytes, %d before", now, before)
		}
		return nil
	})
}
