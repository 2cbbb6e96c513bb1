package aof

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/tests/testkit"
)

// outcomes has one line for each command and subcommand of redis-server 7.4.1: a call, and how that server behaves on a
// log of three commands. They are SET before, the call, and SET after. "ready 2" means that it starts with two keys in
// database 0. "unknown" means that it names the command and exits with code 1. "crash" means that it crashes.
const outcomes = "testdata/log-7.4.1.txt"

// A callInLog is one line of outcomes.
type callInLog struct{ call, outcome string }

func callsInLog(t *testing.T) (calls []callInLog) {
	text, err := os.ReadFile(outcomes)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		call, outcome, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if !ok {
			t.Fatalf("%s: %q", outcomes, line)
		}
		calls = append(calls, callInLog{call, outcome})
	}
	return calls
}

// startOver starts a server on an old log of one file with these calls. If program is "", it starts spindle.
func startOver(t *testing.T, program string, calls ...string) *testkit.Server {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/appendonly.aof", logOf(calls...), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testkit.Launch(t, testkit.Spec{Program: program, Dir: dir, NoWait: true,
		Args: []string{"--appendonly", "yes", "--appendfsync", "no"}})
	s.Crashes()
	return s
}

// logOf returns a log of these calls.
func logOf(calls ...string) []byte {
	var b bytes.Buffer
	for _, call := range calls {
		var args [][]byte
		for _, w := range strings.Fields(call) {
			args = append(args, []byte(w))
		}
		b.Write(protocol.AppendCommand(nil, args))
	}
	return b.Bytes()
}

// outcomeOf returns a server's behaviour on a log with SET before, the call and SET after. It uses the words of
// outcomes.
func outcomeOf(t *testing.T, program, call string) (outcome string, s *testkit.Server) {
	s = startOver(t, program, "SET before 1", call, "SET after 1")
	testkit.Until(t, testkit.Slowly(30*time.Second), "the server is ready or has ended", func() error {
		if outcome = endedHow(s, call); outcome != "" {
			return nil
		}
		v, err := s.Ask("DBSIZE")
		if err == nil && strings.HasPrefix(v.Text, "LOADING") {
			err = fmt.Errorf("%s", v.Text)
		}
		outcome = fmt.Sprintf("ready %d", v.Int)
		return err
	})
	return outcome, s
}

// endedHow returns how a server that was started on a log ended. It returns "" if the server runs.
func endedHow(s *testkit.Server, call string) string {
	name, _, _ := strings.Cut(call, " ")
	switch {
	case !s.Ended():
		return ""
	case strings.Contains(s.Log(), "Unknown command '"+name+"' reading the append only file appendonly.aof"):
		return "unknown"
	case strings.Contains(s.Log(), "crashed by signal"):
		return "crash"
	}
	return "ended: " + s.Log()
}

// TestCommandsInALog: spindle loads the logs that redis-server 7.4.1 loads, with the same number of keys. It refuses
// the logs that 7.4.1 refuses, with the same words. Calls that crash 7.4.1 are left out.
func TestCommandsInALog(t *testing.T) {
	t.Parallel()
	var quiet, wanted []string // calls that change no key, each with its SETs before and after
	for i, c := range callsInLog(t) {
		if c.outcome == "ready 2" || c.outcome == "crash" {
			quiet = append(quiet, fmt.Sprintf("SET before%d 1", i), c.call, fmt.Sprintf("SET after%d 1", i))
			wanted = append(wanted, fmt.Sprintf("before%d", i), fmt.Sprintf("after%d", i))
			continue
		}
		t.Run(c.call, func(t *testing.T) {
			got, s := outcomeOf(t, "", c.call)
			if got != c.outcome {
				t.Errorf("%s, not %s", got, c.outcome)
			}
			if _, err := os.Stat(s.File("appendonly.aof")); os.IsNotExist(err) != strings.HasPrefix(got, "ready") {
				t.Errorf("%s, and of the old file: %v", got, err)
			}
		})
	}
	s := startOver(t, "", quiet...)
	s.AwaitReady(testkit.Slowly(30 * time.Second))
	for _, key := range wanted {
		if s.Do("EXISTS", key).Int != 1 {
			t.Errorf("no %s", key)
		}
	}
	if n := s.Do("DBSIZE").Int; n != int64(len(wanted)) {
		t.Errorf("%d keys, not %d", n, len(wanted))
	}
	if want := "that change neither data nor scripts were passed over: ACL ("; !strings.Contains(s.Log(), want) {
		t.Errorf("the log does not say %q:\n%s", want, s.Log())
	}
}

// TestOutcomesAreRedis: redis-server 7.4.1 behaves as each line of outcomes says.
func TestOutcomesAreRedis(t *testing.T) {
	spec := testkit.Kind(t, testkit.Redis74)
	program := spec.Program
	there := testkit.Launch(t, spec)
	if version := there.Info("server")["redis_version"]; version != "7.4.1" {
		t.Skip("REDIS_SRC has built " + version + ", not 7.4.1")
	}
	rows := map[string]bool{}
	for _, c := range callsInLog(t) {
		name, rest, _ := strings.Cut(c.call, " ")
		sub, _, _ := strings.Cut(rest, " ")
		rows[name], rows[name+"|"+sub] = true, true
		if got, _ := outcomeOf(t, program, c.call); got != c.outcome {
			t.Errorf("%s: %s, not %s", c.call, got, c.outcome)
		}
	}
	for _, v := range there.Do("COMMAND", "LIST").Elems {
		if !rows[v.Text] {
			t.Errorf("no line for %s", v.Text)
		}
	}
}

// TestScriptLoadInALog: a log of a server before Redis 7 is loaded. It has SCRIPT LOAD, and then calls of the script by
// its digest.
func TestScriptLoadInALog(t *testing.T) {
	const script, digest = "return(redis.call('set','k','v'))", "a156c8776be91fa01a9091ce6c8238000d6f88e8"
	s := startOver(t, "", "MULTI", "script load "+script, "EXEC", "EVALSHA "+digest+" 0", "SELECT 1", "RESET", "SET n 1")
	s.AwaitReady(testkit.Slowly(30 * time.Second))
	if got := s.Do("MGET", "k", "n"); got.Elems[0].Text != "v" || got.Elems[1].Text != "1" {
		t.Errorf("%+v", got)
	}
	if got := s.Do("SCRIPT", "EXISTS", digest); got.Elems[0].Int != 1 {
		t.Error("the script is not there after the load")
	}
}

// TestErrorInLog: if the AOF has a command that this server cannot run, the server logs its name. The other commands
// are loaded.
func TestErrorInLog(t *testing.T) {
	s := startOver(t, "", "SET before 1", "SET a 1 NONSENSE", "SET after 1")
	s.AwaitLog(testkit.Slowly(30*time.Second), "This server is sending an error to its AOF-loading-client: 'ERR syntax "+
		"error' after processing the command 'set'")
	testkit.Until(t, testkit.Slowly(30*time.Second), "both keys", func() error {
		v, err := s.Ask("DBSIZE")
		if err != nil {
			return err
		}
		return testkit.Equal(v.Int, 2)
	})
}

// TestMissingDatabase: a log that names a database which this server does not have is refused. Its keys would go to
// another database, and replace keys there.
func TestMissingDatabase(t *testing.T) {
	for _, call := range []string{"SELECT 16", "MOVE before 16", "COPY before k DB 16", "SWAPDB 0 16"} {
		s := startOver(t, "", "SET before 1", call, "SET before 2")
		s.AwaitLog(testkit.Slowly(30*time.Second), "FATAL: Data file was created with a server configured to handle more "+
			"databases. Exiting: ")
		if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 1 {
			t.Errorf("%s: exit code %d", call, code)
		}
	}
}
