package topology

import (
	"fmt"
	"slices"
	"strings"

	"spindle/internal/number"
	"spindle/protocol/respclient"
)

// A master is a primary and its replicas according to one Sentinel.
type master struct {
	addr     string
	epoch    uint64 // config-epoch: the epoch of the failover that made it the primary
	failed   bool   // enough Sentinels regard the primary as down
	replicas []string
}

// readMaster reads a Sentinel's replies to SENTINEL GET-MASTER-ADDR-BY-NAME, MASTER and REPLICAS.
//
// Errors: the Sentinel does not know the name, or its reply is malformed.
func readMaster(addr, details, replicas respclient.Value) (m master, err error) {
	for _, v := range []respclient.Value{addr, details, replicas} {
		if err := v.Err(); err != nil {
			return m, err
		}
	}
	if addr.Null {
		return m, fmt.Errorf("it does not know the name")
	}
	if len(addr.Elems) != 2 {
		return m, fmt.Errorf("it has the address %.80v", addr)
	}
	var known bool
	if m.addr, known = joinTexts(addr.Elems[0].Text, addr.Elems[1].Text); !known {
		return m, fmt.Errorf("it has the address %.80v", addr)
	}
	m.failed = hasFlag(details, "o_down")
	epoch, _ := details.Get("config-epoch")
	n, ok := number.ParseInt([]byte(epoch.Text))
	if !ok || n < 0 {
		return m, fmt.Errorf("it has the config-epoch %.80v", epoch)
	}
	m.epoch = uint64(n)
	for _, r := range replicas.Elems {
		ip, _ := r.Get("ip")
		port, _ := r.Get("port")
		name, known := joinTexts(ip.Text, port.Text)
		if known && name != m.addr && !hasFlag(r, "s_down") && !hasFlag(r, "o_down") && !hasFlag(r, "disconnected") {
			m.replicas = append(m.replicas, name)
		}
	}
	slices.Sort(m.replicas)
	return m, nil
}

func joinTexts(host, port string) (addr string, ok bool) {
	n, good := number.ParseInt([]byte(port))
	if !good {
		return "", false
	}
	return address(host, n, "")
}

func hasFlag(v respclient.Value, flag string) bool {
	flags, _ := v.Get("flags")
	return slices.Contains(strings.Split(flags.Text, ","), flag)
}

// readSwitch reads the message of +switch-master: "NAME OLD-IP OLD-PORT NEW-IP NEW-PORT".
func readSwitch(message string) (name, before, after string, ok bool) {
	words := strings.Split(message, " ")
	if len(words) != 5 {
		return "", "", "", false
	}
	before, ok1 := joinTexts(words[1], words[2])
	after, ok2 := joinTexts(words[3], words[4])
	return words[0], before, after, ok1 && ok2
}

// masters decides which server is each name's primary, from the replies of Sentinels. It does no I/O.
//
// topology.S1. A Sentinel that names another primary without a higher epoch has missed a failover, or the failover is
// not complete. Its reply is accepted only when more than half of the Sentinels name the same primary.
type masters struct {
	names     []string
	owners    []uint16 // the index in names of each slot's shard
	sentinels int

	known []master
	doubt []map[string]string // by name: the addresses in replies that were not accepted, by Sentinel
	now   *Map
}

func newMasters(names []string, owners []uint16, sentinels int) *masters {
	return &masters{names: names, owners: owners, sentinels: sentinels, known: make([]master, len(names)),
		doubt: make([]map[string]string, len(names))}
}

// take processes the reply of the Sentinel at from about a name. It returns a new Map, or nil if nothing has changed.
//
// Errors: the Sentinel's reply is out of date.
func (s *masters) take(i int, m master, from string) (*Map, error) {
	now := &s.known[i]
	if now.addr != "" && (m.epoch < now.epoch || m.epoch == now.epoch && m.addr != now.addr) {
		if s.doubt[i] == nil {
			s.doubt[i] = map[string]string{}
		}
		s.doubt[i][from] = m.addr
		agree := 0
		for _, addr := range s.doubt[i] {
			if addr == m.addr {
				agree++
			}
		}
		if 2*agree <= s.sentinels {
			return nil, fmt.Errorf("it says that %s is the primary of %s since epoch %d; it is %s since epoch %d", m.addr,
				s.names[i], m.epoch, now.addr, now.epoch)
		}
	}
	clear(s.doubt[i])
	*now = m
	return s.build(), nil
}

// switched processes a message of +switch-master. It returns a new Map, or nil if nothing has changed.
func (s *masters) switched(name, before, after string) *Map {
	i := slices.Index(s.names, name)
	if i < 0 || s.known[i].addr != before || before == after {
		return nil
	}
	m := &s.known[i]
	m.addr, m.failed = after, false
	m.replicas = slices.DeleteFunc(slices.Clone(m.replicas), func(addr string) bool { return addr == after })
	return s.build()
}

// build makes a Map of the names whose primary is known. It returns nil if the Map equals the current one.
func (s *masters) build() *Map {
	c := chart{now: s.now}
	next := &Map{owners: emptySlots(len(s.owners))}
	place := make([]uint16, len(s.names))
	for i, m := range s.known {
		place[i] = None
		if m.addr == "" {
			continue
		}
		place[i] = uint16(len(next.Shards))
		shard := &Shard{ID: s.names[i], Primary: m.addr, Failed: m.failed}
		for _, addr := range m.replicas {
			shard.Replicas = append(shard.Replicas, c.replica(addr))
		}
		if old := c.byID(shard.ID); old != nil && old.equal(shard) {
			shard = old
		}
		next.Shards = append(next.Shards, shard)
	}
	for slot, owner := range s.owners {
		if int(owner) < len(place) {
			next.owners[slot] = place[owner]
		}
	}
	if len(next.Shards) == 0 || s.now != nil && sameMap(s.now, next) {
		return nil
	}
	s.now = c.set(next)
	return s.now
}
