package topology

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// receive reads the RDB stream of a full synchronisation, by its length or up to its end mark.
func receive(t *testing.T, c *respclient.Client) (file []byte, form string) {
	t.Helper()
	must2(t, c.Conn().SetDeadline(time.Now().Add(testkit.Slowly(60*time.Second))))
	in := c.Reader()
	line := "\n"
	for line == "\n" { // a newline while the copy is prepared
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	line = strings.TrimSpace(line)
	if mark, ok := strings.CutPrefix(line, "$EOF:"); ok {
		return untilMark(t, in, mark), "EOF"
	}
	n, err := strconv.Atoi(strings.TrimPrefix(line, "$"))
	if err != nil || line[0] != '$' {
		t.Fatalf("instead of a length: %q", line)
	}
	file = make([]byte, n)
	if _, err := io.ReadFull(in, file); err != nil {
		t.Fatal(err)
	}
	return file, "length"
}

func untilMark(t *testing.T, in *bufio.Reader, mark string) (file []byte) {
	t.Helper()
	for !strings.HasSuffix(string(file[max(0, len(file)-len(mark)):]), mark) {
		b, err := in.ReadByte()
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, b)
	}
	return file[:len(file)-len(mark)]
}

// effect returns the next effect. It skips pings.
func effect(t *testing.T, c *respclient.Client) string {
	t.Helper()
	for {
		v, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(v.Strings(), " "); text != "PING" {
			return text
		}
	}
}

// TestRawSync: a connection that sends SYNC gets a length, a file that redis-server can load, and then every
// effect.
func TestRawSync(t *testing.T) {
	s := testkit.Start(t)
	testkit.Pipe(t, s.Dial(), 3000,
		func(i int) []any { return []any{"SET", fmt.Sprint("k:", i), strings.Repeat("x", i%100)} })
	s.Do("SELECT", 2)
	s.Do("SET", "volatile", "v", "PXAT", 4102444800123)
	digest := s.Do("DEBUG", "DIGEST").Text

	c := s.Dial()
	c.SendRaw([]byte("SYNC\r\n"))
	must2(t, c.Flush())
	file, form := receive(t, c)
	if form != "length" {
		t.Errorf("the file came in the form %s, without having been asked for", form)
	}
	s.AwaitInfo(testkit.Slowly(10*time.Second), "replication", "connected_slaves", "1")
	s.Do("SET", "a", "1", "EX", "100")
	s.Do("SELECT", 0)
	s.Do("INCRBYFLOAT", "f", "0.1")
	s.Do("GET", "a") // not an effect
	s.Do("PEXPIREAT", "k:0", "1")
	s.Do("SELECT", 9)
	if v := s.Do("DEL", "nothing"); v.Int != 0 { // not an effect, so no SELECT either
		t.Error(v)
	}
	s.Do("SELECT", 0)
	if _, err := s.Dial().Pipeline([]any{"MULTI"}, []any{"SET", "m", "1"}, []any{"GET", "m"}, []any{"INCR", "m"},
		[]any{"EXEC"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`SELECT 2`, `SET a 1 PXAT \d{13}`, `SELECT 0`, `SET f 0.1 KEEPTTL`, `(DEL|UNLINK) k:0`, `MULTI`, `SET m 1`,
		`INCR m`, `EXEC`,
	} {
		if got := effect(t, c); !regexp.MustCompile("(?i)^" + want + "$").MatchString(got) {
			t.Fatalf("effect %q, want %s", got, want)
		}
	}
	r := newReader(t)
	r.load(t, file)
	if got := r.Do("DEBUG", "DIGEST").Text; got != digest {
		t.Errorf("redis-server has digest %s of the file, want %s", got, digest)
	}
	r.Do("SELECT", 2)
	if ms := r.Do("PEXPIRETIME", "volatile").Int; ms != 4102444800123 {
		t.Errorf("deadline %d in the file", ms)
	}
}

// TestPsyncForms: +FULLRESYNC has a replication ID and an offset, from which the effects are counted, in both forms of
// the stream.
func TestPsyncForms(t *testing.T) {
	s := testkit.Start(t)
	s.Do("SET", "k", "v")
	full := regexp.MustCompile(`^FULLRESYNC ([0-9a-f]{40}) (\d+)$`)
	for _, form := range []string{"length", "EOF"} {
		t.Run(form, func(t *testing.T) {
			c := s.Dial()
			if form == "EOF" {
				c.Must("REPLCONF", "capa", "eof", "capa", "psync2")
			}
			answer := c.Must("PSYNC", "?", "-1").Text
			parts := full.FindStringSubmatch(answer)
			if parts == nil {
				t.Fatalf("PSYNC: %q", answer)
			}
			if id := s.Info("replication")["master_replid"]; id != parts[1] {
				t.Errorf("identity %s, INFO says %s", parts[1], id)
			}
			file, got := receive(t, c)
			if got != form {
				t.Errorf("form %s", got)
			}
			if !strings.HasPrefix(string(file), "REDIS00") {
				t.Errorf("the file begins with %.9q", file)
			}
			c.Send("REPLCONF", "ACK", parts[2])
			must2(t, c.Flush())
			s.Do("SET", "after", form)
			text := effect(t, c)
			if strings.HasPrefix(text, "SELECT") {
				text = effect(t, c)
			}
			if text != "SET after "+form {
				t.Errorf("first effect %q", text)
			}
		})
	}
}

// TestCopyWithoutReceivers: a full copy ends when its last receiver has disconnected, at any point of the encoding. The
// log reports it.
func TestCopyWithoutReceivers(t *testing.T) {
	s := testkit.Start(t, "--rdb-key-save-delay", "1000000")
	s.Do("DEBUG", "POPULATE", "100")
	for round := range 2 {
		c := s.Dial()
		c.Must("REPLCONF", "capa", "eof")
		c.SendRaw([]byte("SYNC\r\n"))
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "connected_slaves", "1")
		// The new copy waits for the end of the previous one, which takes a moment.
		testkit.Until(t, testkit.Slowly(20*time.Second), "the copy to begin", func() error {
			return testkit.Equal(strings.Count(s.Log(), "Starting full synchronization"), round+1)
		})
		c.Close()
		s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "connected_slaves", "0")
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "both ends in the log", func() error {
		return testkit.Equal(strings.Count(s.Log(), "Diskless rdb transfer, last replica dropped"), 2)
	})
}
