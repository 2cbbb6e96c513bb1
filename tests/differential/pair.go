package differential

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"spindle/protocol/respclient"
)

// replyTimeout is the time limit of a batch, after which a server counts as hung.
const replyTimeout = 60 * time.Second

// connections is the number of connections for calls. A batch uses one connection, and the next batch waits for both
// servers' replies. So the order of all calls is the same on both servers.
const connections = 3

// A side is one server of a pair.
type side struct {
	name      string
	links     [connections]*link
	inspector *respclient.Client // inspects the state, between batches
}

// A link is one connection of a side.
type link struct {
	conn net.Conn
	in   *bufio.Reader
	raw  []byte // the replies of a batch, joined
	ends []int  // where each ends in raw
}

func dial(name, addr string) (*side, error) {
	s := &side{name: name}
	for i := range s.links {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		s.links[i] = &link{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	}
	var err error
	if s.inspector, err = respclient.Dial(addr); err == nil {
		s.inspector.SetTimeout(replyTimeout)
	}
	return s, err
}

func (s *side) close() {
	for _, l := range s.links {
		l.conn.Close()
	}
	s.inspector.Close()
}

// exchange sends a batch in pieces that end at the offsets cuts, and reads its n replies. It writes and reads
// concurrently, so no server has to read a whole batch before it replies.
func (l *link) exchange(batch []byte, cuts []int, n int) error {
	l.raw, l.ends = l.raw[:0], l.ends[:0]
	l.conn.SetDeadline(time.Now().Add(replyTimeout))
	written := make(chan error, 1)
	go func() {
		from := 0
		for _, cut := range cuts {
			if _, err := l.conn.Write(batch[from:cut]); err != nil {
				written <- err
				return
			}
			from = cut
			time.Sleep(20 * time.Microsecond) // mostly long enough for the server to read the piece alone
		}
		_, err := l.conn.Write(batch[from:])
		written <- err
	}()
	for range n {
		var err error
		if l.raw, err = readReply(l.in, l.raw); err != nil {
			return fmt.Errorf("reply %d of %d: %w", len(l.ends)+1, n, err)
		}
		l.ends = append(l.ends, len(l.raw))
	}
	return <-written
}

// reply returns the i-th reply of the last batch.
func (l *link) reply(i int) []byte {
	from := 0
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.raw[from:l.ends[i]]
}

// A pair is the two servers, with the calls since the servers were emptied.
type pair struct {
	reference, subject *side
	ref                oracle
	resp               string // the protocol with which connections begin: "2", "3" or "both"
	queues             [connections]queue
	batch              []byte
	cuts               *rand.Rand // if nil, batches are not split
}

// A difference is the point where two servers differ. Its call is nil if only the states differ.
type difference struct {
	at   int // how many calls of the round were alike before it
	call *call
	what string
	lost bool // a connection broke, so a server may have exited
}

func (d *difference) kind() string {
	if d.call == nil {
		return "state"
	}
	return d.call.name()
}

// reset empties both servers and their connections, and undoes settings that calls may have changed.
func (p *pair) reset() error {
	for _, s := range []*side{p.reference, p.subject} {
		for i, l := range s.links {
			version := p.resp
			if version == "both" {
				version = strconv.Itoa(2 + i%2)
			}
			setup := []*call{{args: []string{"RESET"}}, {args: []string{"HELLO", version}}, {args: []string{"FLUSHALL"}},
				{args: strings.Fields("CONFIG SET list-compress-depth 0 list-max-listpack-size -2")}}
			var batch []byte
			for _, c := range setup {
				batch = c.appendTo(batch)
			}
			if err := l.exchange(batch, nil, len(setup)); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			for j, want := range []string{"+RESET\r\n", "", "+OK\r\n", "+OK\r\n"} {
				if got := string(l.reply(j)); want != "" && got != want {
					return fmt.Errorf("%s answers %q to %s", s.name, got, setup[j].text())
				}
			}
		}
	}
	p.queues, p.ref.sorted, p.ref.parted = [connections]queue{}, false, new(bool)
	return nil
}

// play sends calls of one connection as one batch, except mirrored ones, and compares the replies.
func (p *pair) play(calls []call) *difference {
	for from := 0; from < len(calls); {
		to := from
		for to < len(calls) && !calls[to].isMirrored() {
			to++
		}
		var d *difference
		if to > from {
			d = p.playTogether(calls[from:to])
		} else {
			to++
			d = p.playMirrored(&calls[from])
		}
		if d != nil {
			d.at += from
			return d
		}
		from = to
	}
	return nil
}

// playTogether sends calls as one batch.
func (p *pair) playTogether(calls []call) *difference {
	conn := calls[0].conn
	p.batch = p.batch[:0]
	for i := range calls {
		p.batch = calls[i].appendTo(p.batch)
		p.ref.sorted = p.ref.sorted || calls[i].isName("sort") || calls[i].isName("sort_ro")
	}
	want, got := p.reference.links[conn], p.subject.links[conn]
	done := make(chan error, 1)
	go func() { done <- want.exchange(p.batch, nil, len(calls)) }()
	gotErr := got.exchange(p.batch, p.places(len(p.batch)), len(calls))
	wantErr := <-done
	for i := range calls {
		switch {
		case i >= len(want.ends):
			return &difference{at: i, call: &calls[i], what: fmt.Sprintf("%s: %v", p.reference.name, wantErr), lost: true}
		case i >= len(got.ends):
			return &difference{at: i, call: &calls[i], what: fmt.Sprintf("%s: %v", p.subject.name, gotErr), lost: true}
		}
		if w, g := want.reply(i), got.reply(i); !p.queues[conn].compare(p.ref, &calls[i], w, g) {
			return &difference{at: i, call: &calls[i], what: p.apart(w, g)}
		}
	}
	if gotErr != nil || wantErr != nil {
		return &difference{at: len(calls) - 1, call: &calls[len(calls)-1],
			what: fmt.Sprintf("%v, %v", wantErr, gotErr), lost: true}
	}
	return nil
}

// apart returns the parts of two replies around the place where they differ.
func (p *pair) apart(want, got []byte) string {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	from := max(0, at-100)
	return fmt.Sprintf("%s answers %.400q\n%s answers %.400q\n(from byte %d on)",
		p.reference.name, want[from:], p.subject.name, got[from:], from)
}

// cutBy makes batches to spindle arrive in random pieces.
func (p *pair) cutBy(seed uint64) { p.cuts = rand.New(rand.NewPCG(seed, 1<<63)) }

// places returns the offsets at which a batch is split. Mostly there are none.
func (p *pair) places(size int) []int {
	if p.cuts == nil || size < 2 || p.cuts.IntN(10) != 0 {
		return nil
	}
	var cuts []int
	for at := 1 + p.cuts.IntN(min(size-1, 200)); at < size &&
		len(cuts) < 20; at += 1 + p.cuts.IntN(1+size/(1+p.cuts.IntN(20))) {
		cuts = append(cuts, at)
	}
	return cuts
}

// playAll plays calls in batches. A batch has up to most consecutive calls of one connection.
func (p *pair) playAll(calls []call, most int) *difference {
	for from := 0; from < len(calls); {
		to := from + 1
		for to < len(calls) && to-from < most && calls[to].conn == calls[from].conn {
			to++
		}
		if d := p.play(calls[from:to]); d != nil {
			d.at += from
			return d
		}
		from = to
	}
	return nil
}
