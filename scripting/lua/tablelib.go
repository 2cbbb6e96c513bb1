package lua

import "strconv"

func (s *State) openTable() {
	t := newTable(s, 0, 16)
	for _, r := range []struct {
		name string
		run  GoFunction
	}{{"concat", tableConcat}, {"foreach", tableForeach}, {"foreachi", tableForeachi}, {"getn", tableGetn},
		{"insert", tableInsert}, {"maxn", tableMaxn}, {"remove", tableRemove}, {"setn", tableSetn}, {"sort", tableSort}} {
		s.Register(t, r.name, r.run)
	}
	s.Globals.SetName("table", t.Value())
}

func tableConcat(c *Call) Outcome {
	separator := c.OptString(2, emptyString).str()
	t := c.CheckTable(1)
	i := c.OptInt(3, 1)
	var last int
	if c.Arg(4).IsNil() {
		last = t.Len()
	} else {
		last = c.CheckInt(4)
	}
	out := c.state.scratch[:0]
	for ; i <= last; i++ {
		v := t.GetInt(i)
		switch {
		case v.IsString():
			out = append(out, v.str()...)
		case v.IsNumber():
			out = appendNumber(out, v.Float())
		default:
			c.Error("invalid value (" + v.Type().String() + ") at index " + strconv.Itoa(i) + " in table for 'concat'")
		}
		if i < last {
			out = append(out, separator...)
		}
		if len(out) > maxString {
			c.state.raiseMemory()
		}
		if i%moves == 0 {
			c.Spend(moves >> 2)
		}
	}
	c.state.scratch = out
	c.Spend(len(out) >> 4)
	return c.Return1(c.state.Bytes(out))
}

func tableGetn(c *Call) Outcome { return c.Return1(Number(float64(c.CheckTable(1).Len()))) }

func tableSetn(c *Call) Outcome {
	c.CheckTable(1)
	c.Error("'setn' is obsolete")
	return 0
}

func tableMaxn(c *Call) Outcome {
	t := c.CheckTable(1)
	most := 0.0
	for cursor := 0; ; {
		key, _, next, ok := t.Next(cursor)
		if !ok {
			break
		}
		if key.IsNumber() && key.Float() > most {
			most = key.Float()
		}
		cursor = next
	}
	c.Spend((len(t.array) + len(t.nodes)) >> 2)
	return c.Return1(Number(most))
}

func tableInsert(c *Call) Outcome {
	t := c.CheckTable(1)
	e := int(int32(t.Len() + 1))
	switch c.n {
	case 2:
		c.rawSetInt(t, e, c.Arg(2))
		return 0
	case 3:
		f := c.t.frame()
		f.pc = max(e, c.CheckInt(2))
		f.step = insertStep
		return insertStep(c)
	}
	c.Error("wrong number of arguments to 'insert'")
	return 0
}

// moves is the number of elements that table.insert and table.remove move between two checks of the budget.
const moves = 1000

// insertStep moves the elements below frame.pc up by one place. The position may be far below the first element.
func insertStep(c *Call) Outcome {
	f := c.t.frame()
	t, pos := c.Arg(1).Table(), c.CheckInt(2)
	i := f.pc
	last := max(pos, i-moves)
	c.Spend((i - last) >> 2)
	for ; i > last; i-- {
		c.rawSetInt(t, i, t.GetInt(i-1))
	}
	if f.pc = i; i > pos {
		return outcomeAgain
	}
	c.rawSetInt(t, pos, c.Arg(3))
	return 0
}

func tableRemove(c *Call) Outcome {
	t := c.CheckTable(1)
	e := t.Len()
	pos := c.OptInt(2, e)
	if pos < 1 || pos > e {
		return 0
	}
	c.drop()
	c.Push(t.GetInt(pos))
	c.Push(Number(float64(e)))
	f := c.t.frame()
	f.pc = pos
	f.step = removeStep
	return removeStep(c)
}

// removeStep moves the elements above frame.pc down by one place. The removed value and the last index are on the
// stack.
func removeStep(c *Call) Outcome {
	f := c.t.frame()
	t := c.Arg(1).Table()
	end := int(c.t.stack[c.t.top-1].Float())
	i := f.pc
	last := min(end, i+moves)
	c.Spend((last - i) >> 2)
	for ; i < last; i++ {
		c.rawSetInt(t, i, t.GetInt(i+1))
	}
	if f.pc = i; i < end {
		return outcomeAgain
	}
	c.rawSetInt(t, end, Nil)
	c.t.top--
	return 1
}

func tableForeachi(c *Call) Outcome {
	t := c.CheckTable(1)
	n := t.Len()
	c.CheckFunction(2)
	return c.foreachi(t, 1, n)
}

func (c *Call) foreachi(t *Table, i, n int) Outcome {
	if i > n {
		return 0
	}
	c.Keep([2]int{i, n})
	c.Push(c.Arg(2))
	c.Push(Number(float64(i)))
	c.Push(t.GetInt(i))
	return c.Invoke(2, 1, foreachiStep)
}

func foreachiStep(c *Call) Outcome {
	if !c.Results()[0].IsNil() {
		return 1
	}
	c.drop()
	at := c.Kept().([2]int)
	return c.foreachi(c.Arg(1).Table(), at[0]+1, at[1])
}

func tableForeach(c *Call) Outcome {
	t := c.CheckTable(1)
	c.CheckFunction(2)
	return c.foreach(t, Nil)
}

func (c *Call) foreach(t *Table, after Value) Outcome {
	cursor, ok := t.cursorAfter(after)
	if !ok {
		c.state.runtimeError("invalid key to 'next'")
	}
	key, v, passed, ok := t.Next(cursor)
	c.Spend((passed - cursor) >> 3)
	if !ok {
		return 0
	}
	c.Push(key) // kept below the call
	c.Push(c.Arg(2))
	c.Push(key)
	c.Push(v)
	return c.Invoke(2, 1, foreachStep)
}

func foreachStep(c *Call) Outcome {
	if !c.Results()[0].IsNil() {
		return 1
	}
	key := c.t.stack[c.t.frame().pc-1]
	c.drop()
	return c.foreach(c.Arg(1).Table(), key)
}

// A sorting is the state of one table.sort. It is Lua 5.1's quicksort, because scripts see the order of comparisons
// through the function that they pass. That function may stop at any point. So a list of ranges replaces recursion, and
// state says which comparison comes next.
type sorting struct {
	table  *Table
	less   Value // nil for <
	ranges [][2]int
	l, u   int
	i, j   int
	pivot  Value
	state  int
	a, b   Value // the values being compared
	left   Value // a[i] of the comparison with the pivot
}

const (
	sortRange  = iota // begin with l..u
	sortFirst         // a[u] < a[l]?
	sortMiddle        // a[i] < a[l]?
	sortLast          // a[u] < a[i]?
	sortUp            // a[i] < pivot?
	sortDown          // pivot < a[j]?
)

func tableSort(c *Call) Outcome {
	t := c.CheckTable(1)
	n := t.Len()
	less := c.Arg(2)
	if !less.IsNil() {
		c.CheckFunction(2)
	}
	c.drop()
	g := &sorting{table: t, less: less, l: 1, u: n}
	if less.IsNil() {
		return c.sort(g, false, false)
	}
	c.Keep(g)
	return c.sort(g, false, false)
}

func sortStep(c *Call) Outcome {
	result := c.Results()[0].Truth()
	c.drop()
	return c.sort(c.Kept().(*sorting), true, result)
}

// sort continues with the result of the last comparison, if there was one.
func (c *Call) sort(g *sorting, compared, result bool) Outcome {
	for {
		if !compared {
			if !c.nextComparison(g) {
				return 0
			}
			if c.state.budget < 0 {
				c.Keep(g)
				c.t.frame().step = sortPaused
				return outcomeAgain
			}
			var o Outcome
			if result, o = c.less(g); o != 0 {
				return o
			}
		}
		compared = false
		c.sorted(g, result)
	}
}

// sortPaused repeats the comparison at which the budget ran out.
func sortPaused(c *Call) Outcome {
	g := c.Kept().(*sorting)
	result, o := c.less(g)
	if o != 0 {
		return o
	}
	return c.sort(g, true, result)
}

// less compares g.a with g.b, or makes the machine call a function for that.
func (c *Call) less(g *sorting) (bool, Outcome) {
	c.state.budget -= 2
	a, b := g.a, g.b
	tm := g.less
	if tm.IsNil() {
		switch {
		case a.n < firstTag && b.n < firstTag:
			return a.Float() < b.Float(), 0
		case a.IsString() && b.IsString():
			c.Spend(min(a.textLen(), b.textLen()) >> 6)
			return a.str() < b.str(), 0
		}
		if a.Type() != b.Type() {
			c.state.orderError(a, b)
		}
		if tm = c.state.orderEvent(a, b, eventLt); tm.IsNil() {
			c.state.orderError(a, b)
		}
	}
	c.Keep(g)
	c.Push(tm)
	c.Push(a)
	c.Push(b)
	return false, c.Invoke(2, 1, sortStep)
}

// nextComparison sets g.a and g.b. It returns false at the end of the sort.
func (c *Call) nextComparison(g *sorting) bool {
	t := g.table
	switch g.state {
	case sortRange:
		for g.l >= g.u {
			n := len(g.ranges)
			if n == 0 {
				return false
			}
			g.l, g.u = g.ranges[n-1][0], g.ranges[n-1][1]
			g.ranges = g.ranges[:n-1]
		}
		g.state = sortFirst
		g.a, g.b = t.GetInt(g.u), t.GetInt(g.l)
	case sortMiddle:
		g.a, g.b = t.GetInt(g.i), t.GetInt(g.l)
	case sortLast:
		g.a = t.GetInt(g.u)
	case sortUp:
		g.i++
		g.a, g.b = t.GetInt(g.i), g.pivot
	case sortDown:
		g.j--
		g.a, g.b = g.pivot, t.GetInt(g.j)
	}
	return true
}

// sorted applies the result of the comparison in g.state.
func (c *Call) sorted(g *sorting, result bool) {
	t := g.table
	switch g.state {
	case sortFirst:
		if result {
			c.rawSetInt(t, g.l, g.a)
			c.rawSetInt(t, g.u, g.b)
		}
		if g.u-g.l == 1 {
			g.l = g.u
			g.state = sortRange
			return
		}
		g.i = (g.l + g.u) / 2
		g.state = sortMiddle
	case sortMiddle:
		if result {
			c.rawSetInt(t, g.i, g.b)
			c.rawSetInt(t, g.l, g.a)
			c.partition(g)
			return
		}
		g.b = g.a
		g.state = sortLast
	case sortLast:
		if result {
			c.rawSetInt(t, g.i, g.a)
			c.rawSetInt(t, g.u, g.b)
		}
		c.partition(g)
	case sortUp:
		if result {
			if g.i > g.u {
				c.Error("invalid order function for sorting")
			}
			return
		}
		g.left = g.a
		g.state = sortDown
	case sortDown:
		if result {
			if g.j < g.l {
				c.Error("invalid order function for sorting")
			}
			return
		}
		if g.j >= g.i {
			c.rawSetInt(t, g.i, g.b)
			c.rawSetInt(t, g.j, g.left)
			g.state = sortUp
			return
		}
		x, y := t.GetInt(g.u-1), t.GetInt(g.i)
		c.rawSetInt(t, g.u-1, y)
		c.rawSetInt(t, g.i, x)
		// The smaller half is sorted first, then the larger half.
		var l, u int
		if g.i-g.l < g.u-g.i {
			l, u = g.l, g.i-1
			g.l = g.i + 1
		} else {
			l, u = g.i+1, g.u
			g.u = g.i - 1
		}
		g.ranges = append(g.ranges, [2]int{g.l, g.u})
		g.l, g.u = l, u
		g.state = sortRange
	}
}

// partition begins to partition l..u around the middle element, which moves to u-1.
func (c *Call) partition(g *sorting) {
	if g.u-g.l == 2 {
		g.l = g.u
		g.state = sortRange
		return
	}
	t := g.table
	g.pivot = t.GetInt(g.i)
	x := t.GetInt(g.u - 1)
	c.rawSetInt(t, g.i, x)
	c.rawSetInt(t, g.u-1, g.pivot)
	g.i, g.j = g.l, g.u-1
	g.state = sortUp
}
