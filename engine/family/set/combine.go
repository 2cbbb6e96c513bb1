package set

import (
	"math"
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
	"spindle/protocol"
)

// A source is one of the sets to combine.
type source struct {
	v value.Value // the zero Value for a missing key
	r set.Reader
	n int
}

// gather looks up the sets at keys and stores them in s.sources.
//
// Errors: ErrWrongType.
func (s *commands) gather(c *command.Context, keys [][]byte) error {
	s.sources, s.at, s.limits = s.sources[:0], c.Inline(), c.Settings.Sets.Limits()
	expire := c.DB.Volatile() != 0
	for _, key := range keys {
		v, err := lookup(c, key)
		if err != nil {
			s.done()
			return err
		}
		r := set.Read(v)
		s.sources = append(s.sources, source{v, r, r.Len()})
	}
	if expire { // again: a lookup that deletes an expired key invalidates the values found before
		for i, key := range keys {
			v := c.DB.Peek(key)
			r := set.Read(v)
			s.sources[i] = source{v, r, r.Len()}
		}
	}
	return nil
}

// done releases the buffers after a call.
func (s *commands) done() {
	s.sources, s.others = command.Release(s.sources), command.Release(s.others)
}

// answer lets reply reply from s.sources. n is the number of members that reply reads. If n is large, reply runs
// outside the turn, with buffers for this call alone.
func (s *commands) answer(c *command.Context, n int, reply func(*commands)) error {
	if c.IsLong(n) {
		own := &commands{sources: slices.Clone(s.sources), limits: s.limits, limit: s.limit}
		s.done()
		return c.ReadBeside(func(r *command.Reading) error {
			own.at = r
			reply(own)
			return nil
		})
	}
	reply(s)
	s.done()
	return nil
}

// members returns the total number of members of all sources.
func (s *commands) members() (n int) {
	for i := range s.sources {
		n += s.sources[i].n
	}
	return n
}

// against sets s.others to the sets in sources.
func (s *commands) against(sources []source) {
	s.others = s.others[:0]
	for i := range sources {
		s.others = append(s.others, sources[i].r)
	}
}

// answerLater replies each member that f yields. The head of the reply, with the number of members, is inserted at the
// end.
func answerLater(reply *protocol.Reply, f func(yield func(set.Element) bool)) {
	mark, n := reply.Mark(), 0
	f(func(e set.Element) bool {
		answer(reply, e)
		n++
		return true
	})
	reply.SetAt(mark, n)
}

// answerBuilt replies the members of the built set, then discards it.
func (s *commands) answerBuilt() {
	r := s.building.Reader()
	s.at.Reply.Set(r.Len())
	answerAll(s.at, &r)
	s.building.Discard()
}

// storeBuilt stores the built set at key and replies its size. If the result is empty, it removes key.
func (s *commands) storeBuilt(c *command.Context, key []byte, event string) {
	n := s.building.Len()
	if n == 0 {
		s.building.Discard()
		storeNothing(c, key)
		return
	}
	c.Overwrites(key, value.Set)
	if put(c, key, &s.building) {
		c.Notify(command.EventNew, "new", key)
	}
	c.Changed(1)
	c.Notify(command.EventSet, event, key)
	c.Reply.Int(int64(n))
}

func storeNothing(c *command.Context, key []byte) {
	if c.DB.Delete(key) {
		c.Changed(1)
		c.Notify(command.EventGeneric, "del", key)
	}
	c.Reply.Int(0)
}

// begin starts a result of about n members.
func (s *commands) begin(enc value.Encoding, n int) {
	s.building.Begin(s.at.Store(), s.limits, enc, n)
}

// inter is SINTER key [key …]. Replies: a set. Errors: ErrWrongType.
//
// Cost: each member of the smallest set is looked up in the other sets, until one lacks it.
func (s *commands) inter(c *command.Context) error {
	if err := s.gather(c, c.Args[1:]); err != nil {
		return err
	}
	return s.answer(c, s.lookups(), (*commands).replyInter)
}

func (s *commands) replyInter() {
	smallest := s.narrow()
	if smallest == nil {
		s.at.Reply.Set(0)
		return
	}
	answerLater(s.at.Reply, func(yield func(set.Element) bool) { smallest.Filter(s.others, true, s.at.Steps, yield) })
}

// lookups returns the number of members that SINTER may look up.
func (s *commands) lookups() int {
	least := math.MaxInt
	for i := range s.sources {
		least = min(least, s.sources[i].n)
	}
	return least * len(s.sources)
}

// narrow returns the smallest of the sources. It stores the others in s.others, from the smallest. It returns nil if
// one of the sets is empty.
func (s *commands) narrow() *set.Reader {
	for i := range s.sources {
		if s.sources[i].n == 0 {
			return nil
		}
	}
	slices.SortStableFunc(s.sources, func(a, b source) int { return a.n - b.n })
	first := &s.sources[0]
	others := slices.DeleteFunc(s.sources[1:], func(o source) bool { return o.v == first.v })
	s.against(others)
	return &first.r
}

// interStore is SINTERSTORE destination key [key …]. Replies: the number of members.
// Errors: ErrWrongType. Propagates as written.
func (s *commands) interStore(c *command.Context) error {
	if err := s.gather(c, c.Args[2:]); err != nil {
		return err
	}
	smallest := s.narrow()
	if smallest == nil {
		storeNothing(c, c.Args[1])
		s.done()
		return nil
	}
	enc := value.Listpack
	if smallest.Encoding() == value.IntSet {
		enc = value.IntSet
	}
	s.begin(enc, 0)
	smallest.Filter(s.others, true, nil, s.keep)
	s.building.Compact()
	s.storeBuilt(c, c.Args[1], "sinterstore")
	s.done()
	return nil
}

// keep adds a member to the result, which does not contain it yet.
func (s *commands) keep(e set.Element) bool {
	s.at.Step()
	s.building.Append(e)
	return true
}

// counting reads numkeys key [key …] [LIMIT limit], and also [APPROX] if approx is true. limit is at least 1.
//
// Errors: errNumKeys, errTooMany, errLimitSign, ErrSyntax.
func counting(c *command.Context, approx bool) (keys [][]byte, limit int64, err error) {
	n, err := command.Int(c.Args[1])
	if err != nil || n < 1 {
		return nil, 0, errNumKeys
	}
	if n > int64(len(c.Args)-2) {
		return nil, 0, errTooMany
	}
	keys, options := c.Args[2:2+n], c.Args[2+n:]
	for i := 0; i < len(options); i++ {
		if approx && command.Is(options[i], "APPROX") {
			continue
		}
		if !command.Is(options[i], "LIMIT") || i+1 == len(options) {
			return nil, 0, protocol.ErrSyntax
		}
		i++
		if limit, err = command.Int(options[i]); err != nil || limit < 0 {
			return nil, 0, errLimitSign
		}
	}
	if limit == 0 {
		limit = math.MaxInt64
	}
	return keys, limit, nil
}

// interCard is SINTERCARD numkeys key [key …] [LIMIT limit]. Replies: the number of members of SINTER, at most limit
// unless limit is 0.
//
// Errors: those of counting, ErrWrongType.
func (s *commands) interCard(c *command.Context) error {
	return s.count(c, false, (*commands).lookups, func(s *commands) {
		n := counter{limit: s.limit}
		if smallest := s.narrow(); smallest != nil {
			smallest.Filter(s.others, true, s.at.Steps, n.add)
		}
		s.at.Reply.Int(n.n)
	})
}

// count implements SINTERCARD and its kin. reply counts the members of the result, up to s.limit. reads returns the
// number of members that reply reads.
//
// Errors: those of counting, ErrWrongType.
func (s *commands) count(c *command.Context, approx bool, reads func(*commands) int, reply func(*commands)) error {
	keys, limit, err := counting(c, approx)
	if err != nil {
		return err
	}
	if err := s.gather(c, keys); err != nil {
		return err
	}
	s.limit = limit
	return s.answer(c, reads(s), reply)
}

// A counter counts members up to a limit.
type counter struct{ n, limit int64 }

func (n *counter) add(set.Element) bool {
	n.n++
	return n.n < n.limit
}

// diffCard is SDIFFCARD numkeys key [key …] [LIMIT limit]. Replies: the number of members of SDIFF, at most limit
// unless limit is 0.
//
// Errors: those of counting, ErrWrongType.
func (s *commands) diffCard(c *command.Context) error {
	return s.count(c, false, (*commands).members, func(s *commands) {
		n := counter{limit: s.limit}
		d := s.subtract()
		if !d.nothing {
			d.first.Filter(s.others, false, s.at.Steps, n.add)
		}
		s.at.Reply.Int(n.n)
		s.endSubtract(&d)
	})
}

// unionCard is SUNIONCARD numkeys key [key …] [APPROX] [LIMIT limit]. Replies: the number of members of SUNION, at most
// limit unless limit is 0. The number is exact even with APPROX.
//
// Errors: those of counting, ErrWrongType. Cost: that of union.
func (s *commands) unionCard(c *command.Context) error {
	return s.count(c, true, (*commands).members, func(s *commands) {
		slices.SortStableFunc(s.sources, func(a, b source) int { return b.n - a.n })
		n := counter{n: int64(s.sources[0].n), limit: s.limit}
		switch {
		case n.n >= n.limit:
		case s.lookupsPay():
			s.against(s.sources)
			for i := 1; i < len(s.others) && n.n < n.limit; i++ {
				s.others[i].Filter(s.others[:i], false, s.at.Steps, n.add)
			}
		default:
			s.unite()
			n.n = int64(s.building.Len())
			s.building.Discard()
		}
		s.at.Reply.Int(min(n.n, n.limit))
	})
}

// diff is SDIFF key [key …]: the members of the first set that no other set has. Replies: a set. Errors: ErrWrongType.
//
// Cost: each member of the first set is looked up in the other sets, until one has it. If the others are many and
// small, diff builds their union, and each member costs one lookup there.
func (s *commands) diff(c *command.Context) error {
	if err := s.gather(c, c.Args[1:]); err != nil {
		return err
	}
	return s.answer(c, s.members(), (*commands).replyDiff)
}

func (s *commands) replyDiff() {
	d := s.subtract()
	switch {
	case d.nothing:
		s.at.Reply.Set(0)
	case d.first.Encoding() != value.HashTable: // in Redis's order, if it has one
		s.begin(d.enc, 0)
		d.first.Filter(s.others, false, s.at.Steps, s.keep)
		s.answerBuilt()
	default:
		answerLater(s.at.Reply, func(yield func(set.Element) bool) { d.first.Filter(s.others, false, s.at.Steps, yield) })
	}
	s.endSubtract(&d)
}

// diffStore is SDIFFSTORE destination key [key …]. Replies: the number of members.
// Errors: ErrWrongType. Propagates as written.
func (s *commands) diffStore(c *command.Context) error {
	if err := s.gather(c, c.Args[2:]); err != nil {
		return err
	}
	d := s.subtract()
	switch {
	case d.nothing:
		storeNothing(c, c.Args[1])
	default:
		s.begin(d.enc, 0)
		d.first.Filter(s.others, false, nil, s.keep)
		s.endSubtract(&d)
		s.storeBuilt(c, c.Args[1], "sdiffstore")
		return nil
	}
	s.endSubtract(&d)
	return nil
}

// A difference is the input of SDIFF. The result is the members of first that s.others lack.
type difference struct {
	nothing bool // the result is surely empty
	first   set.Reader
	enc     value.Encoding // the initial encoding of the result
	union   bool           // s.others is one set, built as the union of all
	copied  bool           // first is a copy
}

// subtract prepares SDIFF. s.others become the sets to subtract, from the largest. Where Redis would remove the others'
// members from a copy of the first set, s.others is one set with all these members. The result then has the encoding of
// that copy.
func (s *commands) subtract() (d difference) {
	first, others := &s.sources[0], s.sources[1:]
	there, all := 1, first.n
	for i := range others {
		if others[i].v == first.v {
			d.nothing = true
		}
		if others[i].n > 0 {
			there++
			all += others[i].n
		}
	}
	if d.nothing = d.nothing || first.n == 0; d.nothing {
		return d
	}
	d.first, d.enc = first.r, value.IntSet
	if first.n*there/2 <= all {
		slices.SortStableFunc(others, func(a, b source) int { return b.n - a.n })
		s.against(slices.DeleteFunc(others, func(o source) bool { return o.n == 0 }))
		return d
	}
	d.union = true
	s.excluding.Begin(s.at.Store(), set.Limits{}, value.HashTable, 0)
	for i := range others {
		others[i].r.All(func(e set.Element) bool {
			s.at.Step()
			s.excluding.Add(e)
			return true
		})
	}
	s.others = append(s.others[:0], s.excluding.Reader())
	if isHashed(first.n, s.limits) {
		d.enc = value.HashTable
		return d
	}
	d.copied = true
	s.minuend.Begin(s.at.Store(), s.limits, value.IntSet, 0)
	first.r.All(func(e set.Element) bool {
		s.minuend.Append(e)
		return true
	})
	d.first, d.enc = s.minuend.Reader(), s.minuend.Encoding()
	return d
}

// endSubtract discards the sets that subtract built.
func (s *commands) endSubtract(d *difference) {
	if d.union {
		s.excluding.Discard()
	}
	if d.copied {
		s.minuend.Discard()
	}
	s.done()
}

// union is SUNION key [key …]. Replies: a set. Errors: ErrWrongType.
//
// Cost: each member of all sets is looked up in each larger set. If there are many sets, each member is inserted into a
// new set instead.
func (s *commands) union(c *command.Context) error {
	if err := s.gather(c, c.Args[1:]); err != nil {
		return err
	}
	return s.answer(c, s.members(), (*commands).replyUnion)
}

func (s *commands) replyUnion() {
	if !s.unionStreams(s.limits) {
		s.unite()
		s.answerBuilt()
		return
	}
	slices.SortStableFunc(s.sources, func(a, b source) int { return b.n - a.n })
	s.against(s.sources)
	answerLater(s.at.Reply, func(yield func(set.Element) bool) {
		for i := range s.others {
			s.others[i].Filter(s.others[:i], false, s.at.Steps, yield)
		}
	})
}

// insertion is the cost of an insertion into a hashtable, in lookups.
const insertion = 4

// unionStreams reports whether lookups cost SUNION less than building the union. That is so if the union would surely
// be a hashtable and there are few sets.
func (s *commands) unionStreams(l set.Limits) bool {
	largest := 0
	for i := range s.sources {
		largest = max(largest, s.sources[i].n)
	}
	return isHashed(largest, l) && s.lookupsPay()
}

// lookupsPay reports whether it costs less to look up each member in each larger set than to build the union.
func (s *commands) lookupsPay() bool {
	all, lookups := 0, 0
	for i := range s.sources {
		all += s.sources[i].n
		lookups += s.sources[i].n * i // at most: the larger ones come first
	}
	return lookups <= insertion*all
}

// isHashed reports whether every set of n members is a hashtable.
func isHashed(n int, l set.Limits) bool { return n > l.IntSet && n > l.Entries }

// unite builds the union of s.sources.
func (s *commands) unite() {
	largest := 0
	for i := range s.sources {
		if s.sources[i].n > s.sources[largest].n {
			largest = i
		}
	}
	add := func(e set.Element) bool {
		s.at.Step()
		s.building.Add(e)
		return true
	}
	if n := s.sources[largest].n; isHashed(n, s.limits) {
		s.begin(value.HashTable, n)
		s.sources[largest].r.All(s.keep)
		s.sources[largest] = source{}
	} else {
		s.begin(value.IntSet, 0)
	}
	for i := range s.sources {
		s.sources[i].r.All(add)
	}
}

// unionStore is SUNIONSTORE destination key [key …]. Replies: the number of members.
// Errors: ErrWrongType. Propagates as written.
func (s *commands) unionStore(c *command.Context) error {
	if err := s.gather(c, c.Args[2:]); err != nil {
		return err
	}
	s.unite()
	s.storeBuilt(c, c.Args[1], "sunionstore")
	s.done()
	return nil
}
