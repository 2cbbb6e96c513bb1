package engine

// The core uses the sinks and the listeners of engine/part. It knows nothing else of the packages above it.

// A Sink receives the effects of the core's turns. The append-only file and the replicas are sinks.
//
// Both methods run inside the turn and must not block (R5). The effects of a turn reach every sink before the turn's
// replies are sent.
type Sink interface {
	// Append receives one unit, which a reader must apply whole: one effect, or several between MULTI and EXEC.
	// Lifetime: unit and its bytes are lent until Append returns.
	Append(unit []Effect)
	// TurnDone reports that the turn has no more effects. The sink can then send what it has collected.
	TurnDone()
}

// An Effect is one command in the form that a replica runs.
type Effect struct {
	DB      int    // the database it applies to; AnyDB for MULTI, EXEC and commands without one
	Command []byte // a RESP array of bulk strings
}

// AnyDB is the DB of an effect that needs no SELECT before it.
const AnyDB = -1
