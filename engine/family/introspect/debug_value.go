package introspect

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
	"spindle/internal/number"
	"spindle/protocol"
)

// object is DEBUG OBJECT key. It also finds keys past their deadline. The address is always 0x1, because values move.
func object(f *family, c *command.Context, args [][]byte) error {
	v := c.DB.Stored(args[0])
	if !v.Exists() {
		return protocol.ErrNoSuchKey
	}
	length := func(_ *command.Reading, v value.Value) int { return savedLength(v) }
	if f.SerializedLength != nil {
		length = f.SerializedLength()
	}
	idle := c.Space.IdleMs(v) / 1000
	text := " lru:" + strconv.FormatUint(uint64(v.Clock()), 10) +
		" lru_seconds_idle:" + strconv.FormatInt(int64(idle), 10)
	answer := func(r *command.Reading) error {
		r.Reply.Simple("Value at:0x1 refcount:1 encoding:" + v.Encoding().String() +
			" serializedlength:" + strconv.Itoa(length(r, v)) + text + pieces(v))
		return nil
	}
	if c.IsLong(c.Space.Store().Weight(v)) {
		return c.ReadBeside(answer)
	}
	return answer(c.Inline())
}

// pieces returns the additional text of DEBUG OBJECT for a quicklist. Each leaf counts as a node.
func pieces(v value.Value) string {
	if v.Encoding() != value.Quicklist {
		return ""
	}
	size := 0
	list.Leaves(v, func(p list.Piece) bool {
		size += p.Size
		return true
	})
	nodes, kept := list.LeafCount(v), list.LimitsOf(v)
	return fmt.Sprintf(" ql_nodes:%d ql_avg_node:%.2f ql_listpack_max:%d ql_compressed:%d ql_uncompressed_size:%d",
		nodes, float64(list.Len(v))/float64(nodes), kept.Fill, min(kept.Depth, 1), size)
}

// savedLength returns the size of a string in an uncompressed RDB file, which stores small integers as numbers. For
// other types it returns 0.
func savedLength(v value.Value) int {
	if v.Type() != value.String {
		return 0
	}
	n := v.Len()
	if n <= 11 {
		switch i, isNumber := number.ParseInt(v.AppendTo(nil)); {
		case !isNumber || i < math.MinInt32 || i > math.MaxInt32:
		case i >= math.MinInt8 && i <= math.MaxInt8:
			return 2
		case i >= math.MinInt16 && i <= math.MaxInt16:
			return 3
		default:
			return 5
		}
	}
	switch {
	case n < 1<<6:
		return n + 1
	case n < 1<<14:
		return n + 2
	}
	return n + 5
}

// textLengths is DEBUG SDSLEN key: the lengths of key and value, and the additional bytes allocated for each. The key
// may be past its deadline.
func textLengths(_ *family, c *command.Context, args [][]byte) error {
	v := c.DB.Stored(args[0])
	if !v.Exists() {
		return protocol.ErrNoSuchKey
	}
	if _, isInt := v.Int(); v.Type() != value.String || isInt {
		return errNotText
	}
	c.Reply.Simple("key_sds_len:" + strconv.Itoa(len(v.Key())) + ", key_sds_avail:0, key_zmalloc: " +
		strconv.Itoa(len(v.Key())) +
		", val_sds_len:" + strconv.Itoa(v.Len()) + ", val_sds_avail:0, val_zmalloc: " +
		strconv.Itoa(c.Space.MemoryUsage(v, 0)))
	return nil
}

func listpack(_ *family, c *command.Context, args [][]byte) error {
	v := c.DB.Peek(args[0])
	switch {
	case !v.Exists():
		return protocol.ErrNoSuchKey
	case v.Encoding() != value.Listpack && v.Encoding() != value.ListpackEx:
		return errNotListpack
	}
	c.Reply.Simple("Listpack structure printed on stdout")
	return nil
}

func quicklist(_ *family, c *command.Context, args [][]byte) error {
	v := c.DB.Peek(args[0])
	switch {
	case !v.Exists():
		return protocol.ErrNoSuchKey
	case v.Encoding() != value.Quicklist:
		return errNotQuicklist
	}
	c.Reply.Simple("Quicklist structure printed on stdout")
	return nil
}

// packedThreshold sets the size in bytes above which a list element gets its own leaf. With 0, list-max-listpack-size
// decides.
func packedThreshold(_ *family, c *command.Context, args [][]byte) error {
	digits, unit := strings.ToLower(string(args[0])), int64(1)
	for _, u := range []struct {
		name string
		n    int64
	}{{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"b", 1}} {
		if strings.HasSuffix(digits, u.name) {
			digits, unit = strings.TrimSuffix(digits, u.name), u.n
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n*unit > 4<<30 {
		return errThreshold
	}
	c.Settings.Lists.Plain = int(n * unit)
	c.Reply.OK()
	return nil
}
