package aof

import (
	"slices"
	"strconv"

	"spindle/protocol"
)

// Moves are the moves of slots to a node that are under way in the node's log (slotmove.T3). ESTABLISH begins a move,
// and FINISH ends it. The keys of the slots are not the node's before FINISH.
//
// aof.V1. A log may end within a move, because its server died or a tool has cut it. Outside cluster mode, the move has
// failed then: its keys are dropped. A tool ends it as failed where it cuts. A node that loads its own log asks
// nodes.conf instead, because the slots may be its own by now.
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
	if len(args) < 4 || !isWord(args[0], "CLUSTER") || !isWord(args[1], "SYNCSLOTS") {
		return nil
	}
	name, state, slots := "", []byte(nil), slotRuns(nil)
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
	switch {
	case isWord(args[2], "ESTABLISH"):
		*m = append(*m, move{name, slots})
	case isWord(args[2], "DROP"):
		return slots
	case isWord(args[2], "FINISH"):
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
