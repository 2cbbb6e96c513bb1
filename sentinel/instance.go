package sentinel

import (
	"errors"
	"slices"
	"strings"

	"spindle/internal/logging"
)

// A kind is the kind of an instance.
type kind uint8

const (
	primary kind = iota
	replica
	other // another Sentinel
)

// String returns the word in events and replies.
func (k kind) String() string { return [...]string{"master", "slave", "sentinel"}[k] }

// flags are the current states of an instance.
type flags uint16

const (
	subjectivelyDown flags = 1 << iota
	objectivelyDown
	saysPrimaryDown // of a Sentinel: it has reported the primary down
	failingOver
	promoted
	reconfSent
	reconfUnderWay
	reconfDone
	forced // a client asked for the failover
	scriptKilled
	rebooted
)

// An address is the place of an instance. ip is empty while a host name is not resolved.
type address struct {
	host, ip string
	port     int
}

// same reports whether two addresses are equal, by IP or by host name.
func (a address) same(b address) bool {
	return a.port == b.port && (a.ip != "" && a.ip == b.ip || strings.EqualFold(a.host, b.host))
}

// An Instance is a primary, one of its replicas, or another Sentinel that watches it.
type Instance struct {
	kind    kind
	flags   flags
	gone    bool   // it was removed; later replies to it are ignored
	name    string // of a primary its configured name, of a replica its address, of a Sentinel its id
	runID   string // empty until it is known
	at      address
	link    *link
	primary *Instance // nil for a primary

	published   int64 // when the last hello was sent
	heard       int64 // of a Sentinel: when its last hello came
	answered    int64 // when it last replied whether the primary is down
	downSince   int64 // subjectively; 0: never
	odownSince  int64
	downAfter   int64
	infoAt      int64 // when the last INFO was read; 0: none came yet
	infoOf      int64 // when that INFO came: its host names are looked up before it is read
	info        string
	hasInfo     bool
	saysPrimary bool // its last INFO has the role of a primary
	roleSince   int64
	history     string // the replication id of its data; a primary's is that of its last INFO as a primary
	reported    string // the replication id of its last INFO

	// These fields are a replica's, from its INFO.
	linkDown       int64 // ms
	uptime         int64 // ms
	priority       int64
	announced      bool
	primaryHost    string
	primaryPort    int
	primaryUp      bool
	synced         bool // it has had all of its primary's data, and no full copy or restart since
	offset         uint64
	followsSince   int64 // since when it follows its current primary
	reconfSentAt   int64
	readingDelayed bool // an INFO waits for names
	hold           hold

	// These fields are a primary's.
	sentinels, replicas table
	quorum              int64
	acks                int   // how many replicas its replies wait for, by its last INFO
	ackers              int   // its replicas in that INFO
	resetAt             int64 // the SENTINEL RESET that waits for its INFO; 0: none
	unsaved             bool  // these, or which replicas have all data, could not be written to disk
	parallel            int64
	user, password      string
	renamed             []rename
	configEpoch         uint64
	rebootDownAfter     int64
	rebootSince         int64
	notify, reconfigure string // scripts

	// leader is a primary's or a Sentinel's vote.
	leader      string
	leaderEpoch uint64

	failoverEpoch   uint64
	state           failoverState
	stateSince      int64
	failoverStart   int64 // when the last attempt began, of this Sentinel or another one
	failoverTimeout int64
	delayLogged     int64
	chosen          *Instance // the replica that is promoted
}

// A rename is one line of sentinel rename-command.
type rename struct{ from, to string }

// group returns the primary that the instance belongs to.
func (i *Instance) group() *Instance {
	if i.primary != nil {
		return i.primary
	}
	return i
}

func (i *Instance) is(f flags) bool { return i.flags&f != 0 }

// command returns the name under which the instance knows a command.
func (i *Instance) command(name string) string {
	for _, r := range i.group().renamed {
		if strings.EqualFold(r.from, name) {
			return r.to
		}
	}
	return name
}

// A table holds instances by name and in order of arrival. The fixed order makes a Machine's decisions depend only on
// its calls.
type table struct {
	list   []*Instance
	byName map[string]*Instance
}

func (t *table) find(name string) *Instance { return t.byName[name] }

func (t *table) len() int { return len(t.list) }

// each returns a copy of the list, so that callers may remove instances while they iterate.
func (t *table) each() []*Instance { return slices.Clone(t.list) }

func (t *table) add(i *Instance) {
	if t.byName == nil {
		t.byName = map[string]*Instance{}
	}
	t.byName[i.name] = i
	t.list = append(t.list, i)
}

func (t *table) drop(i *Instance) {
	if t.byName[i.name] == i {
		delete(t.byName, i.name)
	}
	t.list = slices.DeleteFunc(t.list, func(x *Instance) bool { return x == i })
}

var (
	errDuplicatePrimary  = errors.New("Duplicate master name.")
	errDuplicateReplica  = errors.New("Duplicate hostname and port for replica.")
	errDuplicateSentinel = errors.New("Duplicate runid for sentinel.")
	errUnresolved        = errors.New("Can't resolve instance hostname.")
	errPort              = errors.New("Invalid port number.")
)

// create makes an instance and adds it to its table. name is for primaries and Sentinels.
//
// Errors: a duplicate name, an invalid address.
func (m *Machine) create(k kind, name, host string, port int, quorum int64, p *Instance) (*Instance, error) {
	at, err := m.address(host, port, true)
	if err != nil {
		return nil, err
	}
	into, taken := &m.primaries, errDuplicatePrimary
	switch k {
	case replica:
		name, into, taken = m.shownWithPort(at), &p.replicas, errDuplicateReplica
	case other:
		into, taken = &p.sentinels, errDuplicateSentinel
	}
	if into.find(name) != nil {
		return nil, taken
	}
	i := &Instance{
		kind: k, name: name, at: at, primary: p, quorum: quorum, parallel: 1, priority: 100, announced: true,
		published: m.now, heard: m.now, answered: m.now, roleSince: m.now, followsSince: m.now, saysPrimary: k == primary,
		downAfter: m.downAfter, failoverTimeout: m.failoverTimeout,
	}
	if p != nil {
		i.downAfter = p.downAfter
	}
	i.link = m.newLink()
	into.add(i)
	return i, nil
}

// monitor adds a primary while the Sentinel runs. It may have been watched before under this name, with a vote in the
// present epoch. So this Sentinel votes only in later epochs.
func (m *Machine) monitor(name, host string, port int, quorum int64) (*Instance, error) {
	p, err := m.create(primary, name, host, port, quorum, nil)
	if err == nil {
		p.leaderEpoch = m.epoch
	}
	return p, err
}

// release removes an instance, with everything that belongs to it.
func (m *Machine) release(i *Instance) {
	for _, s := range i.sentinels.each() {
		m.release(s)
	}
	for _, r := range i.replicas.each() {
		m.release(r)
	}
	i.gone = true
	i.link.leave()
	switch p := i.primary; {
	case p == nil:
		m.primaries.drop(i)
	case i.kind == replica:
		p.replicas.drop(i)
		if p.chosen == i {
			p.chosen = nil
		}
	default:
		p.sentinels.drop(i)
	}
}

// findSentinel finds a Sentinel by its address and id. If one of them is empty, it is ignored.
func (m *Machine) findSentinel(p *Instance, at *address, id string) *Instance {
	for _, s := range p.sentinels.list {
		if (id == "" || s.runID == id) && (at == nil || s.at.same(*at)) {
			return s
		}
	}
	return nil
}

// removeSentinel removes the Sentinel with that id. It reports whether there was one.
func (m *Machine) removeSentinel(p *Instance, id string) bool {
	s := m.findSentinel(p, nil, id)
	if s == nil || id == "" {
		return false
	}
	m.release(s)
	return true
}

// reset forgets what was learned about a primary: its replicas, a failover and, unless keepSentinels, its Sentinels.
func (m *Machine) reset(p *Instance, keepSentinels bool) {
	for _, r := range p.replicas.each() {
		m.release(r)
	}
	if !keepSentinels {
		for _, s := range p.sentinels.each() {
			m.release(s)
		}
	}
	p.link.close()
	p.flags, p.leader, p.state, p.stateSince, p.failoverStart, p.chosen = 0, "", failoverNone, 0, 0, nil
	p.runID, p.primaryHost, p.resetAt = "", "", 0
	p.link.revive(m.now)
	p.roleSince, p.saysPrimary = m.now, true
}

// relearn runs SENTINEL RESET: it forgets what was learned about a primary, which is then learned again.
//
// If replies of the primary wait for replicas, its replicas stay until its next INFO. Then those that it does not name
// are forgotten. Until then the primary or a replica's link could fail, and a failover must know the replicas that may
// have confirmed writes. A server that a failover has promoted first becomes the primary. Otherwise the old address
// would have the new epoch, and the new primary would be made a replica again.
func (m *Machine) relearn(p *Instance) {
	if p.acks == 0 {
		m.reset(p, false)
		return
	}
	if p.is(failingOver) && p.state >= reconfReplicas && p.chosen != nil {
		m.switchToPromoted(p)
	}
	known := p.replicas
	p.replicas = table{}
	m.reset(p, false)
	p.replicas, p.resetAt = known, m.now
	for _, r := range known.list {
		r.flags &^= promoted | reconfSent | reconfUnderWay | reconfDone
	}
}

// forgetUnnamed ends a SENTINEL RESET of a primary whose replies wait for replicas. It forgets the replicas that the
// primary's INFO does not name. If the INFO comes late, a replica may have lost its link meanwhile. Then all stay.
func (m *Machine) forgetUnnamed(p *Instance, r report) {
	late := m.now-p.resetAt > 5*hurriedMs
	if p.resetAt = 0; late || p.is(subjectivelyDown|failingOver) {
		m.warn("SENTINEL RESET of %s has forgotten no replica: its primary did not answer within %d s, or was failed over",
			p.name, 5*hurriedMs/1000)
		return
	}
	named := map[*Instance]bool{}
	for _, at := range r.replicas {
		if to, err := m.address(at.host, at.port, false); err == nil {
			named[p.replicas.find(m.shownWithPort(to))] = true
		}
	}
	for _, known := range p.replicas.each() {
		if !named[known] {
			m.release(known)
		}
	}
	_ = m.save() // save logs the error
}

// changeAddress switches a primary to another server. The primary's old address becomes one of its replicas.
//
// Errors: an unknown host name. Then nothing has changed.
func (m *Machine) changeAddress(p *Instance, host string, port int) error {
	to, err := m.address(host, port, false)
	if err != nil {
		return err
	}
	var keep []address
	for _, r := range p.replicas.list {
		if !r.at.same(to) {
			keep = append(keep, r.at)
		}
	}
	if !to.same(p.at) {
		keep = append(keep, p.at)
	}
	m.reset(p, true)
	p.at, p.odownSince, p.downSince = to, 0, 0
	for _, at := range keep {
		if r, err := m.create(replica, "", at.host, at.port, p.quorum, p); err == nil {
			m.emit(logging.LevelNotice, "+slave", r, "")
		}
	}
	_ = m.save() // save logs the error
	return nil
}

// current returns the primary's address. Once a promotion is known, this is the chosen replica's address.
func (p *Instance) current() address {
	if p.is(failingOver) && p.chosen != nil && p.state >= reconfReplicas {
		return p.chosen.at
	}
	return p.at
}

// spreadDownAfter copies the primary's downAfter to its replicas and Sentinels.
func (p *Instance) spreadDownAfter() {
	for _, i := range p.replicas.list {
		i.downAfter = p.downAfter
	}
	for _, i := range p.sentinels.list {
		i.downAfter = p.downAfter
	}
}

// upFor reports whether the instance was neither subjectively nor objectively down in the last ms milliseconds.
func (m *Machine) upFor(i *Instance, ms int64) bool {
	last := max(i.downSince, i.odownSince)
	return last == 0 || m.now-last > ms
}
