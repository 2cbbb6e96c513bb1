// Package sentinel watches primaries and their replicas, agrees with other Sentinels on what is down, and fails over.
//
// Owner: the turn, for all of [Machine]. The goroutines of [Net] and of scripts tell it in turns what came.
// Never: the Machine opens a socket, waits, reads a clock or draws a random number of its own.
// Start here; instance.go is what is watched, down.go, vote.go and failover.go decide, net.go has the sockets.
package sentinel

import (
	"math/rand/v2"

	"spindle/internal/logging"
	"spindle/protocol/respclient"
)

// A Machine is one Sentinel: what it knows, and what it does about it. All depends on the calls, their times and the
// random numbers it was given, so that a simulator can run many of them.
//
// sentinel.M1. One goroutine at a time calls a Machine, and nothing that Outside does calls it back at once.
// sentinel.M2. No vote is given, and no epoch taken, that Save has not put on disk first.
// sentinel.M3. Between Dial and the Lost or Close of a Wire there is one connection. Nothing comes of an earlier one.
type Machine struct {
	Periods

	out Outside
	rng *rand.Rand
	now int64 // Unix ms, of the call that is under way

	id        string // 40 hex digits; empty before Start
	epoch     uint64 // the newest of any primary
	primaries table

	tilt      bool
	tiltSince int64
	lastTick  int64

	announceIP       string
	announcePort     int
	denyScripts      bool // SENTINEL SET may not name scripts
	resolve          bool // resolve-hostnames
	announceNames    bool // announce-hostnames
	user, password   string
	crashOnElection  bool
	crashOnPromotion bool
	scripts          []*job
	running          int // of scripts
	lastJob          int
	names            map[string]*name
	asking           int  // lookups that are under way
	deferred         int  // messages that wait for lookups
	configuring      bool // names are resolved at once
	stopped          bool // Crash was called: nothing is done any more
}

// Outside is what a Machine has done. None of it waits, apart from Save and LookupNow.
type Outside interface {
	// Dial begins a connection. Requests may be sent at once, and leave when it stands.
	Dial(w *Wire, ip string, port int) Conn
	// Lookup has a host name resolved; Resolved gets the answer.
	Lookup(host string)
	// LookupNow resolves a name while the configuration is read.
	LookupNow(host string) (ip string, ok bool)
	// Save puts what Lines says on disk, and returns when it would survive a loss of power.
	Save() error
	Publish(channel, message string)
	Log(level logging.Level, text string)
	// StartScript runs a program beside the server. ScriptStarted and ScriptEnded tell what becomes of it.
	StartScript(job int, argv []string)
	KillScript(job int)
	// Crash ends the process, for SENTINEL SIMULATE-FAILURE.
	Crash()
	// Port is where clients reach this Sentinel.
	Port() int
	// Password is requirepass, with which Sentinels without sentinel-pass know each other.
	Password() string
	// Executable says whether path is a program that may be run.
	Executable(path string) bool
}

// A Conn is one connection, as Outside sees it.
type Conn interface {
	Send(words ...string)
	Close()
	// LocalIP is this host's address on the connection; not ok before it stands.
	LocalIP() (ip string, ok bool)
}

// Periods are the times that SENTINEL DEBUG shows and sets, in ms.
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

// desyncMs spreads what Sentinels begin at the same time.
const desyncMs = 1000

// helloChannel is where Sentinels tell of themselves.
const helloChannel = "__sentinel__:hello"

// New is a Machine that watches nothing yet. Configure comes next, then Start.
func New(out Outside, rng *rand.Rand, nowMs int64) *Machine {
	return &Machine{
		Periods: defaultPeriods(), out: out, rng: rng, now: nowMs, lastTick: nowMs,
		denyScripts: true, names: map[string]*name{},
	}
}

// Start ends the configuration: a Sentinel without an id gets one, and each primary is announced.
//
// Errors: those of Save, if an id had to be written.
func (m *Machine) Start(nowMs int64) error {
	m.now, m.lastTick = nowMs, nowMs
	var err error
	if m.id == "" {
		m.id = m.newID()
		err = m.save()
	}
	m.out.Log(logging.LevelNotice, "Sentinel ID is "+m.id)
	for _, p := range m.primaries.list {
		m.tell(logging.LevelWarning, "+monitor", p, " quorum %d", p.quorum)
	}
	return err
}

// newID is 40 hex digits.
func (m *Machine) newID() string {
	const digits = "0123456789abcdef"
	id := make([]byte, 40)
	for i := range id {
		id[i] = digits[m.rng.IntN(len(digits))]
	}
	return string(id)
}

// Tick does what is due, about ten times a second.
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

// checkTilt enters TILT when the clock has jumped, or when nothing could be done for a while. What has timed out
// meanwhile says nothing about others.
func (m *Machine) checkTilt() {
	passed := m.now - m.lastTick
	m.lastTick = m.now
	if passed < 0 || passed > m.tiltTrigger {
		m.tilt, m.tiltSince = true, m.now
		m.say(logging.LevelWarning, "+tilt", nil, "#tilt mode entered")
	}
}

// look does what is due for one instance: first what tells of it, then what is decided about it.
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

// save puts the state on disk.
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

// Received takes a reply, or a message of a subscription.
func (m *Machine) Received(w *Wire, v respclient.Value, nowMs int64) {
	if m.now = nowMs; !m.stopped && w.conn != nil {
		m.received(w, v)
	}
}

// Lost says that a connection is gone, or could not be made.
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
		m.tell(logging.LevelDebug, word, w.of, " #%s", why)
	}
}
