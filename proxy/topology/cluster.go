package topology

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"spindle/internal/logging"
	"spindle/protocol/respclient"
)

// Options configure how a Finder finds a Redis Cluster.
type Options struct {
	Seeds   []string // host:port of some nodes
	Access  Access
	Every   time.Duration // the time between refreshes that are not requested
	Soonest time.Duration // the least time between two refreshes; up to half of it is added by chance. 0: 50 ms
	Lag     time.Duration // the time between measurements of replicas' lag; 0 means none
	Log     *logging.Logger
}

// A Finder keeps a Map up to date. Close ends it.
type Finder struct {
	*keeper
	rounds

	chart   chart // guarded by mu
	options Options
	hint    string // guarded by mu: the node to ask next, because it knows of a change
	doubted string // guarded by mu: the node to ask last, because it may have left the cluster
	trouble trouble
}

// New starts a Finder for a Redis Cluster. It queries the seeds once before it returns.
func New(o Options) *Finder {
	f := &Finder{keeper: newKeeper(maxSlots), options: o}
	f.rounds = newRounds(o.Every, o.Soonest, rand.Int64N)
	f.refresh()
	f.start(f.refresh)
	if o.Lag > 0 {
		f.measureLag(f.keeper, o.Access, o.Lag, o.Log)
	}
	return f
}

// Close ends the Finder. The last Map stays current, and OnChange calls no function any more.
func (f *Finder) Close() {
	f.keeper.close()
	f.stop()
}

// Moved processes a redirection: the server at addr serves slot. The Map changes at once, and a refresh follows.
func (f *Finder) Moved(slot int, addr string) {
	if m := f.Current(); slot >= 0 && slot < m.Slots() {
		if s := m.Shard(slot); s != nil && s.Primary == addr {
			return // an earlier redirection has already changed the Map
		}
	}
	f.mu.Lock()
	if m := f.chart.moved(slot, addr); m != nil {
		f.hint = addr
		f.publish(m)
	}
	f.mu.Unlock()
	f.Refresh()
}

// Doubt processes CLUSTERDOWN. The server at addr may have left the cluster, or know only a part of it, as after a
// reset. The refresh that follows asks it last.
func (f *Finder) Doubt(addr string) {
	f.mu.Lock()
	f.doubted = addr
	f.mu.Unlock()
	f.Refresh()
}

// refresh asks the nodes one by one, until one returns a view of the cluster that the chart accepts.
func (f *Finder) refresh() {
	f.mu.Lock()
	nodes := inOrder(f.options.Seeds, f.chart.now, f.hint, f.doubted, f.trouble, rand.Shuffle)
	f.hint, f.doubted = "", ""
	f.mu.Unlock()
	maps.DeleteFunc(f.trouble, func(addr, _ string) bool { return !slices.Contains(nodes, addr) })
	for _, addr := range nodes {
		if f.ended() {
			return
		}
		v, err := f.ask(addr)
		if err == nil {
			f.mu.Lock()
			var m *Map
			var holes bool
			if m, holes, err = f.chart.take(v, addr, time.Now()); m != nil {
				f.options.Log.Notice("proxy: node %s knows of a change: %d shards, %d slots without one", addr, len(m.Shards),
					m.Uncovered())
				f.publish(m)
			}
			f.mu.Unlock()
			if holes {
				f.Refresh()
			}
		}
		if f.trouble.note(addr, err) {
			f.options.Log.Warning("proxy: the answer of node %s does not count: %v", addr, err)
		}
		if err == nil {
			return
		}
	}
	if f.Current().Version == 0 {
		f.Refresh()
	}
}

// ask asks one node for its view.
func (f *Finder) ask(addr string) (v view, err error) {
	c, err := f.options.Access.Dial(addr)
	if err != nil {
		return v, err
	}
	defer c.Close()
	info, err := c.Do("CLUSTER", "INFO") // first, so that after a change in between the view looks too old, not too new
	if err != nil {
		return v, err
	}
	reply, err := c.Do("CLUSTER", "SHARDS")
	if err != nil {
		return v, err
	}
	v, err = readShards(reply, addr, f.options.Access.TLS != nil)
	if isUnknown(reply.Err()) || v.crowded {
		reply, broken := c.Do("CLUSTER", "SLOTS")
		if broken != nil {
			return v, broken
		}
		if reply.Err() == nil || err != nil { // otherwise the proxy's user may not call it, and CLUSTER SHARDS has to do
			shards := v.shards
			v, err = readSlots(reply, addr)
			v.markFailed(shards)
		}
	}
	v.epoch = readEpoch(info)
	return v, err
}

// isUnknown reports whether an error is the reply of a server that does not have a subcommand.
func isUnknown(err error) bool {
	var reply respclient.ReplyError
	return errors.As(err, &reply) && strings.Contains(strings.ToLower(string(reply)), "unknown subcommand")
}

// inOrder lists the nodes to ask: hint first, then primaries, seeds and replicas, each in random order. Nodes that were
// in trouble when they were last asked come after these, because a dead one may cost the whole time limit. The first
// such node keeps its place: it may be well again. The doubted node is the last one.
func inOrder(seeds []string, m *Map, hint, doubted string, bad trouble, shuffle func(n int, swap func(i, j int))) (
	nodes []string) {
	seen := map[string]bool{"": true, doubted: true}
	var troubled []string
	again := false // a node in trouble has kept its place
	add := func(some []string) {
		shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		for _, addr := range some {
			inTrouble := bad[addr] != "" && addr != hint
			switch {
			case seen[addr]:
			case inTrouble && again:
				troubled = append(troubled, addr)
			default:
				again = again || inTrouble
				nodes = append(nodes, addr)
			}
			seen[addr] = true
		}
	}
	add([]string{hint})
	var primaries, replicas []string
	if m != nil {
		for _, s := range m.Shards {
			if s.Failed {
				replicas = append(replicas, s.Primary)
			} else {
				primaries = append(primaries, s.Primary)
			}
			for _, r := range s.Replicas {
				replicas = append(replicas, r.Addr)
			}
		}
	}
	add(primaries)
	add(append([]string{}, seeds...))
	add(replicas)
	nodes = append(nodes, troubled...)
	if doubted != "" {
		nodes = append(nodes, doubted)
	}
	return nodes
}
