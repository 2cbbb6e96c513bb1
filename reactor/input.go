package reactor

import "spindle/protocol"

// An input is what a connection has received and not served.
//
//	        incomplete request            Serve left requests undone, or Malformed said Wait
//	empty ─────────────────────▶ waiting ───────────────────────▶ held
//	  ▲ ▲   the rest arrived       │  ▲      a turn's share served      │ Resume
//	  │ └──────────────────────────┘  └──── more (in loop.ready) ◀──────┘
//	  │ served                              ▲ Resume: first what was streamed runs again
//	  ├──────────── streaming ── Serve refused ──▶ replay
//	  │             a long last argument goes straight into its own memory
//	  └ · · · · ·   excess: too long an argument is thrown away; then the connection closes
//
// reactor.I1. pending[served:] are bytes read and not served, oldest first; pending is nil when there are none.
// reactor.I2. While held, nothing of the connection is served. What arrives is kept up to the query-buffer limit.
// reactor.I3. parser is the connection's own while a request is half read or streamed. Otherwise it is nil: the loop's
// parser serves.
type input struct {
	pending []byte
	served  int
	parser  *protocol.Parser
	excess  *excess // an argument that is longer than the query-buffer limit

	held   bool // Serve left requests undone: waits for Resume
	soon   bool // if held: not for longer than the core is busy (protocol.Batch.Soon)
	more   bool // there may be complete requests in pending
	replay bool // what was left undone is the parser's streamed request: it is the next to run, and goOn runs it
}

// waits says that there are requests which have been read and will run soon (reactor.C2).
func (in *input) waits() bool { return in.held && in.soon || in.more && !in.held }
