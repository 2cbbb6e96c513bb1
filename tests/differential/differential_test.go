package differential

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

var (
	seedFlag      = flag.Uint64("seed", 0, "what all calls follow from; 0: the time")
	roundFlag     = flag.Uint64("round", 0, "the round to begin with: what a difference is printed with")
	callsFlag     = flag.Int("calls", 0, "how many calls to compare; 0: some seconds' worth")
	familiesFlag  = flag.String("families", "", "only these tables, parted by commas")
	respFlag      = flag.String("resp", "both", "the protocol that connections begin with: 2, 3 or both")
	referenceFlag = flag.String("reference", "",
		"the program of the server to compare with; by default redis-server of PATH")
)

// limits are both servers' options. The largest string is 1 MB, so that calls can reach and exceed it. A high hz makes
// redis-server check often for clients whose wait is over. With its defaults, Valkey would send UNLINK instead of DEL
// to replicas.
var limits = []string{"--proto-max-bulk-len", "1mb", "--hz", "500", "--loglevel", "warning", "--lazyfree-lazy-expire",
	"no", "--lazyfree-lazy-server-del", "no", "--lazyfree-lazy-user-del", "no", "--lazyfree-lazy-eviction", "no"}

// TestDifferential compares spindle with redis-server. Every `go test` makes a short run; flags make it a long one.
func TestDifferential(t *testing.T) {
	calls := *callsFlag
	if calls == 0 {
		calls = 100_000 * testkit.Scale()
		if testkit.Checked {
			calls /= 10
		}
	}
	compare(t, calls)
}

// TestLongReads is a shorter TestDifferential with a server that runs nearly all reads outside the core's turns.
func TestLongReads(t *testing.T) {
	calls := 20_000 * testkit.Scale()
	if testkit.Checked {
		calls /= 10
	}
	compare(t, calls, "--long-read-elements", "1")
}

// compare makes calls on redis-server, and on spindle with some more options. It fails at the first difference.
func compare(t *testing.T, calls int, options ...string) {
	t.Helper()
	reference := referenceServer(t, *referenceFlag)
	subject := testkit.Start(t, append(slices.Clone(limits), options...)...)
	r := newRunner(t, reference, subject)
	began := time.Now()
	round, sent, d, err := r.run(*roundFlag, calls)
	if err != nil {
		t.Fatalf("-seed %d -round %d: %v", r.seed, round, err)
	}
	if d != nil {
		t.Fatalf("spindle differs from redis %s: -seed %d -round %d -calls %d, call %d\n%s",
			r.pair.ref.version, r.seed, round, roundCalls, d.at+1, r.pair.explain(sent, d))
	}
	t.Logf("redis %s, -seed %d: %s", r.pair.ref.version, r.seed, r.rate(began))
	for _, name := range slices.Sorted(maps.Keys(r.perName)) {
		if r.perName[name] >= 100 { // the others are deliberate mistakes
			t.Logf("%8d %s", r.perName[name], name)
		}
	}
	if calls >= 1_000_000 && *familiesFlag == "" {
		for _, line := range unused(r.pair.ref.version) {
			t.Errorf("known difference that nothing needed: %s", line)
		}
	}
}

// referenceServer starts the redis-server to compare with: the program at a path, or the one that make deps installs.
func referenceServer(t *testing.T, program string) *testkit.Server {
	t.Helper()
	if program == "" {
		program = testkit.Program(t, "redis-server")
	}
	return testkit.Launch(t, testkit.Spec{Redis: true, Program: program, Args: limits})
}

// versionOf returns the version of the server to compare with: "7.4.1", "8.0.6", "valkey-9.1.2".
func versionOf(reference *testkit.Server) string {
	info := reference.Info("server")
	if v := info["valkey_version"]; v != "" {
		return "valkey-" + v
	}
	return info["redis_version"]
}

// theSeed returns the seed of the flag -seed, or else one from the time.
func theSeed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return uint64(time.Now().UnixNano())
}

// commonTo returns a function that reports whether both servers have a command.
func commonTo(reference, subject *testkit.Server) func(name string) bool {
	servers := map[string]int{}
	for _, s := range []*testkit.Server{reference, subject} {
		for _, name := range s.Do("COMMAND", "LIST").Strings() {
			servers[name]++
		}
	}
	return func(name string) bool { return servers[name] == 2 }
}

// newRunner connects the two servers, with the commands that both have.
func newRunner(t *testing.T, reference, subject *testkit.Server) *runner {
	t.Helper()
	tables, err := chosen(*familiesFlag)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{ref: oracle{version: versionOf(reference)}, resp: *respFlag}
	if p.reference, err = dial("the reference", reference.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.reference.close)
	if p.subject, err = dial("spindle", subject.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.subject.close)
	seed := theSeed()
	p.cutBy(seed)
	// Expired keys are removed only when a call reads them, on both servers.
	if _, err := p.ask("DEBUG", "SET-ACTIVE-EXPIRE", 0); err != nil {
		t.Fatal(err)
	}
	return &runner{pair: p, families: fitting(tables, p.ref.version), has: commonTo(reference, subject), seed: seed,
		now: time.Now().Unix(), perName: map[string]int{}}
}

// TestFindsADifference: a server with fewer databases is detected, and the calls shrink to the call that shows it.
func TestFindsADifference(t *testing.T) {
	reference := referenceServer(t, *referenceFlag)
	poorer := testkit.Start(t, append(slices.Clone(limits), "--databases", "3")...)
	r := newRunner(t, reference, poorer)
	r.families = []family{{name: "keys", templates: []template{{5, "select", []arg{exactly("3")}},
		{95, "set", []arg{key, value}}}}}
	_, sent, d, err := r.run(0, 100_000)
	if err != nil || d == nil {
		t.Fatalf("difference %v, error %v", d, err)
	}
	text := r.pair.explain(sent, d)
	if !strings.HasSuffix(strings.ToLower(text), "> select 3\n< +ok\n") || strings.Count(text, "> ") != 1 {
		t.Errorf("not shrunk to one SELECT:\n%s", text)
	}
}

// TestFindsAState: equal replies with different data count as a difference, which the digests find.
func TestFindsAState(t *testing.T) {
	reference, subject := referenceServer(t, *referenceFlag), testkit.Start(t, limits...)
	r := newRunner(t, reference, subject)
	if err := r.pair.reset(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*testkit.Server{reference, subject} {
		s.Do("SET", "k", "12345")
	}
	if what, err := r.pair.sameState(r.pair.cuts); what != "" || err != nil {
		t.Fatalf("equal data: %s, %v", what, err)
	}
	for _, change := range [][]any{{"SET", "k", "12346"}, {"APPEND", "k", ""}, {"SETRANGE", "k", 0, "1"},
		{"PEXPIRE", "k", 5_000_000}, {"SET", "k2", ""}} {
		subject.Do(change...)
		what, err := r.pair.sameState(r.pair.cuts)
		if err != nil || what == "" {
			t.Errorf("after %v on one: %q, %v", change, what, err)
		}
		subject.Do("FLUSHALL")
		subject.Do("SET", "k", "12345")
	}
}

func TestShrink(t *testing.T) {
	var calls []call
	for i := range 777 {
		calls = append(calls, call{args: []string{fmt.Sprint(i)}})
	}
	needs := func(names ...string) func([]call) bool {
		return func(calls []call) bool {
			found := 0
			for _, c := range calls {
				if found < len(names) && c.args[0] == names[found] {
					found++
				}
			}
			return found == len(names)
		}
	}
	for _, names := range [][]string{{"0"}, {"776"}, {"3", "500", "501", "700"}, {"0", "1", "2", "3", "4", "5"}} {
		got := shrink(calls, needs(names...), time.Minute)
		if len(got) != len(names) || !needs(names...)(got) {
			t.Errorf("%v: shrunk to %v", names, got)
		}
	}
}

func TestReplyFrames(t *testing.T) {
	replies := []string{"+OK\r\n", "-ERR x\r\n", ":-1\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$4\r\n\r\n+x\r\n",
		"*0\r\n", "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
		"%1\r\n+a\r\n~2\r\n_\r\n#t\r\n", ",1.5\r\n", "(1234\r\n", "=7\r\ntxt:abc\r\n",
		"|1\r\n+k\r\n:1\r\n:2\r\n", "$9000\r\n" + strings.Repeat("x\n", 4500) + "\r\n"}
	in := reader(strings.Join(replies, ""))
	for _, want := range replies {
		got, err := readReply(in, nil)
		if err != nil || string(got) != want {
			t.Errorf("%.50q, %v; want %.50q", got, err, want)
		}
		if v := parse([]byte(want)); v.Kind == '!' {
			t.Errorf("%.50q: %v", want, v)
		}
	}
	for _, broken := range []string{"\r\n", "x\r\n", "$x\r\n", "*-2\r\n", "$5\r\nabc", "*2\r\n:1\r\n", "+O"} {
		if got, err := readReply(reader(broken), nil); err == nil {
			t.Errorf("%q is read as %q", broken, got)
		}
	}
}

// TestLikenesses: the judgement is right for replies that are alike, and for similar replies that are not.
func TestLikenesses(t *testing.T) {
	for _, c := range []struct {
		command, want, got string
		alike              bool
	}{
		{"KEYS *", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n", true},
		{"KEYS *", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+b\r\n", false},
		{"MGET a b", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n", false},
		{"TTL k", ":1000\r\n", ":1002\r\n", true},
		{"TTL k", ":1000\r\n", ":1003\r\n", false},
		{"TTL k", ":-1\r\n", ":1\r\n", false},
		{"TTL k", ":-1\r\n", ":-2\r\n", false},
		{"TTL k", "-ERR a\r\n", "-ERR b\r\n", false},
		{"STRLEN k", ":1\r\n", ":2\r\n", false},
		{"OBJECT idletime k", ":1\r\n", ":2\r\n", true},
		{"OBJECT refcount k", ":1\r\n", ":2\r\n", false},
		{"OBJECT refcount k", ":2\r\n", ":1\r\n", true},
		{"RANDOMKEY", "$1\r\na\r\n", "$1\r\nb\r\n", true},
		{"RANDOMKEY", "$1\r\na\r\n", "$-1\r\n", false},
		{"SCAN 0", "*2\r\n$1\r\n0\r\n*1\r\n+a\r\n", "*2\r\n$1\r\n0\r\n*1\r\n+b\r\n", false},
		{"SCAN 0", "*2\r\n$1\r\n0\r\n*1\r\n+a\r\n", "*2\r\n$1\r\n7\r\n*1\r\n+b\r\n", true},
		{"SCAN 5", "*2\r\n$1\r\n0\r\n*1\r\n+a\r\n", "*2\r\n$1\r\n0\r\n*0\r\n", true},
		{"SCAN 5", "*2\r\n$1\r\n0\r\n*1\r\n+a\r\n", "*1\r\n$1\r\n0\r\n", false},
		{"HELLO", "*4\r\n+id\r\n:1\r\n+proto\r\n:2\r\n", "*4\r\n+id\r\n:9\r\n+proto\r\n:2\r\n", true},
		{"HELLO", "*4\r\n+id\r\n:1\r\n+proto\r\n:2\r\n", "*4\r\n+id\r\n:9\r\n+proto\r\n:3\r\n", false},
		{"HELLO", "*4\r\n+mode\r\n+a\r\n+modules\r\n*0\r\n", "*4\r\n+mode\r\n+a\r\n+modules\r\n*1\r\n+bf\r\n", true},
		{"SORT k", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "*2\r\n$1\r\n2\r\n$1\r\n1\r\n", false},
		{"SORT k BY w*", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "*2\r\n$1\r\n2\r\n$1\r\n1\r\n", true},
		{"SORT k BY w*", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "*2\r\n$1\r\n2\r\n$1\r\n2\r\n", false},
		{"SORT k BY w* LIMIT 0 1", "*1\r\n$1\r\n1\r\n", "*1\r\n$1\r\n2\r\n", true},
		{"SORT k ALPHA", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\nb\r\n$1\r\na\r\n", false},
		{"SORT k ALPHA", "*2\r\n$3\r\na\x00x\r\n$3\r\na\x00y\r\n", "*2\r\n$3\r\na\x00y\r\n$3\r\na\x00x\r\n", true},
		{"SORT k ALPHA", "*2\r\n$3\r\na\x00x\r\n$3\r\na\x00y\r\n", "*2\r\n$3\r\na\x00y\r\n$3\r\na\x00y\r\n", false},
		{"SRANDMEMBER k 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\nc\r\n$1\r\nc\r\n", false},
		{"SRANDMEMBER k -2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\nc\r\n$1\r\nc\r\n", true},
		{"GET k", "$-1\r\n", "_\r\n", false},
		{"GET k", "$1\r\na\r\n", "+a\r\n", false},
	} {
		var q queue
		if got := q.compare(oracle{version: "7.4.1"}, &call{args: strings.Fields(c.command)}, []byte(c.want),
			[]byte(c.got)); got != c.alike {
			t.Errorf("%s: %q and %q: alike %t, want %t", c.command, c.want, c.got, got, c.alike)
		}
	}
}

// TestTransactionReplies: each element of EXEC's reply is compared as the reply to its call.
func TestTransactionReplies(t *testing.T) {
	for last, alike := range map[string]bool{":12\r\n$1\r\nx\r\n": true, ":99\r\n$1\r\nx\r\n": false,
		":10\r\n$1\r\ny\r\n": false} {
		var q queue
		for _, step := range []struct{ command, reply string }{{"MULTI", "+OK\r\n"}, {"TTL k", "+QUEUED\r\n"},
			{"NOSUCH", "-ERR\r\n"}, {"GET k", "+QUEUED\r\n"}} {
			if !q.compare(oracle{version: "7.4.1"}, &call{args: strings.Fields(step.command)}, []byte(step.reply),
				[]byte(step.reply)) {
				t.Fatal(step)
			}
		}
		if got := q.compare(oracle{version: "7.4.1"}, &call{args: []string{"exec"}}, []byte("*2\r\n:10\r\n$1\r\nx\r\n"),
			[]byte("*2\r\n"+last)); got != alike {
			t.Errorf("%q: alike %t", last, got)
		}
		if q.open || len(q.calls) > 0 {
			t.Error("the transaction is still open")
		}
	}
}

// TestSameSeedSameCalls: -seed and -round replay a run.
func TestSameSeedSameCalls(t *testing.T) {
	all := func(string) bool { return true }
	a, b, other := newGenerator(1, 2, 3, families, all), newGenerator(1, 2, 3, families, all),
		newGenerator(1, 3, 3, families, all)
	same := 0
	for range 1000 {
		x, _ := a.next()
		y, _ := b.next()
		z, _ := other.next()
		if !slices.Equal(x, y) {
			t.Fatalf("%q, then %q", x, y)
		}
		if slices.Equal(x, z) {
			same++
		}
	}
	if same > 100 {
		t.Errorf("%d of 1000 calls of another round are the same", same)
	}
}

func reader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }
