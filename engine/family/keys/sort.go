package keys

import (
	"math"
	"slices"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
	"spindle/engine/data/value/set"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
	"spindle/internal/slots"
	"spindle/protocol"
)

const sortingACL = command.ACLSet | command.ACLSortedSet | command.ACLList | command.ACLDangerous

// Sorting is SORT and SORT_RO. ACL puts them in the categories of the types that they read.
var Sorting = command.Family{Name: "generic", ACL: sortingACL, Rows: []command.Spec{
	{Name: "sort", Arity: -2, Flags: command.Write | command.DenyOOM,
		Keys: []command.KeySpec{sorted, patterns, destination}, GetKeys: sortKeys, Run: sort},
	{Name: "sort_ro", Arity: -2, Flags: command.ReadOnly, Keys: []command.KeySpec{sorted, patterns},
		GetKeys: sortReadKeys, Reads: command.ReadsAll("SSCAN, ZSCAN or LRANGE"), Run: sortRead},
}}

var (
	sorted   = command.KeySpec{Flags: access, Index: 1, LastKey: 0, Step: 1}
	patterns = command.KeySpec{Flags: access, Unknown: true,
		Notes: "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of " +
			"the key we sort"}
	destination = command.KeySpec{Flags: command.KeyOW | command.KeyUpdate, Unknown: true,
		Notes: "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the " +
			"argument array"}
)

// sort is SORT key [BY pattern] [LIMIT offset count] [GET pattern …] [ASC|DESC] [ALPHA] [STORE destination].
//
// Replies: an array of elements, or of the values that the GET patterns lead to, null where there is none. With STORE
// it replies the number of elements stored.
// Errors: ErrWrongType, ErrSyntax, ErrNotInteger, "One or more scores can't be converted into double".
// Propagates as written.
// Cost: one turn in proportion to the elements, which are read in place. With LIMIT only the window is fully sorted.
func sort(c *command.Context) error { return sortElements(c, true) }

// sortRead is SORT_RO: SORT without STORE.
func sortRead(c *command.Context) error { return sortElements(c, false) }

type sortOptions struct {
	by            *pattern // if nil, the elements themselves are compared
	unsorted      bool     // BY had a pattern without a star: the order stays
	offset, count int64    // count -1: all
	gets          []pattern
	desc, alpha   bool
	store         []byte // nil if the result is the reply
}

// parse reads the arguments after SORT's key. The keys that a pattern leads to are unknown before the call, so a
// pattern needs the right to read all keys.
func (o *sortOptions) parse(c *command.Context, mayStore bool) (err error) {
	args := c.Args[2:]
	o.count = -1
	for i := 0; i < len(args); i++ {
		left := len(args) - i - 1
		switch {
		case command.Is(args[i], "ASC"):
			o.desc = false
		case command.Is(args[i], "DESC"):
			o.desc = true
		case command.Is(args[i], "ALPHA"):
			o.alpha = true
		case command.Is(args[i], "LIMIT") && left >= 2:
			if o.offset, err = command.Int(args[i+1]); err != nil {
				return err
			}
			if o.count, err = command.Int(args[i+2]); err != nil {
				return err
			}
			i += 2
		case command.Is(args[i], "STORE") && left >= 1 && mayStore:
			i++
			o.store = c.Args[storeAt(c.Args)]
		case command.Is(args[i], "BY") && left >= 1:
			i++
			by := patternOf(args[i])
			o.by = &by
			o.unsorted = o.unsorted || !by.starred // once set it stays, even if another BY follows
			if by.starred && crossesSlots(c, args[i]) {
				return errSortByInCluster
			}
			if by.starred && !c.Core.ReadsAnyKey(c) {
				return errSortBy
			}
		case command.Is(args[i], "GET") && left >= 1:
			i++
			get := patternOf(args[i])
			if !get.self && crossesSlots(c, args[i]) {
				return errSortGetInCluster
			}
			if !c.Core.ReadsAnyKey(c) {
				return errSortGet
			}
			o.gets = append(o.gets, get)
		default:
			return protocol.ErrSyntax
		}
	}
	return nil
}

// crossesSlots reports whether, in cluster mode, the keys of a pattern may be in another slot than the sorted key.
func crossesSlots(c *command.Context, pattern []byte) bool {
	if !c.Space.BySlot() {
		return false
	}
	slot, one := slots.OfPattern(pattern)
	return !one || slot != slots.Of(c.Args[1])
}

// window returns the range [from, to) of n elements that LIMIT selects.
func (o *sortOptions) window(n int) (from, to int) {
	all := int64(n)
	start := min(max(o.offset, 0), all)
	if count := min(max(o.count, -1), all); count >= 0 {
		return int(start), int(min(start+count, all))
	}
	return int(start), n
}

func sortElements(c *command.Context, mayStore bool) error {
	var o sortOptions
	if err := o.parse(c, mayStore); err != nil {
		return err
	}
	v := c.DB.Lookup(c.Args[1])
	if !v.Exists() {
		c.Notify(command.EventKeyMiss, "keymiss", c.Args[1])
	}
	switch v.Type() {
	case value.None, value.List, value.Set, value.ZSet:
	default:
		return protocol.ErrWrongType
	}
	if o.unsorted && v.Type() == value.Set && (o.store != nil || c.Client.Is(client.InScript)) {
		o.unsorted, o.alpha, o.by = false, true, nil // sorted, so that all servers get the same result
	}
	if o.store == nil && c.IsLong(o.reads(v)) && !(o.follows() && c.Core.Notifies(command.EventKeyMiss)) {
		own := o.clone()
		present := c.DB.PresentAt()
		return c.ReadBeside(func(r *command.Reading) error { return own.run(&place{Reading: r, present: present}, v) })
	}
	return o.run(&place{Reading: c.Inline(), c: c}, v)
}

// clone copies the bytes of o's patterns.
func (o *sortOptions) clone() *sortOptions {
	own := *o
	if o.by != nil {
		by := o.by.clone()
		own.by = &by
	}
	own.gets = slices.Clone(o.gets)
	for i := range own.gets {
		own.gets[i] = own.gets[i].clone()
	}
	return &own
}

// follows reports whether a pattern leads to other keys.
func (o *sortOptions) follows() bool {
	return o.by != nil && o.by.starred || slices.ContainsFunc(o.gets, func(p pattern) bool { return p.starred })
}

// reads returns the number of elements and keys that the call reads.
func (o *sortOptions) reads(v value.Value) int {
	n := sortableLen(v)
	from, to := o.window(n)
	shown := max(to-from, 0) * max(len(o.gets), 1)
	switch {
	case !o.unsorted:
		return n + shown
	case v.Type() == value.Set: // a walk passes the elements before the window
		return from + shown
	}
	return shown
}

// run sorts v's elements, and replies or stores them.
func (o *sortOptions) run(at *place, v value.Value) error {
	from, to := o.window(sortableLen(v))
	out := sortOutput{at: at, gets: o.gets}
	if o.store != nil {
		out.store(at.c.Settings.Lists.Limits())
	} else {
		at.Reply.Array((to - from) * max(len(o.gets), 1))
	}
	if o.unsorted {
		passElements(v, from, to, o.desc, func(el listpack.Element) bool {
			var scratch [number.MaxIntLen]byte
			at.Step()
			out.element(el.Text(scratch[:]))
			return true
		})
	} else {
		order := ordering{at: at, alpha: o.alpha, by: o.by, desc: o.desc}
		if !order.sort(v, from, to, out.element) {
			return errNotDouble
		}
	}
	if o.store != nil {
		at.Reply.Int(int64(out.keep(o.store)))
	}
	return nil
}

// sortableLen returns the number of elements of a list, set or sorted set. It returns 0 for a missing key.
func sortableLen(v value.Value) int {
	switch v.Type() {
	case value.List:
		return list.Len(v)
	case value.Set:
		r := set.Read(v)
		return r.Len()
	case value.ZSet:
		return zset.Len(v)
	}
	return 0
}

// passElements passes the elements [from, to) of a list, set or sorted set to yield. Lists and sorted sets have their
// own order; with backwards, positions count from the end. A set has no order.
func passElements(v value.Value, from, to int, backwards bool, yield func(listpack.Element) bool) {
	n := to - from
	if n <= 0 {
		return
	}
	switch v.Type() {
	case value.List:
		var walk list.Cursor
		if backwards {
			walk.Seek(v, list.Len(v)-1-from, list.Head)
		} else {
			walk.Seek(v, from, list.Tail)
		}
		for el, ok := walk.Next(); ok && n > 0 && yield(el); n-- {
			el, ok = walk.Next()
		}
	case value.Set:
		r, at := set.Read(v), 0
		r.All(func(el listpack.Element) bool {
			at++
			return at <= from || yield(el) && at < to
		})
	case value.ZSet:
		if backwards {
			from = zset.Len(v) - 1 - from
		}
		zset.Each(v, from, n, backwards, func(member listpack.Element, _ float64) bool { return yield(member) })
	}
}

func sortKeys(into []command.KeyPosition, args [][]byte) ([]command.KeyPosition, error) {
	into = append(into, command.KeyPosition{Index: 1, Flags: access})
	if at := storeAt(args); at > 0 {
		into = append(into, command.KeyPosition{Index: at, Flags: destination.Flags})
	}
	return into, nil
}

func sortReadKeys(into []command.KeyPosition, _ [][]byte) ([]command.KeyPosition, error) {
	return append(into, command.KeyPosition{Index: 1, Flags: access}), nil
}

// storeAt returns the index of the destination key of a SORT. It is the key of the last STORE. 0 means that there is
// none.
func storeAt(args [][]byte) (at int) {
	for i := 2; i < len(args); i++ {
		switch {
		case command.Is(args[i], "LIMIT"):
			i += 2
		case command.Is(args[i], "GET"), command.Is(args[i], "BY"):
			i++
		case command.Is(args[i], "STORE") && i+1 < len(args):
			i++
			at = i
		}
	}
	return at
}

// leastNormal is the least double above 0 that C does not report as out of range.
const leastNormal = 0x1p-1022

// weight parses a number as SORT does: like strtod, up to a NUL. Leading blanks and an empty text are allowed.
func weight(text string) (f float64, ok bool) {
	if n, ok := number.ParseInt(bytesOf(text)); ok && n >= -exactInt && n <= exactInt {
		return float64(n), true
	}
	b := untilNUL(bytesOf(text))
	if len(b) == 0 {
		return 0, true
	}
	for len(b) > 0 && (b[0] == ' ' || b[0]-'\t' <= '\r'-'\t') {
		b = b[1:]
	}
	f, ok = number.ParseDouble(b)
	return f, ok && (f == 0 || math.Abs(f) >= leastNormal)
}
