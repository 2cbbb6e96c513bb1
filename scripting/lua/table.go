package lua

import (
	"math"
	"math/bits"
	"unsafe"
)

// A Table has an array part for the keys 1..n and a hash part for all others.
//
//	array   [v1 v2 … vn]
//	nodes   [key value next] × 2^k    a chained scatter table: collisions go to free nodes, next links them
//
// lua.T1. A key is in its main position. Otherwise the node there is in its own main position and leads to the key.
// lua.T2. Sizes follow Lua 5.1's rules step by step, because # and next show them.
// lua.T3. A node's key stays when its value becomes nil, so a walk may clear fields.
// lua.T4. absent has bit e set only if the table has no field named for event e. Every raw set clears absent.
type Table struct {
	array    []Value
	nodes    []node
	meta     *Table
	state    *State
	lastFree int32 // every free node is below it
	id       uint32
	mark     uint32
	absent   uint8
	readonly bool
	proxy    bool // a metatable that newproxy made
}

type node struct {
	key, value Value
	next       int32 // 1 + index of the next node of the chain; 0 ends it
}

const (
	maxArrayBits = 26
	maxNodeBits  = 26
	tableBytes   = int(unsafe.Sizeof(Table{}))
	nodeBytes    = int(unsafe.Sizeof(node{}))
	valueBytes   = int(unsafe.Sizeof(Value{}))
)

var nilSlot = Value{n: bitsNil} // the target of lookups of absent keys; never written

func newTable(s *State, arraySize, hashSize int) *Table {
	s.charge(tableBytes)
	s.ids++
	t := &Table{state: s, id: s.ids}
	if arraySize > 0 {
		t.setArray(arraySize)
	}
	if hashSize > 0 {
		t.setNodes(hashSize)
	}
	return t
}

// Renew makes t equal to a new table NewTable(n, 0). Call it only if nothing else refers to t.
// Errors: it returns false if scripts have changed the form of t, or if t is not small. Then t is unchanged.
func (t *Table) Renew(n int) bool {
	const most = 64
	if len(t.nodes) > 0 || t.meta != nil || t.readonly || cap(t.array) > most || n > most {
		return false
	}
	t.state.charge(-len(t.array) * valueBytes)
	fillNil(t.array)
	t.array = t.array[:0]
	t.setArray(n)
	t.state.ids++
	t.id = t.state.ids
	t.absent = 0
	return true
}

// Value returns t as a Value.
func (t *Table) Value() Value { return tableValue(t) }

// SetReadonly sets whether every set on t fails.
func (t *Table) SetReadonly(on bool) { t.readonly = on }

// Readonly reports whether sets on t fail.
func (t *Table) Readonly() bool { return t.readonly }

// Metatable returns t's metatable or nil.
func (t *Table) Metatable() *Table { return t.meta }

// SetMetatable sets t's metatable; nil removes it.
func (t *Table) SetMetatable(meta *Table) { t.meta = meta }

// Get returns t[key] without metamethods.
func (t *Table) Get(key Value) Value { return *t.find(key) }

// GetInt returns t[i] without metamethods.
func (t *Table) GetInt(i int) Value { return *t.findInt(i) }

// Set stores t[key] without metamethods. It ignores the readonly flag.
// Errors: key is nil or NaN.
func (t *Table) Set(key, value Value) error {
	if key.IsNil() {
		return errNilIndex
	}
	if key.IsNumber() && key.Float() != key.Float() {
		return errNaNIndex
	}
	t.put(key, value)
	return nil
}

// SetInt stores t[i] without metamethods.
func (t *Table) SetInt(i int, value Value) { store(t.slotInt(i), value) }

// SetName stores t[name] without metamethods.
func (t *Table) SetName(name string, value Value) { t.put(t.state.String(name), value) }

// store writes v to a slot. A number clears the slot's pointer, so that it keeps nothing alive.
func store(slot *Value, v Value) {
	if v.n < firstTag {
		slot.n = v.n
		if slot.p != nil {
			slot.p = nil
		}
		return
	}
	*slot = v
}

// put stores a key that is neither nil nor NaN.
func (t *Table) put(key, value Value) {
	t.absent = 0
	store(t.slot(key), value)
}

// slot returns the place of t[key], and makes room for a new key. The pointer is valid until the next insertion.
func (t *Table) slot(key Value) *Value {
	if p := t.find(key); p != &nilSlot {
		return p
	}
	return t.insert(key)
}

func (t *Table) slotInt(i int) *Value {
	if uint(i-1) < uint(len(t.array)) {
		return &t.array[i-1]
	}
	if p := t.findInt(i); p != &nilSlot {
		return p
	}
	return t.insert(Number(float64(i)))
}

// find returns the place of t[key], or &nilSlot.
func (t *Table) find(key Value) *Value {
	switch {
	case key.n < firstTag:
		f := key.Float()
		if i := int(int32(f)); float64(i) == f {
			return t.findInt(i)
		}
	case key.n>>48 == tagString:
		return t.findString(key)
	case key.n == bitsNil:
		return &nilSlot
	}
	if len(t.nodes) == 0 {
		return &nilSlot
	}
	for i := t.mainPosition(key); ; {
		nd := &t.nodes[i]
		if rawEqual(nd.key, key) {
			return &nd.value
		}
		if nd.next == 0 {
			return &nilSlot
		}
		i = int(nd.next - 1)
	}
}

func (t *Table) findInt(i int) *Value {
	if uint(i-1) < uint(len(t.array)) {
		return &t.array[i-1]
	}
	if len(t.nodes) == 0 {
		return &nilSlot
	}
	f := float64(i)
	for j := t.numberPosition(f); ; {
		nd := &t.nodes[j]
		if nd.key.n < firstTag && nd.key.Float() == f {
			return &nd.value
		}
		if nd.next == 0 {
			return &nilSlot
		}
		j = int(nd.next - 1)
	}
}

func (t *Table) findString(key Value) *Value {
	if len(t.nodes) == 0 {
		return &nilSlot
	}
	hash := (*stringHeader)(key.p).hash
	if hash == 0 {
		hash = t.state.hash(key)
	}
	for i := int(hash) & (len(t.nodes) - 1); ; {
		nd := &t.nodes[i]
		if nd.key.n == key.n && (nd.key.p == key.p || (*stringHeader)(nd.key.p).hash == hash &&
			t.state.sameText(nd.key, key)) {
			return &nd.value
		}
		if nd.next == 0 {
			return &nilSlot
		}
		i = int(nd.next - 1)
	}
}

func (t *Table) numberPosition(f float64) int {
	if f == 0 {
		return 0 // also for -0
	}
	b := math.Float64bits(f)
	return t.modulo(uint32(b) + uint32(b>>32))
}

func (t *Table) modulo(h uint32) int { return int(h % uint32((len(t.nodes)-1)|1)) }

// mainPosition returns the preferred node of key.
func (t *Table) mainPosition(key Value) int {
	switch key.n >> 48 {
	case tagSimple:
		return int(key.n-bitsFalse) & (len(t.nodes) - 1)
	case tagLight:
		return t.modulo(uint32(key.n))
	case tagString:
		return int(stringHash(key.p, key.n)) & (len(t.nodes) - 1)
	case tagTable:
		return t.modulo(key.Table().id)
	case tagClosure:
		return t.modulo(key.closure().id)
	case tagFunction:
		return t.modulo(key.function().id)
	case tagHeavy:
		if key.n == bitsThread {
			return t.modulo(key.thread().id)
		}
		return t.modulo((*Userdata)(key.p).id)
	}
	return t.numberPosition(key.Float())
}

// insert makes room for a new key (lua.T1).
func (t *Table) insert(key Value) *Value {
	if len(t.nodes) == 0 {
		t.rehash(key)
		return t.slot(key)
	}
	at := t.mainPosition(key)
	nd := &t.nodes[at]
	if nd.value.n != bitsNil {
		free := t.freeNode()
		if free < 0 {
			t.rehash(key)
			return t.slot(key)
		}
		other := t.mainPosition(nd.key)
		if other != at { // the node there is not in its main position: it moves
			for int(t.nodes[other].next)-1 != at {
				other = int(t.nodes[other].next) - 1
			}
			t.nodes[other].next = int32(free + 1)
			t.nodes[free] = *nd
			nd.next = 0
			nd.value = Nil
		} else {
			t.nodes[free].next = nd.next
			nd.next = int32(free + 1)
			nd = &t.nodes[free]
		}
	}
	nd.key = key
	if key.n < firstTag {
		nd.key.p = nil
	}
	return &nd.value
}

func (t *Table) freeNode() int {
	for t.lastFree > 0 {
		t.lastFree--
		if t.nodes[t.lastFree].key.n == bitsNil {
			return int(t.lastFree)
		}
	}
	return -1
}

func (t *Table) setArray(n int) {
	if n > 1<<maxArrayBits {
		t.state.raiseMemory()
	}
	t.state.charge((n - len(t.array)) * valueBytes)
	if n <= cap(t.array) {
		old := len(t.array)
		t.array = t.array[:n]
		fillNil(t.array[old:])
		return
	}
	array := t.state.spares.array(n)
	fillNil(array[copy(array, t.array):])
	t.state.spares.keepArray(t.array)
	t.array = array
}

// spares holds small arrays that tables have outgrown, one of each size, for the next table that grows. Most tables of
// libraries have a few fields, and would otherwise leave an array of each size to the collector.
type spares struct {
	arrays [spareSizes][]Value
	nodes  [spareSizes][]node // with all nodes free
}

const spareSizes = 5 // 1, 2, 4, 8 and 16

// spareSize returns the index of size n. ok is false if arrays of this size are not kept.
func spareSize(n int) (lg int, ok bool) {
	if n == 0 || n&(n-1) != 0 || n > 1<<(spareSizes-1) {
		return 0, false
	}
	return bits.Len(uint(n)) - 1, true
}

// array returns a slice of n values with any content.
func (s *spares) array(n int) []Value {
	if lg, ok := spareSize(n); ok && s.arrays[lg] != nil {
		array := s.arrays[lg]
		s.arrays[lg] = nil
		return array
	}
	return make([]Value, n)
}

func (s *spares) keepArray(array []Value) {
	if lg, ok := spareSize(cap(array)); ok && s.arrays[lg] == nil {
		array = array[:cap(array)]
		fillNil(array)
		s.arrays[lg] = array
	}
}

// free returns a slice of size free nodes.
func (s *spares) free(size int) []node {
	if lg, ok := spareSize(size); ok && s.nodes[lg] != nil {
		nodes := s.nodes[lg]
		s.nodes[lg] = nil
		return nodes
	}
	nodes := make([]node, size)
	freeNodes(nodes)
	return nodes
}

func (s *spares) keepNodes(nodes []node) {
	if lg, ok := spareSize(len(nodes)); ok && s.nodes[lg] == nil {
		freeNodes(nodes)
		s.nodes[lg] = nodes
	}
}

func freeNodes(nodes []node) {
	for i := range nodes {
		nodes[i] = node{key: Nil, value: Nil}
	}
}

func fillNil(values []Value) {
	for i := range values {
		values[i] = Nil
	}
}

func (t *Table) setNodes(n int) {
	t.lastFree = 0
	if n == 0 {
		t.nodes = nil
		return
	}
	size := 1 << ceilLog2(n)
	if size > 1<<maxNodeBits {
		t.state.runtimeError("table overflow")
	}
	t.state.charge(size * nodeBytes)
	t.nodes = t.state.spares.free(size)
	t.lastFree = int32(size)
}

func ceilLog2(n int) int { return bits.Len(uint(n - 1)) }

func (t *Table) resize(arraySize, hashSize int) {
	oldNodes, oldArray := t.nodes, t.array
	if arraySize > len(t.array) {
		t.setArray(arraySize)
	}
	t.setNodes(hashSize)
	if arraySize < len(oldArray) {
		t.array = oldArray[:arraySize:arraySize]
		for i := arraySize; i < len(oldArray); i++ {
			if oldArray[i].n != bitsNil {
				*t.slotInt(i + 1) = oldArray[i]
			}
		}
		t.array = append(make([]Value, 0, arraySize), t.array...)
		t.state.charge((arraySize - len(oldArray)) * valueBytes)
	}
	for i := len(oldNodes) - 1; i >= 0; i-- {
		if old := &oldNodes[i]; old.value.n != bitsNil {
			*t.slot(old.key) = old.value
		}
	}
	t.state.charge(-len(oldNodes) * nodeBytes)
	t.state.spares.keepNodes(oldNodes)
}

// resizeArray sets the size of the array part, for a constructor with many items.
func (t *Table) resizeArray(n int) { t.resize(n, len(t.nodes)) }

// rehash sets the sizes of both parts for the present keys and key (lua.T2).
func (t *Table) rehash(key Value) {
	var slices [maxArrayBits + 1]int // slices[i]: number of keys in (2^(i-1), 2^i]
	ints := 0
	for i, lg, limit := 1, 0, 1; lg <= maxArrayBits; lg, limit = lg+1, limit*2 {
		end := min(limit, len(t.array))
		if i > end {
			break
		}
		for ; i <= end; i++ {
			if t.array[i-1].n != bitsNil {
				slices[lg]++
				ints++
			}
		}
	}
	total := ints
	count := func(k Value) {
		if k.n < firstTag {
			if i := int(int32(k.Float())); float64(i) == k.Float() && i > 0 && i <= 1<<maxArrayBits {
				slices[ceilLog2(i)]++
				ints++
			}
		}
	}
	for i := range t.nodes {
		if t.nodes[i].value.n != bitsNil {
			count(t.nodes[i].key)
			total++
		}
	}
	count(key)
	total++
	t.state.budget -= (len(t.array) + len(t.nodes)) >> 3
	size, inArray := 0, 0
	for i, power, seen := 0, 1, 0; power/2 < ints; i, power = i+1, power*2 {
		if slices[i] > 0 {
			seen += slices[i]
			if seen > power/2 {
				size, inArray = power, seen
			}
		}
		if seen == ints {
			break
		}
	}
	t.resize(size, total-inArray)
}

// Len returns a border n of t: n is 0 or t[n] is not nil, and t[n+1] is nil. For a table with holes it is the same
// border as in Lua 5.1 (lua.T2).
func (t *Table) Len() int {
	j := len(t.array)
	if j > 0 && t.array[j-1].n == bitsNil {
		i := 0
		for j-i > 1 {
			m := (i + j) / 2
			if t.array[m-1].n == bitsNil {
				j = m
			} else {
				i = m
			}
		}
		return i
	}
	if len(t.nodes) == 0 {
		return j
	}
	i := j
	j++
	for t.findInt(j).n != bitsNil {
		i = j
		j *= 2
		if j > math.MaxInt32 {
			for i = 1; t.findInt(i).n != bitsNil; i++ {
			}
			return i - 1
		}
	}
	for j-i > 1 {
		m := (i + j) / 2
		if t.findInt(m).n == bitsNil {
			j = m
		} else {
			i = m
		}
	}
	return i
}

// Next returns the first field at or after a cursor, and the cursor after it. A walk starts at 0 and ends when ok is
// false. It may change and clear fields, but not add any.
func (t *Table) Next(cursor int) (key, value Value, next int, ok bool) {
	i := cursor
	for ; i < len(t.array); i++ {
		if t.array[i].n != bitsNil {
			return Number(float64(i + 1)), t.array[i], i + 1, true
		}
	}
	for i -= len(t.array); i < len(t.nodes); i++ {
		if nd := &t.nodes[i]; nd.value.n != bitsNil {
			return nd.key, nd.value, i + len(t.array) + 1, true
		}
	}
	return Nil, Nil, i + len(t.array), false
}

// cursorAfter returns the cursor after key, an argument of next. ok is false if key is not in t.
func (t *Table) cursorAfter(key Value) (cursor int, ok bool) {
	if key.IsNil() {
		return 0, true
	}
	if key.n < firstTag {
		if f := key.Float(); f >= 1 && f <= float64(len(t.array)) && f == math.Trunc(f) {
			return int(f), true
		}
	}
	if len(t.nodes) == 0 {
		return 0, false
	}
	for i := t.mainPosition(key); ; {
		nd := &t.nodes[i]
		if rawEqual(nd.key, key) {
			return len(t.array) + i + 1, true
		}
		if nd.next == 0 {
			return 0, false
		}
		i = int(nd.next - 1)
	}
}

// field returns t[name]. name is an existing string value.
func (t *Table) field(name Value) Value { return *t.findString(name) }

// event returns t's metamethod for an event, or nil. t may be nil.
func (t *Table) event(e event) Value {
	if t == nil || t.absent&(1<<e) != 0 {
		return Nil
	}
	v := t.field(eventNames[e])
	if v.n == bitsNil && e <= lastCached {
		t.absent |= 1 << e
	}
	return v
}

type event uint8

// Table.absent remembers the events up to lastCached (lua.T4).
const (
	eventIndex event = iota
	eventNewIndex
	eventMode
	eventEq
	eventAdd
	eventSub
	eventMul
	eventDiv
	eventMod
	eventPow
	eventUnm
	eventLen
	eventLt
	eventLe
	eventConcat
	eventCall
	lastCached = eventEq
)

var eventNames = func() (names [eventCall + 1]Value) {
	for i, name := range [...]string{"__index", "__newindex", "__mode", "__eq", "__add", "__sub", "__mul",
		"__div", "__mod",
		"__pow", "__unm", "__len", "__lt", "__le", "__concat", "__call"} {
		names[i] = Intern(name)
	}
	return names
}()
