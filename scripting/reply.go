package scripting

import (
	"strings"

	"spindle/protocol"
	"spindle/scripting/lua"
)

// A replier converts Lua values to a reply.
type replier struct {
	reply *protocol.Reply
	bools bool // the script has set RESP3: true and false are booleans
}

// maxReplyStack is the number of values on Redis's C stack. Deeper tables end in an error inside the reply.
const maxReplyStack = 8000

// value appends v. top is the number of values on Redis's stack, v included.
func (r *replier) value(v lua.Value, top int) {
	if r.reply.Full() { // a few tables that contain each other twice make an endless reply
		return
	}
	if top+4 > maxReplyStack {
		r.reply.Error(errStackLimit)
		return
	}
	switch v.Type() {
	case lua.TypeString:
		r.reply.Bulk(v.Bytes())
	case lua.TypeBoolean:
		r.bool(v.Truth())
	case lua.TypeNumber:
		r.reply.Int(int64(v.Float()))
	case lua.TypeTable:
		r.table(v.Table(), top)
	default:
		r.reply.Null()
	}
}

func (r *replier) bool(b bool) {
	switch {
	case r.bools:
		r.reply.Bool(b)
	case b:
		r.reply.Int(1)
	default:
		r.reply.Null()
	}
}

// table replies a table by the field that names its type, or as an array up to its first nil.
func (r *replier) table(t *lua.Table, top int) {
	if v := t.Get(nameErr); v.IsString() {
		r.reply.Error(replyError(cString(v.Str())))
		return
	}
	if v := t.Get(nameOK); v.IsString() {
		r.reply.Simple(oneLine(cString(v.Str())))
		return
	}
	if v := t.Get(nameDouble); v.IsNumber() {
		r.reply.Double(v.Float())
		return
	}
	if v := t.Get(nameBig); v.IsString() {
		r.reply.BigNumber(oneLine(v.Str()))
		return
	}
	if v := t.Get(nameVerbatim).Table(); v != nil {
		format, text := v.Get(nameFormat), v.Get(nameString)
		if format.IsString() && text.IsString() {
			r.reply.Verbatim(cString(format.Str()), text.Str())
			return
		}
	}
	if v := t.Get(nameMap).Table(); v != nil {
		r.reply.Map(fields(v))
		for key, item, next, ok := v.Next(0); ok; key, item, next, ok = v.Next(next) {
			r.value(key, top+4)
			r.value(item, top+3)
		}
		return
	}
	if v := t.Get(nameSet).Table(); v != nil {
		r.reply.Set(fields(v))
		for key, _, next, ok := v.Next(0); ok; key, _, next, ok = v.Next(next) {
			r.value(key, top+3)
		}
		return
	}
	r.array(t, top)
}

func (r *replier) array(t *lua.Table, top int) {
	n := 0
	for !t.GetInt(n + 1).IsNil() {
		n++
	}
	r.reply.Array(n)
	for i := range n {
		r.value(t.GetInt(i+1), top+1)
	}
}

func fields(t *lua.Table) (n int) {
	for _, _, next, ok := t.Next(0); ok; _, _, next, ok = t.Next(next) {
		n++
	}
	return n
}

// oneLine replaces line ends by spaces.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}

// cString returns s up to its first zero byte, as Redis reads it.
func cString(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}
