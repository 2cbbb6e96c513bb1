package reactor

import (
	"spindle/internal/invariant"
	"spindle/protocol"
)

// An input is the part of a connection that has received bytes and not served them.
//
//	           Serve left requests undone, or Malformed said Wait
//	flowing ──────────────────────────────────────────────────────▶ held, or busy
//	   ▲ │                                                               │ Resume
//	   │ │ a turn's share was served                                     ▼
//	   │ └───────────────────────────────────────────────────────────▶ more
//	   └──────────── its next turn in loop.ready ────────────────────────┘
//
// While the input flows, a long last argument may be streamed straight into its own memory. If Serve does not run the
// request of that argument, replay is set: after Resume that request runs first. An argument that is too long is
// dropped (excess), and the connection closes.
//
// reactor.I1. pending[served:] are bytes read and not served, oldest first; pending is nil when there are none.
// reactor.I2. While held or busy, nothing of the connection is served. Bytes that arrive are kept up to the
// query-buffer limit.
// reactor.I3. The connection has its own parser while a request is half read or streamed. Otherwise parser is nil, and
// the connection uses the loop's parser.
type input struct {
	pending []byte
	served  int
	parser  *protocol.Parser
	excess  *excess // an argument that is longer than the query-buffer limit

	flow      flow
	unreplied bool // the reply to the last request comes before Resume, not with the batch (protocol.Batch.Soon)
	owes      bool // replies to requests that Serve has accepted are still to come (Direct.Owe)
	replay    bool // the next request to run is the parser's streamed one; goOn runs it
}

// A flow says whether requests are served as they arrive.
type flow uint8

const (
	flowing  flow = iota
	flowMore      // in loop.ready: pending may have complete requests
	flowHeld      // waits for Resume
	flowBusy      // waits for Resume, which comes when the core is no longer busy (protocol.Batch.Soon)
	flowAway      // its batch is away (away.go)
)

// setFlow changes the flow. A connection becomes held only while its requests are served, and flows again only through
// flowMore.
func (in *input) setFlow(to flow) {
	if invariant.Enabled {
		invariant.That(to != flowing || !in.isHeld() || in.flow == flowAway, "requests of a held connection are served")
		invariant.That(to != flowHeld || in.flow == flowing, "a connection is held from flow %d", in.flow)
	}
	in.flow = to
}

// isHeld reports whether the connection waits for Resume, or for its batch.
func (in *input) isHeld() bool { return in.flow >= flowHeld }

// waits reports whether requests that were read will soon run, or get a reply (reactor.C2).
func (in *input) waits() bool {
	return in.owes || in.unreplied || in.flow == flowBusy || in.flow == flowMore || in.flow == flowAway
}
