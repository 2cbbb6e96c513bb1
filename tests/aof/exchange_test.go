package aof

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// references returns the servers to exchange logs with: the one in the PATH, and the one that SPINDLE_REFERENCE
// names.
func references(t *testing.T) map[string]string {
	found := map[string]string{"PATH": testkit.Program(t, "redis-server")}
	if path := os.Getenv("SPINDLE_REFERENCE"); path != "" {
		found["SPINDLE_REFERENCE"] = path
	}
	return found
}

// fill makes a key of every type and encoding that both know, some with deadlines.
func fill(s *testkit.Server, prefix string) {
	do := func(line string) { s.Do(words(strings.ReplaceAll(line, "%", prefix))...) }
	for _, line := range []string{
		"SET %s text", "SET %n 12345", "SET %e text PXAT 4102444800000", "APPEND %raw " + strings.Repeat("x", 300),
		"RPUSH %l a b 3 4", "SADD %i 1 2 3", "SADD %set a b c", "HSET %h a 1 b 2", "ZADD %z 1.5 a 2 b -inf c",
		"XADD %x 1-1 f v", "XADD %x 2-1 f v g w", "XADD %x 3-1 f v", "XDEL %x 2-1", "XGROUP CREATE %x g 0",
		"XREADGROUP GROUP g c COUNT 1 STREAMS %x >", "XGROUP CREATECONSUMER %x g idle",
		"XADD %empty 1-1 f v", "XDEL %empty 1-1", "XGROUP CREATE %made g $ MKSTREAM", "PFADD %hll a b c",
		"SELECT 3", "SET %other db", "SELECT 0", "GETSET %s again", "SETRANGE %raw 4 yyy", "LPOP %l", "SPOP %set",
		"INCRBYFLOAT %f 1.1",
	} {
		do(line)
	}
	for i := range 300 {
		s.Do("RPUSH", prefix+"long", fmt.Sprint("element ", i))
		s.Do("HSET", prefix+"table", fmt.Sprint("field ", i), strings.Repeat("v", i))
		s.Do("ZADD", prefix+"skip", i, fmt.Sprint("member ", i))
	}
	s.Do("MULTI")
	s.Do("SET", prefix+"in", "multi")
	s.Do("INCR", prefix+"count")
	s.Do("EXEC")
}

func words(line string) (list []any) {
	for _, w := range strings.Fields(line) {
		list = append(list, w)
	}
	return list
}

// TestExchange: each server loads the other's log to the same data set. The base may be of commands or an RDB file,
// and annotations may be on or off.
func TestExchange(t *testing.T) {
	for name, program := range references(t) {
		for _, preamble := range []string{"yes", "no"} {
			for _, stamps := range []string{"yes", "no"} {
				for _, ours := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/preamble=%s/stamps=%s/ours=%t", name, preamble, stamps, ours), func(t *testing.T) {
						exchange(t, program, preamble, stamps, ours)
					})
				}
			}
		}
	}
}

func exchange(t *testing.T, program, preamble, stamps string, ours bool) {
	args := []string{
		"--appendonly", "yes", "--aof-use-rdb-preamble", preamble,
		"--aof-timestamp-enabled", stamps, "--auto-aof-rewrite-percentage", "0",
	}
	writer, reader := testkit.Spec{Args: args}, testkit.Spec{Redis: true, Program: program, Args: args}
	if !ours {
		writer, reader = reader, writer
	}
	s := testkit.Launch(t, writer)
	fill(s, "before:")
	s.Do("BGREWRITEAOF")
	s.AwaitInfo(20*time.Second, "persistence", "aof_rewrite_in_progress", "0")
	s.AwaitInfo(time.Second, "persistence", "aof_last_bgrewrite_status", "ok")
	fill(s, "behind:")
	digest := s.Do("DEBUG", "DIGEST").Text
	s.Do("DEBUG", "LOADAOF")
	if got := s.Do("DEBUG", "DIGEST").Text; got != digest {
		t.Errorf("its own log gives %s, want %s", got, digest)
	}
	s.Terminate()
	reader.Dir = s.Dir
	r := testkit.Launch(t, reader)
	if got := r.Do("DEBUG", "DIGEST").Text; got != digest {
		t.Errorf("the other server's digest is %s, want %s", got, digest)
	}
}

// TestBaseOfCommandsForOlder: a base of commands has only commands that rdb-version allows. There, a stream with a
// pending entry of a deleted message is a RESTORE. redis-server 7.0 must be able to read its payload.
func TestBaseOfCommandsForOlder(t *testing.T) {
	for name, program := range references(t) {
		t.Run(name, func(t *testing.T) {
			s := testkit.Start(t, "--appendonly", "yes", "--aof-use-rdb-preamble", "no")
			for _, line := range []string{"XADD x 1-1 f v", "XADD x 2-1 f v", "XGROUP CREATE x g 0",
				"XREADGROUP GROUP g c COUNT 10 STREAMS x >", "XDEL x 1-1", "BGREWRITEAOF"} {
				s.Do(words(line)...)
			}
			s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
			want := s.Do("DEBUG", "DIGEST").Text
			if code := s.Terminate(); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			r := testkit.Launch(t, testkit.Spec{Redis: true, Program: program, Dir: s.Dir,
				Args: []string{"--appendonly", "yes", "--enable-debug-command", "yes"}})
			if got := r.Do("DEBUG", "DIGEST").Text; got != want {
				t.Errorf("it has %d keys of the log, and another digest", r.Do("DBSIZE").Int)
			}
		})
	}
}
