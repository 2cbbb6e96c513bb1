package aof

import (
	"bytes"
	"context"
	"slices"
	"strconv"

	"spindle/internal/slots"
	"spindle/protocol"
)

// Moves are the moves of slots to a node that are under way in the node's log (slotmove.T3). ESTABLISH begins a move,
// and FINISH ends it. The keys of the slots are not the node's before FINISH.
//
// aof.V1. A log may end within a move, because its server died or a tool has cut it. Outside cluster mode, the move has
// failed then: its keys are dropped. A tool ends it as failed where it cuts. A node that loads its own log asks
// nodes.conf instead, because the slots may be its own by now. So does a node whose log was cut when all keys had come.
type moves []move

type move struct {
	name  string
	slots slotRuns
}

// SlotRuns are runs of slots: first and last, first and last, and so on.
type slotRuns []int

func (r slotRuns) has(slot uint16) bool {
	for i := 0; i+1 < len(r); i += 2 {
		if r[i] <= int(slot) && int(slot) <= r[i+1] {
			return true
		}
	}
	return false
}

// follow notes a command of the log. It returns the slots whose keys the command drops. These are slots of a move that
// has failed, or slots that another node had taken.
func (m *moves) follow(args [][]byte) (dropped slotRuns) {
	word, name, state, slots := stepOf(args)
	switch {
	case isWord(word, "ESTABLISH"):
		*m = append(*m, move{name, slots})
	case isWord(word, "DROP"):
		return slots
	case isWord(word, "FINISH"):
		at := slices.IndexFunc(*m, func(one move) bool { return one.name == name })
		if at < 0 {
			return nil
		}
		if isWord(state, "FAILED") {
			dropped = (*m)[at].slots
		}
		*m = slices.Delete(*m, at, at+1)
	}
	return dropped
}

// stepOf reads a command of a move. word is nil if args is none.
func stepOf(args [][]byte) (word []byte, name string, state []byte, slots slotRuns) {
	if len(args) < 4 || !isWord(args[0], "CLUSTER") || !isWord(args[1], "SYNCSLOTS") {
		return nil, "", nil, nil
	}
	for i := 3; i+1 < len(args); i += 2 {
		switch {
		case isWord(args[i], "NAME"):
			name = string(args[i+1])
		case isWord(args[i], "STATE"):
			state = args[i+1]
		case isWord(args[i], "SLOTSRANGE"):
			slots = slotsOf(args[i+1:])
			i += len(slots) - 1
		}
	}
	return args[2], name, state, slots
}

// readOn reads on after a cut, and takes out the moves whose keys had all come before the cut. Such a move succeeds
// later, and until then its slots get no keys. At the cut, the node may have claimed the slots, and the source may have
// dropped the keys. All other moves stay.
func (m *moves) readOn(ctx context.Context, s *text) {
	for open := slices.Clone(*m); len(open) > 0 && ctx.Err() == nil; {
		batch, err := s.next()
		if err != nil {
			return
		}
		for _, args := range batch {
			word, name, state, _ := stepOf(args)
			open = slices.DeleteFunc(open, func(one move) bool {
				over := isWord(word, "FINISH") && one.name == name
				if over && isWord(state, "SUCCESS") {
					*m = slices.DeleteFunc(*m, func(other move) bool { return other.name == name })
				}
				return over || one.slots.mayGet(args)
			})
		}
	}
}

// mayGet reports whether a command may add or change keys of the slots. A deletion may be an expiry of a key that is
// there.
func (r slotRuns) mayGet(args [][]byte) bool {
	var keys [][]byte // or perhaps keys
	switch string(bytes.ToUpper(args[0])) {
	case "DEL", "UNLINK", "SELECT", "CLUSTER":
	case "FLUSHALL", "FLUSHDB", "SWAPDB":
		return true
	case "BITOP", "PFDEBUG", "XGROUP", "XREADGROUP", "LMPOP", "BLMPOP", "ZMPOP", "BZMPOP", "MSETEX", "EVAL", "EVALSHA",
		"FCALL":
		keys = args[1:]
	default:
		keys = args[1:min(len(args), 2)] // one slot has all keys of a command
	}
	return slices.ContainsFunc(keys, func(key []byte) bool { return r.has(slots.Of(key)) })
}

// slotsOf reads pairs of slots up to the first argument that is no number.
func slotsOf(args [][]byte) (r slotRuns) {
	for ; len(args) > 1; args = args[2:] {
		first, err := strconv.Atoi(string(args[0]))
		last, other := strconv.Atoi(string(args[1]))
		if err != nil || other != nil {
			break
		}
		r = append(r, first, last)
	}
	return r
}

// ends returns the commands that end all moves as failed (aof.V1).
func (m moves) ends(why string) (p []byte) {
	for _, one := range m {
		p = protocol.AppendCommand(p, [][]byte{[]byte("CLUSTER"), []byte("SYNCSLOTS"), []byte("FINISH"), []byte("STATE"),
			[]byte("FAILED"), []byte("NAME"), []byte(one.name), []byte("MESSAGE"), []byte(why)})
	}
	return p
}
