package proxy

import (
	"hash/fnv"
	"strconv"

	"spindle/internal/number"
	"spindle/protocol"
	"spindle/protocol/scan"
)

// SCAN goes through the shards one after the other, in the order of their IDs. The cursor that a client gets
// says where it is, so any proxy of the same shards understands it:
//
//	bits  62 … 49            48 … 46              45 … 0
//	     slot of the shard | mark of the shard | the shard's own cursor; 0: its beginning
//
// proxy.N1. The mark is a hash of the shard's ID. If the slot belongs to another shard meanwhile, the cursor would mean
// nothing there: that shard is scanned from its beginning. Keys may so be yielded twice, as SCAN allows.
const (
	cursorBits = 46
	markBits   = 3
)

// markOf hashes a shard's ID.
func markOf(id string) uint64 {
	h := fnv.New32a()
	h.Write([]byte(id))
	return 1 + uint64(h.Sum32())%(1<<markBits-1) // never 0, so that no cursor on the way is
}

// scanKeys is SCAN.
func (s *session) scanKeys(args [][]byte) bool {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		s.refuse(errCursor)
		return true
	}
	w := s.w
	slot, mark, inner := int(cursor>>(cursorBits+markBits)), cursor>>cursorBits&(1<<markBits-1), cursor&(1<<cursorBits-1)
	if cursor == 0 {
		slot = w.nextSlot(-1)
	}
	index := -1
	if slot >= 0 && slot < w.topology.Slots() {
		index = w.topology.Owner(slot)
	}
	if index < 0 {
		s.refuse(errNoSlot)
		return true
	}
	if markOf(w.topology.Shards[index].ID) != mark {
		inner = 0
	}
	u, refusal := s.upstreamOf(index)
	if refusal != nil {
		s.refuse(refusal)
		return true
	}
	if u.isFull() {
		u.waiting = append(u.waiting, s)
		return false
	}
	request := make([][]byte, len(args))
	copy(request, args)
	request[1] = number.AppendInt(nil, int64(inner))
	u.push(call{s: s, number: s.expect(), slot: int32(slot), row: s.row(), fixed: true, to: &scanned{s, slot}},
		protocol.AppendCommand(nil, request))
	return true
}

// A scanned takes a shard's reply to SCAN.
type scanned struct {
	s    *session
	slot int
}

func (n *scanned) take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := n.s
	if err != nil || refusal != scan.NotRefused {
		s.answerOr(c.number, p, err)
		return
	}
	inner, at, ok := cursorIn(p)
	if !ok {
		s.answerOr(c.number, nil, errNoScan(u.at))
		return
	}
	next, refused := s.w.nextCursor(n.slot, inner)
	if refused != nil {
		s.answerOr(c.number, nil, refused)
		return
	}
	var r protocol.Reply
	r.Array(2)
	r.BulkString(strconv.FormatUint(next, 10))
	r.Raw(p[at:])
	s.answer(c.number, r.B)
}

// nextCursor returns the cursor after a shard's own: of the same shard, of the next one, or 0.
func (w *worker) nextCursor(slot int, inner uint64) (uint64, *protocol.Error) {
	m := w.topology
	if inner>>cursorBits != 0 {
		return 0, errWideCursor
	}
	if inner == 0 {
		own := m.Owner(slot)
		if own < 0 {
			return 0, errNoSlot
		}
		if slot = w.nextSlot(own); slot < 0 {
			return 0, nil
		}
	}
	index := m.Owner(slot)
	if index < 0 {
		return 0, errNoSlot
	}
	return uint64(slot)<<(cursorBits+markBits) | markOf(m.Shards[index].ID)<<cursorBits | inner, nil
}

// nextSlot returns the lowest slot of the shard that SCAN visits after a shard of the map; -1: there is none. Shards go
// by their IDs, so that slots may move meanwhile. -1 asks for the first.
func (w *worker) nextSlot(after int) int {
	m, next := w.topology, -1
	for slot := range m.Slots() {
		index := m.Owner(slot)
		if index < 0 || index == after || next >= 0 && m.Shards[index].ID >= m.Shards[m.Owner(next)].ID {
			continue
		}
		if after < 0 || m.Shards[index].ID > m.Shards[after].ID {
			next = slot
		}
	}
	return next
}

// cursorIn reads the cursor of a reply to SCAN: *2, a bulk string with the cursor, the elements at at.
func cursorIn(p []byte) (cursor uint64, at int, ok bool) {
	const head = "*2\r\n$"
	if len(p) < len(head) || string(p[:len(head)]) != head {
		return 0, 0, false
	}
	size, n := 0, len(head)
	for ; n < len(p) && p[n] >= '0' && p[n] <= '9' && size < 100; n++ {
		size = 10*size + int(p[n]-'0')
	}
	at = n + 2 + size + 2
	if size == 0 || size > 20 || at > len(p) {
		return 0, 0, false
	}
	cursor, err := strconv.ParseUint(string(p[n+2:n+2+size]), 10, 64)
	return cursor, at, err == nil
}
