package topology

import (
	"fmt"
	"strings"

	"spindle/internal/number"
	"spindle/protocol/respclient"
)

// A view is a cluster from the point of view of one of its nodes.
type view struct {
	epoch   uint64 // cluster_current_epoch; 0 means unknown
	shards  []viewShard
	crowded bool // a shard has two primaries, so that its slots may be those of either or of none; see readShards
}

// viewShard is a shard with at least one slot.
type viewShard struct {
	primary  node
	replicas []node
	ranges   [][2]int // first and last slot
}

type node struct {
	id     string
	addr   string
	failed bool
}

// readShards reads a reply to CLUSTER SHARDS. asked is the address of the node that replied. If tls is true, it uses
// the TLS ports.
//
// A shard has two primaries after a failover, until the old primary returns or is forgotten. In Redis 7.4 it then has
// no slots, if the old primary is its first node. Up to Redis 8.0 a shard also keeps a replica that was reset and has
// got slots. The shard's slots are then those of its first node. CLUSTER SLOTS is right in both cases.
//
// Shape: shards without slots are left out, and so are nodes with an unknown address.
// Errors: a reply that no node sends; nothing in it can be trusted.
func readShards(reply respclient.Value, asked string, tls bool) (v view, err error) {
	if err := reply.Err(); err != nil {
		return v, err
	}
	for _, e := range reply.Elems {
		slots, _ := e.Get("slots")
		var s viewShard
		for i := 0; i+1 < len(slots.Elems); i += 2 {
			s.ranges = append(s.ranges, [2]int{int(slots.Elems[i].Int), int(slots.Elems[i+1].Int)})
		}
		nodes, _ := e.Get("nodes")
		known, primaries := false, 0
		for _, n := range nodes.Elems {
			one, ok := readNode(n, hostOf(asked), tls)
			role, _ := n.Get("role")
			if role.Text == "master" {
				primaries++
				v.crowded = v.crowded || primaries > 1
			}
			switch {
			case !ok:
			case role.Text == "master" && (!known || s.primary.failed):
				if known { // some versions still list a primary that was replaced
					s.replicas = append(s.replicas, s.primary)
				}
				s.primary, known = one, true
			default:
				s.replicas = append(s.replicas, one)
			}
		}
		v.add(s, known)
	}
	return v, v.check()
}

// readNode reads a node of CLUSTER SHARDS. ok is false if its address is unknown.
func readNode(v respclient.Value, asked string, tls bool) (n node, ok bool) {
	id, _ := v.Get("id")
	n.id = id.Text
	health, _ := v.Get("health")
	n.failed = health.Text == "fail"
	port, _ := v.Get("port")
	if secure, there := v.Get("tls-port"); there && tls {
		port = secure
	}
	host, _ := v.Get("endpoint")
	name := host.Text
	if name == "?" { // the cluster prefers host names, and the node has none
		ip, _ := v.Get("ip")
		name = ip.Text
	}
	n.addr, ok = address(name, port.Int, asked)
	return n, ok
}

// readSlots reads a reply to CLUSTER SLOTS. It has no health of a primary; see markFailed.
func readSlots(reply respclient.Value, asked string) (v view, err error) {
	if err := reply.Err(); err != nil {
		return v, err
	}
	index := map[string]int{} // a primary's address → its shard
	for _, e := range reply.Elems {
		if len(e.Elems) < 3 || e.Elems[0].Kind != ':' || e.Elems[1].Kind != ':' {
			return v, fmt.Errorf("CLUSTER SLOTS has the element %.80v", e)
		}
		rng := [2]int{int(e.Elems[0].Int), int(e.Elems[1].Int)}
		var s viewShard
		known := false
		for i, n := range e.Elems[2:] {
			one, ok := readSlotNode(n, hostOf(asked))
			if i == 0 {
				s.primary, known = one, ok
			} else if ok {
				s.replicas = append(s.replicas, one)
			}
		}
		if at, there := index[s.primary.addr]; there && known {
			v.shards[at].ranges = append(v.shards[at].ranges, rng)
			continue
		}
		s.ranges = [][2]int{rng}
		index[s.primary.addr] = len(v.shards)
		v.add(s, known)
	}
	return v, v.check()
}

// readSlotNode reads host, port, ID and metadata of a node in CLUSTER SLOTS.
func readSlotNode(v respclient.Value, asked string) (n node, ok bool) {
	if len(v.Elems) < 2 {
		return n, false
	}
	if len(v.Elems) > 2 {
		n.id = v.Elems[2].Text
	}
	host := v.Elems[0].Text
	if host == "?" && len(v.Elems) > 3 {
		ip, _ := v.Elems[3].Get("ip")
		host = ip.Text
	}
	n.addr, ok = address(host, v.Elems[1].Int, asked)
	return n, ok
}

// markFailed marks the primaries that are failed in shards.
func (v *view) markFailed(shards []viewShard) {
	failed := map[string]bool{}
	for _, s := range shards {
		failed[s.primary.addr] = s.primary.failed
	}
	for i := range v.shards {
		v.shards[i].primary.failed = failed[v.shards[i].primary.addr]
	}
}

// add adds a shard. If known is false, the shard has no known primary, and its slots have no owner.
func (v *view) add(s viewShard, known bool) {
	if known && len(s.ranges) > 0 {
		v.shards = append(v.shards, s)
	}
}

// check refuses a view without slots, and a view that contradicts itself.
func (v *view) check() error {
	if len(v.shards) == 0 {
		return fmt.Errorf("it knows of no slot that a node serves")
	}
	if len(v.shards) >= None {
		return fmt.Errorf("it knows of %d shards", len(v.shards))
	}
	owners := make([]uint16, maxSlots)
	primaries := map[string]bool{}
	for i, s := range v.shards {
		if primaries[s.primary.addr] {
			return fmt.Errorf("it says that %s is the primary of two shards", s.primary.addr)
		}
		primaries[s.primary.addr] = true
		for _, r := range s.ranges {
			if r[0] < 0 || r[1] >= maxSlots || r[0] > r[1] {
				return fmt.Errorf("it knows of the slots %d to %d", r[0], r[1])
			}
			for slot := r[0]; slot <= r[1]; slot++ {
				if owners[slot] != 0 && int(owners[slot]) != i+1 {
					return fmt.Errorf("it says that slot %d has two owners", slot)
				}
				owners[slot] = uint16(i + 1)
			}
		}
	}
	return nil
}

// readEpoch reads cluster_current_epoch from a reply to CLUSTER INFO. It returns 0 if the field is missing.
func readEpoch(reply respclient.Value) uint64 {
	for line := range strings.SplitSeq(reply.Text, "\r\n") {
		if value, is := strings.CutPrefix(line, "cluster_current_epoch:"); is {
			n, _ := number.ParseInt([]byte(value))
			return uint64(max(n, 0))
		}
	}
	return 0
}
