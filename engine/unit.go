package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A unit holds the effects of one outermost command so far. A reader of the stream must apply the unit whole.
//
// Effects are encoded as they are added, because their arguments are lent. Without a sink nothing is encoded.
type unit struct {
	effects int
	bytes   []byte // all effects' commands, one after the other
	marks   []mark // where each ends, and its database
	list    []Effect
	loose   bool // the effects do not belong together: keys that SCAN found expired
}

// A mark says where an effect ends, its database, and which sinks get it.
type mark struct {
	db, end int
	to      client.Targets
}

// A hearer is a sink, and which kind of sink it is.
type hearer struct {
	Sink
	is client.Targets // one of them
}

// keptUnitBytes is the size up to which a unit's buffer is kept for the next unit.
const keptUnitBytes = 1 << 20

func (u *unit) add(db int, args [][]byte, to client.Targets) {
	u.bytes = protocol.AppendCommand(u.bytes, args)
	u.marks = append(u.marks, mark{db, len(u.bytes), to})
	u.effects++
}

// appendFor appends the effects of the unit that are addressed to a sink of the kind is.
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

// maxDepth limits how deep commands call commands. A command in EXEC has depth two, and a command of a script in EXEC
// has depth three.
const maxDepth = 8

// A stack is the state of one outermost command: a frame for each depth of calls, and its unit of effects.
type stack struct {
	frames [maxDepth]command.Context // so that no call allocates
	depth  int
	unit   unit
	lends  []lending  // of its frames, those that continue by a step, the outermost first
	slots  *slots.Map // that the outermost command was admitted by; nil if it names no keys

	counted counted // for the outermost command, while slots are counted
	dirty   int64   // the core's changes before the outermost command
}

// counted is the slot for which a call counts, plus one.
type counted int16

const (
	uncounted    counted = 0
	severalSlots counted = -1
)

// lending returns how the command of a frame continues. It returns nil if the handler has done all.
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

	silent bool // its client had killed itself before, so its reply is dropped
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

	pushes  []byte // to its client, after the reply (engine.O2)
	applied func() // Follow's, if our primary has sent it; or nil
}

// An awaiting is a function that waits for the end of the open unit.
type awaiting struct {
	f      func()
	before bool // BeforeReply
}

// refusal returns the error for other clients after busy-reply-threshold. It depends on the command that has lent the
// turn, even inside EXEC.
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

// replayed is the state of a log's running command that gives way to others (engine.N4).
type replayed struct {
	began int64 // nanos
	gave  bool
	tardy bool // busy-reply-threshold is over
}
