package replication

import (
	"bytes"
	"net"
	"strconv"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A census records what each replica's server can read. A spindle says in REPLCONF capa what it reads, and a Valkey
// says its version in REPLCONF version. No release of Redis says its version in the handshake of a replica. So a Redis
// is asked on another connection, before it gets data in a form that it may not read.
//
// replication.V1. A server gets no form that it is known not to read, neither in a full copy nor as an effect.
// replication.V2. A server of which nothing is known gets everything, as with Redis.
type census struct {
	core     *engine.Core
	settings *Settings
	stream   *stream
	roster   *roster
	saver    Saver
	dial     Dialer
	retry    func() // begins the full synchronisations that are due

	parser    protocol.Parser  // of effects that may be special
	specialAt int64            // offset of the last special effect in the stream, counted from 1; 0: there was none
	tooOld    map[Address]bool // replicas closed because of such an effect: they need a full copy
}

// refusalRest is how many ms a refused replica waits before it may try again.
const refusalRest = 30_000

// askRead asks r's server what it reads. No password is sent, because the address comes from r itself. So a server that
// requires a password does not answer.
func (s *census) askRead(r *replica) {
	r.asked = true
	if r.port == 0 || r.rdbOnly {
		r.answered = true // not a server: redis-cli, or a program that reads the stream
		return
	}
	address := net.JoinHostPort(r.host(), strconv.Itoa(r.port))
	go func() {
		version, lacks, err := survey(s.dial, address)
		s.core.Do(func() { s.learned(r, version, lacks, err) })
	}()
}

// learned continues with r after its server has answered, or has failed to answer.
func (s *census) learned(r *replica, version string, lacks Forms, err error) {
	if !r.isHere() {
		return
	}
	r.answered, r.version, r.lacks = true, version, lacks
	if err != nil {
		s.settings.Log.Notice("Replica %s does not say which version it is (%v): it gets everything", r.name(), err)
	}
	if r.met.Forms&lacks != 0 {
		s.closeTooOld(r, r.met)
		return
	}
	s.retry()
}

// spotEffect does the work of spot for a command in the stream's bytes.
func (s *census) spotEffect(db int, effect []byte) {
	at := bytes.IndexByte(effect, '\n') + len("$5\r\n") + 1
	if at < len(effect) && effect[at] == '\n' { // the name has ten letters or more
		at++
	}
	if at+2 > len(effect) {
		return
	}
	switch string([]byte{effect[at] &^ 0x20, effect[at+1] &^ 0x20}) {
	case "XA", "XC", "XI": // other commands begin so, too
		if !mayNameMessage(effect[at:]) {
			return
		}
		fallthrough
	case "HE", "HP", "BF", "RE", "FU": // the first letters of special commands
		if _, err := s.parser.Parse(effect); err == nil && len(s.parser.Requests) == 1 {
			s.spot(db, s.parser.Requests[0].Args)
		}
	}
}

// mayNameMessage reports whether a command may name messages of idempotent producers (XADD IDMP and kin). If not, it
// need not be parsed. effect is the stream's bytes, beginning with the command's name, which begins with an X.
func mayNameMessage(effect []byte) bool {
	name, rest, _ := bytes.Cut(effect, []byte("\r\n"))
	if !command.Is(name, "XADD") {
		return command.Is(name, "XCFGSET") || command.Is(name, "XIDMPRECORD")
	}
	digits, rest, _ := bytes.Cut(rest, []byte("\r\n"))
	n, err := strconv.Atoi(string(bytes.TrimPrefix(digits, []byte("$"))))
	const next = "\r\n$4\r\n"
	return err == nil && len(rest) > n+len(next)+4 && command.Is(rest[n+len(next):n+len(next)+4], "IDMP")
}

// spot checks whether args, the stream's next command, needs a form that a replica cannot read.
func (s *census) spot(db int, args [][]byte) {
	forms := special(args)
	if forms == 0 {
		return
	}
	x := Find{db, string(args[1]), forms}
	if command.Is(args[0], "FUNCTION") {
		x.DB = noDB
	}
	s.specialAt = s.stream.offset + 1
	for _, r := range s.roster.replicas {
		switch {
		case forms&^r.reads == 0, r.state == waiting, r.cl.Is(client.CloseASAP):
		case !r.answered:
			if r.met.Forms&forms == 0 {
				r.met = x
			}
			if !r.asked {
				s.askRead(r)
			}
		case forms&^r.reads&r.lacks != 0:
			s.closeTooOld(r, x)
		}
	}
}

// closeTooOld closes r, which cannot read the stream's next command. r must not continue later from the backlog, which
// holds that command.
func (s *census) closeTooOld(r *replica, x Find) {
	x.Forms &= r.lacks &^ r.reads
	s.settings.Log.Warning("Closing replica %s of version %s, which could not read the stream: %s", r.name(), r.version, x)
	s.tooOld[r.address()] = true
	s.core.Kill(r.cl, false)
}

// canRead reports whether r, which waits for a full copy, can read a copy of the present data. If r cannot, it gets an
// error, and is closed after a rest.
func (s *census) canRead(r *replica) bool {
	may := s.saver.Holds() &^ r.reads
	switch {
	case may == 0:
		return true
	case !r.asked:
		s.askRead(r)
	}
	if !r.answered || r.refusedMs != 0 {
		return false
	}
	if may &= r.lacks; may == 0 || r.searchedAt > s.specialAt {
		return true
	}
	r.refusedMs = s.core.SteadyMs()
	at, view := s.stream.offset+1, s.core.Freeze()
	go func() {
		x, found := s.saver.Find(view, may)
		view.Close()
		s.core.Do(func() { s.searched(r, x, found, at) })
	}()
	return false
}

// searched continues with r, after the data at offset at have been searched for forms that r cannot read.
func (s *census) searched(r *replica, x Find, found bool, at int64) {
	if !r.isHere() {
		return
	}
	if !found {
		r.refusedMs, r.searchedAt = 0, at
		s.retry()
		return
	}
	s.settings.Log.Warning("Full synchronization with replica %s of version %s refused: %s", r.name(), r.version, x)
	r.refusal = "-ERR Full synchronization refused: " + x.String() + "\r\n"
	if r.psync {
		r.cl.Conn.Post(s.core.TurnNumber(), []byte(r.refusal)) // the replica then asks by SYNC, which waits
	}
}

// closeRefused closes refused replicas after their rest. They may try again.
func (s *census) closeRefused(nowMs int64) {
	for _, r := range s.roster.replicas {
		if r.refusal != "" && nowMs-r.refusedMs >= refusalRest && !r.cl.Is(client.CloseASAP) {
			r.cl.Conn.Post(s.core.TurnNumber(), []byte(r.refusal))
			s.core.Kill(r.cl, true)
		}
	}
}
