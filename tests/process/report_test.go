package process

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// fill gives a server keys of every type, small and large.
func fill(t *testing.T, s *testkit.Server) {
	for i := range 200 {
		s.Do("SET", fmt.Sprintf("user:%d", i), strings.Repeat("x", i*10))
		s.Do("HSET", fmt.Sprintf("session:%d", i), "a", "1", "b", strings.Repeat("y", i))
	}
	c := s.Dial()
	testkit.Pipe(t, c, 4000, func(i int) []any {
		switch i % 4 {
		case 0:
			return []any{"ZADD", "big:zset", i, fmt.Sprintf("member:%d", i)}
		case 1:
			return []any{"RPUSH", "big:list", fmt.Sprintf("element:%d", i)}
		case 2:
			return []any{"HSET", "big:hash", fmt.Sprintf("field:%d", i), i}
		}
		return []any{"SADD", "big:set", fmt.Sprintf("member:%d", i)}
	})
	s.Do("SADD", "big:ints", 1, 2, 3)
	s.Do("XADD", "big:stream", "1-1", "field", "value")
	s.Do("SET", "long", strings.Repeat("z", 1<<20), "EX", "100000")
	s.Do("SET", "number", "12345")
}

// TestReport: rdb report gives the same size for each key as MEMORY USAGE after a load. It can read from the server or
// from its file.
func TestReport(t *testing.T) {
	s := testkit.Start(t)
	fill(t, s)
	s.Do("SAVE")
	s.Do("DEBUG", "RELOAD") // values that grew element by element have spare room
	for _, source := range []string{s.Addr, s.File("dump.rdb")} {
		out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", testkit.Spindle(t), "rdb", "report", "--keys", source)
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || code != 0 || len(rows) != 409 {
			t.Fatalf("%s: %d, %d rows, %v", source, code, len(rows), err)
		}
		for _, row := range rows[1:] {
			key := row[6]
			got, _ := strconv.ParseInt(row[3], 10, 64)
			want := s.Do("MEMORY", "USAGE", key, "SAMPLES", 0).Int
			if got != want {
				t.Errorf("%s is reported with %d bytes, MEMORY USAGE is %d", key, got, want)
			}
			if enc := s.Do("OBJECT", "ENCODING", key).Text; enc != row[2] {
				t.Errorf("%s is reported as %s, it is %s", key, row[2], enc)
			}
		}
	}
}

// TestReportOfServers: rdb report reads a server of either kind over the network, with a password and over TLS. It
// lists every key, and reports a wrong password.
func TestReportOfServers(t *testing.T) {
	certificates := testkit.NewCertificates(t)
	port := testkit.FreePort(t)
	for name, s := range map[string]*testkit.Server{
		"spindle": testkit.Start(t, "--requirepass", "secret"),
		"redis":   testkit.Redis(t, "--requirepass", "secret"),
		"tls":     testkit.Start(t, append(certificates.Directives(port), "--requirepass", "secret")...),
	} {
		c := s.Dial()
		c.Must("AUTH", "secret")
		testkit.Pipe(t, c, 1000, func(i int) []any { return []any{"SET", fmt.Sprintf("k:%d", i), "v"} })
		args, address := []string{"rdb", "report", "--format", "json"}, s.Addr
		if name == "tls" {
			address = "127.0.0.1:" + strconv.Itoa(port)
			args = append(args, "--tls", "--cacert", certificates.File("ca.crt"), "--cert", certificates.File("client.crt"),
				"--key", certificates.File("client.key"))
		}
		t.Setenv("REDISCLI_AUTH", "secret")
		out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", testkit.Spindle(t), append(args, address)...)
		var report struct{ All struct{ Keys int } }
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || report.All.Keys != 1000 {
			t.Errorf("%s: %d, %v, %s", name, code, err, out)
		}
		os.Unsetenv("REDISCLI_AUTH")
		for _, more := range [][]string{nil, {"--pass", "wrong"}} {
			out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", testkit.Spindle(t),
				append(append(args, more...), address)...)
			if code != 1 || !strings.Contains(out, "NOAUTH") && !strings.Contains(out, "WRONGPASS") {
				t.Errorf("%s %v: %d %s", name, more, code, out)
			}
		}
	}
}
