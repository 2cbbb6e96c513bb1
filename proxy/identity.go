package proxy

import (
	"strconv"
	"strings"

	"spindle/internal/version"
	"spindle/protocol"
	"spindle/protocol/scan"
)

// AUTH, HELLO and SELECT change the user, the protocol and the database of a client's requests. A shard decides. The
// request goes to one on a connection of the new identity. The session changes over only if the shard agrees.

// A becoming is a session that wants to be of another identity.
type becoming struct {
	s      *session
	number uint64 // of the owed reply
	next   *access
	reply  func(r *protocol.Reply) // what the client reads if the shard agrees; nil: +OK
}

// end gives the session the shard's answer.
func (b *becoming) end(p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := b.s
	if s.closed {
		b.next.leave()
		return
	}
	if err != nil || refusal != scan.NotRefused {
		s.answerOr(b.number, p, err)
		b.next.leave()
		return
	}
	s.access.leave()
	s.access = b.next
	r := protocol.Reply{RESP3: s.access.id.resp3}
	if b.reply == nil {
		r.OK()
	} else {
		b.reply(&r)
	}
	s.answer(b.number, r.B)
}

// become asks a shard whether the session may be of another identity. words is the request that tells.
func (s *session) become(next identity, reply func(*protocol.Reply), words ...string) bool {
	var old []byte
	if words[0] == "HELLO" {
		old = encode("PING")
		if len(words) > 2 {
			old = encode(words[2:]...) // AUTH
		}
	}
	if s.tx != nil {
		s.refuse(errInMulti(words[0]))
		return true
	}
	if !s.wait() {
		return false
	}
	if s.pin != nil || s.sub != nil && s.access.id.resp3 != next.resp3 {
		s.fail(errWhileBound(words[0]))
		return true
	}
	if s.tracking != nil {
		if next != s.access.id {
			s.fail(errWhileBound(words[0]))
			return true
		}
		if reply == nil {
			reply = (*protocol.Reply).OK
		}
		s.say(reply)
		return true
	}
	s.barrier = true
	s.w.check(&becoming{s, s.expect(), s.w.accessOf(next), reply}, encode(words...), old)
	return true
}

// auth is AUTH [user] password.
func (s *session) auth(args [][]byte) bool {
	next := s.access.id
	switch len(args) {
	case 2:
		next.user, next.password = "", string(args[1])
		return s.become(next, nil, "AUTH", next.password)
	case 3:
		next.user, next.password = string(args[1]), string(args[2])
		return s.become(next, nil, "AUTH", next.user, next.password)
	}
	s.fail(protocol.ErrSyntax)
	return true
}

// selectDB is SELECT.
func (s *session) selectDB(args [][]byte) bool {
	n, err := strconv.Atoi(string(args[1]))
	if err != nil {
		s.refuse(protocol.ErrNotInteger)
		return true
	}
	next := s.access.id
	next.db = n
	if next == s.access.id {
		s.sayOK()
		return true
	}
	return s.become(next, nil, "SELECT", itoa(n))
}

// hello is HELLO [2 | 3 [AUTH user password] [SETNAME name]].
func (s *session) hello(args [][]byte) bool {
	next := s.access.id
	words := []string{"HELLO"}
	var name []byte
	named := false
	if len(args) > 1 {
		n, err := strconv.Atoi(string(args[1]))
		if err != nil {
			s.refuse(errProtoNumber)
			return true
		}
		if n != 2 && n != 3 {
			s.refuse(errNoProto)
			return true
		}
		next.resp3 = n == 3
		words = append(words, itoa(n))
	}
	for i := 2; i < len(args); i++ {
		left := len(args) - 1 - i
		switch {
		case strings.EqualFold(string(args[i]), "AUTH") && left >= 2:
			next.user, next.password = string(args[i+1]), string(args[i+2])
			words = append(words, "AUTH", next.user, next.password)
			i += 2
		case strings.EqualFold(string(args[i]), "SETNAME") && left >= 1:
			name, named = append([]byte(nil), args[i+1]...), true
			if !validName(name) {
				s.refuse(errClientName)
				return true
			}
			i++
		default:
			s.refuse(errHelloOption(args[i]))
			return true
		}
	}
	return s.become(next, func(r *protocol.Reply) {
		if named {
			s.name = name
		}
		s.greeting(r)
	}, words...)
}

// validName reports whether a client's name is of printable ASCII without spaces.
func validName(name []byte) bool {
	for _, c := range name {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

// greeting is HELLO's reply: of one server that is no cluster, or poses as one.
func (s *session) greeting(r *protocol.Reply) {
	proto := int64(2)
	if r.RESP3 {
		proto = 3
	}
	r.Map(7)
	r.BulkString("server")
	r.BulkString("redis")
	r.BulkString("version")
	r.BulkString(version.Redis)
	r.BulkString("proto")
	r.Int(proto)
	r.BulkString("id")
	r.Int(s.id)
	r.BulkString("mode")
	r.BulkString(s.w.p.mode())
	r.BulkString("role")
	r.BulkString("master")
	r.BulkString("modules")
	r.Array(0)
}

// reset is RESET.
func (s *session) reset() bool {
	if !s.wait() {
		return false
	}
	s.dropPin()
	s.tx, s.watchLost = nil, false
	s.setBlocked(false)
	s.leaveChannels()
	s.silence, s.name, s.tracking, s.caching = speaking, nil, nil, nil
	s.access.leave()
	s.access = s.w.accessOf(s.w.p.guest())
	s.say(func(r *protocol.Reply) { r.Simple("RESET") })
	return true
}
