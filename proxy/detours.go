package proxy

import (
	"net"
	"slices"

	"spindle/internal/slots"
	"spindle/proxy/route"
	"spindle/proxy/topology"
)

// Rules of the kind route send keys elsewhere than their slots are.
//
// proxy.R3. Each target has one slot, past those of the map. So the order of requests, retries, transactions and
// requests that are cut need no other code for its keys. A target keeps its slot for the life of the proxy. A call that
// waits to be sent again so goes to the same target after the rules have changed.
type detours struct {
	rules   []*rule
	targets []string // groups or shards of the map, or addresses; the slot of the first is firstTarget
}

const firstTarget = slots.Count

// ownTarget is the index of a target that is the proxy itself.
const ownTarget = -2

// setDetours has the loops follow proxy-rule. One goroutine calls it at a time.
func (p *Proxy) setDetours() {
	next := &detours{}
	if before := p.detours.Load(); before != nil {
		next.targets = slices.Clone(before.targets)
	}
	for _, r := range p.settings.Rules.Get() {
		if r.to == "" {
			continue
		}
		next.rules = append(next.rules, r)
		if !slices.Contains(next.targets, r.to) {
			next.targets = append(next.targets, r.to)
		}
	}
	if len(next.targets) > 0 {
		p.detours.Store(next)
	}
}

// aim looks up the targets in the map.
func (w *worker) aim() {
	w.targets, w.extras, w.byUser = nil, nil, nil
	if w.detours == nil {
		return
	}
	w.byUser = map[string][]route.Detour{}
	for _, name := range w.detours.targets {
		index := slices.IndexFunc(w.topology.Shards, func(s *topology.Shard) bool { return s.ID == name })
		if _, _, isAddress := cutAddress(name); index < 0 && isAddress && w.p.isAt(name) {
			index = ownTarget
		} else if index < 0 && isAddress {
			index = len(w.topology.Shards) + len(w.extras)
			w.extras = append(w.extras, &topology.Shard{ID: name, Primary: name})
		}
		w.targets = append(w.targets, index)
	}
}

// isAt reports whether the proxy itself listens at an address. A request that is sent there would come back, and be
// sent there again, until proxy-timeout.
func (p *Proxy) isAt(address string) bool {
	if p.reactor == nil {
		return false
	}
	return slices.ContainsFunc(p.reactor.Addrs(), func(listener string) bool { return isServedBy(address, listener) })
}

// isServedBy reports whether a listener of this host takes connections to an address. Of names it knows localhost.
func isServedBy(address, listener string) bool {
	host, port, _ := cutAddress(address)
	own, ownPort, ok := cutAddress(listener)
	if !ok || port != ownPort {
		return false
	}
	ip, at := net.ParseIP(host), net.ParseIP(own)
	if host == "localhost" {
		ip = net.IPv4(127, 0, 0, 1)
	}
	if ip == nil || at == nil || !at.IsUnspecified() {
		return host == own || ip != nil && ip.Equal(at)
	}
	locals, _ := net.InterfaceAddrs()
	return ip.IsLoopback() || ip.IsUnspecified() || slices.ContainsFunc(locals, func(a net.Addr) bool {
		n, is := a.(*net.IPNet)
		return is && n.IP.Equal(ip)
	})
}

// detoursOf returns the detours of a user's requests.
func (w *worker) detoursOf(user string) []route.Detour {
	all, known := w.byUser[user]
	if !known {
		for _, r := range w.detours.rules {
			if r.user == "" || r.user == user {
				slot := firstTarget + slices.Index(w.detours.targets, r.to)
				all = append(all, route.Detour{Prefix: r.prefix, Slot: slot})
			}
		}
		w.byUser[user] = all
	}
	return all
}

// shard returns the shard of an index that indexOf has returned.
func (w *worker) shard(index int) *topology.Shard {
	if own := len(w.topology.Shards); index >= own {
		return w.extras[index-own]
	}
	return w.topology.Shards[index]
}
