package proxy

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"spindle/internal/glob"
	"spindle/internal/info"
	"spindle/internal/setting"
	"spindle/internal/version"
	"spindle/protocol"
)

// The proxy answers INFO, CONFIG and PUBSUB for itself. client.go has CLIENT.

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
		w.Int("client_output_buffer_limit_disconnections", p.count.slow.Load())
	})
	if p.settings.Pose.Get() {
		section("Cluster", func() { w.Int("cluster_enabled", 1) })
	}
	if p.cache.isOn() {
		section("Cache", func() { p.cache.tell(w) })
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

// config is CONFIG GET, SET, REWRITE and RESETSTAT: of the proxy.
func (s *session) config(args [][]byte) bool {
	p := s.w.p
	switch word := strings.ToLower(string(args[1])); {
	case word == "get" && len(args) > 2:
		var patterns []string
		for _, a := range args[2:] {
			patterns = append(patterns, string(a))
		}
		found := p.registry.Get(patterns, func(pattern, name string) bool {
			return glob.MatchFold([]byte(pattern),
				[]byte(name))
		})
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
	case word == "rewrite" && len(args) == 2:
		number := s.expect()
		go func() { // it waits for the disk
			err := p.rewriter.Rewrite(false)
			s.on(func() {
				if err != nil {
					s.answerOr(number, nil, errConfig(err))
				} else {
					s.answer(number, replyOK)
				}
			})
		}()
	case word == "resetstat" && len(args) == 2:
		p.reactor.ResetStats()
		p.count.reset()
		p.cache.resetCounts()
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
