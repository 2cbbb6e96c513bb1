package proxy

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spindle/internal/ascii"
	"spindle/internal/glob"
	"spindle/internal/info"
	"spindle/internal/setting"
	"spindle/internal/version"
	"spindle/protocol"
	"spindle/reactor"
)

// The proxy answers CLIENT, INFO, CONFIG and PUBSUB for itself.

// client is CLIENT.
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
	case is("setinfo", 4), is("no-evict", 3), is("no-touch", 3):
		s.sayOK()
	case is("reply", 3):
		return s.setSilence(args[2])
	case is("info", 2):
		s.say(func(r *protocol.Reply) { r.BulkString(s.line()) })
	case is("list", 0):
		return s.listClients()
	case is("kill", 0):
		return s.killClients(args)
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
	default:
		s.refuse(errNotServed("client " + string(args[1])))
	}
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

// line is the client's line of CLIENT LIST.
func (s *session) line() string {
	now, u := time.Now().UnixMilli(), s.conn.Usage()
	user, proto, multi, sub, psub, ssub := s.access.id.user, 2, -1, 0, 0, 0
	if user == "" {
		user = "default"
	}
	if s.access.id.resp3 {
		proto = 3
	}
	if s.tx != nil {
		multi = len(s.tx.requests)
	}
	if s.sub != nil {
		sub, psub, ssub = len(s.sub.topics[channelKind]), len(s.sub.topics[patternKind]), len(s.sub.topics[shardKind])
	}
	flags := ""
	for flag, on := range map[string]bool{"x": s.tx != nil, "P": sub+psub+ssub > 0, "b": s.isBlocked, "U": s.conn.Unix()} {
		if on {
			flags += flag
		}
	}
	if flags == "" {
		flags = "N"
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d "+
		"multi=%d qbuf=%d qbuf-free=%d omem=%d tot-mem=%d user=%s resp=%d owed=%d\n", s.id, s.conn.RemoteAddr(),
		s.conn.LocalAddr(), s.conn.FD(), s.name, (now-s.created)/1000, max(0, now-s.conn.LastActive())/1000, flags,
		s.access.id.db, sub, psub, ssub, multi, u.Query, u.QueryFree, u.Output, u.Total, user, proto, s.owed.n)
}

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

// listClients is CLIENT LIST.
func (s *session) listClients() bool {
	number := s.expect()
	ask(s, func(w *worker) (lines []string) {
		for c := range w.sessions {
			lines = append(lines, c.line())
		}
		return lines
	}, func(lines []string) {
		r := protocol.Reply{RESP3: s.access.id.resp3}
		r.BulkString(strings.Join(lines, ""))
		s.answer(number, r.B)
	})
	return true
}

// killClients is CLIENT KILL: of an address, or with the filters ID, ADDR, LADDR, USER and SKIPME.
func (s *session) killClients(args [][]byte) bool {
	type filter struct {
		id                int64
		addr, laddr, user string
		skipMe            bool
	}
	f, old := filter{skipMe: true}, len(args) == 3
	if old {
		f.addr, f.skipMe = string(args[2]), false
	} else if len(args) < 4 || len(args)%2 != 0 {
		s.refuse(protocol.ErrSyntax)
		return true
	}
	for i := 2; !old && i < len(args); i += 2 {
		value := string(args[i+1])
		switch strings.ToLower(string(args[i])) {
		case "id":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 {
				s.refuse(errClientID)
				return true
			}
			f.id = n
		case "addr":
			f.addr = value
		case "laddr":
			f.laddr = value
		case "user":
			f.user = value
		case "skipme":
			f.skipMe = !strings.EqualFold(value, "no")
		default:
			s.refuse(protocol.ErrSyntax)
			return true
		}
	}
	number := s.expect()
	ask(s, func(w *worker) (killed []string) {
		for c := range w.sessions {
			user := c.access.id.user
			if user == "" {
				user = "default"
			}
			if f.id != 0 && c.id != f.id || f.addr != "" && c.conn.RemoteAddr() != f.addr ||
				f.laddr != "" && c.conn.LocalAddr() != f.laddr || f.user != "" && user != f.user || f.skipMe && c == s {
				continue
			}
			c.conn.Close(c == s)
			killed = append(killed, "")
		}
		return killed
	}, func(killed []string) {
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

// info is INFO: of the proxy.
func (s *session) info(args [][]byte) bool {
	p := s.w.p
	stats, m := p.reactor.Stats(), s.w.topology
	wanted := func(section string) bool {
		if len(args) < 2 {
			return true
		}
		return slices.ContainsFunc(args[1:], func(a []byte) bool {
			name := strings.ToLower(string(a))
			return name == section || name == "all" || name == "default" || name == "everything"
		})
	}
	w := &info.Writer{}
	section := func(name string, fill func()) {
		if wanted(strings.ToLower(name)) {
			if len(w.B) > 0 {
				w.B = append(w.B, "\r\n"...)
			}
			w.B = append(w.B, "# "+name+"\r\n"...)
			fill()
		}
	}
	section("Server", func() {
		w.Text("redis_version", version.Redis)
		w.Text("spindle_version", version.Spindle)
		w.Text("redis_mode", "proxy")
		w.Text("os", runtime.GOOS)
		w.Int("process_id", int64(os.Getpid()))
		w.Int("uptime_in_seconds", int64(time.Since(p.started).Seconds()))
	})
	section("Clients", func() {
		w.Int("connected_clients", stats.Open)
		w.Int("blocked_clients", p.count.blocked.Load())
		w.Int("total_connections_received", int64(stats.Accepted))
		w.Int("rejected_connections", int64(stats.Rejected))
	})
	section("Stats", func() {
		w.Int("total_commands_processed", p.count.requests.Load())
		w.Int("total_net_input_bytes", stats.BytesIn)
		w.Int("total_net_output_bytes", stats.BytesOut)
		w.Int("proxy_redirects", p.count.redirects.Load())
		w.Int("proxy_retries", p.count.retries.Load())
		w.Int("proxy_failed_requests", p.count.failed.Load())
		w.Int("proxy_split_requests", p.count.splits.Load())
		w.Int("proxy_cut_connections", p.count.cut.Load())
	})
	if p.settings.Pose.Get() {
		section("Cluster", func() { w.Int("cluster_enabled", 1) })
	}
	if p.mirror != nil {
		section("Mirror", func() { p.mirror.tell(w) })
	}
	if rules := p.settings.Rules.Get(); rules != nil {
		section("Rules", func() { tellRules(w, rules) })
	}
	section("Shards", func() {
		w.Int("shards", int64(len(m.Shards)))
		w.Int("topology_version", int64(m.Version))
		for i, shard := range m.Shards {
			w.Text("shard"+itoa(i), "id="+shard.ID+",primary="+shard.Primary)
		}
	})
	s.say(func(r *protocol.Reply) { r.Verbatim("txt", string(w.B)) })
	return true
}

// config is CONFIG GET, SET and RESETSTAT: of the proxy.
func (s *session) config(args [][]byte) bool {
	p := s.w.p
	switch word := strings.ToLower(string(args[1])); {
	case word == "get" && len(args) > 2:
		var patterns []string
		for _, a := range args[2:] {
			patterns = append(patterns, string(a))
		}
		found := p.registry.Get(patterns, func(pattern, name string) bool { return glob.MatchFold([]byte(pattern), []byte(name)) })
		s.say(func(r *protocol.Reply) {
			r.Map(len(found))
			for _, pair := range found {
				r.BulkString(pair.Name)
				r.BulkString(pair.Value)
			}
		})
	case word == "set" && len(args) > 3 && len(args)%2 == 0:
		var pairs []setting.Pair
		for i := 2; i < len(args); i += 2 {
			pairs = append(pairs, setting.Pair{Name: string(args[i]), Value: string(args[i+1])})
		}
		if err := p.registry.SetMany(pairs, setting.Conditions{}); err != nil {
			s.refuse(errConfig(err))
			return true
		}
		s.sayOK()
	case word == "resetstat" && len(args) == 2:
		p.reactor.ResetStats()
		p.count.reset()
		if p.mirror != nil {
			p.mirror.count.reset()
		}
		s.sayOK()
	default:
		s.refuse(errNotServed("config " + string(args[1])))
	}
	return true
}

// pubsub is PUBSUB: of the clients of this proxy.
func (s *session) pubsub(args [][]byte) bool {
	h, number := s.w.p.hub, s.expect()
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	h.run(func() {
		r := protocol.Reply{RESP3: s.access.id.resp3}
		h.report(&r, words)
		s.on(func() { s.answer(number, r.B) })
	})
	return true
}

// report answers PUBSUB. On the hub's loop.
func (h *hub) report(r *protocol.Reply, args []string) {
	count := map[topicName]int{}
	for key, t := range h.topics {
		for _, of := range t.listeners {
			count[key.topicName] += len(of)
		}
	}
	kind := channelKind
	word := strings.ToLower(args[1])
	if strings.HasPrefix(word, "shard") {
		kind, word = shardKind, word[len("shard"):]
	}
	switch {
	case word == "channels" && len(args) <= 3:
		var names []string
		for name := range count {
			if name.kind == kind && (len(args) < 3 || glob.Match([]byte(args[2]), []byte(name.name))) {
				names = append(names, name.name)
			}
		}
		r.Array(len(names))
		for _, name := range names {
			r.BulkString(name)
		}
	case word == "numsub":
		r.Array(2 * (len(args) - 2))
		for _, name := range args[2:] {
			r.BulkString(name)
			r.Int(int64(count[topicName{kind, name}]))
		}
	case word == "numpat" && kind == channelKind && len(args) == 2:
		n := 0
		for name := range count {
			if name.kind == patternKind {
				n++
			}
		}
		r.Int(int64(n))
	default:
		r.Error(errPubSub(args[1]))
	}
}
