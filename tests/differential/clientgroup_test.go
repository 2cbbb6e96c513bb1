package differential

import (
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

var plansFlag = flag.Int("plans", 0,
	"how many plans of clients that wait for one another to compare, from the one of -round on; 0: some seconds' worth")

// TestBlocking plays plans of clients that wait for keys, on spindle and on redis-server. Every `go test` makes a short
// run; flags make it a long one.
func TestBlocking(t *testing.T) {
	plans := *plansFlag
	if plans == 0 {
		plans = 150 * testkit.Scale()
		if testkit.Checked {
			plans /= 10
		}
	}
	c := newClientGroups(t, referenceServer(t, *referenceFlag), testkit.Start(t, limits...))
	began := time.Now()
	number, plan, what, err := c.run(*roundFlag, plans)
	if err != nil {
		t.Fatalf("-seed %d -round %d: %v\nthe plan, in which steps of waiting clients are left out:\n%s",
			c.seed, number, err, script(plan))
	}
	if what != "" {
		t.Fatalf("spindle differs from redis %s: -seed %d -round %d\n%s",
			c.pair.ref.version, c.seed, number, c.explain(plan, what))
	}
	t.Logf("redis %s, -seed %d: %d plans, %d steps, %d replies to waiting clients, in %v",
		c.pair.ref.version, c.seed, plans, c.steps, c.served, time.Since(began).Round(time.Millisecond))
	if c.served < plans/2 {
		t.Errorf("%d of %d plans' clients were served while others acted: the plans do not meet what they are for",
			c.served, plans)
	}
}

// clientGroupAt returns the clients of one server.
func clientGroupAt(t *testing.T, name string, s *testkit.Server) *clientGroup {
	t.Helper()
	c, err := newClientGroup(name, s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// newClientGroups connects two servers.
func newClientGroups(t *testing.T, reference, subject *testkit.Server) *clientGroups {
	t.Helper()
	c := &clientGroups{seed: theSeed(), has: commonTo(reference, subject),
		reference: clientGroupAt(t, "the reference", reference), subject: clientGroupAt(t, "spindle", subject)}
	c.pair = &pair{ref: oracle{version: versionOf(reference)}, reference: c.reference.side,
		subject: c.subject.side}
	if !strings.HasPrefix(c.pair.ref.version, "7.0") { // 7.0 propagates the same effects with other commands
		for i, server := range []*testkit.Server{reference, subject} {
			var err error
			if c.effects[i], err = follow(server.Addr); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.effects[i].conn.Close() })
		}
	}
	return c
}

// steps parses a plan: "0> BLPOP a 0", "5> MULTI; RPUSH a x; EXEC", "0> (hangs up)".
func steps(lines ...string) (plan []step) {
	for _, line := range lines {
		who, what, _ := strings.Cut(line, "> ")
		s := step{client: int(who[0] - '0')}
		switch what {
		case "(hangs up)":
			s.leaves = hangsUp
		case "(is killed)":
			s.leaves = killed
		default:
			for args := range strings.SplitSeq(what, "; ") {
				s.calls = append(s.calls, strings.Fields(args))
			}
		}
		plan = append(plan, s)
	}
	return plan
}

// TestClientGroup: on spindle alone, the expected clients are served after each step.
func TestClientGroup(t *testing.T) {
	s := testkit.Start(t, limits...)
	c := clientGroupAt(t, "spindle", s)
	for range 2 { // a plan leaves no state to the next
		if err := c.reset(); err != nil {
			t.Fatal(err)
		}
		for i, want := range []map[int]string{
			{}, {}, {},
			{5: ":1\r\n", 0: "*2\r\n$1\r\na\r\n$1\r\nx\r\n"},
			{}, {},
			{4: "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n", 2: "*2\r\n$1\r\na\r\n$1\r\nz\r\n$6\r\nbehind\r\n",
				3: "*2\r\n$1\r\na\r\n$1\r\ny\r\n"},
			{0: "*-1\r\n"},
			{},
			{5: ":1\r\n", 1: "_\r\n"},
			{5: ":0\r\n"},
		} {
			plan := steps("0> BLPOP a 0", "1> BLPOP a 0", "2> BLPOP a 0; ECHO behind", "5> RPUSH a x",
				"1> (hangs up)", "3> BLPOP a 0",
				"4> MULTI; RPUSH a y; LPUSH a z; EXEC", "0> BLPOP a "+shortWait, "1> BLPOP a 0",
				"5> CLIENT UNBLOCK @1 TIMEOUT", "5> CLIENT UNBLOCK @1 TIMEOUT")
			got, err := c.act(&plan[i])
			if err != nil {
				t.Fatal(err)
			}
			for who, replies := range got {
				text := ""
				for _, raw := range replies {
					text += string(raw)
				}
				if text != want[who] {
					t.Errorf("after %s client %d has %q, want %q", plan[i].text(), who, text, want[who])
				}
			}
		}
	}
}

// TestReplyTooMany: a superfluous reply is detected at the end of a plan. No client takes it for another reply.
func TestReplyTooMany(t *testing.T) {
	one, other := testkit.Start(t, limits...), testkit.Start(t, limits...)
	c := newClientGroups(t, one, other)
	if what, err := c.play(steps("5> RPUSH a x"), nil); what != "" || err != nil {
		t.Fatalf("%q, %v", what, err)
	}
	ask := func(i int) { // sends a call that is not counted
		t.Helper()
		if err := c.subject.members[i].write([]string{"ECHO", "stray"}); err != nil {
			t.Fatal(err)
		}
	}
	ask(3)
	if what, err := c.strays(); !strings.Contains(what, "client 3 ") || !strings.Contains(what, "stray") || err != nil {
		t.Errorf("%q, %v", what, err)
	}
	if what, err := c.strays(); what != "" || err != nil {
		t.Errorf("the second time: %q, %v", what, err)
	}
	ask(5)
	if what, err := c.play(steps("5> RPUSH a x", "3> LPOP a"), nil); what != "" || err != nil {
		t.Errorf("the next plan: %q, %v", what, err)
	}
}

// TestScript: a plan is printed as it was made.
func TestScript(t *testing.T) {
	text := "0> BLPOP a 0\n1> MULTI\n1> RPUSH a x\n1> EXEC\n2> (hangs up)\n3> (is killed)"
	if got := script(steps("0> BLPOP a 0", "1> MULTI; RPUSH a x; EXEC", "2> (hangs up)", "3> (is killed)")); got != text {
		t.Errorf("%q", got)
	}
}

// TestEffects: the commands that a server sends to replicas are read in order, without those that change no data.
func TestEffects(t *testing.T) {
	s := testkit.Start(t, limits...)
	c := clientGroupAt(t, "spindle", s)
	s.Do("SET", "before", "x")
	e, err := follow(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.conn.Close() })
	if err := c.reset(); err != nil {
		t.Fatal(err)
	}
	for i, w := range []string{"SELECT 0|FLUSHALL", "MULTI|SELECT 0|RPUSH b x|RPUSH a y|EXEC|LPOP b|RPOP a", ""} {
		lines, err := e.since(c.side)
		if got := strings.Join(lines, "|"); got != w || err != nil {
			t.Errorf("%q, %v; want %q", got, err, w)
		}
		if i > 0 {
			continue
		}
		for _, s := range steps("0> BRPOP a 0", "1> BLPOP b 0", "5> MULTI; RPUSH b x; RPUSH a y; EXEC") {
			if _, err := c.act(&s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if what := partOf([]string{"a", "b", "c"}, []string{"a", "c", "b"}); !strings.Contains(what, `["a" "b" "c"]`) ||
		!strings.Contains(what, `["a" "c" "b"]`) {
		t.Error(what)
	}
}

// TestShrinksAPlan: a server with another limit is detected. The plan, and its transaction, shrink to the calls that
// show the difference.
func TestShrinksAPlan(t *testing.T) {
	reference, poorer := testkit.Start(t, limits...),
		testkit.Start(t, append(slices.Clone(limits), "--set-max-listpack-entries", "1")...)
	c := newClientGroups(t, reference, poorer)
	plan := steps("0> BLPOP a b 0", "1> BZPOPMIN c 0", "5> SADD d x y",
		"5> MULTI; ZADD c 1 m; SET d x; OBJECT ENCODING d; SADD b x y; OBJECT ENCODING b; EXEC", "2> BLPOP c 0")
	what, err := c.play(plan, nil)
	if err != nil || what == "" {
		t.Fatalf("%q, %v", what, err)
	}
	text := c.explain(plan, what)
	if n := strings.Count(text, "> "); n > 5 || !strings.Contains(text, "OBJECT ENCODING b") ||
		strings.Contains(text, "BLPOP") {
		t.Errorf("not shrunk:\n%s", text)
	}
}

// TestComparesServedClients: if the same replies go to other clients, or a reply is missing or superfluous, the servers
// differ.
func TestComparesServedClients(t *testing.T) {
	x, y := []byte("*2\r\n+a\r\n+x\r\n"), []byte("*2\r\n+a\r\n+y\r\n")
	pushed := [][]byte{[]byte(":1\r\n")}
	for name, c := range map[string]struct {
		want, got answers
		alike     bool
	}{
		"the same":       {answers{0: {x}, 5: pushed}, answers{0: {x}, 5: pushed}, true},
		"no client":      {answers{0: {x}, 5: pushed}, answers{5: pushed}, false},
		"a client":       {answers{5: pushed}, answers{0: {x}, 5: pushed}, false},
		"another client": {answers{0: {x}, 5: pushed}, answers{1: {x}, 5: pushed}, false},
		"the other way":  {answers{0: {x}, 1: {y}, 5: pushed}, answers{0: {y}, 1: {x}, 5: pushed}, false},
		"never asked":    {answers{4: {x}, 5: pushed}, answers{4: {x}, 5: pushed}, false},
	} {
		both := &clientGroups{pair: &pair{reference: &side{}, subject: &side{}}, reference: &clientGroup{side: &side{}},
			subject: &clientGroup{side: &side{}}}
		for _, s := range steps("0> BLPOP a 0", "1> BLPOP a 0") {
			if what := both.compare(&s, &answers{}, &answers{}); what != "" {
				t.Fatal(what)
			}
		}
		if what := both.compare(&steps("5> RPUSH a x")[0], &c.want, &c.got); (what == "") != c.alike {
			t.Errorf("%s: %q", name, what)
		}
	}
}

// TestSameSeedSamePlan: -seed and -round replay a plan. Plans for 7.0 have waits for only one type, and no groups.
func TestSameSeedSamePlan(t *testing.T) {
	all := func(string) bool { return true }
	for number := range uint64(200) {
		plan := newPlanner(1, number, "7.4.1", all).plan()
		if !reflect.DeepEqual(plan, newPlanner(1, number, "7.4.1", all).plan()) {
			t.Fatalf("plan %d is another the second time", number)
		}
		if reflect.DeepEqual(plan, newPlanner(1, number+1, "7.4.1", all).plan()) {
			t.Fatalf("plans %d and %d are the same", number, number+1)
		}
		kinds := map[string]bool{}
		for _, s := range newPlanner(1, number, "7.0.15", all).plan() {
			for _, args := range s.calls {
				switch name := strings.ToLower(args[0]); {
				case name == "xreadgroup":
					t.Fatalf("plan %d for 7.0 has %q", number, args)
				case strings.HasPrefix(name, "bz"), name == "xread":
					kinds[name[:2]] = true
				case name[0] == 'b':
					kinds["list"] = true
				}
			}
		}
		if len(kinds) != 1 {
			t.Fatalf("plan %d for 7.0 waits for %v", number, kinds)
		}
	}
}
