package sentinel

import (
	"strconv"
	"strings"

	"spindle/internal/logging"
)

// A hello is a Sentinel's message about itself and a primary:
//
//	IP,PORT,ID,EPOCH,PRIMARY,PRIMARY-IP,PRIMARY-PORT,CONFIG-EPOCH
type hello struct {
	host        string
	port        int
	id          string
	epoch       uint64
	primary     string
	primaryHost string
	primaryPort int
	configEpoch uint64
}

// parseHello reads a hello. ok is false if the text is not one.
func parseHello(text string) (h hello, ok bool) {
	f := strings.Split(text, ",")
	if len(f) != 8 {
		return h, false
	}
	h = hello{host: f[0], id: f[2], primary: f[4], primaryHost: f[5]}
	var errs [4]error
	h.port, errs[0] = strconv.Atoi(f[1])
	h.epoch, errs[1] = strconv.ParseUint(f[3], 10, 64)
	h.primaryPort, errs[2] = strconv.Atoi(f[6])
	h.configEpoch, errs[3] = strconv.ParseUint(f[7], 10, 64)
	for _, err := range errs {
		if err != nil {
			return h, false
		}
	}
	return h, isID(h.id) && isPort(h.port) && isPort(h.primaryPort) && isHost(h.host) && isHost(h.primaryHost)
}

// isID, isPort and isHost refuse text that would break the configuration file.
func isID(s string) bool { return len(s) == 40 && !strings.ContainsAny(s, " \t\r\n\"'") && isPlain(s) }

func isPort(n int) bool { return n >= 0 && n <= 65535 }

func isHost(s string) bool { return s != "" && len(s) < 256 && isPlain(s) }

// isPlain reports whether text is printable, without blanks and quotes.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\'' {
			return false
		}
	}
	return true
}

// Hello handles a hello from any source. It ignores a hello about a primary that is not watched.
func (m *Machine) Hello(text string, nowMs int64) {
	m.now = nowMs
	h, ok := parseHello(text)
	if !ok || m.stopped || h.id == m.id || m.primaries.find(h.primary) == nil {
		return
	}
	m.withNames(func() {
		if p := m.primaries.find(h.primary); p != nil {
			m.greeted(p, h)
		}
	}, h.host, h.primaryHost)
}

// greeted handles the facts of a hello: the sender, a newer epoch, a newer address of the primary.
func (m *Machine) greeted(p *Instance, h hello) {
	s := m.meet(p, h)
	// Redis raises its epoch to the config epoch only at its next start.
	if epoch := max(h.epoch, h.configEpoch); epoch > m.epoch {
		m.epoch = epoch
		_ = m.save() // save logs the error
		m.say(logging.LevelWarning, "+new-epoch", p, strconv.FormatUint(m.epoch, 10))
	}
	if s == nil {
		return
	}
	if p.configEpoch < h.configEpoch || p.acks > 0 && m.yields(p, h) {
		m.follow(p, s, h)
	}
	s.heard = m.now
}

// yields reports whether an address of the same epoch wins, because it is the greater one. A failover that an operator
// has asked for needs no votes, so another one may have the same epoch. The Sentinels would disagree until the next
// failover, and make each of the two primaries a replica of the other one.
func (m *Machine) yields(p *Instance, h hello) bool {
	at, err := m.address(h.primaryHost, h.primaryPort, false)
	return err == nil && p.configEpoch == h.configEpoch && h.configEpoch > 0 &&
		m.shownWithPort(at) > m.shownWithPort(p.current())
}

// sentinelsMax bounds how many Sentinels hellos can add.
const sentinelsMax = 1024

// meet returns the Sentinel that sent h. It adds a new Sentinel, and updates the address of a known one.
func (m *Machine) meet(p *Instance, h hello) *Instance {
	at, err := m.address(h.host, h.port, true)
	if err != nil {
		return nil
	}
	if s := m.findSentinel(p, &at, h.id); s != nil {
		return s
	}
	moved := m.removeSentinel(p, h.id)
	if moved {
		m.emit(logging.LevelNotice, "+sentinel-address-switch", p, " ip %s port %d for %s", h.host, h.port, h.id)
	} else if old := m.findSentinel(p, &at, ""); old != nil {
		// A new Sentinel uses the address of an old Sentinel that is gone.
		m.emit(logging.LevelNotice, "+sentinel-invalid-addr", old, "")
		for _, each := range m.primaries.each() {
			m.removeSentinel(each, old.runID)
		}
	}
	if p.sentinels.len() >= sentinelsMax {
		return nil
	}
	s, err := m.create(other, h.id, h.host, h.port, p.quorum, p)
	if err != nil {
		return nil
	}
	if !moved {
		m.emit(logging.LevelNotice, "+sentinel", s, "")
	}
	s.runID = h.id
	m.share(s)
	if moved {
		m.moveSentinel(s)
	}
	_ = m.save() // save logs the error
	return s
}

// moveSentinel updates a Sentinel's address for the other primaries, and reconnects its links.
func (m *Machine) moveSentinel(s *Instance) {
	n := 0
	for _, p := range m.primaries.list {
		twin := m.findSentinel(p, nil, s.runID)
		if twin == nil {
			continue
		}
		twin.link.close()
		if twin != s {
			twin.at = s.at
			n++
		}
	}
	if n > 0 {
		m.emit(logging.LevelNotice, "+sentinel-address-update", s, " %d additional matching instances", n)
	}
}

// follow accepts a primary's newer configuration from another Sentinel. It ends this Sentinel's own failover if that
// promoted another server. It does so even if the newer address is the old one. Otherwise an epoch would have two
// addresses.
func (m *Machine) follow(p, from *Instance, h hello) {
	old := p.current()
	if h.primaryPort == old.port && m.isAt(old, h.primaryHost) {
		p.configEpoch = h.configEpoch
		return
	}
	if _, err := m.address(h.primaryHost, h.primaryPort, false); err != nil {
		return // a later hello may come after the name is resolved
	}
	p.configEpoch = h.configEpoch
	m.emit(logging.LevelWarning, "+config-update-from", from, "")
	m.switched(p, m.shown(old), old.port, h.primaryHost, h.primaryPort)
	_ = m.changeAddress(p, h.primaryHost, h.primaryPort) // the address was just checked
	m.reconfigureClients(p, false, old, p.at)
}
