package sentinel

import (
	"net/netip"
	"strings"
)

// A name is a cached host name.
type name struct {
	ip      string // empty: it could not be resolved
	known   bool   // an answer has come
	at      int64  // when the answer came
	waiting []func()
	asked   bool // a lookup is running
}

const (
	nameFreshMs = 1000 // how long an answer counts as new
	namesKept   = 1024 // the most cached names; beyond it all are forgotten
	lookupsMax  = 64   // the most lookups at the same time
	deferredMax = 1024 // the most messages that wait for names
)

// literal returns the IP address if host is written as one.
func literal(host string) (string, bool) {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "", false
	}
	return ip.String(), true
}

// ipOf returns a host's IP address, if it is known.
func (m *Machine) ipOf(host string) (string, bool) {
	if ip, ok := literal(host); ok {
		return ip, true
	}
	if !m.resolve {
		return "", false
	}
	if m.configuring {
		return m.out.LookupNow(host)
	}
	n := m.names[strings.ToLower(host)]
	if n == nil || n.ip == "" {
		return "", false
	}
	return n.ip, true
}

// withNames calls then after the names in hosts have been looked up, successfully or not. If all of them were looked up
// in the last second, it calls then at once.
func (m *Machine) withNames(then func(), hosts ...string) {
	for i, host := range hosts {
		if _, ok := literal(host); ok || !m.resolve || host == "" {
			continue
		}
		key := strings.ToLower(host)
		n := m.names[key]
		if n != nil && n.known && !n.asked && m.now-n.at < nameFreshMs {
			continue
		}
		if m.deferred >= deferredMax || (n == nil || !n.asked) && m.asking >= lookupsMax {
			continue // use the cached answer
		}
		if n == nil {
			if len(m.names) >= namesKept {
				m.forgetNames()
			}
			n = &name{}
			m.names[key] = n
		}
		m.deferred++
		n.waiting = append(n.waiting, func() { m.withNames(then, hosts[i+1:]...) })
		if !n.asked {
			n.asked = true
			m.asking++
			m.out.Lookup(key)
		}
		return
	}
	then()
}

// forgetNames makes room for other names.
func (m *Machine) forgetNames() {
	for key, n := range m.names {
		if !n.asked {
			delete(m.names, key)
		}
	}
}

// Resolved handles the answer to a Lookup. ip is empty if the name has no address.
func (m *Machine) Resolved(host, ip string, nowMs int64) {
	n := m.names[host]
	if m.now = nowMs; n == nil || !n.asked || m.stopped {
		return
	}
	n.ip, n.known, n.at, n.asked = ip, true, nowMs, false
	m.asking--
	waiting := n.waiting
	n.waiting = nil
	m.deferred -= len(waiting)
	for _, then := range waiting {
		then()
	}
}

// address makes an address. With unresolved it accepts a name whose IP is not known yet; later lookups find the IP.
//
// Errors: errPort, errUnresolved.
func (m *Machine) address(host string, port int, unresolved bool) (address, error) {
	if port < 0 || port > 65535 {
		return address{}, errPort
	}
	ip, ok := m.ipOf(host)
	if !ok {
		m.warn("Failed to resolve hostname '%s'", host)
		if !m.resolve || !unresolved {
			return address{}, errUnresolved
		}
	}
	return address{host, ip, port}, nil
}

// isAt reports whether host, from a message, is the host of a.
func (m *Machine) isAt(a address, host string) bool {
	if ip, ok := m.ipOf(host); ok {
		return a.ip == ip
	}
	if m.resolve {
		return strings.EqualFold(a.host, host)
	}
	return a.ip == host
}
