package route

// A Group is a part of a Split: the keys of one slot, or of one shard.
type Group struct {
	Slot  int     // of the first key
	Shard int     // of Groups' shards; -1 without them
	Keys  []int32 // indices of the keys in args, in their order
}

// A grouping is the memory of Groups.
type grouping struct {
	first  int
	groups []Group
	keys   []int32
	number []int32 // by slot or shard: its group's number plus one; zeroes between calls
}

// Groups returns the parts of a Split, in the order of their first keys. shards has the shard of each slot. With it,
// keys are grouped by shard, for servers that accept keys of several slots. If shards is nil, keys are grouped by slot.
//
// Lifetime: until the next Plan or Groups.
// Cost: no allocation in steady state; two passes over the keys.
func (p *Plan) Groups(shards []uint16) []Group {
	g := &p.groups
	g.groups = g.groups[:0]
	for len(g.keys) < len(p.keySlots) {
		g.keys = append(g.keys, 0)
	}
	for _, slot := range p.keySlots {
		at := groupOf(slot, shards)
		for len(g.number) <= at {
			g.number = append(g.number, 0)
		}
		n := g.number[at]
		if n == 0 {
			g.groups = append(g.groups, Group{Slot: int(slot)})
			n = int32(len(g.groups))
			g.number[at] = n
		}
		g.groups[n-1].Shard++ // counts the keys for now
	}
	begin := 0
	for i := range g.groups {
		end := begin + g.groups[i].Shard
		g.groups[i].Keys = g.keys[begin:begin:end]
		begin = end
	}
	for i, slot := range p.keySlots {
		group := &g.groups[g.number[groupOf(slot, shards)]-1]
		group.Keys = append(group.Keys, int32(g.first+i*p.step))
	}
	for i := range g.groups {
		at := groupOf(uint16(g.groups[i].Slot), shards)
		g.number[at] = 0
		g.groups[i].Shard = -1
		if shards != nil {
			g.groups[i].Shard = at
		}
	}
	return g.groups
}

// Step returns how many arguments belong to each key of a Split: 1, or 2 for MSET.
func (p *Plan) Step() int { return p.step }

func groupOf(slot uint16, shards []uint16) int {
	if shards == nil {
		return int(slot)
	}
	return int(shards[slot])
}
