package sentinel

import (
	"strconv"

	"spindle/protocol/respclient"
)

// This file keeps a primary from confirming writes while one of its replicas is chosen to replace it. The primary may
// live: its Sentinels cannot reach it, or an operator has asked for the failover. Its replies wait for N of its R
// replicas. The Sentinel has at least R-N+1 replicas confirm nothing more, and then asks for their offsets. The primary
// cannot confirm a write by the N-1 others.

// A hold is what is known of a replica that shall confirm nothing to its primary. An INFO shows the offset at which the
// replica has stopped if it came after the answer to the last request.
type hold struct {
	wire     *Wire // on which the last request was sent; nil: none was
	sentAt   int64 // when that was; 0: the hold has ended, or must begin again
	sent     int   // requests
	answered int   // requests that were answered, or lost with an earlier wire
	seen     int   // answered, when the INFO came that was read last
	ended    *Wire // on which the replica was told to confirm again, after the last request; nil: it was not
}

// holdFor returns for how long a replica confirms nothing, in ms, if this Sentinel dies. It is longer than the rest of
// a failover takes, of which three states last for up to failover-timeout.
func holdFor(p *Instance) int64 { return min(3*p.failoverTimeout+60_000, 24*60*60*1000) }

// holdAcks has a primary's replicas confirm nothing to it. It sends one request for each choice and each connection.
func (m *Machine) holdAcks(p *Instance) {
	for _, r := range p.replicas.list {
		h := &r.hold
		if r.link.disconnected || h.wire == r.link.commands && h.sentAt >= p.stateSince ||
			!m.request(r, toHold, "REPLCONF", "holder", m.id, "hold-acks", strconv.FormatInt(holdFor(p), 10)) {
			continue
		}
		if h.wire != r.link.commands {
			h.wire, h.answered = r.link.commands, h.sent
		}
		h.sentAt, h.ended = m.now, nil
		h.sent++
		m.request(r, toInfo, "INFO")
	}
}

// held handles the answer to a request of holdAcks. A redis-server does not know the request, and counts all the same.
func (m *Machine) held(r *Instance, w *Wire, v respclient.Value) {
	if w != r.hold.wire {
		return
	}
	if v.Err() != nil {
		m.warn("Replica %s may confirm writes until it has a new primary: %s", r.name, v.Text)
	}
	r.hold.answered++
}

// isHeld reports whether a replica confirms nothing, and its last INFO was sent after that began.
func (r *Instance) isHeld() bool {
	h := &r.hold
	return h.sentAt != 0 && h.wire == r.link.commands && h.seen == h.sent
}

// endHold has a replica confirm writes again, as far as this Sentinel is concerned. It is sent once on each connection,
// also if no hold is known. An earlier end may have been lost, or this Sentinel has restarted or was reset.
func (m *Machine) endHold(r *Instance) {
	h := &r.hold
	if h.sentAt = 0; h.ended != r.link.commands && m.request(r, toNothing, "REPLCONF", "holder", m.id, "hold-acks", "0") {
		h.ended = r.link.commands
	}
}
