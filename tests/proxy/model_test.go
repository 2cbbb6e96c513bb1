package proxy

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A request is a request of the model, with the way to compare its reply.
type request struct {
	args   []any
	sorted bool // the reply's elements have no order
}

// A player is a client of the model. No other player uses its keys, so its replies depend only on its own requests.
type player struct {
	rng   *rand.Rand
	id    int
	tag   int // the number in the hash tag of the next transaction
	shas  []string
	still bool // no slot moves, so KEYS returns each key once, and a watched key stays on its server
}

func (p *player) key() string { return fmt.Sprintf("p%d:%d", p.id, p.rng.IntN(25)) }

// tagged returns a key with a hash tag, so that all such keys are in one slot.
func (p *player) tagged() string { return fmt.Sprintf("{p%d.%d}:%d", p.id, p.tag, p.rng.IntN(6)) }

func (p *player) value() string {
	switch p.rng.IntN(12) {
	case 0:
		return strings.Repeat("v", p.rng.IntN(40_000))
	case 1:
		return ""
	case 2:
		return "a\r\nb\x00c"
	}
	return strconv.Itoa(p.rng.IntN(1000))
}

const sumScript = "local n = redis.call('incrby', KEYS[1], ARGV[1]) return {n, ARGV[1], 'x'}"

// next returns the requests of one step: a single request, or a transaction.
func (p *player) next() []request {
	one := func(args ...any) []request { return []request{{args: args}} }
	sorted := func(args ...any) []request { return []request{{args: args, sorted: true}} }
	k := p.key
	if p.rng.IntN(20) == 0 {
		p.tag = p.rng.IntN(4)
		return p.transaction()
	}
	switch p.rng.IntN(48) {
	case 0, 1, 2:
		return one("SET", k(), p.value())
	case 3, 4, 5:
		return one("GET", k())
	case 6:
		return one("INCRBY", k(), p.rng.IntN(100))
	case 7:
		return one("APPEND", k(), "x")
	case 8, 9:
		return one("MGET", k(), k(), k(), "none", k(), k())
	case 10:
		return one("MSET", k(), p.value(), k(), p.value(), k(), p.value())
	case 11:
		return one("DEL", k(), k(), k())
	case 12:
		return one("UNLINK", k(), k())
	case 13:
		return one("EXISTS", k(), k(), k(), k())
	case 14:
		return one("TOUCH", k(), k())
	case 15:
		return one("HSET", k(), "f"+strconv.Itoa(p.rng.IntN(5)), p.value())
	case 16:
		return sorted("HGETALL", k())
	case 17:
		return one("RPUSH", k(), p.value(), p.value())
	case 18:
		return one("LRANGE", k(), 0, -1)
	case 19:
		return one("LPOP", k())
	case 20:
		return one("SADD", k(), p.rng.IntN(9), p.rng.IntN(9))
	case 21:
		return sorted("SMEMBERS", k())
	case 22:
		return one("ZADD", k(), p.rng.IntN(9), p.rng.IntN(9))
	case 23:
		return one("ZRANGE", k(), 0, -1, "WITHSCORES")
	case 24:
		return one("EVAL", sumScript, 1, k(), p.rng.IntN(50))
	case 25:
		if len(p.shas) > 0 {
			return one("EVALSHA", p.shas[0], 1, k(), p.rng.IntN(50))
		}
		return one("SCRIPT", "LOAD", sumScript)
	case 26:
		return one("EXPIRE", k(), 1000)
	case 27:
		return one("PERSIST", k())
	case 28:
		return one("TYPE", k())
	case 29:
		return one("STRLEN", k())
	case 30:
		return one("GETRANGE", k(), 0, 10)
	case 31:
		return one("NOSUCH", "command", k())
	case 32:
		return one("GET")
	case 33:
		return one("SINTER", p.tagged(), p.tagged())
	case 34:
		return one("RENAME", p.tagged(), p.tagged())
	case 35:
		return one("SETRANGE", k(), p.rng.IntN(100), "range")
	case 36:
		return one("BITCOUNT", k())
	case 37:
		return one("PFADD", k(), p.value())
	case 38:
		return one("PING", "hello")
	case 39:
		return one("ECHO", p.value())
	case 40:
		return []request{{args: []any{"RPUSH", k(), "for BLPOP"}}, {args: []any{"TYPE", k()}}}
	case 41:
		list := k()
		return []request{{args: []any{"DEL", list}}, {args: []any{"RPUSH", list, "a", "b"}},
			{args: []any{"BLPOP", list, 1}}, {args: []any{"LLEN", list}}, {args: []any{"BRPOP", list, 1}}}
	case 42:
		if !p.still {
			return one("DBSIZE", "wrong arity")
		}
		return sorted("KEYS", fmt.Sprintf("p%d:*", p.id))
	case 43:
		return one("SORT", k(), "ALPHA")
	case 44:
		return one("XADD", k(), fmt.Sprintf("%d-1", 1+p.rng.IntN(100)), "f", "v")
	case 45:
		return one("XLEN", k())
	case 46:
		return one("GETDEL", k())
	}
	return one("SETEX", k(), 500, p.value())
}

// transaction returns MULTI with requests of one slot, and sometimes an error, WATCH or DISCARD.
func (p *player) transaction() (all []request) {
	add := func(args ...any) { all = append(all, request{args: args}) }
	if p.still && p.rng.IntN(3) == 0 {
		add("WATCH", p.tagged())
		add("GET", p.tagged())
		if p.rng.IntN(3) == 0 {
			add("SET", p.tagged(), "changed") // perhaps the watched key
		}
	}
	if p.rng.IntN(8) == 0 {
		add("UNWATCH")
	}
	add("MULTI")
	for range p.rng.IntN(5) {
		switch p.rng.IntN(7) {
		case 0:
			add("PING")
		case 1:
			add("INCR", p.tagged())
		case 2:
			add("LPUSH", p.tagged(), "x")
		case 3:
			add("NOSUCH")
			if p.rng.IntN(4) > 0 {
				all = all[:len(all)-1]
			}
		default:
			add("SET", p.tagged(), p.value())
		}
	}
	if p.rng.IntN(6) == 0 {
		add("DISCARD")
	} else {
		add("EXEC")
	}
	return all
}

// TestRepliesAreThoseOfOneServer: clients send random pipelines of all kinds of requests to proxies, and to one
// redis-server that has all keys. All replies are equal.
func TestRepliesAreThoseOfOneServer(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 0, 2)
			one := testkit.Launch(t, testkit.Spec{Redis: redis})
			play(t, all, one, 20, 400*testkit.Scale(), true)
		})
	}
}

// play makes each of several clients send requests, half of the clients in RESP3.
func play(t *testing.T, all *tier, one *testkit.Server, clients, requests int, still bool) {
	var done sync.WaitGroup
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	for i := range clients {
		p := &player{rng: rand.New(rand.NewPCG(uint64(seed), uint64(i))), id: i, still: still}
		through, direct := all.proxies[i%len(all.proxies)].Dial(), one.Dial()
		if i%2 == 1 {
			through.Must("HELLO", 3)
			direct.Must("HELLO", 3)
		}
		done.Go(func() { p.play(t, through, direct, requests) })
	}
	done.Wait()
}

func (p *player) play(t *testing.T, through, direct *respclient.Client, requests int) {
	for sent := 0; sent < requests && !t.Failed(); {
		var batch []request
		for range 1 + p.rng.IntN(1+p.rng.IntN(60)) {
			batch = append(batch, p.next()...)
		}
		sent += len(batch)
		plain := make([][]any, len(batch))
		for i, r := range batch {
			plain[i] = r.args
		}
		want, err := direct.Pipeline(plain...)
		if err != nil {
			t.Errorf("client %d, the one server: %v", p.id, err)
			return
		}
		got, err := through.Pipeline(plain...)
		if err != nil {
			t.Errorf("client %d, the proxy: %v", p.id, err)
			return
		}
		for i := range batch {
			if batch[i].sorted {
				sortElems(want[i].Elems, want[i].Kind == '%' || batch[i].args[0] == "HGETALL")
				sortElems(got[i].Elems, got[i].Kind == '%' || batch[i].args[0] == "HGETALL")
			}
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("client %d, %.200v: %.300v, the one server says %.300v", p.id, batch[i].args, got[i], want[i])
				for j := max(0, i-12); j < min(len(batch), i+3); j++ {
					t.Logf("  %.80v -> %.80v", batch[j].args, got[j])
				}
				return
			}
			if batch[i].args[0] == "SCRIPT" && want[i].Kind == '$' {
				p.shas = []string{want[i].Text}
			}
		}
	}
}

// sortElems orders elements, or pairs of them, by their text.
func sortElems(elems []respclient.Value, pairs bool) {
	if !pairs {
		slices.SortFunc(elems, func(a, b respclient.Value) int { return strings.Compare(a.Text, b.Text) })
		return
	}
	type pair [2]respclient.Value
	var all []pair
	for i := 0; i+1 < len(elems); i += 2 {
		all = append(all, pair{elems[i], elems[i+1]})
	}
	slices.SortFunc(all, func(a, b pair) int { return strings.Compare(a[0].Text, b[0].Text) })
	for i, x := range all {
		elems[2*i], elems[2*i+1] = x[0], x[1]
	}
}
