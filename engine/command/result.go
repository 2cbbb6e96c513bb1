package command

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// membersAtOnce is how many members PropagateZSet puts into one ZADD.
const membersAtOnce = 512

var wordZAdd = []byte("ZADD")

// PropagateZSet sends DEL of key, and the members of the sorted set that is there now. So a replica need not know the
// option that made it.
func (c *Context) PropagateZSet(key []byte) {
	c.Propagate(wordDel, key)
	v := c.DB.Peek(key)
	if c.Effects.Unheard || !v.Exists() {
		return
	}
	args := make([][]byte, 0, 2+2*membersAtOnce)
	args = append(args, wordZAdd, key)
	var room [32]byte
	zset.Each(v, 0, zset.Len(v), false, func(e listpack.Element, score float64) bool {
		member := e.Bytes()
		if e.IsInt {
			member = c.Effects.Number(e.Int)
		}
		args = append(args, c.Effects.Keep(number.AppendDouble(room[:0], score)), member)
		if len(args) == cap(args) {
			c.Propagate(args...)
			args = args[:2]
		}
		return true
	})
	if len(args) > 2 {
		c.Propagate(args...)
	}
}
