package reactor

import (
	"slices"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// This file handles batches that are away. With several loops, a batch that finds the turn taken is published, and the
// turn's holder runs it (protocol.Outbox). The loop serves other sockets meanwhile.
//
//	       Offer: the turn is taken          Back
//	loop ────────────────────────────▶ away ──────▶ bring: deliver, then what has come for the connection meanwhile
//
// reactor.Y1. A connection is away from Offer until bring. Meanwhile the loop neither reads its socket, nor writes its
// output, nor closes it. Events and mails for the connection are kept in the frame.
// reactor.Y2. The frame goes with the batch: the bytes, the parsed requests and the parser stay as they are.
// reactor.Y3. A loop that has batches away does not sleep before it has announced that in its outbox: see rest.

// A frame holds everything that one batch needs, from its bytes to its replies.
type frame struct {
	buffer  []byte // for the bytes read (reactor.L2); nil for netpoll
	scratch protocol.Scratch
	parser  *protocol.Parser // for connections without a half-read request
	batch   protocol.Batch

	// Used while the batch is away:
	c        *conn
	used     *protocol.Parser // the parser that has parsed the batch
	bytes    []byte           // they begin with the batch's requests
	parsed   int              // how many of bytes were parsed
	round    int              // serveRounds continues with the next round
	room     int              // the host's buffer in which bytes lie, plus 1; 0: they lie in buffer
	events   uint32           // events of the socket, not handled yet
	mails    []mail           // mails for the connection, not read yet
	outgrown [][]byte         // reply buffers that were too small
}

func newFrame() *frame {
	f := &frame{}
	f.parser = protocol.NewParser(&f.scratch)
	return f
}

const (
	awayMost = 64  // batches of a loop that may be away; the next one waits for the turn
	watching = 300 // checks of a published batch before the loop continues: less than a microsecond
)

// offer lets the handler run the batch. If away is true, another goroutine may run it at any time, until bring.
func (c *conn) offer(b *protocol.Batch) (away bool) {
	l := c.loop
	if len(l.away) >= awayMost {
		l.handler.Serve(b)
		return false
	}
	c.away = l.frame
	if !l.combiner.Offer(b, l.outbox) {
		for range watching {
			if b.Back() {
				break
			}
		}
		if !b.Back() {
			return true
		}
	}
	c.away = nil
	c.takeOutgrown(l.frame)
	return false
}

// takeOutgrown gives back the reply buffers that a batch has outgrown.
func (c *conn) takeOutgrown(f *frame) {
	for i, b := range f.outgrown {
		c.loop.replies.giveBack(b)
		f.outgrown[i] = nil
	}
	f.outgrown = f.outgrown[:0]
}

// leave stores what serveRounds needs when the batch is back, and gives the loop another frame.
func (c *conn) leave(p *protocol.Parser, buf []byte, parsed, round int) {
	l, f := c.loop, c.away
	f.c, f.used, f.bytes, f.parsed, f.round = c, p, buf, parsed, round
	c.setFlow(flowAway)
	l.away = append(l.away, f)
	if n := len(l.frames); n > 0 {
		l.frame = l.frames[n-1]
		l.frames = l.frames[:n-1]
		return
	}
	l.frame = newFrame()
	l.frame.buffer = make([]byte, len(f.buffer))
}

// hasBack reports whether a batch has come back.
func (l *loop) hasBack() bool {
	for _, f := range l.away {
		if f.batch.Back() {
			return true
		}
	}
	return false
}

// bringBack handles the batches that have come back.
func (l *loop) bringBack() {
	l.outbox.Wake()
	for i := 0; i < len(l.away); {
		f := l.away[i]
		if !f.batch.Back() {
			i++
			continue
		}
		last := len(l.away) - 1
		l.away[i], l.away[last] = l.away[last], nil
		l.away = l.away[:last]
		l.bring(f)
	}
}

// bring delivers the replies of a batch that has come back, and continues with its connection.
func (l *loop) bring(f *frame) {
	l.frames = append(l.frames, l.frame)
	l.frame = f
	c, events := f.c, f.events
	c.away, f.c, f.events = nil, nil, 0
	c.setFlow(flowing)
	c.takeOutgrown(f)
	bytes := f.bytes
	rest, over := c.afterRun(f.used, bytes, f.parsed, c.ran(f), f.round)
	if !over {
		rest = c.serveRounds(f.used, bytes[f.parsed:], f.round+1, true)
	}
	if c.away != nil {
		c.away.events |= events
		return
	}
	if c.life != lifeClosed {
		c.keep(rest)
	}
	switch {
	case f.room > 0:
		l.host.(lender).takeBack(f.room - 1)
		f.room = 0
	case invariant.Enabled:
		poison(bytes[:len(bytes):len(bytes)])
	}
	if c.life == lifeClosed {
		return
	}
	c.moved()
	if c.noteInput(); c.life == lifeClosed {
		return
	}
	if events != 0 {
		l.host.(socketHost).event(c.fd, events)
	}
	if c.life != lifeClosed && c.readable {
		l.later(c) // reactor.E2
	}
}

// A socketHost is a host that reads its sockets itself, after their events.
type socketHost interface{ event(fd int, events uint32) }

// A lender is a host into whose own buffers batches point.
type lender interface{ takeBack(buffer int) }

// rest prepares a sleep while batches are away. It returns false if one has come back meanwhile (protocol.S3).
func (l *loop) rest() bool {
	l.outbox.Rest()
	l.combiner.Help()
	if l.hasBack() {
		l.outbox.Wake()
		return false
	}
	return true
}

// keepFor keeps a mail for a connection that is away (reactor.Y1).
func (f *frame) keepFor(m mail) { f.mails = append(f.mails, m) }

// takeMails returns the mails that keepFor has kept.
func (f *frame) takeMails() []mail {
	mails := slices.Clone(f.mails)
	clear(f.mails)
	f.mails = f.mails[:0]
	return mails
}
