package acl

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

var sessionSteps = flag.Int("steps", 2000, "how many steps TestSessions takes")

// A party is one client with a connection to both servers.
type party struct {
	ours, theirs *respclient.Client
	multi        bool // the client has sent MULTI
}

// A comparison is a spindle and a redis-server, with a few clients each. Its administrator is never changed.
type comparison struct {
	*rand.Rand
	t            *testing.T
	ours, theirs *testkit.Server
	admin        *party
	cast         []*party
	told         []string // the latest steps
}

// TestSessions lets clients authenticate, change users and run commands at random, on spindle and on redis-server. All
// replies must be equal. At each step, both must have the same users, ACL log and INFO counters, and each client the
// same user.
func TestSessions(t *testing.T) {
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = testkit.Program(t, "redis-server")
	}
	seed := uint64(time.Now().UnixNano())
	s := &comparison{Rand: rand.New(rand.NewPCG(seed, 1)), t: t}
	s.ours = testkit.Start(t, "--io-threads", "2")
	s.theirs = testkit.Launch(t, testkit.Spec{Redis: true, Program: program})
	s.ours.Info("server") // so that both sides have the same clients
	version := s.theirs.Info("server")["redis_version"]
	if !strings.HasPrefix(version, "7.4.") {
		t.Skip("the reference is no 7.4 and has other words: REDIS_SERVER may name one")
	}
	s.admin = s.dial()
	s.must("ACL", "SETUSER", "root", "on", ">root", "~*", "&*", "+@all")
	s.must("AUTH", "root", "root")
	s.must("CONFIG", "SET", "acllog-max-len", "30")
	for range 5 {
		s.cast = append(s.cast, s.dial())
	}
	for step := range *sessionSteps {
		s.step()
		if step%20 == 0 {
			s.compare()
		}
		if t.Failed() {
			t.Fatalf("seed %d, step %d; the last ones:\n%s", seed, step, strings.Join(s.told, "\n"))
		}
	}
}

// dial connects to both servers, and waits until both have registered the client.
func (s *comparison) dial() *party {
	p := &party{ours: s.ours.Dial(), theirs: s.theirs.Dial()}
	s.ask(p, "new", []string{"PING"})
	return p
}

func (s *comparison) must(args ...string) {
	s.t.Helper()
	if err := s.ask(s.admin, "admin", args); err != nil {
		s.t.Fatal(err)
	}
}

var clientID = regexp.MustCompile(`id:? ?[0-9]+`)

// plain returns a reply without the expected differences: client IDs, and the modules that are built in here.
func plain(v respclient.Value) string {
	if v.Kind == '%' || v.Kind == '*' {
		for i := 0; i+1 < len(v.Elems); i++ {
			switch v.Elems[i].Text {
			case "id":
				v.Elems[i+1].Int = 0
			case "modules":
				v.Elems[i+1].Elems = nil
			}
		}
	}
	return clientID.ReplaceAllString(fmt.Sprintf("%c %s", v.Kind, v), "id")
}

// ask sends a request to both servers and compares the replies. It returns an error if both have closed the connection.
func (s *comparison) ask(p *party, who string, args []string) error {
	s.t.Helper()
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	s.told = append(s.told, who+": "+strings.Join(args, " "))
	s.told = s.told[max(0, len(s.told)-30):]
	a, errA := p.ours.Do(words...)
	b, errB := p.theirs.Do(words...)
	switch {
	case (errA == nil) != (errB == nil):
		s.t.Errorf("%s: %q: ours %v, %v, theirs %v, %v", who, args, a, errA, b, errB)
	case errA == nil && plain(a) != plain(b):
		s.t.Errorf("%s: %q:\nours   %s\ntheirs %s", who, args, plain(a), plain(b))
	}
	return errB
}

func (s *comparison) pick(words ...string) string { return words[s.IntN(len(words))] }

func (s *comparison) user() string { return s.pick("u0", "u0", "u1", "u1", "u2", "default", "nobody") }
func (s *comparison) pass() string { return s.pick("p0", "p0", "p0", "p1", "nope") }
func (s *comparison) key() string  { return s.pick("a1", "a2", "b1", "c1", "d") }

// rules returns some rules for ACL SETUSER.
func (s *comparison) rules() (all []string) {
	for range 1 + s.IntN(5) {
		all = append(all, s.pick("on", "on", "on", "off", "nopass", ">p0", ">p0", ">p1", "<p1", "resetpass", "~*", "~a*",
			"%R~b*", "%W~c*",
			"resetkeys", "+@all", "+@all", "-@all", "+get", "-get", "+@read", "-@write", "+@write", "+select|0",
			"-select", "+config|get",
			"-config|get", "+acl|whoami", "+acl", "-auth", "(+set ~c*)", "(+@all ~d)", "clearselectors",
			"+@transaction", "+@connection",
			"-@dangerous", "+client", "-client|setname", "+sort", "+blpop", "reset", "nonsense"))
	}
	return all
}

// call returns one request of any kind.
func (s *comparison) call() []string {
	switch s.IntN(24) {
	case 0, 1, 2:
		return []string{"AUTH", s.user(), s.pass()}
	case 3:
		return []string{"auth", s.pass()}
	case 4:
		return []string{"HELLO", s.pick("2", "3", "3", "4"), "AUTH", s.user(), s.pass(), "SETNAME", s.pick("x", "y", "a b")}
	case 5:
		return []string{"RESET"}
	case 6:
		return []string{"MULTI"}
	case 7:
		return []string{s.pick("EXEC", "EXEC", "EXEC", "DISCARD")}
	case 8:
		return []string{"ACL", "WHOAMI"}
	case 9, 10:
		return append([]string{"ACL", "SETUSER", s.pick("u0", "u1", "u2", "default")}, s.rules()...)
	case 11:
		return []string{"ACL", s.pick("GETUSER", "DELUSER", "GETUSER"), s.user()}
	case 12:
		return []string{"SELECT", s.pick("0", "1")}
	case 13:
		return []string{"MGET", s.key(), s.key(), s.key()}
	case 14:
		return []string{"SORT", "list", s.pick("BY", "GET"), s.pick("w_*", "#", "nosort")}
	case 15:
		return []string{"COPY", s.key(), s.key(), "REPLACE"}
	case 16:
		return []string{"CLIENT", "SETNAME", s.pick("n1", "n2")}
	case 17:
		return []string{s.pick("NOSUCH", "CONFIG", "GET", "WATCH", "UNWATCH")}
	case 18:
		return []string{"CONFIG", "GET", "requirepass"}
	case 19:
		return []string{"ACL", "DRYRUN", s.user(), "SET", s.key(), "v"}
	case 20, 21:
		return []string{"SET", s.key(), s.pick("1", "2"), s.pick("GET", "KEEPTTL")}
	}
	return []string{"GET", s.key()}
}

// step plays one client's request, or one action of the administrator.
func (s *comparison) step() {
	i := s.IntN(len(s.cast))
	who := fmt.Sprint(i)
	switch n := s.IntN(100); {
	case n < 12:
		s.must(append([]string{"ACL", "SETUSER", s.pick("u0", "u1", "u2", "default")}, s.rules()...)...)
		return
	case n < 13:
		s.must("ACL", "DELUSER", s.pick("u0", "u1", "u2"))
		return
	case n < 14:
		s.must("CONFIG", "SET", "requirepass", s.pick("", "p0"))
		return
	case n < 15:
		s.must("CLIENT", "KILL", "USER", s.pick("u0", "u1", "default"))
		return
	case n < 17:
		s.block(i)
		return
	case n < 18:
		s.must("ACL", "SETUSER", s.pick("u0", "u1", "default"), "on", ">p0", "~*", "+@all")
		return
	}
	p, call := s.cast[i], s.call()
	switch strings.ToUpper(call[0]) {
	case "MULTI":
		p.multi = true
	case "EXEC", "RESET": // DISCARD may be refused, and then the transaction stays open
		p.multi = false
	case "AUTH", "HELLO":
		if p.multi {
			return // redis-server does not reply to a wrong password after other replies
		}
	}
	if s.ask(p, who, call) != nil {
		s.cast[i] = s.dial()
	}
}

// block makes a client wait for a list while its user's rights change, and then pushes an element.
func (s *comparison) block(i int) {
	p := s.cast[i]
	for _, c := range []*respclient.Client{p.ours, p.theirs} {
		c.Send("BLPOP", "list", "0")
		if c.Flush() != nil {
			s.cast[i] = s.dial() // both are closed: any other step would have shown it if only one was
			return
		}
	}
	time.Sleep(5 * time.Millisecond) // then both usually give the same reply to a request after the change
	if s.IntN(2) == 0 {
		s.must("ACL", "SETUSER", s.pick("u0", "u1", "default"), s.pick("resetkeys", "-blpop", "-@list", "-@all"))
	}
	for _, db := range []string{"1", "0"} { // the client may be in either database
		s.must("SELECT", db)
		s.must("RPUSH", "list", "x")
	}
	s.told = append(s.told, fmt.Sprintf("%d: BLPOP list 0, before the administrator's last steps", i))
	a, errA := p.ours.Receive()
	b, errB := p.theirs.Receive()
	if (errA == nil) != (errB == nil) || errA == nil && plain(a) != plain(b) {
		s.t.Errorf("BLPOP: ours %v, %v, theirs %v, %v", a, errA, b, errB)
	}
	if errB != nil {
		s.cast[i] = s.dial()
	}
	s.must("FLUSHALL")
}

var (
	identity = regexp.MustCompile(`(?m)^.* name=(\S*) .* db=(\d+) .* multi=(\S+) .* user=(\S+) .* resp=(\d).*$`)
	varying  = []string{"age-seconds", "client-info", "entry-id", "timestamp-created", "timestamp-last-updated"}
)

// compare compares the states of both sides.
func (s *comparison) compare() {
	s.must("ACL", "LIST")
	// redis-server may not have closed a client yet that spindle has closed. The next request shows it.
	view := func(c *respclient.Client) string {
		var b strings.Builder
		var clients []string // loops accept connections in any order
		for _, m := range identity.FindAllStringSubmatch(c.Must("CLIENT", "LIST").Text, -1) {
			clients = append(clients, strings.Join(m[1:], " "))
		}
		slices.Sort(clients)
		fmt.Fprintln(&b, strings.Join(clients, "\n"))
		for _, entry := range c.Must("ACL", "LOG", "100").Elems {
			for i := 0; i+1 < len(entry.Elems); i += 2 {
				name := entry.Elems[i].Text
				if !strings.Contains(strings.Join(varying, " "), name) {
					fmt.Fprintf(&b, "%s %s, ", name, entry.Elems[i+1].Word())
				}
			}
			b.WriteByte('\n')
		}
		for line := range strings.SplitSeq(c.Must("INFO", "stats").Text, "\r\n") {
			if strings.HasPrefix(line, "acl_access_denied_") {
				fmt.Fprintln(&b, line)
			}
		}
		for line := range strings.SplitSeq(c.Must("INFO", "errorstats").Text, "\r\n") {
			if line != "" {
				fmt.Fprintln(&b, line)
			}
		}
		return b.String()
	}
	a, b := view(s.admin.ours), view(s.admin.theirs)
	if a != b {
		s.t.Errorf("ours\n%s\ntheirs\n%s", a, b)
	}
}
