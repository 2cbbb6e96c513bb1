package diagnose

import (
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// BIGKEYS GET shows bigKeysShown keys of each type by default, and bigKeysMost at most.
const (
	bigKeysShown = 10
	bigKeysMost  = 1000
)

// bigTypes are the types in the order in which BIGKEYS replies them.
var bigTypes = [...]value.Type{value.String, value.List, value.Set, value.ZSet, value.Hash, value.Stream, value.Module}

// bigKeysGet is BIGKEYS GET [COUNT n].
// Replies: a map from each type to its largest keys above the bound, the largest first. Each key is a map: key, db,
// bytes, elements.
func (f *family) bigKeysGet(c *command.Context) error {
	n, err := countOf(c, bigKeysShown, bigKeysMost)
	if err != nil {
		return err
	}
	var byType [8][]keyspace.BigKey
	for _, k := range c.Space.BigKeys(n) {
		byType[k.Type&7] = append(byType[k.Type&7], k)
	}
	r := c.Reply
	r.Map(len(bigTypes))
	for _, t := range bigTypes {
		r.BulkString(t.String())
		r.Array(len(byType[t]))
		for _, k := range byType[t] {
			r.Map(4)
			r.BulkString("key")
			r.BulkString(k.Key)
			r.BulkString("db")
			r.Int(int64(k.DB))
			r.BulkString("bytes")
			r.Int(k.Bytes)
			r.BulkString("elements")
			r.Int(k.Elements)
		}
	}
	return nil
}

func bigKeysHelp(c *command.Context) error {
	command.Help(c,
		"GET [COUNT <count>]",
		"    The <count> largest keys of each type (default: 10, at most 1000), in all",
		"    databases: strings and modules' values of 64 KB and more, by bytes, other",
		"    types' of 1,000 elements and more, by elements. No key is scanned for it.",
	)
	return nil
}
