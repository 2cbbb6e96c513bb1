package acl

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"spindle/aof"
	"spindle/bgsave"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/diagnose"
	aclfamily "spindle/engine/family/acl"
	"spindle/engine/family/bitmap"
	"spindle/engine/family/config"
	"spindle/engine/family/conn"
	"spindle/engine/family/geo"
	"spindle/engine/family/hash"
	"spindle/engine/family/hll"
	"spindle/engine/family/introspect"
	"spindle/engine/family/keys"
	"spindle/engine/family/list"
	"spindle/engine/family/modules"
	"spindle/engine/family/pubsub"
	"spindle/engine/family/set"
	"spindle/engine/family/str"
	"spindle/engine/family/stream"
	"spindle/engine/family/tracking"
	"spindle/engine/family/tx"
	"spindle/engine/family/zset"
	"spindle/protocol"
	"spindle/protocol/respclient"
	"spindle/replication"
	"spindle/scripting"
	"spindle/tests/testkit"
	"spindle/tests/testkit/commandtest"
)

// A pair is our engine and redis-server. Both get the same requests.
type pair struct {
	*side
	server *testkit.Server
	ref    *respclient.Client
	old    bool // redis-server is older than 7.4
}

func newPair(t *testing.T, args ...string) *pair {
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = testkit.Program(t, "redis-server")
	}
	p := &pair{side: newSide(t)}
	p.server = testkit.Launch(t, testkit.Spec{Redis: true, Program: program, Args: args})
	p.ref = p.server.Dial()
	version := p.server.Info("server")["redis_version"]
	p.old = strings.HasPrefix(version, "6.") || strings.HasPrefix(version, "7.0.") || strings.HasPrefix(version, "7.2.")
	return p
}

// A side is our engine with the ACL family, on a core without a server.
type side struct {
	t     *testing.T
	core  *commandtest.Core
	users *acl.Users
	log   *acl.Log
	ours  *client.Client
	file  string
}

func newSide(t *testing.T) *side {
	s := &side{t: t, users: &acl.Users{}, log: &acl.Log{}}
	s.log.SetLimit(128)
	families := []command.Family{
		str.Family, bitmap.Family, keys.Family, keys.Sorting, keys.Databases, hll.Family(&hll.Settings{}),
		hash.Family(&hash.Settings{}), set.Family(),
		list.Family, stream.Family(&stream.Settings{}), zset.Family(), geo.Family(),
		tx.NewWatches((*keyspace.Keyspace)(nil)).Family(),
		config.Family(config.Parts{}), conn.Family(conn.Deps{}, (*tracking.Tracker)(nil).Rows()...),
		introspect.Family(introspect.Deps{}, diagnose.ServerRows(diagnose.Deps{})...), pubsub.NewHub(nil).Family(),
		modules.New(nil, nil).Family(), (&replication.Ends{}).Family(), (&replication.Feed{}).WaitFamily(),
		(*scripting.Scripts)(nil).Family(), (*aof.Log)(nil).Family(),
		aclfamily.Family(aclfamily.Deps{
			Users: s.users, Log: func() *acl.Log { return s.log },
			Catalogue:       func() *command.Catalogue { return s.core.Catalogue },
			File:            func() string { return s.file },
			Kill:            func(*command.Context, *acl.User) {},
			KillSubscribers: func(*command.Context, *acl.User) {},
			Warn:            func(text string) { t.Log(text) },
		}),
	}
	s.core = commandtest.Start(t, append(families, (*bgsave.Commands)(nil).Families()...)...)
	s.users.Begin(s.core.Catalogue)
	s.ours = s.core.Client(2)
	return s
}

// generator returns a generator of rules and calls that both sides know.
func (p *pair) generator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), unclosed: !p.old}
	for _, row := range p.core.Catalogue.All() {
		if p.refHas(row) {
			g.rows = append(g.rows, row)
		}
	}
	return g
}

// refHas reports whether redis-server has a row. If it is older than 7.4, its row must equal the row of 7.4, including
// keys and categories.
func (p *pair) refHas(row *command.Spec) bool {
	p.send([]string{"COMMAND", "INFO", row.Full})
	v, raw, err := p.ref.ReceiveRaw()
	if err != nil {
		p.t.Fatal(err)
	}
	if p.old {
		var ours protocol.Reply
		ours.Array(1)
		command.AppendCommandInfo(&ours, row)
		return string(raw) == string(ours.B)
	}
	return len(v.Elems) == 1 && len(v.Elems[0].Elems) != 0
}

// both sends one request to both sides and returns the bytes of both replies.
func (p *pair) both(args ...string) (ours, theirs string) {
	p.send(args)
	_, raw, err := p.ref.ReceiveRaw()
	if err != nil {
		p.t.Fatalf("%s: the reference: %v", line(args), err)
	}
	return p.core.Do(p.ours, args...), string(raw)
}

func (p *pair) send(args []string) {
	request := make([]any, len(args))
	for i, a := range args {
		request[i] = a
	}
	p.ref.Send(request...)
}

// same sends one request to both sides, and fails the test if the replies differ.
func (p *pair) same(args ...string) string {
	p.t.Helper()
	ours, theirs := p.both(args...)
	if ours != theirs {
		p.t.Fatalf("%s\n  ours   %q\n  theirs %q", line(args), ours, theirs)
	}
	return ours
}

// ownKeys reports whether our key finder may find other keys in a call than Redis does. This is intended for keys that
// the handler uses (TestFinder of engine/catalogue). It is also intended for keys at fixed positions if the other keys
// of a call cannot be read.
func (p *pair) ownKeys(call []string) bool {
	args := make([][]byte, len(call))
	for i, word := range call {
		args[i] = []byte(word)
	}
	row := p.core.Catalogue.Find(args)
	if row == nil {
		return false
	}
	switch row.Full {
	case "georadius", "georadiusbymember", "pfmerge", "sort", "xclaim", "xreadgroup":
		return true
	}
	_, err := row.AppendKeys(nil, args, 0)
	return err != nil
}

var theSeed = flag.Uint64("seed", 20240926, "what TestDecisions begins with")

// TestDecisions applies random rules to users on both sides. It compares the texts of the users, and then the decisions
// of both sides on random calls.
//
// A failure prints the seed, the rules since the user was last reset, and the call.
func TestDecisions(t *testing.T) {
	for _, channels := range []string{"resetchannels", "allchannels"} {
		t.Run(channels, func(t *testing.T) {
			p := newPair(t, "--acl-pubsub-default", channels)
			p.users.SetPubSubDefault(channels == "allchannels")
			seed := *theSeed
			g := p.generator(seed)
			const rounds, calls = 1500, 100
			outcomes := map[string]int{}
			history := map[string][]string{}
			for round := range rounds * testkit.Scale() {
				user := fmt.Sprintf("u%d", round%8)
				rules := g.rules()
				history[user] = append(history[user], line(rules))
				if len(rules) > 0 && rules[0] == "reset" {
					history[user] = history[user][len(history[user])-1:]
				}
				fail := func(format string, args ...any) {
					t.Fatalf("seed %d, round %d, user %s, rules\n%s\n%s", seed, round, user, strings.Join(history[user], "\n"),
						fmt.Sprintf(format, args...))
				}
				set := append([]string{"ACL", "SETUSER", user}, rules...)
				if ours, theirs := p.both(set...); ours != theirs && (!p.old || ours[0] != theirs[0]) {
					fail("SETUSER: ours %q, theirs %q", ours, theirs)
				} else {
					outcomes[ours[:1]]++
				}
				if !p.old {
					if ours, theirs := p.both("ACL", "GETUSER", user); ours != theirs {
						fail("GETUSER: ours %q, theirs %q", ours, theirs)
					}
				}
				asked := make([][]string, calls)
				for i := range asked {
					asked[i] = append([]string{"ACL", "DRYRUN", user}, g.call()...)
					p.send(asked[i])
				}
				for _, call := range asked {
					ours := p.core.Do(p.ours, call...)
					_, raw, err := p.ref.ReceiveRaw()
					if err != nil {
						fail("%s: the reference: %v", line(call), err)
					}
					if ours != string(raw) && (!p.old || outcome(ours) != outcome(string(raw))) && !p.ownKeys(call[3:]) {
						fail("%s: ours %q, theirs %q", line(call), ours, raw)
					}
					outcomes[outcome(ours)]++
				}
			}
			if !p.old {
				p.same("ACL", "LIST")
			}
			t.Log(outcomes)
			for what, least := range map[string]int{"ok": 5, "command": 5, "key": 2, "channel": 0} {
				if outcomes[what]*100 < least*rounds*calls || outcomes[what] == 0 {
					t.Errorf("only %d decisions of kind %q: too few to say something", outcomes[what], what)
				}
			}
		})
	}
}

func outcome(reply string) string {
	switch {
	case reply == "+OK\r\n":
		return "ok"
	case strings.HasSuffix(reply, "command\r\n"):
		return "command"
	case strings.HasSuffix(reply, "key\r\n"):
		return "key"
	case strings.HasSuffix(reply, "channel\r\n"):
		return "channel"
	}
	return "error"
}

// TestCategories compares the commands of each category that both sides know.
func TestCategories(t *testing.T) {
	p := newPair(t)
	if p.old {
		t.Skip("the reference is older than 7.4 and has other categories: REDIS_SERVER may name a newer one")
	}
	p.same("ACL", "CAT")
	g := p.generator(1)
	for name := range (^command.ACL(0)).Names {
		v, err := p.ref.Do("ACL", "CAT", name)
		if err != nil {
			t.Fatal(err)
		}
		category, _ := command.Category([]byte(name))
		theirs := v.Strings()
		for _, row := range g.rows {
			if in := row.ACL&category != 0; in != slices.Contains(theirs, row.Full) {
				t.Errorf("%s in @%s: ours %t", row.Full, name, in)
			}
		}
	}
}
