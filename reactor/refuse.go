package reactor

import (
	"spindle/internal/invariant"
	"spindle/protocol"
	"spindle/protocol/scan"
)

// refuse replaces each reply among the first n held bytes by protocol.ErrUnconfirmed, and returns the new number of
// these bytes. Pushes stay. The bytes are whole replies and pushes.
//
//	before:  [ may leave ][ :1 | > invalidate … | $5 hello ][ later marks ]
//	after:   [ may leave ][ -UNCONFIRMED | > invalidate … | -UNCONFIRMED ][ later marks ]
//
// Only the loop may call it, and only while no batch of the connection is away.
func (o *output) refuse(pool *bufferPool, n int, gate *protocol.Gate) (now int) {
	o.seal(pool)
	rest := o.setAside(o.bytes - o.held)
	var made []byte
	var empty []piece // keep the memory of replaced pieces: bytes that may leave can lie in it, and are sent first
	refused := 0
	var s scan.Scanner
	for left := n; left > 0; {
		p := &rest[0]
		b := p.b[:min(left, len(p.b))]
		left -= len(b)
		for at := 0; at < len(b); {
			took, complete, err := s.Scan(b[at:])
			invariant.That(err == nil, "reactor.G1: held bytes are no replies: %v", err)
			if s.Kind == '>' {
				made = append(made, b[at:at+took]...)
			} else if complete && s.Kind != '|' {
				made = protocol.ErrUnconfirmed.AppendTo(made)
				refused++
			}
			if at += took; err != nil {
				break
			}
		}
		if len(b) < len(p.b) {
			p.b = p.b[len(b):]
			break
		}
		if p.b = nil; p.lease != nil || p.release != nil {
			empty = append(empty, *p)
		}
		rest = rest[1:]
	}
	invariant.That(s.Idle(), "reactor.G1: a mark ends within a reply")
	o.queue = append(append(append(o.queue, piece{b: made}), empty...), rest...)
	now = len(made)
	o.bytes += now - n
	o.held += now - n
	gate.NoteRefused(refused)
	return now
}
