package sentinel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spindle/internal/setting"
)

// A Directive is a line of sentinel.conf that begins with the word sentinel, without that word.
type Directive []string

// A DirectiveError is the error for an invalid line. Index is the directive's index in Configure's list.
type DirectiveError struct {
	Index  int
	Reason string
}

func (e *DirectiveError) Error() string { return e.Reason }

var (
	errDirective      = errors.New("Unrecognized sentinel configuration statement.")
	errNoPrimary      = errors.New("No such master with specified name.")
	errQuorum         = errors.New("Quorum must be 1 or greater.")
	errNotPositive    = errors.New("negative or zero time parameter.")
	errNegative       = errors.New("negative time parameter.")
	errNotifyFile     = errors.New("Notification script seems non existing or non executable.")
	errReconfFile     = errors.New("Client reconfiguration script seems non existing or non executable.")
	errMyID           = errors.New("Malformed Sentinel id in myid option.")
	errRenamedTwice   = errors.New("Same command renamed multiple times with rename-command.")
	errDenyYesNo      = errors.New("Please specify yes or no for the deny-scripts-reconfig options.")
	errResolveYesNo   = errors.New("Please specify yes or no for the resolve-hostnames option.")
	errAnnounceYesNo  = errors.New("Please specify yes or no for the announce-hostnames option.")
	errNoSuchNumber   = errors.New("Invalid number.")
	errAnnouncePortNo = errors.New("Invalid announce-port.")
)

// general are the directives that belong to no primary. They are read before all others.
var general = map[string]func(m *Machine, value string) error{
	"announce-ip": func(m *Machine, v string) error { m.announceIP = v; return nil },
	"announce-port": func(m *Machine, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || !isPort(n) {
			return errAnnouncePortNo
		}
		m.announcePort = n
		return nil
	},
	"deny-scripts-reconfig": func(m *Machine, v string) error { return yesNo(&m.denyScripts, v, errDenyYesNo) },
	"sentinel-user":         func(m *Machine, v string) error { m.user = v; return nil },
	"sentinel-pass":         func(m *Machine, v string) error { m.password = v; return nil },
	"current-epoch": func(m *Machine, v string) error {
		n, err := parseEpoch(v)
		m.epoch = max(m.epoch, n)
		return err
	},
	"myid": func(m *Machine, v string) error {
		if !isID(v) {
			return errMyID
		}
		m.id = v
		return nil
	},
	"resolve-hostnames":  func(m *Machine, v string) error { return yesNo(&m.resolve, v, errResolveYesNo) },
	"announce-hostnames": func(m *Machine, v string) error { return yesNo(&m.announceNames, v, errAnnounceYesNo) },
}

// ofPrimary are the directives whose first argument is a primary, with the number of words after its name.
var ofPrimary = map[string]struct {
	words int
	set   func(m *Machine, p *Instance, v []string) error
}{
	"down-after-milliseconds": {1, func(_ *Machine, p *Instance, v []string) error {
		err := parsePeriod(&p.downAfter, v[0], 1, errNotPositive)
		p.spreadDownAfter()
		return err
	}},
	"failover-timeout": {1, func(_ *Machine, p *Instance, v []string) error {
		return parsePeriod(&p.failoverTimeout, v[0], 1, errNotPositive)
	}},
	"master-reboot-down-after-period": {1, func(_ *Machine, p *Instance, v []string) error {
		return parsePeriod(&p.rebootDownAfter, v[0], 0, errNegative)
	}},
	"parallel-syncs": {1, func(_ *Machine, p *Instance, v []string) (err error) {
		n, err := strconv.ParseInt(v[0], 10, 32)
		if err != nil {
			return errNoSuchNumber
		}
		p.parallel = n
		return nil
	}},
	"notification-script": {1, func(m *Machine, p *Instance, v []string) error {
		if !m.out.Executable(v[0]) {
			return errNotifyFile
		}
		p.notify = v[0]
		return nil
	}},
	"client-reconfig-script": {1, func(m *Machine, p *Instance, v []string) error {
		if !m.out.Executable(v[0]) {
			return errReconfFile
		}
		p.reconfigure = v[0]
		return nil
	}},
	"auth-pass": {1, func(_ *Machine, p *Instance, v []string) error { p.password = v[0]; return nil }},
	"auth-user": {1, func(_ *Machine, p *Instance, v []string) error { p.user = v[0]; return nil }},
	"config-epoch": {1, func(m *Machine, p *Instance, v []string) (err error) {
		p.configEpoch, err = parseEpoch(v[0])
		m.epoch = max(m.epoch, p.configEpoch)
		return err
	}},
	"leader-epoch": {1, func(_ *Machine, p *Instance, v []string) (err error) {
		p.leaderEpoch, err = parseEpoch(v[0])
		return err
	}},
	"known-acks": {3, func(_ *Machine, p *Instance, v []string) (err error) {
		for at, to := range []*int{&p.acks, &p.ackers} {
			if *to, err = strconv.Atoi(v[at]); err != nil || *to < 0 {
				return errNoSuchNumber
			}
		}
		p.history = v[2]
		return nil
	}},
	"known-synced":   {3, knownSynced},
	"known-replica":  {2, knownReplica},
	"known-slave":    {2, knownReplica},
	"known-sentinel": {3, knownSentinel},
	"rename-command": {2, func(_ *Machine, p *Instance, v []string) error {
		for _, r := range p.renamed {
			if strings.EqualFold(r.from, v[0]) {
				return errRenamedTwice
			}
		}
		p.renamed = append(p.renamed, rename{v[0], v[1]})
		return nil
	}},
}

func knownReplica(m *Machine, p *Instance, v []string) error {
	port, err := strconv.Atoi(v[1])
	if err != nil {
		return errPort
	}
	_, err = m.create(replica, "", v[0], port, p.quorum, p)
	return err
}

func knownSynced(m *Machine, p *Instance, v []string) error {
	port, err := strconv.Atoi(v[1])
	if err != nil {
		return errPort
	}
	at, err := m.address(v[0], port, true)
	if err != nil {
		return err
	}
	for _, r := range p.replicas.list {
		if r.at.same(at) {
			r.synced, r.runID = true, v[2]
		}
	}
	return nil
}

func knownSentinel(m *Machine, p *Instance, v []string) error {
	port, err := strconv.Atoi(v[1])
	if err != nil {
		return errPort
	}
	s, err := m.create(other, v[2], v[0], port, p.quorum, p)
	if err != nil {
		return err
	}
	s.runID = v[2]
	m.share(s)
	return nil
}

func yesNo(to *bool, value string, refusal error) error {
	switch strings.ToLower(value) {
	case "yes":
		*to = true
	case "no":
		*to = false
	default:
		return refusal
	}
	return nil
}

// periodMax keeps sums of periods and times far from overflow.
const periodMax = 1 << 46

func parsePeriod(to *int64, text string, least int64, refusal error) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > periodMax {
		return refusal
	}
	*to = n
	return nil
}

func parseEpoch(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errNoSuchNumber
	}
	return n, nil
}

// Configure reads the lines of sentinel.conf. It reads directives for all primaries first, then creates the primaries,
// then reads their directives, and what is about their replicas last. So the lines may come in any order.
//
// Errors: *DirectiveError.
func (m *Machine) Configure(lines []Directive) error {
	m.configuring = true
	defer func() { m.configuring = false }()
	for phase := range 4 {
		for i, line := range lines {
			if len(line) == 0 || phaseOf(line[0]) != phase {
				continue
			}
			if err := m.configure(line); err != nil {
				return &DirectiveError{i, err.Error()}
			}
		}
	}
	return nil
}

func phaseOf(word string) int {
	word = strings.ToLower(word)
	if _, ok := general[word]; ok {
		return 0
	}
	switch word {
	case "monitor":
		return 1
	case "known-synced": // it is about a known-replica
		return 3
	}
	return 2
}

// configure reads one line.
func (m *Machine) configure(line Directive) error {
	word := strings.ToLower(line[0])
	if set, ok := general[word]; ok {
		if len(line) != 2 {
			return errDirective
		}
		return set(m, line[1])
	}
	if word == "monitor" {
		if len(line) != 5 {
			return errDirective
		}
		return m.configureMonitor(line)
	}
	d, ok := ofPrimary[word]
	if ok && word == "known-sentinel" && len(line) == 4 {
		return nil // an old form with too little data
	}
	if !ok || len(line) != d.words+2 {
		return errDirective
	}
	p := m.primaries.find(line[1])
	if p == nil {
		return errNoPrimary
	}
	return d.set(m, p, line[2:])
}

func (m *Machine) configureMonitor(line Directive) error {
	quorum, err := strconv.ParseInt(line[4], 10, 32)
	if err != nil || quorum <= 0 {
		return errQuorum
	}
	port, err := strconv.Atoi(line[3])
	if err != nil {
		return errPort
	}
	_, err = m.create(primary, line[1], line[2], port, quorum, nil)
	return err
}

// Lines returns the state as directives that Configure can read.
func (m *Machine) Lines() (lines []setting.Grouped) {
	add := func(format string, args ...any) {
		lines = append(lines, setting.Grouped{Text: fmt.Sprintf(format, args...)})
	}
	flag := func(name string, on, deflt bool) {
		word := "no"
		if on {
			word = "yes"
		}
		lines = append(lines, setting.Grouped{Text: name + " " + word, Optional: on == deflt})
	}
	add("myid %s", m.id)
	flag("deny-scripts-reconfig", m.denyScripts, true)
	flag("resolve-hostnames", m.resolve, false)
	flag("announce-hostnames", m.announceNames, false)
	for _, p := range m.primaries.list {
		m.addPrimary(add, p)
	}
	add("current-epoch %d", m.epoch)
	if m.announceIP != "" {
		add("announce-ip %s", setting.Quote(m.announceIP))
	}
	if m.announcePort != 0 {
		add("announce-port %d", m.announcePort)
	}
	if m.user != "" {
		add("sentinel-user %s", word(m.user))
	}
	if m.password != "" {
		add("sentinel-pass %s", word(m.password))
	}
	return lines
}

func (m *Machine) addPrimary(add func(format string, args ...any), p *Instance) {
	at, name := p.current(), word(p.name)
	add("monitor %s %s %d %d", name, word(m.fileAddress(at)), at.port, p.quorum)
	defaults := defaultPeriods()
	for _, period := range []struct {
		directive  string
		value, not int64
	}{
		{"down-after-milliseconds", p.downAfter, defaults.downAfter},
		{"failover-timeout", p.failoverTimeout, defaults.failoverTimeout},
		{"parallel-syncs", p.parallel, 1},
	} {
		if period.value != period.not {
			add("%s %s %d", period.directive, name, period.value)
		}
	}
	for _, text := range []struct{ directive, value string }{
		{"notification-script", p.notify}, {"client-reconfig-script", p.reconfigure},
		{"auth-pass", p.password}, {"auth-user", p.user},
	} {
		if text.value != "" {
			add("%s %s %s", text.directive, name, word(text.value))
		}
	}
	if p.rebootDownAfter != 0 {
		add("master-reboot-down-after-period %s %d", name, p.rebootDownAfter)
	}
	add("config-epoch %s %d", name, p.configEpoch)
	add("leader-epoch %s %d", name, p.leaderEpoch)
	if p.acks > 0 {
		history := p.history
		if len(history) != 40 {
			history = "?"
		}
		add("known-acks %s %d %d %s", name, p.acks, p.ackers, word(history))
	}
	for _, r := range p.replicas.list {
		to := r.at
		if to.same(at) {
			to = p.at // it was promoted, and the old primary is its replica
		}
		add("known-replica %s %s %d", name, word(m.fileAddress(to)), to.port)
		if p.acks > 0 && r.synced && r.runID != "" && to == r.at {
			add("known-synced %s %s %d %s", name, word(m.fileAddress(to)), to.port, word(r.runID))
		}
	}
	for _, s := range p.sentinels.list {
		if s.runID != "" {
			add("known-sentinel %s %s %d %s", name, word(m.fileAddress(s.at)), s.at.port, word(s.runID))
		}
	}
	for _, r := range p.renamed {
		add("rename-command %s %s %s", name, word(r.from), word(r.to))
	}
}

// fileAddress returns an address for the file. It is the host name if the IP is unknown.
func (m *Machine) fileAddress(a address) string {
	if shown := m.shown(a); shown != "" {
		return shown
	}
	return a.host
}

// word returns text as one word of a directive, quoted if needed.
func word(text string) string {
	if text == "" || !isPlain(text) || strings.ContainsAny(text, "\\#") {
		return setting.Quote(text)
	}
	return text
}
