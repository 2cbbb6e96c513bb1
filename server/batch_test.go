package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"spindle/protocol"
	"spindle/tests/testkit"
)

// A caller is a client without a socket. Its requests go through a parser and the core, as they do from a loop.
type caller struct {
	t       testing.TB
	in      *instance
	session any
	parser  protocol.Parser
	reply   protocol.Reply
}

func newCaller(t testing.TB, in *instance) *caller {
	session, _ := in.core.Open(quietConn{})
	return &caller{t: t, in: in, session: session}
}

// send serves one buffer of whole requests, as a batch for each return of Parse. It returns the replies, which are
// valid until the next send.
func (c *caller) send(buf []byte) []byte {
	c.reply.B = c.reply.B[:0]
	for len(buf) > 0 {
		n, err := c.parser.Parse(buf)
		if err != nil || n == 0 {
			c.t.Fatalf("%d bytes: %v", n, err)
		}
		for requests := c.parser.Requests; len(requests) > 0; { // a batch may end early because of its time
			batch := protocol.Batch{Session: c.session, Requests: requests, Reply: &c.reply}
			c.in.core.Serve(&batch)
			if batch.Done == 0 {
				c.t.Fatalf("the last %d of %d requests are not run", len(requests), len(c.parser.Requests))
			}
			requests = requests[batch.Done:]
		}
		buf = buf[n:]
	}
	return c.reply.B
}

// A quietConn is a connection whose methods are never called.
type quietConn struct{ protocol.Conn }

func (quietConn) FD() int                   { return 0 }
func (quietConn) LocalAddr() string         { return "127.0.0.1:6379" }
func (quietConn) RemoteAddr() string        { return "127.0.0.1:1" }
func (quietConn) Unix() bool                { return false }
func (quietConn) Loopback() bool            { return true }
func (quietConn) Usage() (u protocol.Usage) { return u }
func (quietConn) LastActive() int64         { return 0 }
func (quietConn) Resume()                   {}
func (quietConn) Loop() protocol.Loop       { return nil }

// words returns one request with the words of a line.
func words(line string) []byte { return protocol.AppendCommand(nil, bytes.Fields([]byte(line))) }

// savings are the possible replies of BGSAVE. The time decides between them.
var savings = regexp.MustCompile("[+]Background saving (started|scheduled)|-ERR Background save already in progress")

// TestPipelinesAreSequences: a pipeline has the same replies and data as its requests one by one. The server remembers
// names, keys and ends of lists from one request of a pipeline to the next. The lists have high trees, and views are
// taken within the pipelines.
func TestPipelinesAreSequences(t *testing.T) {
	for _, size := range []string{"2", "5", "-2"} {
		t.Run(size, func(t *testing.T) { testPipelines(t, size) })
	}
}

func testPipelines(t *testing.T, size string) {
	t.Chdir(t.TempDir())
	start := func(file string) *caller {
		return newCaller(t, assembled(t, "--list-max-listpack-size", size, "--dbfilename", file, "--save", ""))
	}
	whole, single := start("whole.rdb"), start("single.rdb")
	both := []*caller{whole, single}
	rng := rand.New(rand.NewPCG(11, 12))
	lines := []string{
		"RPUSH # v%", "RPUSH # v%", "RPUSH # v%", "LPUSH # v%", "LPUSH # v%", "RPUSH # % %", "RPOP #", "LPOP #", "RPOP #",
		"LPOP # 3", "RPOPLPUSH # #", "LMOVE # # LEFT RIGHT",
		"LMOVE # # RIGHT RIGHT", "LSET # 0 %", "LSET # -1 another-one-%",
		"LINSERT # BEFORE v% x", "LREM # 2 v%", "LTRIM # 1 -2", "DEL #", "RENAME # #", "COPY # # REPLACE", "EXPIRE # 1000",
		"PERSIST #", "LLEN #", "LRANGE # 0 -1", "LINDEX # -1", "SELECT &", "SWAPDB 0 1", "SORT # ALPHA STORE #",
		"SORT # BY nosort STORE #", "RESTORE # 0 <dump> REPLACE", "SET # %", "GET #", "MULTI", "EXEC",
		"UNLINK #", "APPEND # %",
		"BGSAVE", "RPUSH #" + strings.Repeat(" v%", 150), "LPUSH #" + strings.Repeat(" v%", 120),
	}
	replace := func(line, what string, by func() string) string {
		for strings.Contains(line, what) {
			line = strings.Replace(line, what, by(), 1)
		}
		return line
	}
	for _, c := range both { // RESTORE has its payload: a list of some leaves
		c.send(words("RPUSH dumped" + strings.Repeat(" "+strings.Repeat("element", 100), 30)))
	}
	_, after, _ := bytes.Cut(single.send(words("DUMP dumped")), []byte("\r\n"))
	dump := bytes.Clone(after[:len(after)-2])
	for round := range 600 * testkit.Scale() {
		var pipeline, sequence [][]byte
		line := ""
		key := string('a' + rune(rng.IntN(3)))
		for range 1 + rng.IntN(40) {
			if line == "" || rng.IntN(3) == 0 { // pipelines repeat themselves
				line = lines[rng.IntN(len(lines))]
			}
			text := replace(line, "#", func() string {
				if rng.IntN(8) == 0 {
					key = string('a' + rune(rng.IntN(3)))
				}
				return key
			})
			text = replace(text, "%", func() string { return fmt.Sprint(rng.IntN(30)) })
			text = replace(text, "&", func() string { return fmt.Sprint(rng.IntN(2)) })
			request := words(text)
			if strings.Contains(text, "<dump>") {
				args := bytes.Fields([]byte(text))
				args[3] = dump
				request = protocol.AppendCommand(nil, args)
			}
			pipeline, sequence = append(pipeline, request), append(sequence, request)
		}
		var want []byte
		for _, one := range sequence {
			want = append(want, single.send(one)...)
		}
		got := whole.send(bytes.Join(pipeline, nil))
		got, want = savings.ReplaceAll(got, nil), savings.ReplaceAll(want, nil)
		if !bytes.Equal(got, want) {
			t.Fatalf("round %d, %q:\n got %q\nwant %q", round, pipeline, got, want)
		}
	}
	for _, c := range both {
		c.send(words("DISCARD"))
		awaitSave(t, c)
	}
	digest := words("DEBUG DIGEST")
	if got, want := string(whole.send(digest)), string(single.send(digest)); got != want {
		t.Errorf("digest %q, want %q", got, want)
	}
}

// TestPipelinesAtNodesBounds changes a list at one end, then at the other inside EXEC, then at the first end again. It
// does so at every length up to a tree with two levels of nodes.
func TestPipelinesAtNodesBounds(t *testing.T) {
	c := newCaller(t, assembled(t, "--list-max-listpack-size", "5"))
	for n := range 400 {
		want := make([]string, n)
		for i := range want {
			want[i] = fmt.Sprint("v", i)
		}
		c.send(words("DEL l"))
		if n > 0 {
			c.send(words("RPUSH l " + strings.Join(want, " ")))
		}
		var pipeline []byte
		for range 8 {
			pipeline = append(pipeline, bytes.Join([][]byte{words("RPUSH l x y z"), words("RPUSH l a"), words("MULTI"),
				words("LPUSH l b"), words("EXEC"), words("RPUSH l c")}, nil)...)
			want = append(append([]string{"b"}, want...), "x", "y", "z", "a", "c")
		}
		c.send(pipeline)
		for i, text := range want {
			if got := string(c.send(words(fmt.Sprint("LINDEX l ", i)))); got != fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) {
				t.Fatalf("of %d elements, element %d is %q, want %q", n, i, got, text)
			}
		}
	}
}

// TestPipelinesReplaceLists: the server does not use the remembered end of a list for a list that has replaced it. The
// new list has the same block in the table, and in time a root at the same address.
func TestPipelinesReplaceLists(t *testing.T) {
	c := newCaller(t, assembled(t, "--list-max-listpack-size", "5"))
	rng := rand.New(rand.NewPCG(1, 2))
	build := words("RPUSH k 1 2 3 4 5 6 7 8 9 10 11")
	store := words("SORT k BY nosort STORE k")
	c.send(build)
	want := append(append([]byte(nil), c.send(words("LRANGE k 0 -1"))...), "$1\r\na\r\n$1\r\nb\r\n"...)
	want = bytes.Replace(want, []byte("*11"), []byte("*13"), 1)
	for round := range 10_000 {
		c.send(append(words("DEL k"), build...))
		for i := range rng.IntN(4) { // other blocks of its size
			c.send(words(fmt.Sprintf("SET other%d:%d %s", round, i, strings.Repeat("x", 25+rng.IntN(25)))))
		}
		c.send(bytes.Join([][]byte{words("RPUSH k a"), bytes.Repeat(store, 2+rng.IntN(8)), words("RPUSH k b")}, nil))
		if got := c.send(words("LRANGE k 0 -1")); !bytes.Equal(got, want) {
			t.Fatalf("round %d: %q", round, got)
		}
	}
}

// BenchmarkBatch is a loop's work on a pipeline of sixteen requests between reading and writing: parse, serve, reply.
// Watch ns/request.
func BenchmarkBatch(b *testing.B) {
	for _, line := range []string{
		"PING", "SET key:# xxx", "GET key:#", "INCR counter", "LPUSH list xxx", "RPUSH list xxx", "LPOP full", "RPOP full",
		"SADD set element:#", "HSET hash field:# xxx",
		"ZADD zset 0 element:#",
	} {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) { benchmarkBatch(b, line) })
	}
}

// refilled is how many batches of pops run before the list is filled again.
const refilled = 1 << 17

func benchmarkBatch(b *testing.B, line string) {
	c := newCaller(b, assembled(b, "--save", ""))
	pipelines := make([][]byte, 1024)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range pipelines {
		for range 16 {
			pipelines[i] = append(pipelines[i], words(strings.ReplaceAll(line, "#",
				fmt.Sprintf("%012d", rng.IntN(1_000_000))))...)
		}
	}
	fill := bytes.Repeat(words("RPUSH full"+strings.Repeat(" xxx", 1024)), 16*refilled/1024)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if strings.HasSuffix(line, "full") && n%refilled == 0 {
			b.StopTimer()
			c.send(fill)
			b.StartTimer()
		}
		c.send(pipelines[n%len(pipelines)])
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(16*n), "ns/request")
}
