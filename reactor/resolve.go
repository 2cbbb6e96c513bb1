package reactor

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// A names has the hosts that Resolve has looked up, so that Rebind does not wait for a name server.
type names struct {
	mu    sync.Mutex
	found map[string]resolved
}

type resolved struct {
	addr  netip.Addr
	err   error
	until time.Time // when it must be looked up again
}

// namesLast is how long answers are valid: from Resolve to its Rebind, and to a second Rebind that undoes the first.
const namesLast = 10 * time.Second

// Unresolved returns the names in bind that a name server has to resolve.
func Unresolved(bind []string) (hosts []string) {
	for _, host := range bind {
		host = strings.TrimPrefix(host, "-")
		if _, known := literal(host); !known && host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Resolve looks up hosts. It may wait for long. The next Rebind uses its results, also failures. Any goroutine.
func (r *Reactor) Resolve(hosts []string) {
	found := map[string]resolved{}
	for _, host := range hosts {
		if _, again := found[host]; !again {
			addr, err := ask(host)
			found[host] = resolved{addr: addr, err: err}
		}
	}
	n := &r.names
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.found, func(_ string, old resolved) bool { return time.Now().After(old.until) })
	if n.found == nil {
		n.found = map[string]resolved{}
	}
	for host, answer := range found { // keeps the results of other calls
		answer.until = time.Now().Add(namesLast)
		n.found[host] = answer
	}
}

// resolve turns "*", "::*", an address or a name into an address.
func (o *Options) resolve(host string) (netip.Addr, error) {
	if addr, known := literal(host); known {
		return addr, nil
	}
	if n := o.names; n != nil {
		n.mu.Lock()
		answer, known := n.found[host]
		n.mu.Unlock()
		known = known && time.Now().Before(answer.until)
		if known {
			return answer.addr, answer.err
		}
	}
	return ask(host)
}

// literal returns the address that host spells out.
func literal(host string) (addr netip.Addr, known bool) {
	switch host {
	case "*":
		return netip.IPv4Unspecified(), true
	case "::*":
		return netip.IPv6Unspecified(), true
	}
	addr, err := netip.ParseAddr(host)
	return addr, err == nil
}

// lookUp asks the system's resolver. Tests replace it.
var lookUp = func(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// ask finds an address of a name, preferably of IPv4.
func ask(host string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found, err := lookUp(ctx, host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, addr := range found {
		if addr.Unmap().Is4() {
			return addr.Unmap(), nil
		}
	}
	return found[0], nil
}
