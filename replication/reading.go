package replication

import (
	"net"
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A reader is the goroutine that reads an upstream: lines, then perhaps a full copy, then the stream, which it runs in
// turns.
type reader struct {
	*upstream
	f *Follower
}

// streamKept is the largest buffer that the stream keeps after a long request.
const streamKept = 1 << 20

// startReader connects to a primary. The reader reports the results to the follower's link. Turn only.
func (f *Follower) startReader(host string, port int) *upstream {
	w := newUpstream(net.JoinHostPort(host, strconv.Itoa(port)))
	go reader{w, f}.run(f.settings.Source.Get())
	return w
}

func (w reader) run(source string) {
	defer w.Close(false)
	stop, err := w.connect(w.f.parts.Dial, source)
	if err != nil {
		w.f.turnOf(w.upstream, func(now int64) { w.f.link.Lost(now, plainError(err)) })
		return
	}
	defer stop()
	if !w.f.turnOf(w.upstream, func(now int64) { w.f.link.Connected(now) }) {
		return
	}
	if err := w.readAll(); err != nil {
		w.f.turnOf(w.upstream, func(now int64) {
			if w.killed() {
				w.f.link.Hurry(now) // CLIENT KILL by an operator is not a failure of the peer
			}
			w.f.link.Lost(now, plainError(err))
		})
	}
}

// readAll reads until the link is lost.
func (w reader) readAll() error {
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		step := nextLine
		if !w.f.turnOf(w.upstream, func(now int64) {
			w.f.link.Line(line, now)
			if w.f.wire == w.upstream {
				step = w.next
			}
		}) {
			return errReplaced
		}
		switch step {
		case nextCopy:
			if !w.f.takeCopy(w.upstream) {
				return nil // the link knows why
			}
			return w.stream()
		case nextStream:
			return w.stream()
		}
	}
}

// stream runs the primary's commands until the link is lost.
//
//	buf   [ applied | of an open transaction | read, incomplete | room ]
//	      0         applied                  parsed             len    cap
func (w reader) stream() error {
	buf, applied, parsed := make([]byte, 0, 2*lineMax), 0, 0
	parser, reply := protocol.NewParser(nil), &protocol.Reply{}
	for {
		switch {
		case applied == len(buf):
			if cap(buf) > streamKept {
				buf = make([]byte, 0, 2*lineMax)
			}
			buf, applied, parsed = buf[:0], 0, 0
		case len(buf) == cap(buf) && applied > len(buf)/2:
			n := copy(buf, buf[applied:])
			buf, parsed, applied = buf[:n], parsed-applied, 0
		case len(buf) == cap(buf):
			buf = append(make([]byte, 0, max(2*cap(buf), parsed+parser.Need())), buf...)
		}
		n, err := w.in.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
		w.read.Add(int64(n))
		w.unapplied.Add(int64(n))
		if parser.Need() > len(buf)-parsed {
			continue
		}
		for more := true; more; more = parser.More() {
			consumed, refusal := parser.Parse(buf[parsed:])
			if refusal != nil {
				w.f.parts.Log.Warning("Protocol error (%s) from client: the link to the master", refusal.Text)
				return refusal
			}
			if applied, err = w.apply(buf, applied, parsed, consumed, parser.Requests, reply); err != nil {
				return err
			}
			parsed += consumed
		}
	}
}

// apply runs requests, which end at buf[parsed+consumed], and passes on the applied bytes of buf. It returns where
// these end.
func (w reader) apply(buf []byte, applied, parsed, consumed int, requests []protocol.Request,
	reply *protocol.Reply) (int, error) {
	from, end, at := applied, parsed+consumed, 0
	if len(requests) == 0 {
		if w.open || end == applied || applied < parsed {
			return applied, nil
		}
		from = end // blank lines
		if !w.f.turnOf(w.upstream, func(int64) { w.handOn(buf[applied:from]) }) {
			return applied, errReplaced
		}
		return from, nil
	}
	for at < len(requests) {
		b := protocol.Batch{Session: w.cl, Requests: requests[at:], Reply: reply}
		if at > 0 {
			b.From = requests[at-1].End
		}
		stuck, gone := false, false
		if !w.f.core.Follow(&b, func() {
			stuck, gone = w.cl.Is(client.Blocked), w.cl.Is(client.CloseASAP) || w.f.wire != w.upstream
			if gone {
				return
			}
			upTo, done := from, b.Done
			if w.refused != nil && !w.ran {
				done-- // the refused command was not applied
			}
			for _, r := range b.Requests[:done] {
				w.noteTransaction(r.Args[0])
				w.f.feed.spot(w.cl.DB, r.Args)
				if !w.open {
					upTo = parsed + r.End
				}
			}
			if at+done == len(requests) && !w.open {
				upTo = end
			}
			w.handOn(buf[from:upTo])
			from = upTo
			if w.asked {
				w.asked = false
				w.f.link.Asked(w.f.core.SteadyMs())
			}
			if w.refused != nil {
				gone = true
				w.stop()
			}
		}) {
			return from, errReplaced // the server ends
		}
		if reply.Reset(); cap(reply.B) > streamKept {
			reply.B = nil
		}
		if gone {
			return from, errReplaced
		}
		if at += b.Done; stuck && at < len(requests) {
			select {
			case <-w.resume:
			case <-w.context.Done():
				return from, errReplaced
			}
		}
	}
	return from, nil
}

// noteTransaction notes, after a command, whether the stream is inside a transaction.
func (w reader) noteTransaction(name []byte) {
	switch {
	case command.Is(name, "MULTI"):
		w.open = true
	case command.Is(name, "EXEC"), command.Is(name, "DISCARD"):
		w.open = false
	}
}

// handOn passes applied bytes on to the replicas of this server. Turn only.
func (w reader) handOn(p []byte) {
	if len(p) > 0 {
		w.unapplied.Add(-int64(len(p)))
		w.f.feed.forward(p)
	}
}

// stop ends the link because of w.refused. Turn only.
func (w reader) stop() {
	f := w.f
	why := "it sent a command that this server does not understand: " + w.refused.Error()
	f.parts.Log.Warning("== CRITICAL == The link to the primary stops: %s", why)
	if w.ran {
		f.known = false
		f.parts.Log.Warning("The command has written, or the rest of its transaction has run. A full copy is asked for.")
	}
	if f.refusal != why { // each try meets the same command, which is explained once
		f.refusal = why
		f.parts.Log.Warning("The data here stay as of offset %d and can be read. With replica-ignore-unknown-commands yes "+
			"such commands are passed over, and the data differ from the primary's.", f.feed.offset)
		go w.logVersion()
	}
	f.link.Stopped(f.core.SteadyMs(), why)
	f.core.Between(f.parts.Changed) // an unknown command does not wait for the end of a unit
}

// logVersion logs the primary's version.
func (w reader) logVersion() {
	var terms Terms
	w.f.core.Do(func() { terms = w.f.terms() })
	if version, err := askVersion(w.f.parts.Dial, w.address, terms); err != nil {
		w.f.parts.Log.Notice("The primary %s does not say its version: %s", w.address, err)
	} else {
		w.f.parts.Log.Warning("The primary %s is of version %s.", w.address, version)
	}
}
