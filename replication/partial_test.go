package replication

import (
	"fmt"
	"strings"
	"testing"

	"spindle/engine/client"
)

// continueAt makes a new client that asks for the stream after offset.
func (p *primary) continueAt(id string, offset int64) (answer string, cl *client.Client, s *socket) {
	cl, s = p.arrive()
	p.do(cl, "REPLCONF capa eof capa psync2")
	return p.do(cl, fmt.Sprintf("PSYNC %s %d", id, offset+1)), cl, s
}

// psync sends a PSYNC and returns the reply, which may come in a later turn.
func (p *primary) psync(line string) (answer string, cl *client.Client) {
	cl, s := p.arrive()
	if answer = p.do(cl, line); answer == "" {
		answer = s.take(p.t, "\r\n")
	}
	answer, _, _ = strings.Cut(answer, "\r\n")
	return answer + "\r\n", cl
}

// TestContinue: from any offset in the backlog, a replica gets the rest of the stream and then the new bytes.
func TestContinue(t *testing.T) {
	p := newPrimary(t)
	writer, _ := p.arrive()
	_, all := p.online()
	all.take(t, "")
	p.do(writer, "SET a 1", "SET b "+strings.Repeat("x", 300), "SET c 3")
	stream := all.take(t, "c")
	for offset := 0; offset <= len(stream); offset += 7 {
		answer, cl, s := p.continueAt(p.feed.ID, int64(offset))
		if answer != "+CONTINUE "+p.feed.ID+"\r\n" {
			t.Fatalf("offset %d of %d: %q", offset, len(stream), answer)
		}
		if got := s.take(t, stream[offset:]); got != stream[offset:] || s.isClosed() {
			t.Fatalf("offset %d: %q, want %q; closed: %t", offset, got, stream[offset:], s.isClosed())
		}
		p.Closed(cl)
	}
	_, _, s := p.continueAt(p.feed.ID, int64(len(stream)))
	p.do(writer, "SET d 4")
	if got := s.take(t, "d"); got != wire("SET d 4") {
		t.Errorf("%q: the stream stands in database 0, and the replica has it all", got)
	}
	if p.feed.fullSyncs != 1 || p.feed.refused != 0 || p.feed.continued < 50 {
		t.Errorf("%d full, %d partial, %d refused", p.feed.fullSyncs, p.feed.continued, p.feed.refused)
	}
}

// TestContinueIsRefused: for another history, for an offset before the backlog or past the stream, and for the second
// history past its end.
func TestContinueIsRefused(t *testing.T) {
	p := newPrimary(t)
	p.settings.BacklogSize.Set(16 << 10)
	writer, _ := p.arrive()
	_, all := p.online()
	value := strings.Repeat("v", 1000)
	for range 20 {
		p.do(writer, "SET k "+value)
	}
	all.take(t, "")
	end := p.feed.offset
	old := p.feed.ID
	p.Do(p.feed.branch)
	p.do(writer, "SET k 1")
	for _, c := range []struct {
		what   string
		id     string
		offset int64
		is     bool
	}{
		{"this history", p.feed.ID, end, true},
		{"its whole backlog", p.feed.ID, p.feed.log.begin(), true},
		{"before the backlog", p.feed.ID, p.feed.log.begin() - 1, false},
		{"past the stream", p.feed.ID, p.feed.offset + 1, false},
		{"a stranger", strings.Repeat("a", 40), end, false},
		{"the second history", old, end, true},
		{"an earlier offset of it", old, end - 1000, true},
		{"past its end", old, end + 1, false},
		{"nobody's history", noID, 0, false},
	} {
		answer, cl, s := p.continueAt(c.id, c.offset)
		if answer == "" {
			answer = s.take(t, "\r\n")
		}
		want := "+FULLRESYNC "
		if c.is {
			want = "+CONTINUE "
		}
		if !strings.HasPrefix(answer, want+p.feed.ID) {
			t.Errorf("%s: %q", c.what, answer)
		}
		p.Closed(cl)
	}
}

// TestContinueWithMuch: a backlog of megabytes is sent outside the turns, and later writes come after it.
func TestContinueWithMuch(t *testing.T) {
	p := newPrimary(t)
	p.settings.BacklogSize.Set(16 << 20)
	writer, _ := p.arrive()
	_, all := p.online()
	value := strings.Repeat("v", 100_000)
	for i := range 80 {
		p.do(writer, fmt.Sprintf("SET k:%d %s", i, value))
	}
	stream := all.take(t, "k:79")
	answer, cl, s := p.continueAt(p.feed.ID, 0)
	if !strings.HasPrefix(answer, "+CONTINUE") {
		t.Fatal(answer)
	}
	for i := range 20 {
		p.do(writer, fmt.Sprintf("SET l:%d %d", i, i))
	}
	stream += all.take(t, "l:19")
	if got := s.take(t, "l:19"); got != stream {
		t.Errorf("%d bytes, and the stream has %d", len(got), len(stream))
	}
	p.do(writer, "SET m 1")
	if got := s.take(t, "m"); got != wire("SET m 1") || s.isClosed() {
		t.Errorf("%q; closed: %t", got, s.isClosed())
	}
	p.Closed(cl)
	_, cl, s = p.continueAt(p.feed.ID, 0) // and one that leaves in the middle ends its goroutine
	s.setUnsent(unsentMax + 1)
	p.Closed(cl)
}

// TestSyncsAreShared: replicas that ask within the delay share a view, an encoding and an offset. A replica that comes
// while the view is sent gets the next view.
func TestSyncsAreShared(t *testing.T) {
	p := newPrimary(t)
	p.settings.SyncDelay.Set(5)
	prepared := 0
	p.saver.prepared = func() { prepared++ }
	p.saver.gate = make(chan struct{})
	ask := func() (*client.Client, *socket) {
		answer, cl, s := p.continueAt("?", -2)
		if answer != "" {
			t.Errorf("answered at once: %q", answer)
		}
		return cl, s
	}
	_, one := ask()
	_, two := ask()
	p.Do(func() { p.feed.Tick(p.SteadyMs() + 1100) })
	if got := one.take(t, ""); got != "\n" {
		t.Errorf("%q while it waits", got)
	}
	two.take(t, "\n")
	p.Do(func() {
		for _, r := range p.feed.replicas {
			r.askedMs -= 5000
		}
		p.feed.Tick(p.SteadyMs())
	})
	cl, three := ask()
	p.Do(func() {
		cl.ReplicaState.(*replica).askedMs -= 5000
		p.feed.Tick(p.SteadyMs())
	})
	if prepared != 1 {
		t.Fatalf("%d encodings", prepared)
	}
	close(p.saver.gate)
	first := "+FULLRESYNC " + p.feed.ID + " 0\r\n$EOF:"
	a, b := one.take(t, "RDB"), two.take(t, "RDB")
	if !strings.HasPrefix(a, first) || a[:len(first)+40] != b[:len(first)+40] {
		t.Errorf("%q and %q", a, b)
	}
	p.waitFor("the next one", func() bool { return prepared == 2 })
	if got := three.take(t, "RDB"); !strings.HasPrefix(got, first) {
		t.Errorf("%q", got)
	}
	p.settings.SyncReplicas.Set(2)
	ask()
	p.continueAt("?", -2) // the second ends the wait
	p.waitFor("the third one", func() bool { return prepared == 3 })
}
