package acl

import (
	"fmt"
	"sync"
	"testing"
)

// TestInboxCountsAll: goroutines add more refusals than an inbox holds. Each refusal and its reply are counted once.
func TestInboxCountsAll(t *testing.T) {
	var b Inbox
	var l Log
	l.SetLimit(2 * inboxSize)
	replies := map[string]int64{}
	move := func() { b.MoveTo(&l, func(err error, n int64) { replies[err.Error()] += n }) }
	move()
	if len(replies) != 0 {
		t.Errorf("an empty inbox gives replies: %v", replies)
	}
	const clients, calls = 4, inboxSize
	for range 2 {
		var waits sync.WaitGroup
		for i := range clients {
			waits.Go(func() {
				for j := range calls {
					b.Add(Entry{Reason: []Reason{DeniedAuth, DeniedKey}[i%2], Object: fmt.Sprint(i, j), User: "x"}, 1)
				}
			})
		}
		waits.Wait()
		before := l.Len()
		move()
		if n := l.Len() - before; n != inboxSize {
			t.Errorf("the log got %d entries, want %d", n, inboxSize)
		}
	}
	const want = 2 * clients / 2 * calls
	if l.Denied(DeniedAuth) != want || l.Denied(DeniedKey) != want || l.Denied(DeniedCommand) != 0 {
		t.Errorf("%d, %d and %d refusals, want %d, %d and 0", l.Denied(DeniedAuth), l.Denied(DeniedKey),
			l.Denied(DeniedCommand), want, want)
	}
	if replies["WRONGPASS "] != want || replies["NOPERM "] != want || len(replies) != 2 {
		t.Errorf("replies: %v", replies)
	}
}
