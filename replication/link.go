package replication

import (
	"strconv"
	"strings"
)

// A Link decides what a replica sends to its primary, and when. It connects, shakes hands, asks for the stream, notices
// silence, and tries again. It has no socket and reads no clock, so that a simulator can drive many links. Times are by
// clock.Steady.
//
//	idle ──Begin──▶ wanting ──▶ dialing ──▶ greeting ──▶ introducing ──▶ asking ──▶ receiving ──▶ following
//	                   ▲                                                   └── +CONTINUE ───────────▶ │
//	                   └────────────────────── Lost, errors, silence ─────────────────────────────────┘
//
// replication.L1. Between Dial and the next HangUp there is one connection. No call is about an earlier one.
// replication.L2. The link asks for the history that Outside returns. It counts only applied bytes.
type Link struct {
	log   Logger
	other Outside

	Host  string
	Port  int
	state linkState
	steps []step // of the handshake, whose replies are awaited
	since int64  // when the peer was last heard, or the last try began

	downSinceMs int64  // when the link was lost; 0: it was never up
	upSinceMs   int64  // when the stream began
	copied      bool   // it began with a full copy
	why         string // why it last failed; "": it has not failed since the stream began

	tries     int64 // tries to get the stream, since it last ended
	allTries  int64 // tries since Begin
	lostForMs int64 // how long the stream was lost in earlier times, since Begin

	retryAt  int64                // when a link in the state wanting dials
	failures int                  // failures in a row with a peer that could be reached
	absences int                  // failures in a row to reach the peer
	jitter   func(ms int64) int64 // by how much a rest of ms is shortened; nil: not at all

	failover bool // the next PSYNC asks the peer to take over
	bySync   bool // the peer does not know PSYNC, and wants no acknowledgements
	ackMs    int64
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

// String returns ROLE's word for the state.
func (s linkState) String() string {
	return [...]string{"none", "connect", "connecting", "handshake", "handshake", "handshake", "sync", "connected"}[s]
}

// A link that failed rests before it dials again: 1 s after the first failure, then twice as long each time, up to a
// bound. A link whose peer breaks off each copy rests between two copies.
const (
	retryMs  = 1000
	restMost = 30_000
	// awayMost is the bound if the peer was unreachable, was not ready, or sent its stream without a copy. Another try
	// costs the peer little, and after a restart of the primary its replicas reconnect soon.
	awayMost = 5000
	// lastedMs is how long the stream must flow until earlier failures no longer count.
	lastedMs = 10_000
)

// A failure is the kind of end that a try had.
type failure uint8

const (
	broke  failure = iota // a copy was running or had just ended; the first time the link dials at once
	lost                  // the stream had begun without a copy; the first time the link dials at once
	failed                // the peer was reached, and something went wrong
	away                  // the peer was unreachable, or not ready
)

// likeVersion is the version that the link sends to a primary: that of the newest Valkey whose RDB form this server
// reads. A Valkey primary chooses the form by it, and other primaries ignore the option.
const likeVersion = "9.0.0"

// ackEveryMs is how often the link acknowledges the applied bytes.
const ackEveryMs = 1000

// Begin makes the link follow another server, from the next Tick on.
func (l *Link) Begin(host string, port int, nowMs int64) {
	l.drop()
	l.Host, l.Port = host, port
	l.state, l.since, l.downSinceMs, l.failover = wanting, nowMs, 0, false
	l.why, l.tries, l.allTries, l.lostForMs = "", 0, 0, 0
	l.Hurry(nowMs)
}

// End makes the link follow no server.
func (l *Link) End() {
	l.drop()
	l.state, l.Host, l.Port, l.failover = idle, "", 0, false
}

// drop closes the connection.
func (l *Link) drop() {
	if l.state > wanting {
		l.other.HangUp()
	}
	l.steps, l.bySync = nil, false
}

// Up reports whether the stream is connected.
func (l *Link) Up() bool { return l.state == following }

// Hurry ends a rest and forgets earlier failures, because something has changed and the next try may succeed.
func (l *Link) Hurry(nowMs int64) {
	l.failures, l.absences, l.retryAt = 0, 0, nowMs
	l.Tick(nowMs)
}

// Lost notes that the connection is gone, or could not be made.
func (l *Link) Lost(nowMs int64, why string) {
	switch l.state {
	case idle, wanting:
		return
	case following:
		l.log.Notice("Connection with master lost.")
		l.log.Notice("Caching the disconnected master state.")
		l.log.Notice("Reconnecting to MASTER %s:%d", l.Host, l.Port)
		l.ended(nowMs)
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

// again closes the connection and dials once more, at once or after a rest. why is for INFO.
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

// rest counts a failure, and returns how many ms the link must rest.
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

// Connected notes that the connection exists.
func (l *Link) Connected(nowMs int64) {
	l.log.Notice("Non blocking connect for SYNC fired the event.")
	l.state, l.since = greeting, nowMs
	l.other.Send("PING")
}

// Alive notes that bytes have arrived.
func (l *Link) Alive(nowMs int64) { l.since = nowMs }

// Line handles a line that the peer has sent. After a line for which the link calls Receive or Continue, no lines
// follow.
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

// greeted reads the reply to PING. A peer that first requires a password counts as reachable too.
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
	// A server that requires a password closes a connection whose request has more than ten words.
	l.steps = append(l.steps, step{words: []string{"REPLCONF", "capa", "eof", "capa", "psync2"}},
		// Other servers ignore these four.
		step{words: []string{"REPLCONF", "capa", capaFieldDeadlines, "capa", capaBlooms, "capa", capaPayloads, "capa",
			capaMessages}, quiet: true},
		step{words: []string{"REPLCONF", "version", likeVersion}, quiet: true})
	for _, s := range l.steps {
		l.other.Send(s.words...)
	}
	l.state = introducing
}

// introduced reads the reply to a step. The link also follows a peer that does not know the step's option.
func (l *Link) introduced(line string, nowMs int64) {
	s := l.steps[0]
	if strings.HasPrefix(line, "-") {
		if s.critical {
			l.log.Warning("Unable to AUTH to MASTER: %s", line)
			l.again(nowMs, failed, "it refuses the password: "+line)
			return
		}
		if !s.quiet {
			l.log.Notice("(Non critical) Master does not understand REPLCONF %s: %s", s.words[1], line)
		}
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
		return // a sign of life before the reply
	}
	if l.failover {
		l.failover = false
		accepted := word == "+CONTINUE" || word == "+FULLRESYNC"
		if l.other.Answered(accepted); !accepted || l.state != asking {
			return // this server became a primary again
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

// kindOf returns the kind of failure that an error reply means.
func kindOf(line string) failure {
	if strings.HasPrefix(line, "-LOADING") || strings.HasPrefix(line, "-NOMASTERLINK") {
		return away
	}
	return failed
}

// follows notes that the stream begins. Earlier failures count until the stream has lasted.
func (l *Link) follows(nowMs int64) {
	l.lostForMs = l.LostMs(nowMs)
	l.state, l.since, l.downSinceMs, l.upSinceMs, l.absences, l.why = following, nowMs, 0, nowMs, 0, ""
	l.copied = false
}

// ended notes that the stream has ended.
func (l *Link) ended(nowMs int64) { l.downSinceMs, l.tries = nowMs, 0 }

// LostMs returns for how many ms since Begin the stream was lost. The time before the first stream does not count.
func (l *Link) LostMs(nowMs int64) int64 {
	if l.downSinceMs == 0 {
		return l.lostForMs
	}
	return l.lostForMs + nowMs - l.downSinceMs
}

// Stopped notes that the stream has a command that this server does not understand. The next try may meet the command
// again.
func (l *Link) Stopped(nowMs int64, why string) {
	l.ended(nowMs)
	l.again(nowMs, failed, why)
}

// Taken notes that the full copy is in place. The stream comes next.
func (l *Link) Taken(nowMs int64) {
	l.follows(nowMs)
	l.copied = true
	l.log.Notice("MASTER <-> REPLICA sync: Finished with success")
	l.acknowledge(nowMs)
}

// Failed notes that the full copy could not be loaded. If it is the first copy cut off in its middle, the link dials at
// once. Otherwise the link rests, because the next copy may fail the same way.
func (l *Link) Failed(nowMs int64, cutOff bool, why string) {
	if cutOff {
		l.retry(nowMs, broke, why)
	} else {
		l.again(nowMs, failed, why)
	}
}

func (l *Link) retry(nowMs int64, f failure, why string) {
	l.log.Notice("Reconnecting to MASTER %s:%d after failure", l.Host, l.Port)
	l.again(nowMs, f, why)
}

// Tick passes the time to the link, ten times a second.
func (l *Link) Tick(nowMs int64) {
	silent := nowMs-l.since > l.other.Terms().PatienceMs
	switch l.state {
	case wanting:
		if nowMs >= l.retryAt {
			l.log.Notice("Connecting to MASTER %s:%d", l.Host, l.Port)
			l.state, l.since = dialing, nowMs
			l.tries++
			l.allTries++
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

// acknowledge sends the applied offset to the peer, if the peer knows PSYNC.
func (l *Link) acknowledge(nowMs int64) {
	l.ackMs = nowMs
	if !l.bySync {
		l.other.Acknowledge()
	}
}

// Asked notes that the peer has asked for an acknowledgement.
func (l *Link) Asked(nowMs int64) {
	if l.state == following {
		l.acknowledge(nowMs)
	}
}
