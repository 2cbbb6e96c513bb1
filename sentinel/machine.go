// Package sentinel watches primaries and their replicas, agrees with other Sentinels on failures, and fails over.
//
// Owner: the turn owns the [Machine]. The goroutines of [Net] and of scripts report to it in turns.
// Never: the Machine opens a socket, waits, reads a clock or makes its own random numbers.
// Start here; instance.go has the watched instances; down.go, vote.go and failover.go decide; hold.go has
// replicas confirm nothing meanwhile; net.go has the sockets.
package sentinel

import (
	"math/rand/v2"

	"spindle/internal/logging"
	"spindle/protocol/respclient"
)

// A Machine is one Sentinel: its knowledge and its decisions. These depend only on its calls, their times and the given
// random numbers, so that a simulator can run many Machines.
//
// sentinel.M1. One goroutine at a time calls a Machine. No method of Outside calls it back directly.
// sentinel.M2. Save has put a vote or an epoch on disk before it is used.
// sentinel.M3. Between Dial and the Lost or Close of a Wire there is one connection. Nothing comes from an earlier one.
type Machine struct {
	Periods

	out Outside
	rng *rand.Rand
	now int64 // Unix ms, of the current call

	id        string // 40 hex digits; empty before Start
	epoch     uint64 // the newest of any primary
	primaries table

	tilt      bool
	tiltSince int64
	lastTick  int64

	announceIP       string
	announcePort     int
	denyScripts      bool // SENTINEL SET may not set scripts
	resolve          bool // resolve-hostnames
	announceNames    bool // announce-hostnames
	user, password   string
	crashOnElection  bool
	crashOnPromotion bool
	scripts          []*job
	running          int // running scripts
	lastJob          int
	names            map[string]*name
	asking           int  // running lookups
	deferred         int  // messages that wait for lookups
	configuring      bool // names are resolved synchronously
	stopped          bool // Crash was called: do nothing any more
}

// Outside is a Machine's access to the world. Only Save and LookupNow block.
type Outside interface {
	// Dial starts a connection. Requests may be sent at once; they are written when the connection is open.
	Dial(w *Wire, ip string, port int) Conn
	// Lookup resolves a host name. The result goes to Machine.Resolved.
	Lookup(host string)
	// LookupNow resolves a name while the configuration is read.
	LookupNow(host string) (ip string, ok bool)
	// Save writes the directives of Lines to disk, and returns when they survive a loss of power.
	Save() error
	Publish(channel, message string)
	Log(level logging.Level, text string)
	// StartScript runs a program. ScriptStarted and ScriptEnded report on it.
	StartScript(job int, argv []string)
	KillScript(job int)
	// Crash ends the process, for SENTINEL SIMULATE-FAILURE.
	Crash()
	// Port returns this Sentinel's port for clients.
	Port() int
	// Password returns requirepass. Sentinels without sentinel-pass use it between each other.
	Password() string
	// Executable reports whether path is an executable program.
	Executable(path string) bool
}

// A Conn is one connection of Outside.
type Conn interface {
	Send(words ...string)
	Close()
	// LocalIP returns this host's address on the connection. ok is false before it is connected.
	LocalIP() (ip string, ok bool)
}

// Periods are the durations that SENTINEL DEBUG shows and sets, in ms.
type Periods struct {
	info, ping, ask, publish         int64
	downAfter, failoverTimeout       int64 // of new primaries
	tiltTrigger, tiltPeriod          int64
	reconfTimeout, reconnect         int64
	election, scriptMax, scriptRetry int64
}

func defaultPeriods() Periods {
	return Periods{
		info: 10_000, ping: 1000, ask: 1000, publish: 2000, downAfter: 30_000, failoverTimeout: 180_000,
		tiltTrigger: 2000, tiltPeriod: 30_000, reconfTimeout: 10_000, reconnect: 15_000, election: 10_000,
		scriptMax: 60_000, scriptRetry: 30_000,
	}
}

// desyncMs spreads the start times of failovers that Sentinels begin together.
const desyncMs = 1000

// helloChannel is the channel for hellos.
const helloChannel = "__sentinel__:hello"

// New returns a Machine that watches nothing yet. The caller then calls Configure and Start.
func New(out Outside, rng *rand.Rand, nowMs int64) *Machine {
	return &Machine{
		Periods: defaultPeriods(), out: out, rng: rng, now: nowMs, lastTick: nowMs,
		denyScripts: true, names: map[string]*name{},
	}
}

// Start ends the configuration. It makes an id if there is none, and announces each primary.
//
// Errors: those of Save, if a new id had to be written.
func (m *Machine) Start(nowMs int64) error {
	m.now, m.lastTick = nowMs, nowMs
	var err error
	if m.id == "" {
		m.id = m.newID()
		err = m.save()
	}
	m.out.Log(logging.LevelNotice, "Sentinel ID is "+m.id)
	for _, p := range m.primaries.list {
		for _, r := range p.replicas.list {
			r.history = p.history // if it is synced; else it is not known
		}
		m.emit(logging.LevelWarning, "+monitor", p, " quorum %d", p.quorum)
	}
	return err
}

// newID makes 40 random hex digits.
func (m *Machine) newID() string {
	const digits = "0123456789abcdef"
	id := make([]byte, 40)
	for i := range id {
		id[i] = digits[m.rng.IntN(len(digits))]
	}
	return string(id)
}

// Tick runs periodic work, about ten times a second.
func (m *Machine) Tick(nowMs int64) {
	m.now = nowMs
	m.checkTilt()
	var switching *Instance
	for _, p := range m.primaries.each() {
		m.look(p)
		for _, r := range p.replicas.each() {
			m.look(r)
		}
		for _, s := range p.sentinels.each() {
			m.look(s)
		}
		if p.state == updateConfig {
			switching = p
		}
		if m.stopped {
			return
		}
	}
	if switching != nil {
		m.switchToPromoted(switching)
	}
	m.runScripts()
	m.killScripts()
}

// checkTilt enters TILT when the clock has jumped, or when this Sentinel was stopped for a while. Timeouts in that time
// mean nothing about other servers.
func (m *Machine) checkTilt() {
	passed := m.now - m.lastTick
	m.lastTick = m.now
	if passed < 0 || passed > m.tiltTrigger {
		m.tilt, m.tiltSince = true, m.now
		m.say(logging.LevelWarning, "+tilt", nil, "#tilt mode entered")
	}
}

// look does one instance's periodic work: it sends what is due to the server, then decides about the instance.
func (m *Machine) look(i *Instance) {
	if i.gone {
		return
	}
	m.connect(i)
	m.sendPeriodic(i)
	if m.tilt {
		if m.now-m.tiltSince < m.tiltPeriod {
			return
		}
		m.tilt = false
		m.say(logging.LevelWarning, "-tilt", nil, "#tilt mode exited")
	}
	m.checkSubjectively(i)
	if i.kind != primary {
		return
	}
	m.checkObjectively(i)
	if m.startFailoverIfDue(i) {
		m.askOthers(i, true)
	}
	m.failOver(i)
	if !m.stopped {
		m.askOthers(i, false)
	}
}

// save puts the state on disk, and logs the result.
func (m *Machine) save() error {
	err := m.out.Save()
	if err != nil {
		m.out.Log(logging.LevelWarning, "WARNING: Sentinel was not able to save the new configuration on disk!!!: "+
			err.Error())
		return err
	}
	m.out.Log(logging.LevelNotice, "Sentinel new configuration saved on disk")
	return nil
}

// Received handles a reply, or a message of a subscription.
func (m *Machine) Received(w *Wire, v respclient.Value, nowMs int64) {
	if m.now = nowMs; !m.stopped && w.conn != nil {
		m.received(w, v)
	}
}

// Lost notes that a connection is gone, or could not be opened.
func (m *Machine) Lost(w *Wire, why string, nowMs int64) {
	m.now = nowMs
	if w.conn == nil || m.stopped {
		return
	}
	w.conn = nil
	w.link.forget(w)
	if w.of != nil && !w.of.gone {
		word := "-cmd-link-reconnection"
		if w.subscribes {
			word = "-pubsub-link-reconnection"
		}
		m.emit(logging.LevelDebug, word, w.of, " #%s", why)
	}
}
