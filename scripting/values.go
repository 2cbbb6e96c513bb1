package scripting

import (
	"math/bits"
	"strconv"

	"spindle/internal/number"
	"spindle/protocol"
	"spindle/scripting/lua"
)

// These are the names of the fields that mark replies which are no plain Lua values.
var (
	nameOK       = lua.Intern("ok")
	nameErr      = lua.Intern("err")
	nameIgnore   = lua.Intern("ignore_error_stats_update")
	nameSource   = lua.Intern("source")
	nameLine     = lua.Intern("line")
	nameMap      = lua.Intern("map")
	nameSet      = lua.Intern("set")
	nameDouble   = lua.Intern("double")
	nameBig      = lua.Intern("big_number")
	nameVerbatim = lua.Intern("verbatim_string")
	nameString   = lua.Intern("string")
	nameFormat   = lua.Intern("format")
)

// values converts the reply of a command to Lua values. It implements protocol.Builder.
//
// Plain values are made at once. Heads of aggregates wait in items, in the order of the reply, because some come late
// (BeginAt). result makes the tables.
type values struct {
	state *lua.State
	reply *protocol.Reply // RESP3 decides what a null is
	limit int             // of the State's memory, in bytes; 0 means none
	items []item
	size  int // of the reply in RESP
}

// An item is a value (kind 0), or the head of an aggregate of n values.
type item struct {
	kind   byte
	failed bool // the value is an error
	n      int
	v      lua.Value
}

// keptItems is the size up to which the buffer items is kept for the next command.
const keptItems = 4096

func (b *values) add(v lua.Value) { b.items = append(b.items, item{v: v}) }

func (b *values) Status(line string) {
	b.size += len(line) + 3
	b.add(b.field(nameOK, b.state.String(line)))
}

func (b *values) Error(e *protocol.Error) {
	b.size += len(e.Code) + len(e.Text) + 4
	b.refuse(e)
}

func (b *values) Room(n int) []byte {
	b.size += n + number.IntLen(int64(n)) + 5
	if n > maxRoom {
		b.add(lua.False)
		return make([]byte, n)
	}
	v, room := b.state.MakeString(n)
	b.add(v)
	return room
}

// maxRoom is the longest string that the machine can make.
const maxRoom = 1<<31 - 64

func (b *values) Int(n int64) {
	b.size += number.IntLen(n) + 3
	b.add(lua.Number(float64(n)))
}

func (b *values) Uint(n uint64) {
	b.size += number.UintLen(n) + 3
	b.add(lua.Number(float64(n)))
}

// Null appends false in RESP2, where scripts cannot tell it from a boolean, and nil in RESP3.
func (b *values) Null(bool) {
	if b.reply.RESP3 {
		b.size += len("_\r\n")
		b.add(lua.Nil)
	} else {
		b.size += len("$-1\r\n")
		b.add(lua.False)
	}
}

func (b *values) Bool(v bool) {
	b.size += len("#t\r\n")
	b.add(lua.Bool(v))
}

func (b *values) Double(text string) {
	b.size += len(text) + 3
	f, _ := strconv.ParseFloat(text, 64)
	b.add(b.field(nameDouble, lua.Number(f)))
}

func (b *values) BigNumber(digits string) {
	b.size += len(digits) + 3
	b.add(b.field(nameBig, b.state.String(digits)))
}

func (b *values) Verbatim(format, text string) {
	b.size += len(format) + 1 + len(text) + number.IntLen(int64(len(text))) + 5
	t := b.state.NewTable(0, 0)
	put(t, nameString, b.state.String(text))
	put(t, nameFormat, b.state.String(format))
	b.add(b.field(nameVerbatim, t.Value()))
}

func (b *values) Begin(kind byte, n int) { b.BeginAt(len(b.items), kind, n) }
func (b *values) Mark() int              { return len(b.items) }

func (b *values) BeginAt(mark int, kind byte, n int) {
	b.size += number.IntLen(int64(n)) + 3
	b.items = append(b.items, item{})
	copy(b.items[mark+1:], b.items[mark:])
	b.items[mark] = item{kind: kind, n: n}
}

func (b *values) Rollback(mark int) {
	clear(b.items[mark:])
	b.items = b.items[:mark]
	b.size = 0 // a failing command takes back all that it has replied
}

// Size returns the length of the reply in RESP.
func (b *values) Size() int { return b.size }

// Full reports whether the script has used up its memory. It fails after the command.
func (b *values) Full() bool { return b.limit != 0 && b.state.Used() > b.limit }

// result returns the one value of the reply, and clears b for the next command. For an empty reply it returns nil.
func (b *values) result() lua.Value {
	v := lua.Nil
	if len(b.items) > 0 {
		v, _ = b.value(0)
	}
	b.size = 0
	clear(b.items)
	if b.items = b.items[:0]; cap(b.items) > keptItems {
		b.items = nil
	}
	return v
}

// value makes the value that begins at item i. It returns the index of the item after that value.
func (b *values) value(i int) (lua.Value, int) {
	if i >= len(b.items) {
		return lua.Nil, i
	}
	it := b.items[i]
	i++
	switch it.kind {
	case 0:
		return it.v, i
	case '|': // scripts get the value, but not its attributes
		for range it.n {
			_, i = b.value(i)
		}
		return b.value(i)
	case '%':
		t := b.state.NewTable(0, 0)
		for range it.n / 2 {
			var key, v lua.Value
			key, i = b.value(i)
			v, i = b.value(i)
			put(t, key, v)
		}
		return b.field(nameMap, t.Value()), i
	case '~':
		t := b.state.NewTable(0, 0)
		for range it.n {
			var key lua.Value
			key, i = b.value(i)
			put(t, key, lua.True)
		}
		return b.field(nameSet, t.Value()), i
	}
	t, whole := b.state.NewTable(grown(it.n), 0), true
	for j := range it.n {
		var v lua.Value
		v, i = b.value(i)
		if whole && v.IsNil() { // the end that # finds depends on how the table has grown
			whole = false
			t = b.regrown(t, j)
		}
		t.SetInt(j+1, v)
	}
	return t.Value(), i
}

// Tables of replies have the size that they would have if each value were added to an empty table. The order of pairs
// depends on that size. So does the result of # for a table with holes.

// grown returns the array size of a table to which n values were added.
func grown(n int) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(n-1))
}

// regrown returns a table to which the first n values of t were added one by one.
func (b *values) regrown(t *lua.Table, n int) *lua.Table {
	again := b.state.NewTable(0, 0)
	for j := range n {
		again.SetInt(j+1, t.GetInt(j+1))
	}
	return again
}

// field returns a table with one field.
func (b *values) field(name, v lua.Value) lua.Value { return fieldTable(b.state, name, v) }

func fieldTable(s *lua.State, name, v lua.Value) lua.Value {
	t := s.NewTable(0, 1)
	put(t, name, v)
	return t.Value()
}

// put stores a field of a reply. It ignores a key that no table can have.
func put(t *lua.Table, key, v lua.Value) { _ = t.Set(key, v) }

// errorText returns the text of an error for scripts: code and text.
func errorText(err error) string {
	e, ok := err.(*protocol.Error)
	switch {
	case !ok:
		return "ERR " + err.Error()
	case e.Text == "":
		return "ERR " + e.Code
	}
	return e.Code + " " + e.Text
}

// refuse adds an error of the command or the core. The error was already counted there.
func (b *values) refuse(err error) {
	t := b.state.NewTable(0, 0)
	put(t, nameErr, b.state.String(errorText(err)))
	put(t, nameIgnore, lua.True)
	b.items = append(b.items, item{v: t.Value(), failed: true})
}

// failed reports whether the reply is an error.
func (b *values) failed() bool { return len(b.items) == 1 && b.items[0].failed }
