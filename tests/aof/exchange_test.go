package aof

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

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

// TestExchange: spindle and each other server load each other's log to the same data set. The base may consist of
// commands or be an RDB file, and annotations may be on or off. RDB files of newer servers have other forms.
func TestExchange(t *testing.T) {
	for _, p := range testkit.Peers(t) {
		for _, preamble := range []string{"yes", "no"} {
			for _, stamps := range []string{"yes", "no"} {
				for _, ours := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/preamble=%s/stamps=%s/ours=%t", p.Name, preamble, stamps, ours), func(t *testing.T) {
						exchange(t, p, preamble, stamps, ours)
					})
				}
			}
		}
	}
}

func exchange(t *testing.T, p testkit.Peer, preamble, stamps string, ours bool) {
	args := []string{
		"--appendonly", "yes", "--aof-use-rdb-preamble", preamble,
		"--aof-timestamp-enabled", stamps, "--auto-aof-rewrite-percentage", "0",
	}
	mine := testkit.Spec{Args: append([]string{"--rdb-write-version", fmt.Sprint(p.RDBVersion)}, args...)}
	writer, reader := mine, testkit.Spec{Redis: true, Program: p.Program, Args: args}
	if !ours {
		writer, reader = reader, writer
	}
	if p.Valkey() && !ours && preamble == "no" {
		if rows := testkit.Start(t).Do("COMMAND", "INFO", "HSETEX").Elems; len(rows[0].Elems) == 0 {
			t.Skip("a base of commands of Valkey has HSETEX, which spindle does not have yet")
		}
	}
	s := testkit.Launch(t, writer)
	fill(s, "before:")
	fillVolatile(s, p, "before:")
	s.Do("BGREWRITEAOF")
	s.AwaitInfo(20*time.Second, "persistence", "aof_rewrite_in_progress", "0")
	s.AwaitInfo(time.Second, "persistence", "aof_last_bgrewrite_status", "ok")
	fill(s, "behind:")
	fillVolatile(s, p, "behind:")
	was := content(s, p)
	s.Do("DEBUG", "LOADAOF")
	if is := content(s, p); !slices.Equal(is, was) {
		t.Errorf("its own log gives\n%q, want\n%q", is, was)
	}
	s.Terminate()
	reader.Dir = s.Dir
	if is := content(testkit.Launch(t, reader), p); !slices.Equal(is, was) {
		t.Errorf("the other server has\n%q, want\n%q", is, was)
	}
}

// fillVolatile makes hashes whose fields have deadlines, if the peer supports them: a short one and a long one.
func fillVolatile(s *testkit.Server, p testkit.Peer, prefix string) {
	if !p.FieldDeadlines() {
		return
	}
	for i := range 600 {
		s.Do("HSET", prefix+"volatile table", fmt.Sprint("field ", i), i)
	}
	s.Do("HSET", prefix+"volatile", "a", 1, "b", 2, "c", 3)
	for _, key := range []string{prefix + "volatile", prefix + "volatile table"} {
		field := s.Do("HKEYS", key).Elems[1].Text
		s.Do("HPEXPIREAT", key, 4102444800123, "FIELDS", 1, field)
		s.Do("HPEXPIREAT", key, 4102444800000, "FIELDS", 1, s.Do("HKEYS", key).Elems[2].Text)
	}
}

// content returns the digest of each key, in order. Valkey's digests leave out the deadlines of fields, so hashes with
// such deadlines are listed as text.
func content(s *testkit.Server, p testkit.Peer) (lines []string) {
	for _, db := range []int{0, 3} {
		s.Do("SELECT", db)
		for _, key := range s.Do("KEYS", "*").Elems {
			k := key.Text
			line := fmt.Sprintf("%d %s %d", db, k, s.Do("PEXPIRETIME", k).Int)
			if strings.Contains(k, "volatile") {
				all := s.Do("HGETALL", k).Elems
				var fields []string
				for i := 0; i < len(all); i += 2 {
					at := s.Do("HPEXPIRETIME", k, "FIELDS", 1, all[i].Text).Elems[0].Int
					fields = append(fields, fmt.Sprintf("%s=%s@%d", all[i].Text, all[i+1].Text, at))
				}
				slices.Sort(fields)
				line += " " + strings.Join(fields, " ")
			} else {
				line += " " + s.Do("DEBUG", "DIGEST-VALUE", k).Elems[0].Text
			}
			lines = append(lines, line)
		}
	}
	s.Do("SELECT", 0)
	slices.Sort(lines)
	return lines
}

// TestBaseOfCommandsForOlder: a base of commands has only commands that rdb-write-version allows. In such a base, a
// stream with a pending entry of a deleted message is a RESTORE. redis-server 7.0 must be able to read its payload.
func TestBaseOfCommandsForOlder(t *testing.T) {
	for _, p := range testkit.Peers(t) {
		t.Run(p.Name, func(t *testing.T) {
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
			r := testkit.Launch(t, testkit.Spec{Redis: true, Program: p.Program, Dir: s.Dir,
				Args: []string{"--appendonly", "yes", "--enable-debug-command", "yes"}})
			if got := r.Do("DEBUG", "DIGEST").Text; got != want {
				t.Errorf("it has %d keys of the log, and another digest", r.Do("DBSIZE").Int)
			}
		})
	}
}
