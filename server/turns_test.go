package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/tests/testkit"
)

// A mutePeer accepts posts to a client that was parked, and drops them.
type mutePeer struct{ quietConn }

func (mutePeer) Post(uint64, []byte)               {}
func (mutePeer) Chunks() protocol.Chunks           { return nil }
func (mutePeer) PostReply(uint64, *protocol.Reply) {}
func (mutePeer) Close(bool)                        {}
func (mutePeer) SetClass(protocol.Class)           {}

// park sends a request that may block as a new client, and returns that client.
func park(c *caller, request []byte) (session any) {
	session, _ = c.in.core.Open(mutePeer{})
	var p protocol.Parser
	if _, err := p.Parse(request); err != nil {
		c.t.Fatal(err)
	}
	c.in.core.Serve(&protocol.Batch{Session: session, Requests: p.Requests, Reply: &protocol.Reply{}})
	return session
}

// A duel is two servers that get the same requests: whole gets them in pipelines, single gets them one at a time.
// Before each request single gets a request for another key, so it remembers nothing. Each server has two clients;
// single has a third for those extra requests.
type duel struct {
	t             *testing.T
	rng           *rand.Rand
	whole, single [2]*caller
	other         *caller
	history       []string
}

func newDuel(t *testing.T, seed uint64, args ...string) *duel {
	t.Chdir(t.TempDir())
	d := &duel{t: t, rng: rand.New(rand.NewPCG(seed, 99))}
	for i, side := range []*[2]*caller{&d.whole, &d.single} {
		in := assembled(t, append([]string{"--dbfilename", fmt.Sprintf("%d.rdb", i), "--save", "",
			"--enable-debug-command", "yes"}, args...)...)
		*side = [2]*caller{newCaller(t, in), newCaller(t, in)}
	}
	d.other = newCaller(t, d.single[0].in)
	return d
}

// send makes client i of both servers send the requests, and compares the replies.
func (d *duel) send(i int, requests ...[]byte) {
	d.t.Helper()
	d.history = append(d.history, fmt.Sprintf("%d: %.300q", i, requests))
	var want []byte
	for _, r := range requests {
		d.other.send(words("GET no:such:key"))
		want = append(want, d.single[i].send(r)...)
	}
	whole := requests[0] // in place: see TestOneBufferForAllRequests
	if len(requests) > 1 {
		whole = bytes.Join(requests, nil)
	}
	got := d.whole[i].send(whole)
	if got, want = savings.ReplaceAll(got, nil), savings.ReplaceAll(want, nil); !bytes.Equal(got, want) {
		d.t.Fatalf("replies %.2000q, want %.2000q, after\n%s", got, want,
			strings.Join(d.history[max(0, len(d.history)-25):], "\n"))
	}
}

// each calls f with both servers.
func (d *duel) each(f func(*caller)) { f(d.whole[0]); f(d.single[0]) }

// settle waits until no save runs.
func (d *duel) settle() {
	d.each(func(c *caller) { awaitSave(d.t, c) })
}

func awaitSave(t *testing.T, c *caller) {
	t.Helper()
	testkit.Await(t, time.Minute, "no save", func() bool {
		return bytes.Contains(c.send(words("INFO persistence")), []byte("rdb_bgsave_in_progress:0"))
	})
}

// hotKeys are the keys of the pipelines. The first two are used most often.
var hotKeys = []string{"a", "b", "list:0000000001"}

// fill makes the words of a line: # becomes a key, % a number.
func (d *duel) fill(line string) [][]byte {
	return slices.Collect(func(yield func([]byte) bool) {
		for word := range strings.FieldsSeq(line) {
			key := hotKeys[d.rng.IntN(2)]
			if d.rng.IntN(4) == 0 {
				key = hotKeys[2]
			}
			word = strings.ReplaceAll(strings.ReplaceAll(word, "#", key), "%", fmt.Sprint(d.rng.IntN(30)))
			if !yield([]byte(word)) {
				return
			}
		}
	})
}

func (d *duel) request(line string) []byte { return protocol.AppendCommand(nil, d.fill(line)) }

// pipeline returns pushes and pops. Most use the key of the request before.
func (d *duel) pipeline() (requests [][]byte) {
	lines := []string{"RPUSH # v%", "LPUSH # v%", "RPOP #", "LPOP #", "RPUSH # v% %",
		"LPUSH # " + strings.Repeat("x", 40) + "%", "LLEN #"}
	args := d.fill(lines[d.rng.IntN(len(lines))])
	for range 2 + d.rng.IntN(24) {
		if key := args[1]; d.rng.IntN(3) == 0 {
			if args = d.fill(lines[d.rng.IntN(len(lines))]); d.rng.IntN(4) != 0 {
				args[1] = key
			}
		}
		requests = append(requests, protocol.AppendCommand(nil, args))
	}
	return requests
}

// between are the requests between two pipelines, mostly one at a time.
var between = []string{
	"DEL #", "UNLINK #", "FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB SYNC", "SWAPDB 0 1", "RENAME # #", "COPY # # REPLACE",
	"COPY # # DB 1 REPLACE", "MOVE # 1",
	"SORT # ALPHA STORE #", "SORT # BY nosort STORE #", "EXPIRE # 1000", "PERSIST #", "LREM # 2 v%",
	"LINSERT # BEFORE v% x", "LTRIM # 1 -2", "LTRIM # 0 2",
	"LSET # 0 %", "LSET # -1 another-%", "BGSAVE", "BGSAVE", "BGSAVE", "SET # %", "GETDEL #", "SINTERSTORE # s s",
	"ZADD # 1 a", "HSET # a b", "RPOPLPUSH # #",
	"LMOVE # # LEFT RIGHT", "LMOVE # # RIGHT RIGHT", "LMPOP 1 # LEFT COUNT 2", "RPOP # 3",
	"RPUSH #" + strings.Repeat(" v%", 150), "LPUSH #" + strings.Repeat(" v%", 70),
	"CONFIG SET list-max-listpack-size 3", "CONFIG SET list-max-listpack-size -2",
	"DEBUG QUICKLIST-PACKED-THRESHOLD 20b", "DEBUG QUICKLIST-PACKED-THRESHOLD 0",
}

// TestHotKeysAcrossTurns: the server remembers the last key from one turn to the next. That changes no reply and no
// data, whatever the same client or other clients do in between.
func TestHotKeysAcrossTurns(t *testing.T) {
	for seed, size := range []string{"2", "7", "-2"} {
		t.Run(size, func(t *testing.T) {
			d := newDuel(t, uint64(seed), "--list-max-listpack-size", size)
			for round := range 600 * testkit.Scale() {
				d.send(0, d.pipeline()...)
				d.disturb(round)
				if round%20 == 0 {
					d.compare()
				}
			}
			d.settle()
			d.send(0, words("DEBUG DIGEST"))
		})
	}
}

func (d *duel) disturb(round int) {
	switch d.rng.IntN(24) {
	case 0: // another client's
		d.send(1, d.pipeline()...)
	case 1:
		d.send(0, slices.Concat([][]byte{words("MULTI")}, d.pipeline(), [][]byte{words("EXEC")})...)
	case 2: // a turn that runs out of time
		d.send(0, d.request("PEXPIRE # 1"))
		testkit.Lapse(time.Millisecond)
		d.each(func(c *caller) { c.in.core.Do(func() { c.in.space.ExpireDue(time.Second) }) })
	case 3: // segments split and are joined
		for i := range 400 {
			d.send(0, words(fmt.Sprintf([]string{"SET fill:%d x", "DEL fill:%d"}[round%2], i)))
		}
	case 4: // a client waits
		request := d.request([]string{"BLMOVE # # LEFT RIGHT 0", "BLPOP # 0"}[round%2])
		var parked [2]any
		parked[0], parked[1] = park(d.whole[0], request), park(d.single[0], request)
		d.send(0, d.pipeline()...)
		d.whole[0].in.core.Closed(parked[0])
		d.single[0].in.core.Closed(parked[1])
	case 5:
		if round%4 == 0 {
			d.settle()
			d.send(0, words("DEBUG RELOAD"))
		}
	case 6, 7, 8, 9, 10: // the next pipeline comes at once
	default:
		for range 1 + d.rng.IntN(8)/6*3 {
			d.send(0, d.request(between[d.rng.IntN(len(between))]))
		}
	}
}

// compare compares all data of the two servers.
func (d *duel) compare() {
	for db := range 2 {
		for _, key := range hotKeys {
			d.send(0, words(fmt.Sprint("SELECT ", db)), words("TYPE "+key), words("OBJECT ENCODING "+key),
				words("LRANGE "+key+" 0 -1"), words("LLEN "+key))
		}
	}
	d.send(0, words("SELECT 0"))
}

// TestReplacedBetweenTurns: separate requests replace a list in place, until the new root has the address of the old
// one. The server does not confuse the new list with the one that the last pipeline has changed.
func TestReplacedBetweenTurns(t *testing.T) {
	d := newDuel(t, 1, "--list-max-listpack-size", "5")
	d.send(0, words("RPUSH src 1 2 3 4 5 6 7 8 9 10 11"), words("COPY src k"))
	for range 8000 {
		request := words([]string{"RPUSH k a", "LPUSH k b", "RPOP k", "LPOP k"}[d.rng.IntN(4)])
		d.send(0, request, request)
		for range 1 + d.rng.IntN(4) {
			d.send(0, words([]string{"COPY src k REPLACE", "SORT k BY nosort STORE k"}[d.rng.IntN(2)]))
			if d.rng.IntN(4) == 0 { // blocks of its size
				d.send(0, words(fmt.Sprintf("SET other%d %s", d.rng.IntN(9), strings.Repeat("x", 25+d.rng.IntN(40)))))
			}
		}
		d.send(0, request, request)
		d.send(0, words("LRANGE k 0 -1"))
	}
}

// TestOneBufferForAllRequests: a loop reads the bytes of every connection into the same buffer. So the keys of two
// turns may be the same slice although they are different keys.
func TestOneBufferForAllRequests(t *testing.T) {
	d := newDuel(t, 1)
	buffer := make([]byte, 0, 256)
	for _, line := range []string{"SET a 1", "SET b 2", "GET a", "GET b", "RPUSH x 1", "RPUSH y 1", "RPUSH x 2",
		"RPUSH x 3", "RPUSH y 2", "LLEN x", "LLEN y", "LPOP x", "RPOP y", "LRANGE x 0 -1", "LRANGE y 0 -1"} {
		buffer = append(buffer[:0], words(line)...)
		d.send(0, buffer)
	}
}
