package replication

import (
	"strings"
	"testing"
)

// TestWithheldData: a primary that withholds its data refuses PSYNC and SYNC with an error after which replicas ask
// again. Later its stream continues in a new history, at the offset that the cluster gives.
func TestWithheldData(t *testing.T) {
	p := newPrimary(t)
	p.online()
	id, offset := p.feed.ID, p.feed.offset
	p.Do(func() {
		p.feed.dismiss()
		p.feed.Withhold()
	})
	for _, line := range []string{"SYNC", "PSYNC ? -1", "PSYNC " + id + " 1"} {
		cl, _ := p.arrive()
		if got := p.do(cl, line); !strings.HasPrefix(got, "-NOMASTERLINK ") {
			t.Errorf("%s: %q", line, got)
		}
	}
	const at = 1 << 40
	p.Do(func() { p.feed.Lead(at) })
	answer, _, _ := p.continueAt(id, offset)
	if !strings.HasPrefix(answer, "+FULLRESYNC") || strings.Contains(answer, id) {
		t.Errorf("a replica of the old history: %q", answer)
	}
	writer, _ := p.arrive()
	p.do(writer, "SET a 1")
	if want := int64(at + len(wire("SELECT 0")+wire("SET a 1"))); p.feed.offset != want {
		t.Errorf("offset %d, want %d", p.feed.offset, want)
	}
}

// TestLoadedOffset: removals of expired keys while a snapshot loads do not count for the offset of what was loaded.
func TestLoadedOffset(t *testing.T) {
	p := newPrimary(t)
	p.Do(func() {
		l := p.feed.BeginLoad()
		l.pending = append(l.pending, wire("DEL a")...)
		l.End(otherHistory, 700)
		p.feed.NoteSnapshot(700)
	})
	if offset, isLog, whole := p.feed.Loaded(); offset != 700 || isLog || whole || p.feed.Offset() <= 700 {
		t.Errorf("offset %d, %t, %t; the stream is at %d", offset, isLog, whole, p.feed.Offset())
	}
	p.Do(func() { p.feed.NoteLog(900, true) })
	if offset, isLog, whole := p.feed.Loaded(); offset != 900 || !isLog || !whole || p.feed.Offset() != 900 {
		t.Errorf("offset %d, %t, %t; the stream is at %d", offset, isLog, whole, p.feed.Offset())
	}
}

// TestAnotherAddress: when its primary has another address, a replica that knows its offset still does.
func TestAnotherAddress(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	p.Do(func() {
		p.feed.settings.MinAck.Set(1)
		p.follower.Follow(s.address())
	})
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 70\r\n$0\r\n")
	p.waitFor("the copy", func() bool { return p.feed.Offset() == 70 })
	p.Do(func() { p.follower.FollowAt(Address{"127.0.0.1", 1}, true) })
	if got := p.feed.Offset(); got != 70 {
		t.Errorf("at another address the offset is %d", got)
	}
	p.Do(func() { p.follower.Follow(Address{"127.0.0.1", 2}) })
	if got := p.feed.Offset(); got != 0 {
		t.Errorf("of another primary the offset is %d", got)
	}
}
