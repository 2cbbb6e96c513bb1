package aof

import (
	"bufio"
	"context"
	"io"
	"strconv"

	"spindle/bgsave"
	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/hash"
	"spindle/engine/data/value/list"
	"spindle/engine/data/value/set"
	"spindle/engine/data/value/stream"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// itemsPerCommand is how many elements one command of a base adds. A loader runs each command without a pause.
const itemsPerCommand = 64

// A basis writes a data set as commands, for a base without an RDB file.
type basis struct {
	w     *bufio.Writer
	num   []byte
	err   error
	words [][]byte
	// newest is the highest RDB version that payloads of RESTORE may have, where the value can be written in several.
	newest int
}

// writeCommands writes a view as commands. A value that plain commands cannot describe in full is written as RESTORE,
// which servers of the same kind can read.
func writeCommands(ctx context.Context, w io.Writer, v *keyspace.View, o bgsave.Options, stamps bool,
	unix int64) error {
	b := &basis{w: bufio.NewWriterSize(w, 256<<10), newest: o.Newest}
	if b.newest == 0 {
		b.newest = codec.NewestVersion
	}
	if stamps {
		_, b.err = b.w.Write(appendStamp(nil, unix))
	}
	for _, code := range o.Header.Functions {
		b.command("FUNCTION", "LOAD", code)
	}
	for _, db := range v.DBs() {
		b.command("SELECT", int64(db))
		v.Walk(db, 0, 1, func(v value.Value) bool {
			b.key(v)
			if ctx.Err() != nil && b.err == nil {
				b.err = context.Cause(ctx)
			}
			bgsave.Wait(ctx, o.Delay)
			return b.err == nil
		})
	}
	if b.err == nil {
		b.err = b.w.Flush()
	}
	return b.err
}

// An Encoder writes keys as commands, in the form of a base without an RDB file. A large collection takes many
// commands, and a long string is written chunk by chunk.
type Encoder struct{ b basis }

// NewEncoder returns an Encoder that writes to w. newest is the highest RDB version that payloads of RESTORE may have.
func NewEncoder(w *bufio.Writer, newest int) *Encoder {
	if newest == 0 {
		newest = codec.NewestVersion
	}
	return &Encoder{basis{w: w, newest: newest}}
}

// Select writes a SELECT.
func (e *Encoder) Select(db int) { e.b.command("SELECT", int64(db)) }

// Key writes a key that does not exist yet.
func (e *Encoder) Key(v value.Value) { e.b.key(v) }

// Err returns the first error of the writer.
func (e *Encoder) Err() error { return e.b.err }

// Flush writes all buffered bytes. Errors: those of the writer.
func (e *Encoder) Flush() error {
	if e.b.err == nil {
		e.b.err = e.b.w.Flush()
	}
	return e.b.err
}

// begin writes the head of a command of n words.
func (b *basis) begin(n int) {
	b.line('*', int64(n))
}

func (b *basis) line(sign byte, n int64) {
	b.num = append(b.num[:0], sign)
	b.num = append(strconv.AppendInt(b.num, n, 10), '\r', '\n')
	b.put(b.num)
}

func (b *basis) put(p []byte) {
	if b.err == nil {
		_, b.err = b.w.Write(p)
	}
}

// word writes one argument: bytes, a text or a number.
func (b *basis) word(a any) {
	var scratch [40]byte
	p := scratch[:0]
	switch a := a.(type) {
	case []byte:
		p = a
	case string:
		p = append(p, a...)
	case int64:
		p = strconv.AppendInt(p, a, 10)
	case uint64:
		p = strconv.AppendUint(p, a, 10)
	case float64:
		p = number.AppendDouble(p, a)
	case stream.ID:
		p = a.Append(p)
	}
	b.line('$', int64(len(p)))
	b.put(p)
	b.put(crlf)
}

var crlf = []byte("\r\n")

// command writes a whole command.
func (b *basis) command(words ...any) {
	b.begin(len(words))
	for _, w := range words {
		b.word(w)
	}
}

// element writes an element of a collection as an argument.
func (b *basis) element(e listpack.Element) {
	if e.IsInt {
		b.word(e.Int)
	} else {
		b.word(e.Bytes())
	}
}

// A grouper cuts elements into commands of itemsPerCommand.
type grouper struct {
	b           *basis
	name        string
	key         []byte
	each        int // words of an element
	left, count int
}

// next begins a command where one is due.
func (g *grouper) next() {
	if g.count == 0 {
		g.count = min(g.left, itemsPerCommand)
		g.b.begin(2 + g.count*g.each)
		g.b.word(g.name)
		g.b.word(g.key)
	}
	g.count--
	g.left--
}

// key writes one key.
func (b *basis) key(v value.Value) {
	key := v.Key()
	switch v.Type() {
	case value.String:
		b.begin(3)
		b.word("SET")
		b.word(key)
		b.text(v)
	case value.List:
		g := grouper{b: b, name: "RPUSH", key: key, each: 1, left: list.Len(v)}
		var c list.Cursor
		for c.Seek(v, 0, list.Tail); g.left > 0; {
			e, ok := c.Next()
			if !ok {
				break
			}
			g.next()
			b.element(e)
		}
	case value.Set:
		r := set.Read(v)
		g := grouper{b: b, name: "SADD", key: key, each: 1, left: r.Len()}
		r.All(func(e set.Element) bool {
			g.next()
			if e.IsInt {
				b.word(e.Int)
			} else {
				b.word(e.Bytes())
			}
			return b.err == nil
		})
	case value.ZSet:
		n := zset.Len(v)
		g := grouper{b: b, name: "ZADD", key: key, each: 2, left: n}
		zset.Each(v, 0, n, false, func(member listpack.Element, score float64) bool {
			g.next()
			b.word(score)
			b.element(member)
			return b.err == nil
		})
	case value.Hash:
		b.hash(key, v)
	case value.Stream:
		if s := stream.Of(v); claimable(s) && codec.Kind(v, b.newest) != rdb.KindStream4 {
			b.stream(key, s)
		} else {
			b.restore(key, v)
		}
	default:
		b.restore(key, v)
	}
	if at := v.Deadline(); at != 0 {
		b.command("PEXPIREAT", key, at)
	}
}

// text writes a string value.
func (b *basis) text(v value.Value) {
	if n, ok := v.Int(); ok {
		b.word(n)
		return
	}
	b.line('$', int64(v.Len()))
	for p := range v.Chunks {
		b.put(p)
	}
	b.put(crlf)
}

func (b *basis) hash(key []byte, v value.Value) {
	g := grouper{b: b, name: "HMSET", key: key, each: 2, left: hash.Len(v)}
	hash.All(v, func(field, val listpack.Element, _ int64) bool {
		g.next()
		b.element(field)
		b.element(val)
		return b.err == nil
	})
	hash.All(v, func(field, _ listpack.Element, deadline int64) bool {
		if deadline != 0 {
			b.begin(6)
			b.word("HPEXPIREAT")
			b.word(key)
			b.word(deadline)
			b.word("FIELDS")
			b.word("1")
			b.element(field)
		}
		return b.err == nil
	})
}

// restore writes a value as RESTORE with the payload of DUMP.
func (b *basis) restore(key []byte, v value.Value) {
	kind := codec.Kind(v, b.newest)
	w := rdb.Writer{Buf: []byte{byte(kind)}}
	codec.Write(&w, kind, v)
	payload := rdb.AppendFooter(w.Buf, 0, max(codec.OldestVersion, kind.Since()))
	b.command("RESTORE", key, "0", payload)
}

// claimable reports whether commands can describe the whole stream: XCLAIM needs the entry of each pending ID.
func claimable(s stream.Stream) bool {
	for g := range s.Groups {
		var cur stream.PendingCursor
		var p stream.Pending
		for g.From(&cur, stream.ID{}); cur.Next(&p); {
			if !s.Has(p.ID) {
				return false
			}
		}
	}
	return true
}

func (b *basis) stream(key []byte, s stream.Stream) {
	if s.Len() == 0 { // there is no command that makes an empty stream
		b.command("XADD", key, "MAXLEN", "0", "0-1", "x", "y")
	}
	var it stream.Iterator
	for s.All(&it); b.err == nil && it.Next(); {
		b.begin(3 + 2*it.Pairs)
		b.word("XADD")
		b.word(key)
		b.word(it.ID)
		for range it.Pairs {
			field, val := it.Pair()
			b.element(field)
			b.element(val)
		}
	}
	b.command("XSETID", key, s.LastID(), "ENTRIESADDED", s.Added(), "MAXDELETEDID", s.MaxDeleted())
	for g := range s.Groups {
		b.command("XGROUP", "CREATE", key, g.Name(), g.LastID(), "ENTRIESREAD", g.EntriesRead())
		for c := range g.All {
			b.command("XGROUP", "CREATECONSUMER", key, g.Name(), c.Name())
		}
		var cur stream.PendingCursor
		var p stream.Pending
		for g.From(&cur, stream.ID{}); b.err == nil && cur.Next(&p); {
			b.command("XCLAIM", key, g.Name(), p.Consumer(), "0", p.ID, "TIME", p.Time, "RETRYCOUNT", p.Count, "JUSTID", "FORCE")
		}
	}
}
