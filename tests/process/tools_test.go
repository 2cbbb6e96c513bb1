package process

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestRedisCLI: the unmodified redis-cli works in its usual modes.
func TestRedisCLI(t *testing.T) {
	s := testkit.Start(t)
	for _, c := range []struct {
		input string
		args  []string
		want  string
	}{
		{"", []string{"PING"}, "PONG\n"},
		{"", []string{"-3", "PING"}, "PONG\n"},
		{"value from stdin", []string{"-x", "SET", "k"}, "OK\n"},
		{"", []string{"GET", "k"}, "value from stdin\n"},
		{"", []string{"-n", "5", "INCR", "n"}, "1\n"},
		{"", []string{"-n", "5", "--no-raw", "GET", "n"}, "\"1\"\n"},
		{"SET a 1\nINCR a\nMULTI\nINCR a\nEXEC\nGET a\n", nil, "OK\n2\nOK\nQUEUED\n3\n3\n"},
		{"", []string{"-r", "3", "-i", "0", "INCR", "three"}, "1\n2\n3\n"},
		{"", []string{"--scan", "--pattern", "thre?"}, "three\n"},
		{"", []string{"-e", "NOSUCH"}, "ERR unknown command 'NOSUCH', with args beginning with: \n"},
	} {
		out, _ := s.CLI(c.input, c.args...)
		if out != c.want {
			t.Errorf("redis-cli %q: %q, want %q", c.args, out, c.want)
		}
	}
	if out, code := s.CLI("", "-e", "NOSUCH"); code != 1 {
		t.Errorf("redis-cli -e NOSUCH: %d %s", code, out)
	}
	if out, code := s.CLI("", "--bigkeys"); code != 0 || !strings.Contains(out, "Sampled 3 keys") {
		t.Errorf("redis-cli --bigkeys: %d %s", code, out)
	}
	if out, code := s.CLI("", "--memkeys"); code != 0 || !strings.Contains(out, "Sampled 3 keys") {
		t.Errorf("redis-cli --memkeys: %d %s", code, out)
	}
	if out, code := s.CLI("", "--rdb", s.File("fetched.rdb")); code != 0 {
		t.Errorf("redis-cli --rdb: %d %s", code, out)
	}
	if out, code := testkit.Run(t, time.Minute, "", testkit.Program(t, "redis-check-rdb"),
		s.File("fetched.rdb")); code != 0 || !strings.Contains(out, "4 keys read") {
		t.Errorf("redis-check-rdb of what redis-cli --rdb fetched: %s", out)
	}
}

// TestRedisBenchmark: the unmodified redis-benchmark runs without an error, with and without pipelines. INFO counts its
// commands.
func TestRedisBenchmark(t *testing.T) {
	s := testkit.Start(t)
	line := regexp.MustCompile(`(?m)^(PING_INLINE|PING_MBULK|SET|GET|INCR|MSET \(10 keys\)): [\d.]+ requests per second`)
	for _, pipeline := range []string{"1", "32"} {
		out, code := testkit.Run(t, testkit.Slowly(2*time.Minute), "", testkit.Program(t, "redis-benchmark"),
			"-p", strconv.Itoa(s.Port), "-q", "-t", "ping,set,get,incr,mset", "-n", "5000", "-c", "50", "-P",
			pipeline, "-r", "1000")
		text := strings.ReplaceAll(out, "\r", "\n")
		if code != 0 || strings.Contains(strings.ToLower(text), "err") {
			t.Errorf("-P %s: %d %s", pipeline, code, text)
		}
		if got := line.FindAllString(text, -1); len(got) != 6 {
			t.Errorf("-P %s: %q", pipeline, got)
		}
	}
	if n := s.InfoInt("stats", "total_error_replies"); n != 0 {
		t.Errorf("total_error_replies:%d", n)
	}
	for name, want := range map[string]int64{"ping": 20_000, "set": 10_000, "get": 10_000, "incr": 10_000,
		"mset": 10_000} {
		stats := s.Info("commandstats")["cmdstat_"+name]
		calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		if n, _ := strconv.ParseInt(calls, 10, 64); n < want {
			t.Errorf("cmdstat_%s:%s, want %d calls", name, stats, want)
		}
	}
}

// TestPipe: redis-cli --pipe sends a file of commands. It has 200,000 commands, or SPINDLE_TEST_SCALE times as many.
func TestPipe(t *testing.T) {
	n := 200_000 * testkit.Scale()
	if testkit.Checked {
		n /= 8
	}
	var file strings.Builder
	for i := range n {
		key, value := fmt.Sprintf("key:%d", i), strings.Repeat("v", i%50)
		fmt.Fprintf(&file, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(key), key, len(value), value)
	}
	s := testkit.Start(t)
	out, code := s.CLI(file.String(), "--pipe")
	if code != 0 || !strings.Contains(out, fmt.Sprintf("errors: 0, replies: %d", n)) {
		t.Errorf("redis-cli --pipe: %d %s", code, out)
	}
	if got := s.Do("DBSIZE").Int; got != int64(n) {
		t.Errorf("%d keys, want %d", got, n)
	}
	out, code = s.CLI("*1\r\n$6\r\nNOSUCH\r\n*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n", "--pipe")
	if code != 1 || !strings.Contains(out, "errors: 1, replies: 2") {
		t.Errorf("redis-cli --pipe with an error: %d %s", code, out)
	}
}
