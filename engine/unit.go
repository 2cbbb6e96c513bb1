package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A unit is what one outermost command has told the sinks so far: a reader of the stream must apply it whole.
//
// Effects are encoded as they are booked, because their arguments are lent; with no sink nothing is encoded.
type unit struct {
	effects int
	bytes   []byte // all effects' commands, one after the other
	marks   []mark // where each ends, and its database
	list    []Effect
	loose   bool // the effects do not belong together: keys that SCAN found expired
}

// A mark is where an effect ends, its database, and the sinks that get it.
type mark struct {
	db, end int
	to      client.Targets
}

// A hearer is a sink, and what it is.
type hearer struct {
	Sink
	is client.Targets // one of them
}

// keptUnitBytes is how much of a unit's buffer survives it.
const keptUnitBytes = 1 << 20

func (u *unit) add(db int, args [][]byte, to client.Targets) {
	u.bytes = protocol.AppendCommand(u.bytes, args)
	u.marks = append(u.marks, mark{db, len(u.bytes), to})
	u.effects++
}

// appendFor appends what of the unit is addressed to a sink that is of a kind.
func (u *unit) appendFor(list []Effect, is client.Targets) []Effect {
	list = append(list, Effect{AnyDB, multiBytes})
	from := 0
	for _, m := range u.marks {
		if m.to&is != 0 {
			list = append(list, Effect{m.db, u.bytes[from:m.end]})
		}
		from = m.end
	}
	if len(list) > 2 && !u.loose {
		return append(list, Effect{AnyDB, execBytes})
	}
	return list[:copy(list, list[1:])] // one effect, or several that do not belong together, are not wrapped
}

var (
	multiBytes = []byte("*1\r\n$5\r\nMULTI\r\n")
	execBytes  = []byte("*1\r\n$4\r\nEXEC\r\n")
)

// maxDepth bounds how deep commands call commands. EXEC in a script's caller is two; a function that calls a script is
// three.
const maxDepth = 8

// A stack is what one outermost command has under way: a frame for each depth of calls, and what it has told of its
// effects.
type stack struct {
	frames [maxDepth]command.Context // so that no call allocates
	depth  int
	unit   unit
	lends  []lending  // of its frames, those that continue by a step, the outermost first
	slots  *slots.Map // that the outermost command was admitted by; nil: it names no keys

	counted counted // for the outermost command, while slots are counted
}

// counted is the slot that a call counts for, plus one.
type counted int16

const (
	uncounted    counted = 0
	severalSlots counted = -1
)

// lending is how the command of a frame continues; nil if its handler has done all.
func (s *stack) lending(frame *command.Context) *lending {
	for i := range s.lends {
		if s.lends[i].frame == frame {
			return &s.lends[i]
		}
	}
	return nil
}

// A lending is one frame that continues by a step.
type lending struct {
	depth int // of the frame
	frame *command.Context
	step  command.Step
	mark  protocol.Mark // where its reply begins
	took  int64         // by its slices, in nanos, if another command called it
	inner bool          // another command called it, and waits for it
}

// A lent is the outermost command that has lent the turn.
type lent struct {
	stack *stack
	p     *parked // its client's wait, with a copy of its request
	nowMs int64   // engine.N3
	trust bool    // keyspace.Trusting: our primary has sent it
	began int64   // nanos
	took  int64   // by its slices, in nanos
	tardy bool    // busy-reply-threshold is over: others get BUSY
	reply *protocol.Reply

	pushes []byte // to its client, after the reply (engine.O2)
}

// An awaiting is a function that waits for the end of the open unit.
type awaiting struct {
	f      func()
	before bool // BeforeReply
}

// refusal is what others are told when the threshold is over. It goes by the command that has lent, inside EXEC too.
func (l *lent) refusal() error {
	frame := &l.stack.frames[max(l.stack.depth-1, 0)]
	if lends := l.stack.lends; len(lends) > 0 {
		frame = lends[len(lends)-1].frame
	}
	if frame.Spec.Has(command.RunsFunction) {
		return protocol.ErrBusyFunction
	}
	return protocol.ErrBusyScript
}

// replayed is the command of a log that runs, as far as it gives way to others (engine.N4).
type replayed struct {
	began int64 // nanos
	gave  bool
	tardy bool // busy-reply-threshold is over
}
