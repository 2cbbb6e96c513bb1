package cluster

import (
	"cmp"
	"slices"
	"strings"

	"spindle/cluster/state"
	"spindle/engine/command"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A metric is one of SLOT-STATS's figures.
type metric uint8

const (
	keyCount metric = iota
	cpuMicros
	bytesIn
	bytesOut
	metrics
)

// metricNames are the names in the order of the reply.
var metricNames = [metrics]string{"key-count", "cpu-usec", "network-bytes-in", "network-bytes-out"}

// A slotFigures holds the figures of one slot.
type slotFigures struct {
	slot uint16
	of   [metrics]uint64
}

// slotStats runs SLOT-STATS SLOTSRANGE from to, and SLOT-STATS ORDERBY metric [LIMIT n] [ASC|DESC]. Replies: for each
// of the slots that this node's shard owns, the slot and a map of its figures. While cluster-slot-stats-enabled is no,
// the map has only key-count.
func (c *Cluster) slotStats(ctx *command.Context) error {
	switch args := ctx.Args[2:]; {
	case command.Is(args[0], "SLOTSRANGE") && len(args) == 3:
		first, err := parseSlot(args[1])
		if err != nil {
			return err
		}
		last, err := parseSlot(args[2])
		if err != nil {
			return err
		}
		if first > last {
			return errStatRange(first, last)
		}
		list, shown := c.figuresOf(first, last)
		showFigures(ctx.Reply, list, shown)
		return nil
	case command.Is(args[0], "ORDERBY"):
		return c.slotsInOrder(ctx, args[1], args[2:])
	}
	return command.ErrSubcommandSyntax(ctx.Args[0], ctx.Args[1])
}

// slotsInOrder runs SLOT-STATS ORDERBY. Slots with equal figures are sorted by slot number.
func (c *Cluster) slotsInOrder(ctx *command.Context, by []byte, options [][]byte) error {
	list, shown := c.figuresOf(0, slots.Count-1)
	m := metric(slices.IndexFunc(metricNames[:shown],
		func(name string) bool { return command.Is(by, strings.ToUpper(name)) }))
	if m >= metrics {
		return errMetric
	}
	limit, ordered, ascending := 0, false, false
	for len(options) > 0 {
		word := options[0]
		options = options[1:]
		switch {
		case command.Is(word, "LIMIT") && len(options) > 0:
			n, err := command.Int(options[0])
			if err != nil || n < 1 || n > slots.Count {
				return errLimit
			}
			if limit != 0 {
				return errFilters
			}
			limit, options = int(n), options[1:]
		case command.Is(word, "ASC"), command.Is(word, "DESC"):
			if ordered {
				return errFilters
			}
			ordered, ascending = true, command.Is(word, "ASC")
		default:
			return protocol.ErrSyntax
		}
	}
	slices.SortStableFunc(list, func(a, b slotFigures) int {
		if ascending {
			return cmp.Compare(a.of[m], b.of[m])
		}
		return cmp.Compare(b.of[m], a.of[m])
	})
	if limit > 0 {
		list = list[:min(limit, len(list))]
	}
	showFigures(ctx.Reply, list, shown)
	return nil
}

// figuresOf returns the figures of the slots from first to last that this node's shard owns. The first shown metrics
// are known.
func (c *Cluster) figuresOf(first, last int) (list []slotFigures, shown metric) {
	c.look(func(s *state.State) {
		me := s.Me()
		for slot := first; slot <= last; slot++ {
			if owner := s.Owner(slot); owner != nil && (owner == me || owner == me.Primary) {
				list = append(list, slotFigures{slot: uint16(slot)})
			}
		}
	})
	shown = keyCount + 1
	if _, on := c.parts.SlotStat(0); on {
		shown = metrics
	}
	for i := range list {
		f := &list[i]
		f.of[keyCount] = uint64(c.parts.Keys.Count(f.slot))
		stat, _ := c.parts.SlotStat(f.slot)
		f.of[cpuMicros], f.of[bytesIn], f.of[bytesOut] = uint64(stat.Nanos/1000), stat.In, stat.Out
	}
	return list, shown
}

func showFigures(r *protocol.Reply, list []slotFigures, shown metric) {
	r.Array(len(list))
	for i := range list {
		r.Array(2)
		r.Int(int64(list[i].slot))
		r.Map(int(shown))
		for m, n := range list[i].of[:shown] {
			r.BulkString(metricNames[m])
			r.Int(int64(n))
		}
	}
}
