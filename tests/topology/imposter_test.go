package topology

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// An imposter plays a primary for one replica. It sends the bytes that the test chooses.
type imposter struct {
	t        testing.TB
	replica  *testkit.Server
	operator *respclient.Client
	listener *net.TCPListener
	conn     net.Conn
	in       *bufio.Reader
}

func newImposter(t testing.TB, args ...string) *imposter {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := testkit.Start(t, args...)
	return &imposter{t: t, replica: r, operator: r.Dial(), listener: l}
}

// invite makes the replica connect. It replies to the replica's commands like a primary, until the command that until
// names.
func (p *imposter) invite(until string) {
	p.t.Helper()
	p.tell("NO", "ONE")
	p.tell("127.0.0.1", p.listener.Addr().(*net.TCPAddr).Port)
	for !p.welcome(until) { // the replica had tried again before it got REPLICAOF NO ONE
	}
}

// tell sends REPLICAOF, which the replica refuses while it loads.
func (p *imposter) tell(whom ...any) {
	p.t.Helper()
	testkit.Until(p.t, testkit.Slowly(20*time.Second), "REPLICAOF", func() error {
		v, err := p.operator.Do(append([]any{"REPLICAOF"}, whom...)...)
		if err == nil {
			err = v.Err()
		}
		return err
	})
}

// welcome accepts a connection and performs the handshake. It reports whether the replica stayed until the end of the
// handshake.
func (p *imposter) welcome(until string) bool {
	p.t.Helper()
	limit := time.Now().Add(testkit.Slowly(20 * time.Second))
	if err := p.listener.SetDeadline(limit); err != nil {
		p.t.Fatal(err)
	}
	var err error
	if p.conn, err = p.listener.Accept(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.conn.SetReadDeadline(limit)
	p.in = bufio.NewReader(p.conn)
	for {
		words, err := p.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.t.Fatalf("the replica's handshake: %v", err)
		case err != nil:
			p.conn.Close()
			return false
		case len(words) == 0: // a blank line
		case words[0] == until:
			return true
		case words[0] == "PING":
			p.say([]byte("+PONG\r\n"))
		default:
			p.say([]byte("+OK\r\n"))
		}
	}
}

// read returns the next command of the replica. It returns no words for a blank line.
func (p *imposter) read() (words []string, err error) {
	line, err := p.in.ReadString('\n')
	for range 2 * number(line) {
		if line, err = p.in.ReadString('\n'); err != nil {
			break
		}
		words = append(words, strings.TrimSpace(line))
	}
	for i := range len(words) / 2 {
		words[i] = words[2*i+1] // skips the lengths
	}
	return words[:len(words)/2], err
}

// number returns the number after '*', or 0 if there is none.
func number(line string) (n int) {
	_, _ = fmt.Sscanf(line, "*%d", &n)
	return n
}

// say writes bytes to the replica, which may have disconnected.
func (p *imposter) say(text ...[]byte) {
	_ = p.conn.SetWriteDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
	for _, part := range text {
		if _, err := p.conn.Write(part); err != nil {
			return
		}
	}
}

// leave closes the sending side, and returns when the replica has closed the connection.
func (p *imposter) leave() {
	p.t.Helper()
	_ = p.conn.(*net.TCPConn).CloseWrite()
	_ = p.conn.SetReadDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
	if _, err := io.Copy(io.Discard, p.in); err != nil && !strings.Contains(err.Error(), "reset by peer") {
		p.t.Fatalf("the replica does not hang up: %v", err)
	}
	p.conn.Close()
}

// file returns a small RDB stream with one key of each type.
func file(t testing.TB) []byte {
	t.Helper()
	s := testkit.Start(t)
	for _, words := range [][]any{{"SET", "k", "v"}, {"SET", "long", strings.Repeat("x", 300), "PX", 9_000_000},
		{"RPUSH", "l", 1, 2, "three"},
		{"SADD", "s", 1, 2, "three"}, {"SADD", "i", 1, 2, 3}, {"HSET", "h", "f", "v"}, {"HSET", "d", "f", "v"},
		{"HPEXPIRE", "d", 9_000_000, "FIELDS", 1, "f"}, {"ZADD", "z", 1, "m"}, {"XADD", "x", "1-1", "f", "v"},
		{"XGROUP", "CREATE", "x", "g", 0},
		{"XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">"}, {"BF.ADD", "b", "x"},
		{"FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 7 end)"}} {
		s.Do(words...)
	}
	c := s.Dial()
	c.SendRaw([]byte("SYNC\r\n"))
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	in := c.Reader()
	line, n := "", 0
	for n == 0 {
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Sscanf(line, "$%d", &n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		t.Fatal(err)
	}
	return text
}

var (
	strange = strings.Repeat("ab", 20) // the ID of the imposter's history
	endMark = bytes.Repeat([]byte("m"), 40)
)

func fullResync(offset string) []byte {
	return []byte("+FULLRESYNC " + strange + " " + offset + "\r\n")
}

func sized(copied []byte) []byte { return append(fmt.Appendf(nil, "$%d\r\n", len(copied)), copied...) }

// TestImposters: whatever a primary sends, the replica closes the link with Redis's log line, and keeps the data that
// its settings promise to keep. Then it follows the next honest primary.
func TestImposters(t *testing.T) {
	t.Parallel()
	copied := file(t)
	marked := func(end []byte) []byte { return join([]byte("$EOF:"), endMark, []byte("\r\n"), copied, end) }
	endless := bytes.Repeat([]byte("x"), 1<<20)
	for _, c := range []struct {
		name, until string
		say         []byte
		log         string
	}{
		{"an endless line for PONG", "PING", endless, "Failed to read response from the server: "},
		{"an endless line for OK", "REPLCONF", endless, "Failed to read response from the server: "},
		{"an endless line for FULLRESYNC", "PSYNC", endless, "Failed to read response from the server: "},
		{"an endless line for the length", "PSYNC", join(fullResync("0"), endless),
			"I/O error reading bulk count from MASTER: "},
		{"no PONG", "PING", []byte("-ERR go away\r\n"), "Error reply to PING from master: '-ERR go away'"},
		{"no offset", "PSYNC", fullResync("x"), "Master replied with wrong +FULLRESYNC syntax."},
		{"a negative offset", "PSYNC", fullResync("-5"), "Master replied with wrong +FULLRESYNC syntax."},
		{"an offset past all", "PSYNC", fullResync("9223372036854775808"), "Master replied with wrong +FULLRESYNC syntax."},
		{"a length that is none", "PSYNC", join(fullResync("0"), []byte("$abc\r\n")), "Bad protocol from MASTER"},
		{"a negative length", "PSYNC", join(fullResync("0"), []byte("$-3\r\n")), "Bad protocol from MASTER"},
		{"no length", "PSYNC", join(fullResync("0"), []byte("hello\r\n")),
			"Bad protocol from MASTER, the first byte is not '$' (we received 'hello')"},
		{"an error for the copy", "PSYNC", join(fullResync("0"), []byte("-ERR no\r\n")),
			"MASTER aborted replication with an error: ERR no"},
		{"no copy", "PSYNC", join(fullResync("0"), sized([]byte("garbage"))),
			"Failed trying to load the MASTER synchronization DB from socket"},
		{"another mark", "PSYNC", join(fullResync("0"), marked(bytes.Repeat([]byte("n"), 40))),
			"Replication stream EOF marker is broken"},
		{"a short mark", "PSYNC", join(fullResync("0"), marked(endMark[:39])),
			"Failed trying to load the MASTER synchronization DB from socket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newImposter(t, "--repl-diskless-load", "swapdb")
			p.replica.Do("SET", "old", "v")
			sockets := len(p.replica.Sockets())
			p.invite(c.until)
			p.say(c.say)
			p.leave()
			p.replica.AwaitLog(testkit.Slowly(20*time.Second), c.log)
			if got := p.replica.Do("GET", "old").Text; got != "v" {
				t.Errorf("the old data: %q", got)
			}
			p.tell("NO", "ONE")
			testkit.Until(t, testkit.Slowly(20*time.Second), "the sockets of before", func() error {
				if n := len(p.replica.Sockets()); n > sockets { // the server may not have closed an older one yet
					return fmt.Errorf("%d, were %d", n, sockets)
				}
				return nil
			})
			p.invite("PSYNC")
			p.say(fullResync("100"), sized(copied))
			up(t, p.replica)
			if got := p.replica.Do("GET", "k").Text; got != "v" {
				t.Errorf("the copy's data: %q", got)
			}
		})
	}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestCopyCutAnywhere: a full copy breaks off at each of its bytes. The replica keeps its earlier data if its settings
// promise that; otherwise it has no data.
func TestCopyCutAnywhere(t *testing.T) {
	t.Parallel()
	copied := file(t)
	for how, want := range map[string]string{"swapdb": "v", "disabled": "v", "on-empty-db": ""} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := newImposter(t, "--repl-diskless-load", how)
			step := max(1, 61/testkit.Scale())
			for cut := 0; cut < len(copied); cut += step {
				form := join(fullResync("0"), sized(copied)[:len(sized(copied))-len(copied)+cut])
				if cut%2 == 1 {
					form = join(fullResync("0"), []byte("$EOF:"), endMark, []byte("\r\n"), copied[:cut])
				}
				if want != "" {
					p.tell("NO", "ONE")
					p.replica.Do("SET", "old", "v")
				}
				p.invite("PSYNC")
				p.say(form)
				p.leave()
				p.tell("NO", "ONE")
				testkit.Until(t, testkit.Slowly(20*time.Second), "an answer", func() error {
					v, err := p.replica.Ask("GET", "old")
					if err == nil {
						err = v.Err()
					}
					if err == nil {
						err = testkit.Equal(v.Text, want)
					}
					return err
				})
				if n := p.replica.Do("DBSIZE").Int; n != int64(len(want)) {
					t.Fatalf("%d keys after a cut at byte %d", n, cut)
				}
			}
			for _, name := range p.replica.Files() {
				if strings.Contains(name, "temp") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestOffsetsThatRunBackwards: a primary ignores an acknowledgement whose offset is smaller than an earlier one. A
// replica accepts a new full copy with a smaller offset.
func TestOffsetsThatRunBackwards(t *testing.T) {
	p := newImposter(t)
	copied := file(t)
	for _, offset := range []string{"5000", "10"} {
		p.invite("PSYNC")
		p.say(fullResync(offset), sized(copied))
		up(t, p.replica)
		p.say([]byte("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"))
		testkit.Until(t, testkit.Slowly(10*time.Second), "the offset", func() error {
			return testkit.Equal(p.replica.InfoInt("replication", "slave_repl_offset"), int64(number("*"+offset)+27))
		})
	}
	s := testkit.Start(t)
	c := s.Dial()
	c.Must("REPLCONF", "capa", "eof", "capa", "psync2")
	c.Must("PSYNC", "?", "-1")
	receive(t, c)
	for _, ack := range []any{0, 100, 50, -1, "x", "9223372036854775808"} {
		c.Send("REPLCONF", "ACK", ack)
	}
	must2(t, c.Flush())
	testkit.Until(t, testkit.Slowly(10*time.Second), "the acknowledged offset", func() error {
		if line := s.Info("replication")["slave0"]; !strings.Contains(line, "state=online,offset=100,") {
			return fmt.Errorf("%s", line)
		}
		return nil
	})
}

// TestReplicaFigures: INFO's counters of a primary's full copy and stream are right, and CONFIG RESETSTAT resets them.
func TestReplicaFigures(t *testing.T) {
	p := newImposter(t)
	copied := file(t)
	p.invite("PSYNC")
	p.say(fullResync("0"), sized(copied))
	up(t, p.replica)
	p.say([]byte("*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nINCR\r\n$1\r\nl\r\n")) // l is a list
	figures := func(input, errors int) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(10*time.Second), "figures", func() error {
			i := p.replica.Info("stats")
			return testkit.Equal(i["total_net_repl_input_bytes"]+" "+i["unexpected_error_replies"],
				fmt.Sprint(input, " ", errors))
		})
	}
	figures(len(sized(copied))+14+21, 1)
	p.replica.Do("CONFIG", "RESETSTAT")
	figures(0, 0)
	p.say([]byte("*1\r\n$4\r\nPING\r\n"))
	figures(14, 0)
	p.replica.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	if text := p.replica.Do("INFO", "replication").Text; !strings.Contains(text,
		"connected_slaves:0\r\nmin_slaves_good_slaves:0\r\n") {
		t.Errorf("%s", text)
	}
}

// FuzzPrimary: whatever bytes arrive on a replica's link, in the handshake, as a full copy or as the stream, the
// replica still serves clients. Its offset counts no more bytes than arrived.
func FuzzPrimary(f *testing.F) {
	copied := file(f)
	stream := []byte("*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$5\r\nMULTI\r\n" +
		"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*1\r\n$4\r\nEXEC\r\n" +
		"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n*1\r\n$4\r\nPING\r\n\r\n*3\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$1\r\nx\r\n")
	f.Add(byte(0), []byte("+PONG\r\n+OK\r\n+OK\r\n"))
	f.Add(byte(1), join(fullResync("7"), sized(copied)))
	f.Add(byte(1), []byte("+CONTINUE "+strange+"\r\n"+string(stream)))
	f.Add(byte(1), []byte("-ERR no PSYNC\r\n$0\r\n"))
	f.Add(byte(1), join(fullResync("7"), []byte("\n\n$EOF:"), endMark, []byte("\r\n"), copied, endMark, stream))
	for how := range byte(3) {
		f.Add(2+how<<2, copied)
		f.Add(3+how<<2, stream)
	}
	p := newImposter(f, "--proto-max-bulk-len", "1mb")
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		if low := bytes.ToLower(data); bytes.Contains(low, []byte("shutdown")) || bytes.Contains(low, []byte("debug")) {
			return // a primary may shut down its replicas
		}
		p.t = t
		until := "PSYNC"
		if kind&3 == 0 {
			until = "PING"
		}
		p.operator.Must("CONFIG", "SET", "repl-diskless-load",
			[]string{"disabled", "on-empty-db", "swapdb", "swapdb"}[kind>>2&3])
		p.invite(until)
		switch kind & 3 {
		case 2:
			data = join(fullResync("0"), sized(data))
		case 3:
			data = join(fullResync("0"), sized(copied), data)
		}
		p.say(data)
		p.leave()
		var n int64
		_, rest, _ := strings.Cut(p.operator.Must("INFO", "replication").Text, "\nslave_repl_offset:")
		if _, err := fmt.Sscanf(rest, "%d", &n); err != nil || kind&3 == 3 && n > int64(len(data)) {
			t.Errorf("offset %.20q after %d bytes", rest, len(data))
		}
		p.tell("NO", "ONE")
		p.operator.Must("FLUSHALL")
	})
}
