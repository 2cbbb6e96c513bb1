package process

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// laneSoon is the time limit for a reply on the admin lane, on any machine. The tests log the actual time. Meanwhile
// the turn is held for far longer.
func laneSoon() time.Duration { return testkit.Slowly(20 * time.Second) }

// withLane starts a server with an admin lane, and returns a function that connects to it.
func withLane(t *testing.T, args ...string) (s *testkit.Server, dial func() *respclient.Client) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	own := []string{"--admin-port", address[len("127.0.0.1:"):], "--enable-debug-command", "yes"}
	s = testkit.Start(t, append(own, args...)...)
	return s, func() *respclient.Client {
		t.Helper()
		c, err := respclient.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// quickly sends a request on the lane, and fails the test if the reply is late.
func quickly(t *testing.T, c *respclient.Client, args ...any) respclient.Value {
	t.Helper()
	began := time.Now()
	v, err := c.Do(args...)
	took := time.Since(began)
	t.Logf("%.60v: %v", fmt.Sprint(args...), took.Round(10*time.Microsecond))
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if took > laneSoon() {
		t.Errorf("%v took %v", args, took)
	}
	return v
}

// occupy sends a command that holds the turn, and waits until the turn is held. Then PING is not answered within ten
// times the longest time before. A fixed time would be too short for a busy host. The shortest command lasts 2 s.
func occupy(t *testing.T, s *testkit.Server, args ...any) *respclient.Client {
	t.Helper()
	limit := 50 * time.Millisecond
	for range 5 {
		began := time.Now()
		c := s.Dial()
		c.Must("PING")
		c.Close()
		limit = min(max(limit, 10*time.Since(began)), 400*time.Millisecond)
	}
	c := s.Dial()
	c.Send(args...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "the turn is held", func() error {
		other := s.Dial()
		defer other.Close()
		other.SetTimeout(limit)
		if v, err := other.Do("PING"); err == nil && v.Err() == nil {
			return errors.New("PING is answered")
		}
		return nil
	})
	return c
}

// TestLaneDuringATurn: while DEBUG SLEEP holds the turn, the lane runs its own commands on old and new connections. It
// refuses other commands by name. If the machine is too slow for the length of the turn, the test repeats with a longer
// one.
func TestLaneDuringATurn(t *testing.T) {
	for seconds := 2; ; seconds *= 4 {
		wrong, inTime := duringATurn(t, seconds)
		switch {
		case inTime:
			for _, text := range wrong {
				t.Error(text)
			}
			return
		case seconds > 100:
			t.Fatalf("the lane does not answer within a turn of %d s", seconds)
		}
	}
}

// duringATurn sends the lane each of its commands while the turn is held for some seconds. inTime is true if every
// reply came before the turn ended. wrong has the wrong replies.
func duringATurn(t *testing.T, seconds int) (wrong []string, inTime bool) {
	expect := func(v respclient.Value, ok bool, what string) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s: %.300v", what, v))
		}
	}
	s, dial := withLane(t)
	old := dial()
	s.Do("SET", "k", "v")
	victim := s.Dial()
	victim.Must("CLIENT", "SETNAME", "victim")
	id := victim.Must("CLIENT", "ID").Int
	s.Do("CONFIG", "SET", "slowlog-log-slower-than", 0)
	s.Do("ECHO", "slow")
	s.Do("CONFIG", "SET", "slowlog-log-slower-than", -1)
	s.Do("ACL", "SETUSER", "operator", "on", ">secret", "+@all", "~*")
	testkit.Until(t, laneSoon(), "the published state includes it", func() error {
		slow, clients := old.Must("SLOWLOG", "GET", -1).String(), old.Must("CLIENT", "LIST").Text
		return testkit.Equal(strings.Contains(slow, "slow") && strings.Contains(clients, "name=victim"), true)
	})

	busy := occupy(t, s, "DEBUG", "SLEEP", seconds)
	over := make(chan respclient.Value, 1)
	go func() {
		v, _ := busy.Receive()
		over <- v
	}()
	v := quickly(t, old, "PING")
	expect(v, v.Text == "PONG", "PING")
	v = quickly(t, old, "INFO")
	beside := strings.Contains(v.Text, "lane_answered_beside_turn:1")
	expect(v, beside && strings.Contains(v.Text, "db0:keys=1"), "INFO")
	v = quickly(t, old, "INFO", "memory")
	expect(v, strings.Contains(v.Text, "used_memory:") && !strings.Contains(v.Text, "# Server"), "INFO memory")
	v = quickly(t, old, "SLOWLOG", "GET", -1)
	expect(v, strings.Contains(v.String(), "slow"), "SLOWLOG GET")
	v = quickly(t, old, "CLIENT", "LIST")
	expect(v, strings.Contains(v.Text, "name=victim"), "CLIENT LIST")
	v = quickly(t, old, "AUTH", "operator", "wrong")
	expect(v, v.Err() != nil, "AUTH with a wrong password")
	v = quickly(t, old, "AUTH", "operator", "secret")
	expect(v, v.Text == "OK", "AUTH")
	v = quickly(t, old, "SCRIPT", "KILL")
	expect(v, strings.HasPrefix(v.Text, "NOTBUSY"), "SCRIPT KILL")
	v = quickly(t, old, "CLIENT", "KILL", "ID", id)
	expect(v, v.Int == 1, "CLIENT KILL")
	v = quickly(t, old, "CLIENT", "KILL", "1.2.3.4:5")
	expect(v, v.Err() != nil, "CLIENT KILL of no client")
	v = quickly(t, old, "STALLS", "GET")
	expect(v, v.Err() == nil, "STALLS GET")
	v = quickly(t, old, "GET", "k")
	expect(v, strings.HasPrefix(v.Text, "ERR 'get' is not served on the admin lane"), "GET")
	v = quickly(t, old, "NOSUCH")
	expect(v, strings.HasPrefix(v.Text, "ERR unknown command"), "an unknown command")
	fresh := dial()
	v = quickly(t, fresh, "HELLO", 3)
	expect(v, v.Kind == '%', "HELLO 3")
	v = quickly(t, fresh, "PING")
	expect(v, v.Text == "PONG", "PING of a new connection")
	if len(over) > 0 {
		return nil, false
	}

	v = <-over
	expect(v, v.Text == "OK", "DEBUG SLEEP")
	v, err := victim.Do("PING")
	expect(v, err != nil, "the killed client has a connection")
	return wrong, true
}

// TestLaneDuringAScript: ordinary clients wait during a script that has lent the turn, and during a pause of all
// clients. Clients of the lane do not wait, before or after busy-reply-threshold. They get the current figures.
func TestLaneDuringAScript(t *testing.T) {
	s, dial := withLane(t, "--busy-reply-threshold", "1000000")
	c := dial()
	c.SetTimeout(laneSoon())
	busy := occupy(t, s, "EVAL", "while true do end", 0)
	came := s.Dial()
	came.Send("PING")
	came.Flush()
	for range 2 {
		for _, args := range [][]any{{"PING"}, {"INFO"}, {"CLIENT", "LIST"}, {"SLOWLOG", "GET"}, {"HELLO", 2}} {
			if v := quickly(t, c, args...); v.Err() != nil {
				t.Errorf("%v: %v", args, v)
			}
		}
		testkit.Until(t, laneSoon(), "a client that has come meanwhile", func() error {
			if n := strings.Count(quickly(t, c, "CLIENT", "LIST").Text, "cmd="); n < 2 {
				return fmt.Errorf("%d clients", n)
			}
			return nil
		})
		if v := quickly(t, dial(), "PING"); v.Text != "PONG" {
			t.Errorf("PING of a new connection: %v", v)
		}
		quickly(t, c, "SCRIPT", "KILL")
		if v, err := busy.Receive(); err != nil || !strings.Contains(v.Text, "killed") {
			t.Errorf("the script: %v %v", v, err)
		}
		s.Do("CONFIG", "SET", "busy-reply-threshold", 1)
		busy = occupy(t, s, "EVAL", "while true do end", 0)
	}
	quickly(t, c, "SCRIPT", "KILL")
	if _, err := busy.Receive(); err != nil {
		t.Fatal(err)
	}
	s.Do("CLIENT", "PAUSE", 1_000_000)
	for _, args := range [][]any{{"PING"}, {"INFO"}, {"CLIENT", "LIST"}, {"SLOWLOG", "GET"}, {"HELLO", 2}} {
		if v := quickly(t, c, args...); v.Err() != nil {
			t.Errorf("while clients are paused, %v: %v", args, v)
		}
	}
	c.Send("SHUTDOWN", "NOSAVE") // the pause would delay a SHUTDOWN on the test kit's connection
	c.Flush()
	s.Wait(laneSoon())
}

// TestLaneUnread: a client that sends requests while the turn is held, and never reads, uses limited memory. Then it is
// disconnected.
func TestLaneUnread(t *testing.T) {
	s, dial := withLane(t)
	occupy(t, s, "DEBUG", "SLEEP", 600)
	greedy, c := dial(), dial()
	go func() {
		for range 100_000 {
			greedy.Send("INFO", "everything")
		}
		greedy.Flush()
	}()
	testkit.Until(t, testkit.Slowly(20*time.Second), "the end of the client that does not read", func() error {
		if !strings.Contains(s.Log(), "does not read what it asks for") {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
	quickly(t, c, "PING")
	c.Send("SHUTDOWN", "NOSAVE")
	c.Flush()
	s.Wait(laneSoon())
}

// TestLaneEndsScripts: the lane can end a script that computes, a script whose slow command holds the turn, and a
// script that has written.
func TestLaneEndsScripts(t *testing.T) {
	s, dial := withLane(t)
	c := dial()
	// On a busy machine, the script may not run yet.
	kill := func(want string) {
		testkit.Until(t, testkit.Slowly(10*time.Second), "SCRIPT KILL", func() error {
			if v := quickly(t, c, "SCRIPT", "KILL"); !strings.HasPrefix(v.Text, want) {
				return fmt.Errorf("%v, want %s", v, want)
			}
			return nil
		})
	}
	busy := occupy(t, s, "EVAL", "while true do end", 0)
	kill("OK")
	if v, err := busy.Receive(); err != nil || !strings.Contains(v.Text, "killed") {
		t.Errorf("the script: %v %v", v, err)
	}
	occupy(t, s, "EVAL", "redis.call('SET', 'a', 1) while true do end", 0)
	kill("UNKILLABLE")
	began := time.Now()
	c.Send("SHUTDOWN", "NOSAVE")
	c.Flush()
	testkit.Until(t, laneSoon(), "the end", func() error {
		if !s.Ended() {
			return fmt.Errorf("it runs after %v", time.Since(began))
		}
		return nil
	})
	t.Logf("SHUTDOWN NOSAVE beside a script: %v", time.Since(began))
}

// TestLaneEndsSlowCommands: a script whose slow command holds the turn ends after that command. SHUTDOWN NOSAVE
// does not wait at all.
func TestLaneEndsSlowCommands(t *testing.T) {
	s, dial := withLane(t)
	c := dial()
	for from := 0; from < 200_000; from += 100_000 {
		words := []any{"SADD", "members"}
		for i := range 100_000 {
			words = append(words, from+i)
		}
		s.Do(words...)
	}
	var one time.Duration // the duration of one such command
	for range 3 {
		began := time.Now()
		s.Do("SORT_RO", "members", "BY", "nosuch:*", "ALPHA", "LIMIT", "0", "1")
		one = max(one, time.Since(began))
	}
	busy := occupy(t, s, "EVAL", `while true do
		redis.call('SORT_RO', 'members', 'BY', 'nosuch:*', 'ALPHA', 'LIMIT', '0', '1')
	end`, 0)
	var times []time.Duration
	for range 20 {
		began := time.Now()
		c.Must("PING")
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	t.Logf("PING beside SORT in a script: median %v, most %v", times[10], times[19])
	if times[10] > laneSoon() {
		t.Errorf("PING beside SORT: %v", times)
	}
	quickly(t, dial(), "PING")
	if v := quickly(t, c, "SCRIPT", "KILL"); v.Text != "OK" {
		t.Fatalf("SCRIPT KILL: %v", v)
	}
	began := time.Now()
	if v, err := busy.Receive(); err != nil || !strings.Contains(v.Text, "killed") {
		t.Errorf("the script: %v %v", v, err)
	}
	if took := time.Since(began); took > 20*one+laneSoon() {
		t.Errorf("the script has ended %v after it was killed, and one of its commands takes %v", took, one)
	}
	occupy(t, s, "DEBUG", "SLEEP", 600)
	began = time.Now()
	c.Send("SHUTDOWN", "NOSAVE")
	c.Flush()
	if v, err := c.Receive(); err == nil {
		t.Errorf("SHUTDOWN NOSAVE: %v", v)
	}
	t.Logf("SHUTDOWN NOSAVE beside DEBUG SLEEP is heard of after %v", time.Since(began))
	if code := s.Wait(laneSoon()); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("the process has ended after %v", time.Since(began))
}

// TestLaneRights: over a Unix socket too, the lane refuses a client without a password, and checks rights.
func TestLaneRights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lane.sock")
	s := testkit.Start(t, "--admin-unixsocket", path, "--admin-unixsocketperm", "700", "--enable-debug-command", "yes")
	s.Do("ACL", "SETUSER", "weak", "on", ">pw", "+ping", "+auth")
	s.Do("ACL", "SETUSER", "default", "on", ">root", "+@all", "~*", "&*")
	dial := func() *respclient.Client {
		c, err := respclient.Dial(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := dial()
	testkit.Until(t, laneSoon(), "the lane knows the new user", func() error {
		v, err := dial().Do("AUTH", "weak", "pw")
		return errors.Join(err, testkit.Equal(v.Text, "OK"))
	})
	admin := s.Dial()
	admin.Must("AUTH", "root")
	admin.Send("DEBUG", "SLEEP", 2)
	admin.Flush()
	time.Sleep(100 * time.Millisecond)
	if v := quickly(t, c, "INFO"); !strings.HasPrefix(v.Text, "NOAUTH") {
		t.Errorf("INFO of a stranger: %v", v)
	}
	if v := quickly(t, c, "AUTH", "weak", "pw"); v.Text != "OK" {
		t.Errorf("AUTH: %v", v)
	}
	if v := quickly(t, c, "PING"); v.Text != "PONG" {
		t.Errorf("PING: %v", v)
	}
	if v := quickly(t, c, "INFO"); !strings.HasPrefix(v.Text, "NOPERM User weak has no permissions to run the 'info'") {
		t.Errorf("INFO without the right: %v", v)
	}
	admin.Receive()
	if v := admin.Must("ACL", "LOG").String(); !strings.Contains(v, "info") || !strings.Contains(v, "command") {
		t.Errorf("ACL LOG: %v", v)
	}
	admin.Do("SHUTDOWN", "NOSAVE")
}

// atOnce calls see until see finds its own change. A try fails if, on a loaded machine, no turn is free within the time
// that the lane waits. Each try makes another change, so that the periodic updates are too rare to explain a success.
func atOnce(t *testing.T, see func(try string) error) {
	t.Helper()
	var err error
	for i := range 20 {
		if err = see(fmt.Sprint("try", i)); err == nil {
			return
		}
	}
	t.Error(err)
}

// TestLaneWithAFreeTurn: while the turn is free, the lane shows the current state. CLIENT LIST does not list clients of
// the lane.
func TestLaneWithAFreeTurn(t *testing.T) {
	s, dial := withLane(t, "--maxclients", "5")
	var crowd []*respclient.Client
	for range 5 {
		c, err := respclient.Dial("127.0.0.1:" + strconv.Itoa(s.Port))
		if err != nil {
			break
		}
		crowd = append(crowd, c)
		c.Do("PING")
	}
	c := dial() // maxclients does not count the lane
	for i := range 20 {
		atOnce(t, func(try string) error {
			n := crowd[0].Must("DBSIZE").Int
			crowd[0].Must("SET", fmt.Sprint(i, try), "x")
			if v := c.Must("INFO", "keyspace"); !strings.Contains(v.Text, fmt.Sprintf("keys=%d,", n+1)) {
				return fmt.Errorf("INFO after %d keys: %v", n+1, v)
			}
			return nil
		})
		atOnce(t, func(try string) error {
			crowd[0].Must("CLIENT", "SETNAME", fmt.Sprint("name", i, try))
			if v := c.Must("CLIENT", "LIST"); !strings.Contains(v.Text, fmt.Sprintf("name=name%d%s ", i, try)) ||
				strings.Contains(v.Text, "cmd=client|list") {
				return fmt.Errorf("CLIENT LIST: %v", v)
			}
			return nil
		})
	}
	atOnce(t, func(try string) error {
		crowd[0].Must("ACL", "SETUSER", "new"+try, "on", ">pw", "+@all")
		if v, err := c.Do("AUTH", "new"+try, "pw"); err != nil || v.Text != "OK" {
			return fmt.Errorf("AUTH as a new user: %v, %v", v, err)
		}
		return nil
	})
	for _, c := range crowd {
		c.Close()
	}
}

// TestLaneClientAge: on the lane CLIENT LIST shows the age of clients, and CLIENT KILL can select by it.
func TestLaneClientAge(t *testing.T) {
	s, dial := withLane(t)
	old, c := s.Dial(), dial()
	old.Must("CLIENT", "SETNAME", "old")
	testkit.Until(t, testkit.Slowly(20*time.Second), "a client of age 1", func() error {
		if v := c.Must("CLIENT", "LIST"); !strings.Contains(v.Text, " name=old ") ||
			strings.Contains(v.Text, " name=old age=0 ") || strings.Contains(v.Text, " idle=0 ") {
			return fmt.Errorf("CLIENT LIST: %.200v", v)
		}
		return nil
	})
	if v := quickly(t, c, "CLIENT", "KILL", "MAXAGE", 1); v.Int == 0 {
		t.Errorf("CLIENT KILL MAXAGE 1: %v", v)
	}
}

// TestLaneUnknownCommand: the lane reports an unknown command to a client without a password, like other addresses.
func TestLaneUnknownCommand(t *testing.T) {
	_, dial := withLane(t, "--requirepass", "secret")
	c := dial()
	for _, x := range []struct{ name, reply string }{
		{"NOSUCH", "ERR unknown command 'NOSUCH'"}, {"GET", "ERR wrong number of arguments for 'get' command"},
		{"PING", "NOAUTH "},
	} {
		if v := quickly(t, c, x.name); !strings.HasPrefix(v.Text, x.reply) {
			t.Errorf("%s: %v, not %s", x.name, v, x.reply)
		}
	}
}

// TestLaneWithoutErrors: a server with a lane has no line in INFO errorstats before an error has occurred.
func TestLaneWithoutErrors(t *testing.T) {
	s, dial := withLane(t)
	dial().Must("CLIENT", "LIST") // this publishes the state, and counts refused calls
	if v := s.Do("INFO", "errorstats"); strings.Contains(v.Text, "errorstat_") {
		t.Errorf("INFO errorstats: %s", v.Text)
	}
}

// TestLaneShutdownGivenUp: if a shutdown is cancelled, the lane's client that requested it gets an error, and then the
// replies to its next requests. A client that has disconnected gets nothing.
func TestLaneShutdownGivenUp(t *testing.T) {
	s, dial := withLane(t, "--shutdown-timeout", "600", "--repl-ping-replica-period", "1")
	r := testkit.Redis(t, "--replicaof", "127.0.0.1 "+s.Addr[len("127.0.0.1:"):])
	s.AwaitReplica(testkit.Slowly(20*time.Second), r)
	s.Do("SET", "k", "v")
	r.Signal(syscall.SIGSTOP)
	defer r.Signal(syscall.SIGCONT)
	s.Do("SET", "k", "w")
	leaves, c := dial(), dial()
	c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	c.Send("SHUTDOWN", "NOSAVE")
	c.Send("PING")
	c.Flush()
	s.AwaitLog(testkit.Slowly(10*time.Second), "Waiting for replicas before shutting down.")
	leaves.Send("SHUTDOWN", "NOSAVE")
	leaves.Flush()
	leaves.Close()
	s.Do("SHUTDOWN", "ABORT")
	for _, want := range []string{"ERR Errors trying to SHUTDOWN. Check logs.", "PONG"} {
		if v, err := c.Receive(); err != nil || v.Text != want {
			t.Errorf("%v %v, want %s", v, err, want)
		}
	}
}
