package proxy

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"

	"spindle/internal/number"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/topology"
)

// SCAN goes through the shards one after the other, in the order of their places. The cursor that a client gets says
// where it is, so any proxy of the same shards understands it:
//
//	bits  62 … 21               20 … 13         12 … 11          10 … 2                1 … 0
//	     the shard's own cursor | place: bucket | and seat in it | when the scan began | pass
//
// A shard's place follows from its ID alone. It stays the same when slots move and other shards join.
//
// proxy.N1. A key that is there from the first call to the last is yielded at least once. It may be missed in the first
// pass if it moves to a shard that was visited already. So another pass visits the shards that have got slots since the
// scan began, or are getting some. A slot may move once more meanwhile: pass n visits the shards whose slots have moved
// n times at least. It is the last one if there are none.
// proxy.N2. A move has the time at which this proxy learns of it, which is no earlier than the move. A scan has the
// beginning of its unit of time. So no move since then is left out. Before the proxy's start each slot counts as moved.
// proxy.N3. A replica that has taken over since knows nothing of the old primary's cursor. Its shard is visited again.
const (
	innerBits = 42
	seatBits  = 2
	placeBits = 8 + seatBits
	stampBits = 9
	passBits  = 2

	passMost  = 1<<passBits - 1
	stampUnit = 30 // seconds
	stampMod  = 1<<stampBits - 1
)

// A scanCursor is a cursor in its parts.
type scanCursor struct {
	inner uint64
	place int
	stamp int // 1 and more, so that no cursor on the way is 0
	pass  int
}

func readCursor(n uint64) (c scanCursor) {
	take := func(bits int) int {
		part := int(n & (1<<bits - 1))
		n >>= bits
		return part
	}
	c.pass, c.stamp, c.place = take(passBits), take(stampBits), take(placeBits)
	c.inner = n & (1<<innerBits - 1)
	return c
}

func (c scanCursor) number() uint64 {
	n := c.inner<<placeBits | uint64(c.place)
	return (n<<stampBits|uint64(c.stamp))<<passBits | uint64(c.pass)
}

// stampOf and began turn Unix seconds into a stamp, and back: into the earliest time that it may mean.
func stampOf(now int64) int { return 1 + int(now/stampUnit%stampMod) }

func began(stamp int, now int64) int64 {
	age := (now/stampUnit - int64(stamp-1)) % stampMod
	return (now/stampUnit - (age+stampMod)%stampMod) * stampUnit
}

// A scanOrder is the shards of a map by their places.
type scanOrder struct {
	of     *topology.Map
	shards []int // indexes in the map
	places []int
}

// scanOrder returns the order of the current map. Shards of one bucket sit there in the order of their IDs. If there
// are more than seats, the others go to the next bucket.
func (w *worker) scanOrder() *scanOrder {
	o := &w.scans
	if o.of == w.topology {
		return o
	}
	*o = scanOrder{of: w.topology}
	type seated struct{ place, shard int }
	var all []seated
	for i, s := range o.of.Shards {
		h := fnv.New32a()
		h.Write([]byte(s.ID))
		all = append(all, seated{int(h.Sum32()>>(32-placeBits)) &^ (1<<seatBits - 1), i})
	}
	slices.SortFunc(all, func(a, b seated) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(o.of.Shards[a.shard].ID, o.of.Shards[b.shard].ID))
	})
	for i, s := range all {
		if i > 0 && s.place <= o.places[i-1] {
			s.place = o.places[i-1] + 1
		}
		o.shards, o.places = append(o.shards, s.shard), append(o.places, s.place)
	}
	for i := range o.places { // the last buckets have no next one
		o.places[i] = min(o.places[i], 1<<placeBits-len(o.places)+i)
	}
	return o
}

// at returns the index in o of the shard at a place. If it has gone it is the one before in the same bucket, or the
// next one; exact is false then. len(o.shards): there is none.
func (o *scanOrder) at(place int) (i int, exact bool) {
	i, exact = slices.BinarySearch(o.places, place)
	if !exact && i > 0 && o.places[i-1]>>seatBits == place>>seatBits {
		i--
	}
	return i, exact
}

// scanKeys is SCAN.
func (s *session) scanKeys(args [][]byte) bool {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		s.refuse(errCursor)
		return true
	}
	w := s.w
	c, order := readCursor(cursor), w.scanOrder()
	if cursor == 0 {
		c = scanCursor{stamp: stampOf(w.p.moves.now())}
	}
	switch n := len(order.shards); {
	case n == 0:
		s.refuse(errNoShard)
		return true
	case n > 1<<placeBits:
		s.refuse(errManyShards)
		return true
	}
	i, exact := order.at(c.place)
	if i == len(order.shards) { // the last one has gone
		i, exact = i-1, false
	}
	if !exact {
		c.place, c.inner = order.places[i], 0
	}
	u, refusal := s.upstreamOf(order.shards[i])
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
	request[1] = number.AppendInt(nil, int64(c.inner))
	u.push(call{s: s, number: s.expect(), slot: -1, row: s.row(), fixed: true, to: &scanned{s, c}},
		protocol.AppendCommand(nil, request))
	return true
}

// A scanned takes a shard's reply to SCAN.
type scanned struct {
	s *session
	c scanCursor
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
	number, elements := c.number, p[at:]
	answer := func(next uint64, err *protocol.Error) {
		if err != nil {
			s.answerOr(number, nil, err)
			return
		}
		var r protocol.Reply
		r.Array(2)
		r.BulkString(strconv.FormatUint(next, 10))
		r.Raw(elements)
		s.answer(number, r.B)
	}
	switch {
	case inner>>innerBits != 0:
		answer(0, errWideCursor)
	case inner != 0:
		n.c.inner = inner
		answer(n.c.number(), nil)
	default:
		elements = slices.Clone(elements) // answer may be called later
		s.w.nextShard(s, n.c, answer)
	}
}

// nextShard calls answer with the cursor after a shard that was visited to its end: of the next one, or 0.
func (w *worker) nextShard(s *session, c scanCursor, answer func(uint64, *protocol.Error)) {
	w.catchUp()
	order := w.scanOrder()
	i, exact := order.at(c.place)
	if exact {
		i++
	}
	c.inner = 0
	if c.pass == 0 && i < len(order.shards) {
		c.place = order.places[i]
		answer(c.number(), nil)
		return
	}
	w.askMoves(s, func(gets map[int]bool, err *protocol.Error) {
		if err != nil {
			answer(0, err)
			return
		}
		order := w.scanOrder()
		i, exact := order.at(c.place)
		if exact {
			i++
		}
		if c.pass == 0 {
			i = len(order.shards)
		}
		for pass := c.pass; pass <= min(c.pass+1, passMost); pass++ {
			visit := w.p.moves.since(c.stamp, pass, w.topology, gets)
			for ; i < len(order.shards); i++ {
				if visit[order.shards[i]] {
					c.pass, c.place = pass, order.places[i]
					answer(c.number(), nil)
					return
				}
			}
			i = 0
		}
		answer(0, nil)
	})
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
