package replication

import (
	"strconv"
	"strings"
)

// A Link decides what a replica says to its primary, and when: it connects, shakes hands, asks for the stream,
// notices silence, and tries again. It has no socket and reads no clock. What happens depends on the calls alone, so
// that a simulator can drive many of them. Times are those of a clock that only moves forward (clock.Steady).
//
//	idle ──Begin──▶ wanting ──▶ dialing ──▶ greeting ──▶ introducing ──▶ asking ──▶ receiving ──▶ following
//	                   ▲                                                   └── +CONTINUE ───────────▶ │
//	                   └────────────────────── Lost, errors, silence ─────────────────────────────────┘
//
// replication.L1. Between Dial and the next HangUp there is one connection. Calls about an earlier one do not come.
// replication.L2. What is asked for is the history that the other side tells: nothing that was not applied counts.
type Link struct {
	log   Logger
	other Outside

	Host  string
	Port  int
	state linkState
	steps []step // of the handshake, whose replies are awaited
	since int64  // when there was the last sign of life, or the last attempt

	downSinceMs int64  // when the link was lost; 0: it never stood
	upSinceMs   int64  // when the stream began
	copied      bool   // it began with a full copy
	why         string // of the last failure; empty: there was none since the stream began

	retryAt  int64                // when a link that is wanting dials
	failures int                  // in a row, with a peer that was there
	absences int                  // in a row, of the peer
	jitter   func(ms int64) int64 // how much earlier than after ms it dials; nil: no earlier

	failover bool // the next PSYNC asks the peer to take over
	bySync   bool // the peer knows no PSYNC: it wants no acknowledgements
	ackMs    int64
}

// Outside is what a Link has done. None of it waits, and none calls the Link.
type Outside interface {
	Terms() Terms
	// History is what the data here are: the history's name and the offset of the last byte applied. Not ok: nothing
	// that a primary could continue.
	History() (id string, offset int64, ok bool)
	Dial(host string, port int)
	Send(words ...string)
	HangUp()
	// Receive says that a full copy comes next. It is offset bytes into history id; offset -1: the peer did not say.
	Receive(id string, offset int64)
	// Continue says that the stream comes next, from where the history ends. id is its name from here on.
	Continue(id string)
	// Acknowledge tells the peer what was applied.
	Acknowledge()
	// Answered says how the peer took a PSYNC that asked it to take over.
	Answered(accepted bool)
}

// Terms are what a link tells of itself, and how patient it is.
type Terms struct {
	User, Password string
	Port           int    // where this server listens
	Address        string // replica-announce-ip
	PatienceMs     int64  // repl-timeout
}

// login is the AUTH that the terms ask for; not ok: none.
func (t Terms) login() (s step, ok bool) {
	switch {
	case t.Password == "":
		return s, false
	case t.User == "":
		return step{[]string{"AUTH", t.Password}, true}, true
	}
	return step{[]string{"AUTH", t.User, t.Password}, true}, true
}

type linkState uint8

const (
	idle linkState = iota
	wanting
	dialing
	greeting
	introducing
	asking
	receiving
	following
)

// String is what ROLE calls the state.
func (s linkState) String() string {
	return [...]string{"none", "connect", "connecting", "handshake", "handshake", "handshake", "sync", "connected"}[s]
}

// A step is one command of the handshake.
type step struct {
	words    []string
	critical bool
}

// A link that failed rests before it dials again: 1 s after the first failure, then twice as long each time, up to a
// bound. So a peer that breaks off each copy is not asked for the next one without a pause.
const (
	retryMs  = 1000
	restMost = 30_000
	// awayMost is the bound if the peer could not be reached, said that it will be ready later, or has sent its stream
	// without a copy. Another try costs it little, and an operator who restarts a primary does not wait for replicas.
	awayMost = 5000
	// lastedMs is how long the stream must have flowed for the next failure to be a first one.
	lastedMs = 10_000
)

// A failure is what kind of end a try had.
type failure uint8

const (
	broke  failure = iota // a copy was under way or had just come: the first time the link dials again at once
	lost                  // the stream flowed without a copy: so too, and the peer pays little for another try
	failed                // the peer was there, and something went wrong
	away                  // it was not there, or not ready
)

// ackEveryMs is how often the peer hears what was applied.
const ackEveryMs = 1000

// Begin has the link follow another server, from the next Tick on.
func (l *Link) Begin(host string, port int, nowMs int64) {
	l.drop()
	l.Host, l.Port = host, port
	l.state, l.since, l.downSinceMs, l.failover = wanting, nowMs, 0, false
	l.why = ""
	l.Hurry(nowMs)
}

// End has the link follow nobody.
func (l *Link) End() {
	l.drop()
	l.state, l.Host, l.Port, l.failover = idle, "", 0, false
}

// drop hangs up.
func (l *Link) drop() {
	if l.state > wanting {
		l.other.HangUp()
	}
	l.steps, l.bySync = nil, false
}

// Up says whether the stream flows.
func (l *Link) Up() bool { return l.state == following }

// Hurry forgets the failures there were, and ends a rest: something has changed that may let the next try succeed.
func (l *Link) Hurry(nowMs int64) {
	l.failures, l.absences, l.retryAt = 0, 0, nowMs
	l.Tick(nowMs)
}

// Lost says that the connection is gone, or could not be made.
func (l *Link) Lost(nowMs int64, why string) {
	switch l.state {
	case idle, wanting:
		return
	case following:
		l.log.Notice("Connection with master lost.")
		l.log.Notice("Caching the disconnected master state.")
		l.log.Notice("Reconnecting to MASTER %s:%d", l.Host, l.Port)
		l.downSinceMs = nowMs
		kind := lost
		if l.copied {
			kind = broke
		}
		l.again(nowMs, kind, "the connection was lost: "+why)
	case dialing:
		l.log.Warning("Error condition on socket for SYNC: %s", why)
		l.again(nowMs, away, "it cannot be reached: "+why)
	case receiving:
		l.log.Warning("I/O error trying to sync with MASTER: %s", why)
		l.again(nowMs, failed, "the full copy failed: "+why)
	default:
		l.log.Warning("Failed to read response from the server: %s", why)
		l.log.Warning("Master did not respond to command during SYNC handshake")
		l.again(nowMs, failed, "the handshake failed: "+why)
	}
}

// again hangs up and has the link dial anew, at once or after a rest. why is for INFO.
func (l *Link) again(nowMs int64, f failure, why string) {
	l.drop()
	rest := l.rest(f)
	l.state, l.since, l.why, l.retryAt = wanting, nowMs, why, nowMs+rest
	if rest > retryMs {
		l.log.Notice("The link to MASTER %s:%d has failed %d times in a row. It rests for %.1f seconds.", l.Host, l.Port,
			max(l.failures, l.absences), float64(rest)/1000)
	}
	l.Tick(nowMs)
}

// rest counts a failure and is how long the link rests after it.
func (l *Link) rest(f failure) int64 {
	count, most := &l.failures, int64(restMost)
	switch f {
	case away:
		count, most = &l.absences, awayMost
	case lost:
		most = awayMost
	}
	n := *count
	*count++
	if f == broke || f == lost {
		if n--; n < 0 {
			return 0
		}
	}
	ms := min(int64(retryMs)<<min(n, 6), most)
	if l.jitter != nil {
		ms -= l.jitter(ms)
	}
	return ms
}

// Connected says that the connection stands.
func (l *Link) Connected(nowMs int64) {
	l.log.Notice("Non blocking connect for SYNC fired the event.")
	l.state, l.since = greeting, nowMs
	l.other.Send("PING")
}

// Alive says that bytes have come.
func (l *Link) Alive(nowMs int64) { l.since = nowMs }

// Line is a line of the peer's, while one is awaited: up to the point where Receive or Continue is called.
func (l *Link) Line(line string, nowMs int64) {
	l.since = nowMs
	switch l.state {
	case greeting:
		l.greeted(line, nowMs)
	case introducing:
		l.introduced(line, nowMs)
	case asking:
		l.answered(line, nowMs)
	}
}

// greeted reads the reply to PING. A peer that wants a password first is there, too.
func (l *Link) greeted(line string, nowMs int64) {
	if !strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "-NOAUTH") && !strings.HasPrefix(line, "-NOPERM") &&
		!strings.HasPrefix(line, "-ERR operation not permitted") {
		l.log.Warning("Error reply to PING from master: '%s'", line)
		l.again(nowMs, kindOf(line), "it answers PING with "+line)
		return
	}
	l.log.Notice("Master replied to PING, replication can continue...")
	t := l.other.Terms()
	l.steps = l.steps[:0]
	if auth, ok := t.login(); ok {
		l.steps = append(l.steps, auth)
	}
	l.steps = append(l.steps, step{words: []string{"REPLCONF", "listening-port", strconv.Itoa(t.Port)}})
	if t.Address != "" {
		l.steps = append(l.steps, step{words: []string{"REPLCONF", "ip-address", t.Address}})
	}
	l.steps = append(l.steps, step{words: []string{"REPLCONF", "capa", "eof", "capa", "psync2",
		"capa", capaFieldDeadlines, "capa", capaBlooms}}) // the last two are ours, and no other server minds
	for _, s := range l.steps {
		l.other.Send(s.words...)
	}
	l.state = introducing
}

// introduced reads the reply to a step. A peer that does not know what it is told may still be followed.
func (l *Link) introduced(line string, nowMs int64) {
	s := l.steps[0]
	if strings.HasPrefix(line, "-") {
		if s.critical {
			l.log.Warning("Unable to AUTH to MASTER: %s", line)
			l.again(nowMs, failed, "it refuses the password: "+line)
			return
		}
		l.log.Notice("(Non critical) Master does not understand REPLCONF %s: %s", s.words[1], line)
	}
	if l.steps = l.steps[1:]; len(l.steps) == 0 {
		l.ask()
	}
}

// ask sends PSYNC.
func (l *Link) ask() {
	id, from := "?", "-1"
	if known, offset, ok := l.other.History(); ok {
		id, from = known, strconv.FormatInt(offset+1, 10)
		l.log.Notice("Trying a partial resynchronization (request %s:%s).", id, from)
	} else {
		l.log.Notice("Partial resynchronization not possible (no cached master)")
	}
	if l.failover {
		l.other.Send("PSYNC", id, from, "FAILOVER")
	} else {
		l.other.Send("PSYNC", id, from)
	}
	l.state = asking
}

// answered reads the reply to PSYNC.
func (l *Link) answered(line string, nowMs int64) {
	word, rest, _ := strings.Cut(line, " ")
	if line == "" {
		return // the peer prepares its answer
	}
	if l.failover {
		l.failover = false
		accepted := word == "+CONTINUE" || word == "+FULLRESYNC"
		if l.other.Answered(accepted); !accepted || l.state != asking {
			return // who asked goes back to being a primary
		}
	}
	switch {
	case word == "+CONTINUE":
		l.log.Notice("Successful partial resynchronization with master.")
		id := strings.TrimSpace(rest)
		if len(id) != len(noID) {
			id, _, _ = l.other.History()
		}
		l.follows(nowMs)
		l.other.Continue(id)
		l.log.Notice("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.")
	case word == "+FULLRESYNC":
		id, text, _ := strings.Cut(rest, " ")
		offset, err := strconv.ParseInt(text, 10, 64)
		if err != nil || offset < 0 || len(id) != len(noID) {
			l.log.Warning("Master replied with wrong +FULLRESYNC syntax.")
			l.again(nowMs, failed, "its +FULLRESYNC makes no sense")
			return
		}
		l.log.Notice("Full resync from master: %s:%d", id, offset)
		l.state, l.absences = receiving, 0
		l.other.Receive(id, offset)
	case word == "-NOMASTERLINK", word == "-LOADING":
		l.log.Notice("Master is currently unable to PSYNC but should be in the future: %s", line)
		l.again(nowMs, away, "it is not ready: "+line)
	default:
		if word == "-ERR" {
			l.log.Notice("Master does not support PSYNC or is in error state (reply: %s)", line)
		} else {
			l.log.Warning("Unexpected reply to PSYNC from master: %s", line)
		}
		l.log.Notice("Retrying with SYNC...")
		l.bySync, l.state = true, receiving
		l.other.Send("SYNC")
		l.other.Receive(noID, -1)
	}
}

// kindOf is what kind of failure an error reply is.
func kindOf(line string) failure {
	if strings.HasPrefix(line, "-LOADING") || strings.HasPrefix(line, "-NOMASTERLINK") {
		return away
	}
	return failed
}

// follows says that the stream begins. The failures of before are forgotten when it has lasted.
func (l *Link) follows(nowMs int64) {
	l.state, l.since, l.downSinceMs, l.upSinceMs, l.absences, l.why = following, nowMs, 0, nowMs, 0, ""
	l.copied = false
}

// Stopped says that the stream holds what this server does not understand. The next try may well meet it again.
func (l *Link) Stopped(nowMs int64, why string) {
	l.downSinceMs = nowMs
	l.again(nowMs, failed, why)
}

// Taken says that the full copy is in place: the stream comes next.
func (l *Link) Taken(nowMs int64) {
	l.follows(nowMs)
	l.copied = true
	l.log.Notice("MASTER <-> REPLICA sync: Finished with success")
	l.acknowledge(nowMs)
}

// Failed says that the full copy could not be taken. The first one that is cut off in its middle is asked for again at
// once. After another one, or one that could not be read or did not even begin, the link rests first: the next may be
// the same.
func (l *Link) Failed(nowMs int64, cutOff bool, why string) {
	if cutOff {
		l.retry(nowMs, broke, why)
	} else {
		l.again(nowMs, failed, why)
	}
}

// retry is again for a link that dials at once the first time.
func (l *Link) retry(nowMs int64, f failure, why string) {
	l.log.Notice("Reconnecting to MASTER %s:%d after failure", l.Host, l.Port)
	l.again(nowMs, f, why)
}

// Tick is the passing of time, some times a second.
func (l *Link) Tick(nowMs int64) {
	silent := nowMs-l.since > l.other.Terms().PatienceMs
	switch l.state {
	case wanting:
		if nowMs >= l.retryAt {
			l.log.Notice("Connecting to MASTER %s:%d", l.Host, l.Port)
			l.state, l.since = dialing, nowMs
			l.other.Dial(l.Host, l.Port)
			l.log.Notice("MASTER <-> REPLICA sync started")
		}
	case dialing, greeting, introducing, asking:
		if silent {
			kind := broke
			if l.state == dialing {
				kind = away
			}
			l.log.Warning("Timeout connecting to the MASTER...")
			l.retry(nowMs, kind, "it did not answer within repl-timeout")
		}
	case receiving:
		if silent {
			l.log.Warning("Timeout receiving bulk data from MASTER... If the problem persists try to set the 'repl-timeout' " +
				"parameter in redis.conf to a larger value.")
			l.retry(nowMs, broke, "nothing of the full copy came within repl-timeout")
		}
	case following:
		if silent {
			l.log.Warning("MASTER timeout: no data nor PING received...")
			l.Lost(nowMs, "nothing came within repl-timeout")
			return
		}
		if nowMs-l.upSinceMs >= lastedMs {
			l.failures = 0
		}
		if nowMs-l.ackMs >= ackEveryMs {
			l.acknowledge(nowMs)
		}
	}
}

// acknowledge tells the peer what was applied, unless it would not understand.
func (l *Link) acknowledge(nowMs int64) {
	l.ackMs = nowMs
	if !l.bySync {
		l.other.Acknowledge()
	}
}

// Asked says that the peer wants to know at once what was applied.
func (l *Link) Asked(nowMs int64) {
	if l.state == following {
		l.acknowledge(nowMs)
	}
}
