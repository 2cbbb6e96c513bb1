package geo

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/protocol"
)

var wordZAdd = []byte("zadd")

// add is GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member …].
//
// Replies: the number of new members; with CH, of new and moved members.
// Errors: ErrSyntax, ErrNotFloat, "invalid longitude,latitude pair …", ErrWrongType. Propagates ZADD with the given
// options and the scores.
func (g *commands) add(c *command.Context) error {
	var flags zset.Flags
	changed := false
	points := c.Args[2:]
options:
	for ; len(points) > 0; points = points[1:] {
		switch word := points[0]; {
		case command.Is(word, "NX"):
			flags |= zset.OnlyNew
		case command.Is(word, "XX"):
			flags |= zset.OnlyOld
		case command.Is(word, "CH"):
			changed = true
		default:
			break options
		}
	}
	if len(points)%3 != 0 || len(points) == 0 || flags == zset.OnlyNew|zset.OnlyOld {
		return protocol.ErrSyntax
	}
	for i := 0; i < len(points); i += 3 { // check all of them before the first is added
		if _, err := parsePoint(points[i], points[i+1]); err != nil {
			return err
		}
	}
	key, l, n := c.Args[1], limits(c), len(points)/3
	e := c.DB.Edit(key)
	switch {
	case e != nil && e.Value().Type() != value.ZSet:
		return protocol.ErrWrongType
	case e != nil && n > l.Entries:
		zset.Convert(e)
	case e == nil && flags&zset.OnlyOld != 0:
		c.Reply.Int(0)
		return nil
	case e == nil:
		e = create(c, key, n, len(points[2]), l)
	}
	args := append(append(g.args[:0], wordZAdd), c.Args[1:len(c.Args)-len(points)]...)
	added, updated := 0, 0
	for i := 0; i < len(points); i += 3 {
		p, _ := parsePoint(points[i], points[i+1])
		score := cellOf(p, maxStep).score()
		switch out, _ := zset.Add(e, float64(score), points[i+2], flags, l); out {
		case zset.Added:
			added++
		case zset.Updated:
			updated++
		}
		args = append(args, c.Effects.Number(int64(score)), points[i+2])
	}
	if added+updated > 0 {
		c.Changed(added + updated)
		c.Propagate(args...)
		c.DB.Touched(key)
		c.Notify(command.EventZSet, "zadd", key)
	}
	g.args = command.Release(args)
	if changed {
		added += updated
	}
	c.Reply.Int(int64(added))
	return nil
}

// create makes an empty sorted set for n members at key, which does not exist. The first member has bytes bytes.
func create(c *command.Context, key []byte, n, bytes int, l zset.Limits) (e *value.Edit) {
	if n > l.Entries || bytes > l.Value {
		e = c.DB.CreateRoot(key, value.ZSet, value.SkipList, zset.NewBuilder(c.Space.Store(), n).Root())
	} else {
		e = c.DB.Create(key, value.ZSet, value.Listpack, listpack.EmptyLen)
		listpack.AppendEmpty(e.Packed()[:0])
	}
	c.Notify(command.EventNew, "new", key)
	return e
}
