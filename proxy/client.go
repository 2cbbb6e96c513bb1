package proxy

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spindle/internal/ascii"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
	"spindle/reactor"
)

// client is CLIENT: of the clients of this proxy.
func (s *session) client(args [][]byte) bool {
	is := func(name string, n int) bool {
		return len(args) > 1 && ascii.EqualFold(args[1], name) && (n == 0 || len(args) == n)
	}
	switch {
	case is("id", 2):
		s.say(func(r *protocol.Reply) { r.Int(s.id) })
	case is("getname", 2):
		s.say(func(r *protocol.Reply) {
			if len(s.name) == 0 {
				r.Null()
			} else {
				r.Bulk(s.name)
			}
		})
	case is("setname", 3):
		if !validName(args[2]) {
			s.refuse(errClientName)
			return true
		}
		s.name = bytes.Clone(args[2])
		s.sayOK()
	case is("setinfo", 4):
		return s.setInfo(args[2], args[3])
	case is("no-evict", 3), is("no-touch", 3): // the proxy evicts no client, and has no key
		if !ascii.EqualFold(args[2], "on") && !ascii.EqualFold(args[2], "off") {
			s.refuse(protocol.ErrSyntax)
			return true
		}
		s.sayOK()
	case is("reply", 3):
		return s.setSilence(args[2])
	case is("info", 2):
		s.say(func(r *protocol.Reply) { r.Verbatim("txt", s.line()) })
	case is("list", 0):
		return s.listClients(args)
	case is("kill", 0) && len(args) > 2:
		return s.killClients(args)
	case is("pause", 0) && len(args) > 2:
		return s.pause(args)
	case is("unpause", 2):
		s.w.p.endPause()
		s.sayOK()
	case is("unblock", 0) && len(args) > 2:
		return s.unblockClient(args)
	case is("help", 2):
		s.say(func(r *protocol.Reply) { help(r, "CLIENT", clientHelp) })
	case is("tracking", 0) && len(args) > 2:
		return s.setTracking(args)
	case is("caching", 3):
		return s.setCaching(args[2])
	case is("trackinginfo", 2):
		s.trackingInfo()
	case is("getredir", 2):
		redirect := int64(-1)
		if s.tracking != nil {
			redirect = s.tracking.redirect
		}
		s.say(func(r *protocol.Reply) { r.Int(redirect) })
	case s.w.plan.Row.Container():
		s.refuse(route.UnknownSubcommand(args))
	default:
		s.refuse(errNotServed("client " + string(args[1])))
	}
	return true
}

// help answers HELP of a command.
func help(r *protocol.Reply, name string, lines []string) {
	r.Array(len(lines) + 3)
	r.Simple(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, line := range append(lines, "HELP", "    Print this help.") {
		r.Simple(line)
	}
}

var clientHelp = []string{
	"CACHING (YES|NO)",
	"    Whether the keys of the next command are tracked, in OPTIN and OPTOUT mode.",
	"GETNAME",
	"    The name of this connection.",
	"GETREDIR",
	"    The id of the client that invalidations are redirected to, or -1.",
	"ID",
	"    The id of this connection.",
	"INFO",
	"    This connection as CLIENT LIST shows it.",
	"KILL <ip:port>",
	"    Close the connection made from <ip:port>.",
	"KILL <option> <value> [<option> <value> [...]]",
	"    Close every connection to this proxy that all the options hold for:",
	"    ID, ADDR, LADDR, TYPE (NORMAL|MASTER|REPLICA|PUBSUB), USER, MAXAGE (seconds), SKIPME (YES|NO)",
	"LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB) | ID <client-id> [<client-id> ...]]",
	"    A line for each connection to this proxy.",
	"NO-EVICT (ON|OFF), NO-TOUCH (ON|OFF)",
	"    Accepted, without an effect.",
	"PAUSE <timeout> [WRITE|ALL]",
	"    Hold back the commands of all clients of this proxy, or those that write, for <timeout> milliseconds.",
	"REPLY (ON|OFF|SKIP)",
	"    Whether this connection's commands are answered.",
	"SETINFO <option> <value>",
	"    Note LIB-NAME or LIB-VER, which CLIENT LIST shows.",
	"SETNAME <name>",
	"    Give this connection a name.",
	"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
	"    Whether this connection hears that keys it may have cached have changed.",
	"TRACKINGINFO",
	"    How client-side caching is set for this connection.",
	"UNBLOCK <clientid> [TIMEOUT|ERROR]",
	"    End the wait of a blocked client, as its timeout would or with an error.",
	"UNPAUSE",
	"    End a pause.",
}

// setInfo is CLIENT SETINFO LIB-NAME | LIB-VER value.
func (s *session) setInfo(option, value []byte) bool {
	field := &s.libName
	switch {
	case ascii.EqualFold(option, "lib-name"):
	case ascii.EqualFold(option, "lib-ver"):
		field = &s.libVersion
	default:
		s.refuse(errLibOption(option))
		return true
	}
	if !validName(value) {
		s.refuse(errLibValue(option))
		return true
	}
	*field = string(value)
	s.sayOK()
	return true
}

// setSilence is CLIENT REPLY ON | OFF | SKIP.
func (s *session) setSilence(how []byte) bool {
	switch {
	case ascii.EqualFold(how, "on"):
		s.silence = speaking
		s.sayOK()
	case ascii.EqualFold(how, "off"):
		s.silence = silent
	case ascii.EqualFold(how, "skip"):
		if s.silence == speaking {
			s.silence = skipNext
		}
	default:
		s.refuse(protocol.ErrSyntax)
	}
	return true
}

// user is the name of the session's user.
func (s *session) user() string { return cmp.Or(s.access.id.user, "default") }

// isPubSub reports whether the client is of the type pubsub.
func (s *session) isPubSub() bool {
	return s.sub != nil && s.sub.count()+len(s.sub.topics[shardKind]) > 0
}

// line is the client's line of CLIENT LIST, with Redis's fields in their order, and the replies that it waits for.
func (s *session) line() string {
	now, u := time.Now().UnixMilli(), s.conn.Usage()
	proto, multi, watch, sub, psub, ssub, redirect := 2, -1, 0, 0, 0, 0, int64(-1)
	if s.access.id.resp3 {
		proto = 3
	}
	if s.tx != nil {
		multi = len(s.tx.requests)
	}
	if s.pin != nil && !s.unpinning {
		watch = 1
	}
	if s.sub != nil {
		sub, psub, ssub = len(s.sub.topics[channelKind]), len(s.sub.topics[patternKind]), len(s.sub.topics[shardKind])
	}
	t := s.tracking
	if t != nil {
		redirect = t.redirect
	}
	flags := ""
	for _, f := range []struct {
		letter string
		on     bool
	}{{"P", s.isPubSub()}, {"x", s.tx != nil}, {"b", s.isBlocked}, {"t", t != nil}, {"R", t != nil && t.broken},
		{"B", t != nil && t.bcast}, {"d", s.watchLost}, {"U", s.conn.Unix()}} {
		if f.on {
			flags += f.letter
		}
	}
	command := "NULL"
	if s.last != nil {
		command = s.last.Name
	}
	events := "r"
	if u.Output > 0 {
		events = "rw"
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d "+
		"multi=%d watch=%d qbuf=%d qbuf-free=%d argv-mem=0 multi-mem=0 rbs=%d rbp=%d obl=0 oll=%d omem=%d tot-mem=%d "+
		"events=%s cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s owed=%d\n", s.id, s.conn.RemoteAddr(),
		s.conn.LocalAddr(), s.conn.FD(), s.name, s.age(now), max(0, now-s.conn.LastActive())/1000, cmp.Or(flags, "N"),
		s.access.id.db, sub, psub, ssub, multi, watch, u.Query, u.QueryFree, u.ReplyCap, u.ReplyCap, u.Pieces, u.Output,
		u.Total, events, command, s.user(), redirect, proto, s.libName, s.libVersion, s.owed.n)
}

// age is how long the client is connected, in seconds.
func (s *session) age(nowMs int64) int64 { return (nowMs - s.created) / 1000 }

// ask calls f on each loop, and then done with the results on the session's loop, unless its client has gone.
func ask[T any](s *session, f func(w *worker) []T, done func([]T)) {
	workers := s.w.p.workers
	var left atomic.Int32
	left.Store(int32(len(workers)))
	results := make([][]T, len(workers))
	i := 0
	for _, w := range workers {
		at := i
		i++
		reactor.Run(w.loop, func() {
			results[at] = f(w)
			if left.Add(-1) == 0 {
				s.on(func() { done(slices.Concat(results...)) })
			}
		})
	}
}

// A clientType is a type of CLIENT LIST and CLIENT KILL.
type clientType uint8

const (
	normalType clientType = iota
	pubSubType
	otherType // replicas and masters: a proxy has none
)

func readClientType(word []byte) (clientType, *protocol.Error) {
	switch strings.ToLower(string(word)) {
	case "normal":
		return normalType, nil
	case "pubsub":
		return pubSubType, nil
	case "slave", "replica", "master":
		return otherType, nil
	}
	return 0, errClientType(word)
}

func (s *session) clientType() clientType {
	if s.isPubSub() {
		return pubSubType
	}
	return normalType
}

// A shown is a client's line, and its ID.
type shown struct {
	id   int64
	line string
}

// listClients is CLIENT LIST [TYPE type | ID id [id ...]].
func (s *session) listClients(args [][]byte) bool {
	wanted := func(*session) bool { return true }
	var ids []int64
	switch {
	case len(args) == 2:
	case len(args) == 4 && ascii.EqualFold(args[2], "type"):
		want, err := readClientType(args[3])
		if err != nil {
			s.refuse(err)
			return true
		}
		wanted = func(c *session) bool { return c.clientType() == want }
	case len(args) > 3 && ascii.EqualFold(args[2], "id"):
		for _, a := range args[3:] {
			id, err := strconv.ParseInt(string(a), 10, 64)
			if err != nil {
				s.refuse(errClientNumber)
				return true
			}
			ids = append(ids, id)
		}
		wanted = func(c *session) bool { return slices.Contains(ids, c.id) }
	default:
		s.refuse(protocol.ErrSyntax)
		return true
	}
	number := s.expect()
	ask(s, func(w *worker) (lines []shown) {
		for c := range w.sessions {
			if wanted(c) {
				lines = append(lines, shown{c.id, c.line()})
			}
		}
		return lines
	}, func(lines []shown) {
		slices.SortFunc(lines, func(a, b shown) int { return cmp.Compare(a.id, b.id) })
		var text strings.Builder
		if ids == nil {
			for _, one := range lines {
				text.WriteString(one.line)
			}
		}
		for _, id := range ids {
			if i := slices.IndexFunc(lines, func(one shown) bool { return one.id == id }); i >= 0 {
				text.WriteString(lines[i].line)
			}
		}
		r := protocol.Reply{RESP3: s.access.id.resp3}
		r.Verbatim("txt", text.String())
		s.answer(number, r.B)
	})
	return true
}

// A killFilter says which clients CLIENT KILL closes.
type killFilter struct {
	id, age           int64
	addr, laddr, user string
	typed             bool
	kind              clientType
	spares            *session
}

// readKill reads the options of CLIENT KILL. old is its form with an address alone.
func (s *session) readKill(args [][]byte) (f killFilter, old bool, err *protocol.Error) {
	if len(args) == 3 {
		return killFilter{addr: string(args[2])}, true, nil
	}
	if len(args)%2 != 0 {
		return f, false, protocol.ErrSyntax
	}
	f.spares = s
	for i := 2; i < len(args); i += 2 {
		value := string(args[i+1])
		n, bad := strconv.ParseInt(value, 10, 64)
		switch strings.ToLower(string(args[i])) {
		case "id":
			if bad != nil || n < 1 {
				return f, false, errClientID
			}
			f.id = n
		case "maxage":
			if bad != nil {
				return f, false, errMaxAge
			}
			if n <= 0 {
				return f, false, errMaxAgeZero
			}
			f.age = n
		case "type":
			if f.kind, err = readClientType(args[i+1]); err != nil {
				return f, false, err
			}
			f.typed = true
		case "addr":
			f.addr = value
		case "laddr":
			f.laddr = value
		case "user":
			f.user = value
		case "skipme":
			switch strings.ToLower(value) {
			case "yes":
				f.spares = s
			case "no":
				f.spares = nil
			default:
				return f, false, protocol.ErrSyntax
			}
		default:
			return f, false, protocol.ErrSyntax
		}
	}
	return f, false, nil
}

func (f *killFilter) holds(c *session) bool {
	return (f.id == 0 || c.id == f.id) && (f.addr == "" || c.conn.RemoteAddr() == f.addr) &&
		(f.laddr == "" || c.conn.LocalAddr() == f.laddr) && (f.user == "" || c.user() == f.user) &&
		(f.age == 0 || c.age(time.Now().UnixMilli()) >= f.age) && (!f.typed || c.clientType() == f.kind) && c != f.spares
}

// killClients is CLIENT KILL.
func (s *session) killClients(args [][]byte) bool {
	f, old, err := s.readKill(args)
	if err != nil {
		s.refuse(err)
		return true
	}
	number := s.expect()
	ask(s, func(w *worker) (killed []struct{}) {
		for c := range w.sessions {
			if f.holds(c) {
				if c == s { // it gets its reply first
					s.quit = true
				} else {
					c.conn.Close(false)
				}
				killed = append(killed, struct{}{})
			}
		}
		return killed
	}, func(killed []struct{}) {
		var r protocol.Reply
		switch {
		case !old:
			r.Int(int64(len(killed)))
		case len(killed) == 0:
			r.Error(errNoClient)
		default:
			r.OK()
		}
		s.answer(number, r.B)
	})
	return true
}

// A pausing is CLIENT PAUSE, of all clients of the proxy. It does not change.
type pausing struct {
	until int64 // Unix ms
	all   bool  // every command, not only those that may write
}

// pause is CLIENT PAUSE milliseconds [WRITE | ALL].
func (s *session) pause(args [][]byte) bool {
	next := &pausing{all: true}
	n, bad := strconv.ParseInt(string(args[2]), 10, 64)
	var err *protocol.Error
	switch {
	case len(args) > 4:
		err = errSubcommandSyntax(args)
	case len(args) == 4 && !ascii.EqualFold(args[3], "write") && !ascii.EqualFold(args[3], "all"):
		err = errPauseMode
	case bad != nil:
		err = errTimeoutNumber
	case n < 0:
		err = errTimeoutNegative
	case n > math.MaxInt64-nowUnixMs():
		err = errTimeoutRange
	}
	if err != nil {
		s.refuse(err)
		return true
	}
	next.until, next.all = nowUnixMs()+n, len(args) == 3 || ascii.EqualFold(args[3], "all")
	p := s.w.p
	for {
		now := p.paused.Load()
		if now != nil && now.until > nowUnixMs() { // a pause is lengthened and strengthened only
			next.until, next.all = max(next.until, now.until), next.all || now.all
		}
		if p.paused.CompareAndSwap(now, next) {
			break
		}
	}
	time.AfterFunc(time.Duration(min(next.until-nowUnixMs(), math.MaxInt64/int64(time.Millisecond)))*time.Millisecond,
		func() {
			if p.paused.CompareAndSwap(next, nil) {
				p.release()
			}
		})
	s.sayOK()
	return true
}

// endPause is CLIENT UNPAUSE.
func (p *Proxy) endPause() {
	if p.paused.Swap(nil) != nil {
		p.release()
	}
}

// release continues the sessions that are held because of a state of the proxy.
func (p *Proxy) release() {
	for loop, w := range p.workers {
		reactor.Run(loop, w.release)
	}
}

// isPaused reports whether a pause holds the current request back. The session is told of its end.
func (s *session) isPaused(row *route.Row) bool {
	now := s.w.p.paused.Load()
	if now == nil || nowUnixMs() >= now.until {
		return false
	}
	writes := row.Write || row.MayReplicate || row.Special == route.Exec && s.tx != nil && s.tx.mayWrite
	if !now.all && !writes {
		return false
	}
	s.w.holding = append(s.w.holding, s)
	return true
}

// unblockClient is CLIENT UNBLOCK id [TIMEOUT | ERROR].
func (s *session) unblockClient(args [][]byte) bool {
	withError := false
	switch {
	case len(args) > 4:
		s.refuse(errSubcommandSyntax(args))
		return true
	case len(args) == 4 && ascii.EqualFold(args[3], "error"):
		withError = true
	case len(args) == 4 && !ascii.EqualFold(args[3], "timeout"):
		s.refuse(errUnblockReason)
		return true
	}
	id, err := strconv.ParseInt(string(args[2]), 10, 64)
	if err != nil {
		s.refuse(protocol.ErrNotInteger)
		return true
	}
	number := s.expect()
	answer := func(n int64) {
		s.on(func() {
			var r protocol.Reply
			r.Int(n)
			s.answer(number, r.B)
		})
	}
	ask(s, func(w *worker) (found []*session) {
		for c := range w.sessions {
			if c.id == id && c.isBlocked {
				found = append(found, c)
			}
		}
		return found
	}, func(found []*session) {
		if len(found) == 0 {
			answer(0)
			return
		}
		c := found[0]
		reactor.Run(c.w.loop, func() { c.endWait(withError, c.w.now(), answer) })
	})
	return true
}

// endWait ends the wait of a blocked client, as its timeout would or with an error. done gets 1, or 0 if it did not
// wait any more.
func (s *session) endWait(withError bool, since int64, done func(n int64)) {
	w := s.w
	switch {
	case s.closed || !s.isBlocked:
		done(0)
	case s.replicas != nil:
		s.replicas.unblock(withError)
		done(1)
	case s.pin == nil || s.pin.clientID == 0: // its command is on its way
		if w.readClock(); w.now()-since > w.p.settings.Timeout.Get() {
			done(0)
			return
		}
		w.after(1, func() { s.endWait(withError, since, done) })
	default:
		reason := "TIMEOUT"
		if withError {
			reason = "ERROR"
		}
		s.pin.unblocks = true
		w.mover().to(s.pin.at)[0].push(call{slot: -1, to: unblocking(done), fixed: true},
			encode("CLIENT", "UNBLOCK", strconv.FormatInt(s.pin.clientID, 10), reason))
	}
}

// An unblocking takes a shard's reply to CLIENT UNBLOCK.
type unblocking func(n int64)

func (f unblocking) take(_ *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	if err == nil && refusal == scan.NotRefused && string(p) == ":1\r\n" {
		f(1)
		return
	}
	f(0)
}
