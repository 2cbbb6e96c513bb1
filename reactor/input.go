package reactor

import (
	"spindle/internal/invariant"
	"spindle/protocol"
)

// An input is what a connection has received and not served.
//
//	           Serve left requests undone, or Malformed said Wait
//	flowing ──────────────────────────────────────────────────────▶ held, or busy
//	   ▲ │                                                               │ Resume
//	   │ │ a turn's share was served                                     ▼
//	   │ └───────────────────────────────────────────────────────────▶ more
//	   └──────────── its next turn in loop.ready ────────────────────────┘
//
// While it flows a long last argument may be streamed straight into its own memory. If Serve does not run the request
// of that argument, replay is set: after Resume that request runs first. An argument that is too long is thrown away
// (excess), and the connection closes.
//
// reactor.I1. pending[served:] are bytes read and not served, oldest first; pending is nil when there are none.
// reactor.I2. While held or busy, nothing of the connection is served. Bytes that arrive are kept up to the
// query-buffer limit.
// reactor.I3. parser is the connection's own while a request is half read or streamed. Otherwise it is nil: the loop's
// parser serves.
type input struct {
	pending []byte
	served  int
	parser  *protocol.Parser
	excess  *excess // an argument that is longer than the query-buffer limit

	flow   flow
	owes   bool // replies of requests that Serve has taken are still to come (Direct.Owe)
	replay bool // the next request to run is the parser's streamed one; goOn runs it
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

// setFlow changes the flow. A connection is held only while requests are served, and flows again only through more.
func (in *input) setFlow(to flow) {
	if invariant.Enabled {
		invariant.That(to != flowing || !in.isHeld() || in.flow == flowAway, "requests of a held connection are served")
		invariant.That(to != flowHeld || in.flow == flowing, "a connection is held from flow %d", in.flow)
	}
	in.flow = to
}

// isHeld reports whether the connection waits for Resume, or for its batch.
func (in *input) isHeld() bool { return in.flow >= flowHeld }

// waits reports whether requests that were read will run, or be answered, soon (reactor.C2).
func (in *input) waits() bool {
	return in.owes || in.flow == flowBusy || in.flow == flowMore || in.flow == flowAway
}
