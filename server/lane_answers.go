package server

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"spindle/engine/acl"
	"spindle/engine/command"
	"spindle/engine/family/conn"
	"spindle/engine/family/observe"
	"spindle/internal/info"
	"spindle/internal/number"
	"spindle/internal/process"
	"spindle/protocol"
)

// What a client of the admin lane is answered beside the turn, from what was last published (server.L1). The lane's
// loop calls answer; no other goroutine does.

// answer answers a request beside the turn; false if it has to wait for it.
func (l *lane) answer(s *laneSession, args [][]byte, r *protocol.Reply) bool {
	spec, err := l.in.catalogue.Resolve(l.in.catalogue.Lookup(args[0]), args)
	if err != nil || spec == nil || s.bound {
		return false
	}
	switch {
	case spec.Flags&command.NoAuth != 0:
	case !s.authed.Load() && !l.in.core.Users().DefaultIsOpen():
		r.Error(protocol.ErrNoAuth)
		return true
	case s.user == nil || !s.user.Rights().Always(spec):
		return false // what may be said of it is the core's to say
	}
	switch spec.Full {
	case "ping":
		switch len(args) {
		case 1:
			r.Simple("PONG")
		case 2:
			r.Bulk(args[1])
		default:
			return false
		}
	case "quit":
		r.OK()
		s.quitting = true
	case "auth":
		return l.auth(s, args, r)
	case "hello":
		return l.hello(s, args, r)
	case "info":
		l.info(args, r)
	case "slowlog|get":
		return l.slowlog(args, r)
	case "client|list":
		return l.clientList(args, r)
	case "client|kill":
		return l.clientKill(s, args, r)
	case "script|kill", "function|kill":
		if err := l.in.scripts.KillBeside(spec.Full == "script|kill"); err != nil {
			r.Error(err)
		} else {
			r.OK()
		}
	case "shutdown":
		return l.shutdown(s, args)
	default:
		return false
	}
	return true
}

var errLanePassword = &protocol.Error{Code: "WRONGPASS", Text: "invalid username-password pair or user is disabled."}

// auth is AUTH [username] password.
func (l *lane) auth(s *laneSession, args [][]byte, r *protocol.Reply) bool {
	name := []byte(acl.DefaultName)
	switch {
	case len(args) > 3:
		return false
	case len(args) == 3:
		name = args[1]
	case l.in.core.Users().Default().Rights().NoPass():
		return false // an error, which the core words
	}
	if s.authenticate(args[0], name, args[len(args)-1], r) {
		r.OK()
	}
	return true
}

// authenticate makes the client that user, here and with the core's next turn for it; or it tells that the name or
// password is wrong, and keeps that for ACL LOG. verb is the command that brought them.
func (s *laneSession) authenticate(verb, name, password []byte, r *protocol.Reply) bool {
	user := s.lane.view.Load().users[string(name)]
	if user == nil || !user.Admits(password) {
		s.refused(verb, name)
		r.Error(errLanePassword)
		return false
	}
	s.user, s.told.user = user, user
	s.authed.Store(true)
	return true
}

// refused keeps a wrong name or password for ACL LOG.
func (s *laneSession) refused(verb, name []byte) {
	l, now := s.lane, time.Now().UnixMilli()
	r := laneRefusal{cl: s.cl, user: s.user, resp: 2, Entry: acl.Entry{
		Reason: acl.DeniedAuth, Origin: acl.TopLevel, Object: string(verb), User: string(name),
		Count: 1, CreatedMs: now, UpdatedMs: now,
	}}
	if s.resp3 {
		r.resp = 3
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := acl.FindAlike(len(l.refused), func(i int) *acl.Entry { return &l.refused[i].Entry }, &r.Entry, now)
	if at >= 0 {
		r.Count += l.refused[at].Count
		r.CreatedMs = l.refused[at].CreatedMs
		l.refused = slices.Delete(l.refused, at, at+1)
	}
	l.refused = append(l.refused, r)
	for over := len(l.refused) - int(l.in.access.LogLength.Get()); over > 0; over-- {
		l.unlisted += l.refused[0].Count
		l.refused = slices.Delete(l.refused, 0, 1)
	}
}

// hello is HELLO [protover [AUTH username password]].
func (l *lane) hello(s *laneSession, args [][]byte, r *protocol.Reply) bool {
	version := int64(2)
	if s.resp3 {
		version = 3
	}
	if len(args) > 1 {
		n, ok := number.ParseInt(args[1])
		if !ok || n != 2 && n != 3 {
			return false
		}
		version = n
	}
	switch {
	case len(args) == 5 && command.Is(args[2], "AUTH"):
		if !s.authenticate(args[0], args[3], args[4], r) {
			return true
		}
	case len(args) > 2 || !s.authed.Load():
		return false
	}
	s.resp3 = version == 3
	s.told.resp = int(version)
	r.RESP3 = s.resp3
	r.Map(7)
	r.BulkString("server")
	r.BulkString("redis")
	r.BulkString("version")
	r.BulkString(conn.Version)
	r.BulkString("proto")
	r.Int(version)
	r.BulkString("id")
	r.Int(s.cl.ID)
	r.BulkString("mode")
	r.BulkString(l.in.mode())
	r.BulkString("role")
	r.BulkString(l.view.Load().role)
	r.BulkString("modules")
	l.in.modules.Append(r)
	return true
}

// info is INFO [section …], as it was up to a second before the turn was taken. A section of its own says how old it
// is.
func (l *lane) info(args [][]byte, r *protocol.Reply) {
	v := l.view.Load()
	var w info.Writer
	observe.AppendTexts(&w, v.info, args[1:])
	w.B = append(w.B, "\r\n# Lane\r\n"...)
	w.Int("lane_answered_beside_turn", 1)
	w.Int("lane_report_age_ms", time.Since(v.at).Milliseconds())
	r.Verbatim("txt", unsafe.String(unsafe.SliceData(w.B), len(w.B)))
}

// slowlog is SLOWLOG GET [count].
func (l *lane) slowlog(args [][]byte, r *protocol.Reply) bool {
	count := int64(10)
	if len(args) > 2 {
		n, ok := number.ParseInt(args[2])
		if !ok || n < -1 || len(args) > 3 {
			return false
		}
		count = n
	}
	l.view.Load().slow.Append(r, count)
	return true
}

// clientList is CLIENT LIST [ID id …], of the clients as they were lately.
func (l *lane) clientList(args [][]byte, r *protocol.Reply) bool {
	var ids []int64
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(args) == 2:
		ids = slices.Sorted(maps.Keys(l.known))
	case len(args) > 3 && command.Is(args[2], "ID"):
		for _, a := range args[3:] {
			id, ok := number.ParseInt(a)
			if !ok {
				return false
			}
			ids = append(ids, id)
		}
	default:
		return false
	}
	var lines []byte
	for _, id := range ids {
		lines = append(lines, l.known[id].line...)
	}
	r.Verbatim("txt", string(lines))
	return true
}

var errNoClient = &protocol.Error{Code: "ERR", Text: "No such client"}

// clientKill is CLIENT KILL addr:port, and CLIENT KILL with ID, ADDR, LADDR, USER and SKIPME. A client whose loop
// stands still is closed when that goes on.
func (l *lane) clientKill(s *laneSession, args [][]byte, r *protocol.Reply) bool {
	var id int64
	var addr, laddr, user []byte
	skip := true
	old := len(args) == 3
	switch {
	case old:
		addr, skip = args[2], false
	case len(args)%2 != 0:
		return false
	}
	for i := 2; !old && i < len(args); i += 2 {
		switch v := args[i+1]; {
		case command.Is(args[i], "ID"):
			n, ok := number.ParseInt(v)
			if !ok || n < 1 {
				return false
			}
			id = n
		case command.Is(args[i], "ADDR"):
			addr = v
		case command.Is(args[i], "LADDR"):
			laddr = v
		case command.Is(args[i], "USER"):
			if user = v; l.view.Load().users[string(v)] == nil {
				return false
			}
		case command.Is(args[i], "SKIPME") && command.Is(v, "YES"):
			skip = true
		case command.Is(args[i], "SKIPME") && command.Is(v, "NO"):
			skip = false
		default:
			return false
		}
	}
	matches := func(text string, wanted []byte) bool { return wanted == nil || bytes.Equal([]byte(text), wanted) }
	killed := int64(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, c := range l.known {
		if id != 0 && at != id || skip && c.conn == s.cl.Conn ||
			!matches(c.addr, addr) || !matches(c.laddr, laddr) || !matches(c.user, user) {
			continue
		}
		killed++
		delete(l.known, at)
		if c.conn == s.cl.Conn {
			s.quitting = true
		} else {
			c.conn.Close(false)
		}
	}
	switch {
	case !old:
		r.Int(killed)
	case killed == 0:
		r.Error(errNoClient)
	default:
		r.OK()
	}
	return true
}

// shutdown is SHUTDOWN NOSAVE: it ends the process here and now. Nothing waits for the turn any more, so the log's
// writer gets no more than it has. The kernel closes sockets only after it has taken back all memory, which takes it
// some 0.3 s for a GB. So the client that asks is answered before that.
func (l *lane) shutdown(s *laneSession, args [][]byte) bool {
	nosave := false
	for _, a := range args[1:] {
		switch {
		case command.Is(a, "NOSAVE"):
			nosave = true
		case !command.Is(a, "NOW") && !command.Is(a, "FORCE"):
			return false
		}
	}
	if !nosave {
		return false
	}
	in := l.in
	in.log.Warning("User requested shutdown on the admin lane, while the turn was held: ending without a save.")
	in.removeTemporary()
	process.RemovePidFile(in.pidFile)
	for _, path := range []string{in.sockets.UnixSocket.Get(), in.own.LaneSocket.Get()} {
		if path != "" {
			os.Remove(path)
		}
	}
	in.log.Warning("Redis is now ready to exit, bye bye...")
	_ = unix.Shutdown(s.conn.FD(), unix.SHUT_RDWR)
	os.Exit(0)
	return true
}
