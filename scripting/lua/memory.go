package lua

// The memory account is an estimate. charge adds new objects, but does not know what Go's collector has freed. When the
// sum exceeds the gate, audit walks everything reachable from the State, which gives the true sum. The script fails
// only if the true sum exceeds the limit.
//
// lua.A1. An object with mark == State.epoch has been counted by the present walk.
// lua.A2. Strings with markStatic belong to a Proto or to the process and are not counted.

const markStatic = ^uint32(0)

func stringBytes(n int) int { return (headerBytes + n + 15) &^ 7 }

// charge counts n bytes before their allocation. A negative n subtracts. Only a running script fails because of it.
// Allocations by the host between runs are counted, and the script fails at its next object.
func (s *State) charge(n int) {
	s.used += n
	if s.used > s.gate {
		s.audit(n)
	}
}

// SetMemoryLimit makes scripts fail with "not enough memory" above this size of the State's objects. 0 means no limit.
func (s *State) SetMemoryLimit(bytes int) {
	s.limit = bytes
	s.gate = bytes
	if bytes == 0 {
		s.gate = int(^uint(0) >> 1)
	}
}

// Used returns the estimate of the memory in use. It includes the garbage since the last count.
func (s *State) Used() int { return s.used }

// Live counts the memory reachable from the State.
func (s *State) Live() int {
	s.used = s.walk(false)
	return s.used
}

// Collect is Live. It also clears the entries of weak tables whose key or value is otherwise unreachable.
func (s *State) Collect() { s.used = s.walk(true) }

func (s *State) audit(n int) {
	if s.limit == 0 {
		return
	}
	live := s.walk(false)
	s.budget -= live >> 5
	s.used = live + n
	if s.used > s.limit && s.running {
		s.used = live
		s.gate = max(s.limit, live)
		s.raiseMemory()
	}
	s.gate = max(s.limit, s.used+s.limit/8)
}

// CodeBytes returns the size of the code reachable from values, without the globals. It includes the chunk that made
// the functions only if one of the functions refers to the chunk.
func CodeBytes(values ...Value) (n int) {
	seen := map[any]bool{}
	var code func(p *Proto)
	code = func(p *Proto) {
		if seen[p] {
			return
		}
		seen[p] = true
		n += p.inner
		for _, inner := range p.protos {
			n -= inner.inner
			code(inner)
		}
	}
	reach := func(v Value) {
		if v.n == bitsTable && !seen[v.Table()] || v.n == bitsClosure && !seen[v.closure()] {
			values = append(values, v)
		}
	}
	values = append([]Value(nil), values...)
	for len(values) > 0 {
		v := values[len(values)-1]
		values = values[:len(values)-1]
		switch v.n {
		case bitsTable:
			t := v.Table()
			seen[t] = true
			if t.meta != nil {
				reach(t.meta.Value())
			}
			for key, item, next, ok := t.Next(0); ok; key, item, next, ok = t.Next(next) {
				reach(key)
				reach(item)
			}
		case bitsClosure:
			seen[v.closure()] = true
			code(v.closure().proto)
			for _, u := range v.closure().upvalues {
				reach(*u.v)
			}
		}
	}
	return n
}

// A walker counts reachable memory.
type walker struct {
	s     *State
	bytes int
	queue []Value
	ups   []*upvalue
	weak  []*Table
	clear bool
}

func (s *State) walk(clearWeak bool) int {
	s.epoch++
	if s.epoch == markStatic {
		s.epoch = 1
	}
	w := walker{s: s, clear: clearWeak}
	w.value(s.Globals.Value())
	if s.stringMeta != nil {
		w.value(s.stringMeta.Value())
	}
	for _, t := range s.typeMeta {
		if t != nil {
			w.value(t.Value())
		}
	}
	for t := s.cur; t != nil; t = t.parent {
		w.value(threadValue(t))
	}
	w.value(threadValue(s.main))
	w.value(s.errValue)
	w.drain()
	if clearWeak {
		for _, t := range w.weak {
			w.clearTable(t)
		}
	}
	return w.bytes
}

// value queues v if it has not been counted (lua.A1).
func (w *walker) value(v Value) {
	if v.n < uint64(tagString)<<48 {
		return
	}
	mark := markOf(v)
	if *mark == w.s.epoch || *mark == markStatic {
		return
	}
	*mark = w.s.epoch
	if v.IsString() {
		w.bytes += stringBytes(int(uint32(v.n)))
		return
	}
	w.queue = append(w.queue, v)
}

func markOf(v Value) *uint32 {
	switch v.n {
	case bitsTable:
		return &v.Table().mark
	case bitsClosure:
		return &v.closure().mark
	case bitsFunction:
		return &v.function().mark
	case bitsUserdata:
		return &(*Userdata)(v.p).mark
	case bitsThread:
		return &v.thread().mark
	}
	return &(*stringHeader)(v.p).mark
}

func (w *walker) drain() {
	for len(w.queue) > 0 {
		v := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		switch v.n {
		case bitsTable:
			w.table(v.Table())
		case bitsClosure:
			w.closure(v.closure())
		case bitsFunction:
			w.bytes += 80 + len(v.function().upvalues)*valueBytes
			for _, u := range v.function().upvalues {
				w.value(u)
			}
		case bitsUserdata:
			w.bytes += 64
			if meta := (*Userdata)(v.p).meta; meta != nil {
				w.value(meta.Value())
			}
		case bitsThread:
			w.thread(v.thread())
		}
	}
}

func (w *walker) table(t *Table) {
	w.bytes += tableBytes + len(t.array)*valueBytes + len(t.nodes)*nodeBytes
	weakKeys, weakValues := false, false
	if t.meta != nil {
		w.value(t.meta.Value())
		if mode := t.meta.event(eventMode); w.clear && mode.IsString() {
			for _, c := range mode.Bytes() {
				weakKeys, weakValues = weakKeys || c == 'k', weakValues || c == 'v'
			}
		}
	}
	if weakKeys || weakValues {
		w.weak = append(w.weak, t)
	}
	if !weakValues {
		for _, v := range t.array {
			w.value(v)
		}
	}
	for i := range t.nodes {
		nd := &t.nodes[i]
		if nd.value.n == bitsNil {
			continue
		}
		if !weakKeys {
			w.value(nd.key)
		}
		if !weakValues {
			w.value(nd.value)
		}
	}
}

// clearTable removes the entries of a weak table that are otherwise unreachable. Strings count as values, not as
// objects.
func (w *walker) clearTable(t *Table) {
	gone := func(v Value) bool { return v.n >= bitsTable && *markOf(v) != w.s.epoch }
	for i, v := range t.array {
		if gone(v) {
			t.array[i] = Nil
		}
	}
	for i := range t.nodes {
		if nd := &t.nodes[i]; nd.value.n != bitsNil && (gone(nd.key) || gone(nd.value)) {
			nd.value = Nil
		}
	}
}

func (w *walker) closure(c *Closure) {
	w.bytes += 64 + 8*len(c.upvalues)
	w.value(c.env.Value())
	for _, u := range c.upvalues {
		if u != nil && u.mark != w.s.epoch {
			u.mark = w.s.epoch
			w.bytes += 48
			w.value(*u.v)
		}
	}
}

// kept counts what a Go function has kept for its next step.
func (w *walker) kept(data any) {
	switch x := data.(type) {
	case *substitution:
		w.bytes += x.charged
	case *pieces:
		w.bytes += len(x.source)
	case *sorting:
		for _, v := range [...]Value{x.less, x.pivot, x.a, x.b, x.left} {
			w.value(v)
		}
	}
}

func (w *walker) thread(t *Thread) {
	w.bytes += 400 + len(t.stack)*valueBytes + cap(t.frames)*frameBytes
	if t.globals != nil {
		w.value(t.globals.Value())
	}
	top := t.top
	for i := range t.frames {
		f := &t.frames[i]
		if f.cl != nil {
			w.value(closureValue(f.cl))
			top = max(top, f.base+f.cl.proto.registers)
		} else {
			w.value(functionValue(f.function))
			w.kept(f.ctx)
		}
	}
	for _, v := range t.stack[:min(top, len(t.stack))] {
		w.value(v)
	}
}
