package proxy

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"spindle/internal/ascii"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/topology"
	"spindle/reactor"
)

// CLIENT TRACKING. A shard tells a connection which of the keys that were read on it have changed. So a client that
// tracks keys has a private access: its own connections, one to each shard that it asks. They are in RESP3 and have
// tracking on.
//
// proxy.K1. Messages of a shard go to the client, between two replies, or to the client that REDIRECT names.
// proxy.K2. When such a connection ends, the client is told that all keys may have changed: an invalidation of null.
// With BCAST the connection is opened again, and the client is told once more when that one has tracking on.
// proxy.K3. Each of these connections has tracking on before the first request on it, or it is closed.
// proxy.K4. A request that a shard has sent elsewhere is sent there with CLIENT CACHING YES if the client has OPTIN. So
// more keys are tracked than the client wants, never less.
type tracking struct {
	request  []byte // as a shard gets it: without REDIRECT
	flags    []string
	prefixes []string
	bcast    bool
	optIn    bool
	optOut   bool
	redirect int64
	broken   bool             // the client that REDIRECT named has gone
	refusals map[string]int   // of later connections in a row, by address
	due      map[string]int64 // when a lost connection is opened again, ms of the worker's clock, by address
	to       *session         // that REDIRECT names; nil: the client itself
}

var (
	invalidation = []byte(">2\r\n$10\r\ninvalidate\r\n")
	allChanged   = append(bytes.Clone(invalidation), "_\r\n"...)
	cachingYes   = encode("CLIENT", "CACHING", "YES")
	cachingNo    = encode("CLIENT", "CACHING", "NO")
)

// setTracking is CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX p]... [BCAST] [OPTIN] [OPTOUT] [NOLOOP].
func (s *session) setTracking(args [][]byte) bool {
	t, err := readTracking(args)
	switch {
	case err != nil:
		s.refuse(err)
		return true
	case s.tx != nil:
		s.refuse(errInMulti("client|tracking"))
		return true
	}
	if !s.wait() {
		return false
	}
	switch {
	case s.pin != nil:
		s.fail(errWhileBound("client|tracking"))
	case t == nil:
		s.endTracking()
		s.sayOK()
	case s.tracking != nil && bytes.Equal(s.tracking.request, t.request) && s.tracking.redirect == t.redirect:
		s.sayOK()
	case s.tracking != nil:
		s.fail(errTracks)
	case !s.access.id.resp3:
		s.fail(errTrackingOld)
	default:
		s.barrier = true
		s.beginTracking(t, s.expect())
	}
	return true
}

// readTracking reads the options. nil: OFF.
func readTracking(args [][]byte) (*tracking, *protocol.Error) {
	t := &tracking{flags: []string{"on"}}
	words := []string{"CLIENT", "TRACKING", "ON"}
	on := ascii.EqualFold(args[2], "on")
	if !on && !ascii.EqualFold(args[2], "off") {
		return nil, protocol.ErrSyntax
	}
	for i := 3; i < len(args); i++ {
		option, more := strings.ToLower(string(args[i])), i+1 < len(args)
		switch {
		case option == "redirect" && more:
			if t.redirect != 0 {
				return nil, errRedirectTwice
			}
			n, err := strconv.ParseInt(string(args[i+1]), 10, 64)
			if err != nil {
				return nil, errClientNumber
			}
			t.redirect = n
			i++
			continue
		case option == "prefix" && more:
			t.prefixes = append(t.prefixes, string(args[i+1]))
			words = append(words, "PREFIX", string(args[i+1]))
			i++
			continue
		case option == "bcast":
			t.bcast = true
		case option == "optin":
			t.optIn = true
		case option == "optout":
			t.optOut = true
		case option != "noloop":
			return nil, protocol.ErrSyntax
		}
		if !slices.Contains(t.flags, option) {
			t.flags = append(t.flags, option)
			words = append(words, strings.ToUpper(option))
		}
	}
	t.request = encode(words...)
	switch {
	case !on:
		return nil, nil
	case t.bcast && (t.optIn || t.optOut):
		return nil, errTrackingMode
	case t.optIn && t.optOut:
		return nil, errTrackingBoth
	case len(t.prefixes) > 0 && !t.bcast:
		return nil, errTrackingPrefix
	}
	return t, nil
}

// beginTracking finds the client that REDIRECT names, and asks a shard whether tracking may be on.
func (s *session) beginTracking(t *tracking, number uint64) {
	if t.redirect == 0 {
		s.openPrivate(t, number)
		return
	}
	ask(s, func(w *worker) (found []*session) {
		for c := range w.sessions {
			if c.id == t.redirect {
				found = append(found, c)
			}
		}
		return found
	}, func(found []*session) {
		if len(found) == 0 {
			s.answerOr(number, nil, errNoRedirect)
			return
		}
		t.to = found[0]
		s.openPrivate(t, number)
	})
}

// openPrivate opens the first connection of a private access. The session changes over when the shard agrees.
func (s *session) openPrivate(t *tracking, number uint64) {
	w := s.w
	index := w.indexOf(-1, uint64(s.id))
	if index < 0 || w.topology.Shards[index].Primary == "" {
		s.answerOr(number, nil, errNoShard)
		return
	}
	a := w.newAccess(s.access.id)
	a.private, a.tracking, a.sessions = s, t, 1
	a.confirm = &tracks{s, a, number}
	w.privates[a] = struct{}{}
	a.to(w.topology.Shards[index].Primary)
}

// A tracks takes a shard's answer to the first CLIENT TRACKING.
type tracks struct {
	s      *session
	a      *access
	number uint64
}

func (t *tracks) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := t.s
	if err == nil && u.old { // it would tell of nothing
		err = errTrackingShard(u.at)
	}
	if s.closed || err != nil || refusal != scan.NotRefused {
		t.a.leave()
		s.answerOr(t.number, p, err)
		return
	}
	u.tracks = true
	s.access.leave()
	s.access, s.tracking = t.a, t.a.tracking
	s.answer(t.number, replyOK)
	t.a.openAll()
}

// A tracksToo takes the answer to CLIENT TRACKING on a later connection (proxy.K3).
type tracksToo struct{}

func (tracksToo) take(u *upstream, _ *call, _ []byte, refusal scan.Refusal, err *protocol.Error) {
	switch s, t := u.access.private, u.access.tracking; {
	case err != nil:
	case refusal != scan.NotRefused || u.old:
		if t.refusals == nil {
			t.refusals = map[string]int{}
		}
		if t.refusals[u.at]++; t.refusals[u.at] == 1 {
			u.cut(errUntracked(u.at))
		} else { // the log has it
			u.end(errUntracked(u.at))
		}
	default:
		u.tracks = true
		delete(t.refusals, u.at)
		if t.bcast && !u.own && s != nil && s.access == u.access { // it may have cached keys meanwhile
			s.hearShard(allChanged)
		}
	}
}

// trackAgain is after how many ms a lost connection of BCAST is opened again. It is later if its server cannot be
// reached, or refuses CLIENT TRACKING again and again.
const trackAgain = 500

// lostTracking handles the end of a connection of the client's private access (proxy.K2).
func (s *session) lostTracking(u *upstream) {
	a := u.access
	if u.tracks || !a.tracking.bcast {
		s.hearShard(allChanged)
	}
	if !a.tracking.bcast || u.denied {
		return
	}
	w, t := s.w, a.tracking
	pause := max(trackAgain<<min(t.refusals[u.at], 6), w.breaker(u.at).until-w.now())
	at := w.now() + pause
	if due, is := t.due[u.at]; is && due <= at {
		return // each request of the client opens a connection, too
	}
	if t.due == nil {
		t.due = map[string]int64{}
	}
	t.due[u.at] = at
	w.after(pause, func() {
		if t.due[u.at] == at {
			delete(t.due, u.at)
		}
		if s.access == a && !s.closed {
			a.openAll()
		}
	})
}

// openAll opens the connections to all shards, if the client wants to hear of keys that it has not read.
func (a *access) openAll() {
	if !a.tracking.bcast {
		return
	}
	for _, shards := range [][]*topology.Shard{a.w.topology.Shards, a.w.extras} { // proxy.R3
		for _, shard := range shards {
			if shard.Primary != "" {
				a.to(shard.Primary)
			}
		}
	}
}

// endTracking has the session use shared connections again.
func (s *session) endTracking() {
	if s.tracking == nil {
		return
	}
	id := s.access.id
	s.access.leave()
	s.access, s.tracking, s.caching = s.w.accessOf(id), nil, nil
}

// hearShard gives an invalidation to its client (proxy.K1). It returns false if p is another push.
func (s *session) hearShard(p []byte) bool {
	if !bytes.HasPrefix(p, invalidation) {
		return false
	}
	t := s.tracking
	if t == nil || t.to == nil {
		s.hear(p)
		return true
	}
	to, push := t.to, bytes.Clone(p)
	reactor.Run(to.w.loop, func() {
		if !to.closed {
			to.hearRedirected(push)
			return
		}
		s.on(func() {
			t.broken = true
			r := protocol.Reply{RESP3: true}
			r.Push(2)
			r.BulkString("tracking-redir-broken")
			r.Int(t.redirect)
			s.hear(r.B)
		})
	})
	return true
}

// hearRedirected gives a client an invalidation of another one's keys. A client of RESP2 gets it as a message.
func (s *session) hearRedirected(p []byte) {
	if s.access.id.resp3 {
		s.hear(p)
		return
	}
	const channel = "__redis__:invalidate"
	if s.sub == nil {
		return
	}
	if _, listens := s.sub.topics[channelKind][channel]; !listens {
		return
	}
	keys := p[len(invalidation):]
	if keys[0] == '_' {
		keys = []byte("*-1\r\n")
	}
	var r protocol.Reply
	r.Array(3)
	r.BulkString("message")
	r.BulkString(channel)
	r.Raw(keys)
	s.hear(r.B)
}

// setCaching is CLIENT CACHING YES | NO: for the next request.
func (s *session) setCaching(how []byte) bool {
	t := s.tracking
	yes := ascii.EqualFold(how, "yes")
	switch {
	case t == nil:
		s.refuse(errNotTracking)
	case yes && !t.optIn:
		s.refuse(errNotOptIn)
	case yes:
		s.caching = cachingYes
		s.sayOK()
	case !ascii.EqualFold(how, "no"):
		s.refuse(protocol.ErrSyntax)
	case !t.optOut:
		s.refuse(errNotOptOut)
	default:
		s.caching = cachingNo
		s.sayOK()
	}
	return true
}

// trackingInfo is CLIENT TRACKINGINFO.
func (s *session) trackingInfo() {
	flags, redirect, t := []string{"off"}, int64(-1), s.tracking
	var prefixes []string
	if t != nil {
		flags, redirect, prefixes = slices.Clone(t.flags), t.redirect, t.prefixes
		if s.caching != nil {
			flags = append(flags, map[bool]string{true: "caching-yes", false: "caching-no"}[t.optIn])
		}
		if t.broken {
			flags = append(flags, "broken_redirect")
		}
	}
	s.say(func(r *protocol.Reply) {
		r.Map(3)
		r.BulkString("flags")
		r.Set(len(flags))
		for _, f := range flags {
			r.BulkString(f)
		}
		r.BulkString("redirect")
		r.Int(redirect)
		r.BulkString("prefixes")
		r.Array(len(prefixes))
		for _, p := range prefixes {
			r.BulkString(p)
		}
	})
}

// beforeAgain prepares a connection for a request of c's session that was sent elsewhere before (proxy.K4).
func (u *upstream) beforeAgain(c *call) {
	if s := u.access.private; s != nil && s == c.s && u.access.tracking.optIn {
		u.push(call{to: ignored{}, slot: -1, fixed: true}, cachingYes)
	}
}
