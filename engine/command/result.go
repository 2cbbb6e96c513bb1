package command

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// membersAtOnce is the number of members that PropagateZSet puts into one ZADD.
const membersAtOnce = 512

var wordZAdd = []byte("ZADD")

// PropagateZSet sends DEL of key to the sinks, and then ZADD with the members of the sorted set at key. So a replica
// need not know the option that made the sorted set.
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
