package process

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// laneSoon is within what an answer on the admin lane must come, however slow the machine. What it takes is logged.
func laneSoon() time.Duration { return testkit.Slowly(300 * time.Millisecond) }

// withLane starts a server with an admin lane, and gives a way to connect to it.
func withLane(t *testing.T, args ...string) (s *testkit.Server, dial func() *respclient.Client) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s = testkit.Start(t, append([]string{"--admin-port", address[len("127.0.0.1:"):], "--enable-debug-command", "yes"}, args...)...)
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

// quickly has a request answered on the lane, in time.
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

// occupy sends a command that holds the turn, and waits until it does.
func occupy(t *testing.T, s *testkit.Server, args ...any) *respclient.Client {
	t.Helper()
	c := s.Dial()
	c.Send(args...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	return c
}

// TestLaneBesideATurn: while DEBUG SLEEP holds the turn, the lane answers what operators need, on connections old and
// new. What else it is asked waits, and holds up nobody.
func TestLaneBesideATurn(t *testing.T) {
	s, dial := withLane(t)
	old, writer := dial(), dial()
	old.Must("SET", "k", "v")
	victim := s.Dial()
	victim.Must("CLIENT", "SETNAME", "victim")
	id := victim.Must("CLIENT", "ID").Int
	s.Do("CONFIG", "SET", "slowlog-log-slower-than", 0)
	s.Do("ECHO", "slow")
	s.Do("CONFIG", "SET", "slowlog-log-slower-than", -1)
	s.Do("ACL", "SETUSER", "operator", "on", ">secret", "+@all", "~*")
	time.Sleep(testkit.Slowly(1300 * time.Millisecond)) // so that it is in what was published
	busy := occupy(t, s, "DEBUG", "SLEEP", 3)
	began := time.Now()
	if v := quickly(t, old, "PING"); v.Text != "PONG" {
		t.Errorf("PING: %v", v)
	}
	if v := quickly(t, old, "INFO"); !strings.Contains(v.Text, "lane_answered_beside_turn:1") || !strings.Contains(v.Text, "db0:keys=1") {
		t.Errorf("INFO: %v", v)
	}
	if v := quickly(t, old, "INFO", "memory"); !strings.Contains(v.Text, "used_memory:") || strings.Contains(v.Text, "# Server") {
		t.Errorf("INFO memory: %v", v)
	}
	if v := quickly(t, old, "SLOWLOG", "GET", -1); !strings.Contains(v.String(), "slow") {
		t.Errorf("SLOWLOG GET: %v", v)
	}
	if v := quickly(t, old, "CLIENT", "LIST"); !strings.Contains(v.Text, "name=victim") {
		t.Errorf("CLIENT LIST: %v", v)
	}
	if v := quickly(t, old, "AUTH", "operator", "wrong"); v.Err() == nil {
		t.Errorf("AUTH with a wrong password: %v", v)
	}
	if v := quickly(t, old, "AUTH", "operator", "secret"); v.Text != "OK" {
		t.Errorf("AUTH: %v", v)
	}
	if v := quickly(t, old, "SCRIPT", "KILL"); v.Err() == nil || !strings.HasPrefix(v.Text, "NOTBUSY") {
		t.Errorf("SCRIPT KILL: %v", v)
	}
	if v := quickly(t, old, "CLIENT", "KILL", "ID", id); v.Int != 1 {
		t.Errorf("CLIENT KILL: %v", v)
	}
	if v := quickly(t, old, "CLIENT", "KILL", "1.2.3.4:5"); v.Err() == nil {
		t.Errorf("CLIENT KILL of nobody: %v", v)
	}
	writer.Send("GET", "k")
	writer.Send("PING")
	if err := writer.Flush(); err != nil {
		t.Fatal(err)
	}
	fresh := dial()
	if v := quickly(t, fresh, "HELLO", 3); v.Kind != '%' {
		t.Errorf("HELLO 3: %v", v)
	}
	quickly(t, fresh, "PING")
	if time.Since(began) > 2500*time.Millisecond {
		t.Skip("the machine is too slow to tell")
	}
	for _, want := range []string{"v", "PONG"} { // in order, when the turn is free
		if v, err := writer.Receive(); err != nil || v.Text != want {
			t.Errorf("after the turn: %v %v, want %s", v, err, want)
		}
	}
	if v, err := busy.Receive(); err != nil || v.Text != "OK" {
		t.Errorf("DEBUG SLEEP: %v %v", v, err)
	}
	if v := old.Must("ACL", "WHOAMI"); v.Text != "operator" {
		t.Errorf("who was let in beside the turn is %v in it", v)
	}
	if v := fresh.Must("CLIENT", "INFO"); !strings.Contains(v.Text, "resp=3") {
		t.Errorf("HELLO 3 beside the turn: %v", v)
	}
	if _, err := victim.Do("PING"); err == nil {
		t.Error("the victim lives")
	}
}

// TestLaneInTurn: with the turn free the lane is an ordinary address, for all commands; its clients are on CLIENT LIST.
func TestLaneInTurn(t *testing.T) {
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
	c := dial() // whatever maxclients says
	if v := c.Must("PING"); v.Text != "PONG" {
		t.Errorf("PING: %v", v)
	}
	c.Must("MULTI")
	c.Must("SET", "a", "1")
	if v := c.Must("EXEC"); v.String() == "" {
		t.Errorf("EXEC: %v", v)
	}
	if v := c.Must("BLPOP", "nothing", "0.05"); !v.Null {
		t.Errorf("BLPOP: %v", v)
	}
	if v := c.Must("CLIENT", "LIST"); !strings.Contains(v.Text, "cmd=client|list") {
		t.Errorf("CLIENT LIST: %v", v)
	}
	for _, c := range crowd {
		c.Close()
	}
}

// TestLaneEndsScripts: a script that computes, one that has the turn in a slow command, and one that has written.
func TestLaneEndsScripts(t *testing.T) {
	s, dial := withLane(t)
	c := dial()
	busy := occupy(t, s, "EVAL", "while true do end", 0)
	if v := quickly(t, c, "SCRIPT", "KILL"); v.Text != "OK" {
		t.Errorf("SCRIPT KILL: %v", v)
	}
	if v, err := busy.Receive(); err != nil || !strings.Contains(v.Text, "killed") {
		t.Errorf("the script: %v %v", v, err)
	}
	busy = occupy(t, s, "EVAL", "redis.call('SET', 'a', 1) while true do end", 0)
	if v := quickly(t, c, "SCRIPT", "KILL"); !strings.HasPrefix(v.Text, "UNKILLABLE") {
		t.Errorf("SCRIPT KILL of one that has written: %v", v)
	}
	began := time.Now()
	c.Send("SHUTDOWN", "NOSAVE")
	c.Flush()
	testkit.Until(t, laneSoon()*4, "the end", func() error {
		if !s.Ended() {
			return fmt.Errorf("it runs after %v", time.Since(began))
		}
		return nil
	})
	t.Logf("SHUTDOWN NOSAVE beside a script: %v", time.Since(began))
}

// TestLaneEndsSlowCommands: a script whose slow command holds the turn ends after it. SHUTDOWN NOSAVE waits for
// nothing.
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
	busy := occupy(t, s, "EVAL", "while true do redis.call('SORT_RO', 'members', 'BY', 'nosuch:*', 'ALPHA', 'LIMIT', '0', '1') end", 0)
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
	if v, err := busy.Receive(); err != nil || !strings.Contains(v.Text, "killed") {
		t.Errorf("the script: %v %v", v, err)
	}
	occupy(t, s, "DEBUG", "SLEEP", 30)
	began := time.Now()
	c.Send("SHUTDOWN", "NOSAVE")
	c.Flush()
	if code := s.Wait(laneSoon() * 4); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("SHUTDOWN NOSAVE beside DEBUG SLEEP: %v", time.Since(began))
}

// TestLaneRights: beside the turn, too, who has not given a password is told so, and rights hold; over a Unix socket.
func TestLaneRights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lane.sock")
	s := testkit.Start(t, "--admin-unixsocket", path, "--admin-unixsocketperm", "700", "--enable-debug-command", "yes")
	s.Do("ACL", "SETUSER", "weak", "on", ">pw", "+ping", "+auth")
	s.Do("ACL", "SETUSER", "default", "on", ">root", "+@all", "~*", "&*")
	time.Sleep(testkit.Slowly(300 * time.Millisecond))
	c, err := respclient.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
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
	if v, err := c.Do("INFO"); err != nil || !strings.HasPrefix(v.Text, "NOPERM") { // waits for the core's words
		t.Errorf("INFO without the right: %v %v", v, err)
	}
	admin.Receive()
	admin.Do("SHUTDOWN", "NOSAVE")
}
