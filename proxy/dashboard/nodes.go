package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spindle/proxy/store"
)

// A clusterNode is a line of CLUSTER NODES.
type clusterNode struct {
	id, address, primary string // primary: of a replica, its primary's ID
	bus                  string // the port of its bus
	flags                []string
	linked               bool
	slots                [][2]int
	migrating, importing map[int]string // slot → the other node's ID
}

func (n *clusterNode) is(flag string) bool { return slices.Contains(n.flags, flag) }

// lives reports whether the node is reachable and a full member of the cluster.
func (n *clusterNode) lives() bool {
	return !n.is("fail") && !n.is("noaddr") && !n.is("handshake") && n.address != ""
}

// nodesOf reads the nodes of a cluster from one node's point of view.
func (l *link) nodesOf() ([]*clusterNode, error) {
	v, err := l.ask("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	nodes, err := parseNodes(v.Text)
	for _, n := range nodes {
		if n.is("myself") {
			n.linked, n.address = true, l.address
		}
	}
	return nodes, err
}

// parseNodes reads the reply of CLUSTER NODES.
//
// Source: the documentation of CLUSTER NODES: id, address, flags, primary, times, epoch, link, slots.
func parseNodes(text string) (nodes []*clusterNode, err error) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 {
			return nil, fmt.Errorf("a line of CLUSTER NODES: %.100q", line)
		}
		n := &clusterNode{id: words[0], flags: strings.Split(words[2], ","), linked: words[7] == "connected",
			migrating: map[int]string{}, importing: map[int]string{}}
		address, _, _ := strings.Cut(words[1], ",")
		if at := strings.LastIndexByte(address, '@'); at >= 0 {
			address, n.bus = address[:at], address[at+1:]
		}
		if store.CheckAddress(address) == nil {
			n.address = address
		}
		if words[3] != "-" {
			n.primary = words[3]
		}
		for _, word := range words[8:] {
			if err := n.addSlots(word); err != nil {
				return nil, err
			}
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, errors.New("CLUSTER NODES names no node")
	}
	return nodes, nil
}

// addSlots adds the slots of a word: 5, 5-9, [5->-ID] or [5-<-ID].
func (n *clusterNode) addSlots(word string) error {
	wrong := fmt.Errorf("slots of CLUSTER NODES: %.100q", word)
	if inner, ok := strings.CutPrefix(word, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		moves, at := n.migrating, strings.Index(inner, "->-")
		if at < 0 {
			moves, at = n.importing, strings.Index(inner, "-<-")
		}
		if at < 0 {
			return wrong
		}
		slot, err := strconv.Atoi(inner[:at])
		if err != nil || slot < 0 || slot >= clusterSlots {
			return wrong
		}
		moves[slot] = inner[at+3:]
		return nil
	}
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || from < 0 || to < from || to >= clusterSlots {
		return wrong
	}
	n.slots = append(n.slots, [2]int{from, to})
	return nil
}

const clusterSlots = 16384

// A clusterView is a cluster from the point of view of one of its nodes.
type clusterView struct {
	nodes  []*clusterNode
	seen   string // the address of that node
	shards []*shard
}

// A shard is a primary of a cluster with its replicas.
type shard struct {
	primary  *clusterNode
	replicas []*clusterNode
}

// cluster returns the view of the first of the product's seeds that answers.
func (d *Dashboard) cluster(ctx context.Context, m *model) (*clusterView, error) {
	var problems []error
	for _, seed := range m.product.Seeds {
		view, err := d.clusterAt(ctx, seed)
		if err == nil {
			return view, nil
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("no seed of the cluster answers: %w", errors.Join(problems...))
}

// clusterAt returns the view of one node.
func (d *Dashboard) clusterAt(ctx context.Context, address string) (*clusterView, error) {
	l, err := d.dialer.open(ctx, address)
	if err != nil {
		return nil, err
	}
	defer l.close()
	nodes, err := l.nodesOf()
	if err != nil {
		return nil, err
	}
	v := &clusterView{nodes: nodes, seen: address}
	for _, n := range nodes {
		if n.is("master") && !n.is("handshake") {
			v.shards = append(v.shards, &shard{primary: n})
		}
	}
	for _, n := range nodes {
		if s := v.shard(n.primary); s != nil {
			s.replicas = append(s.replicas, n)
		}
	}
	slices.SortFunc(v.shards, func(a, b *shard) int { return strings.Compare(a.primary.id, b.primary.id) })
	return v, nil
}

// shard finds a shard by its primary's ID. It returns nil if there is none.
func (v *clusterView) shard(id string) *shard {
	for _, s := range v.shards {
		if s.primary.id == id {
			return s
		}
	}
	return nil
}

// node finds a node by its ID or address. It returns nil if there is none.
func (v *clusterView) node(name string) *clusterNode {
	for _, n := range v.nodes {
		if n.id == name || n.address == name {
			return n
		}
	}
	return nil
}

// owners returns the primary's ID for each slot.
func (v *clusterView) owners() []string {
	owners := make([]string, clusterSlots)
	for _, s := range v.shards {
		for _, r := range s.primary.slots {
			for slot := r[0]; slot <= r[1]; slot++ {
				owners[slot] = s.primary.id
			}
		}
	}
	return owners
}
