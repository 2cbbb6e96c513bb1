package whole

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

const (
	talkers  = 6
	queues   = 3
	shared   = 8               // keys that all clients write and cache
	fields   = 3000            // of a hash that RESTORE makes
	elements = 4000            // of lists and sets that are sorted and united
	talkTime = 2 * time.Second // for which clients talk
)

// A chaos is a primary with a replica, and the clients that talk to them.
type chaos struct {
	testing.TB
	ledger
	p, r    *testkit.Server
	payload string // of a hash
	over    atomic.Bool
	all     []*talker
}

// TestChaos has clients talk at random: long scripts, transactions, blocked commands, pushes and large commands. Other
// commands kill and pause the clients, save, and break the replica's link.
//
// Each client gets its own replies in order. Each acknowledged unit is there, and each unit is whole. At the end the
// primary, its replica and its log have equal data, and no client is left.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	for round := range uint64(testkit.Scale()) {
		t.Run(fmt.Sprint("seed ", seed+round), func(t *testing.T) { playChaos(t, seed+round) })
	}
}

func playChaos(t *testing.T, seed uint64) {
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
	admin := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	c := &chaos{TB: t, ledger: ledger{sent: map[string]int{}, state: map[string]outcome{}, queued: map[string]bool{},
		taken: map[string]bool{}}}
	c.p = testkit.Start(t, "--appendonly", "yes", "--io-threads", strconv.Itoa(1+random(1).IntN(3)), "--admin-address",
		admin, "--repl-ping-replica-period", "1", "--repl-diskless-sync-delay", "0")
	c.r = testkit.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(c.p.Port))
	c.p.Do("EVAL", `for i = 1, ARGV[1] do
		redis.call('RPUSH', 'src', i) redis.call('SADD', 'set:1', i) redis.call('SADD', 'set:2', -i)
		if i <= tonumber(ARGV[2]) then redis.call('HSET', 'hash', 'field ' .. i, 'a value of a field: ' .. i) end end`,
		0, elements, fields)
	c.payload = c.p.Do("DUMP", "hash").Text
	c.p.Do("FUNCTION", "LOAD", "REPLACE", mixedLibrary)
	c.r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	_, few := c.left(admin)

	var talking, others, killing sync.WaitGroup
	quiet, idle := make(chan struct{}), make(chan struct{})
	for i := range talkers {
		c.all = append(c.all, &talker{chaos: c, name: i, rng: random(uint64(10 + i))})
		talking.Go(c.all[i].talk)
	}
	others.Go(func() { c.disturb(random(2)) })
	others.Go(func() { c.watch(c.p, quiet) })
	others.Go(func() { c.watch(c.r, quiet) })
	killing.Go(func() { c.killScripts(idle) })
	time.AfterFunc(talkTime, func() { c.over.Store(true) })
	talking.Wait()
	close(quiet)
	others.Wait()

	c.tell(c.p, "CLIENT", "UNPAUSE")
	c.tell(c.p, "CONFIG", "SET", "maxmemory", 0, "maxmemory-clients", 0, "min-replicas-to-write", 0,
		"busy-reply-threshold", 5000, "appendonly", "yes")
	c.tell(c.r, "REPLICAOF", "127.0.0.1", c.p.Port)
	c.tell(c.p, "CLIENT", "KILL", "TYPE", "replica") // DEBUG CHANGE-REPL-ID leaves the link alone
	for _, k := range c.all {
		k.agree()
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "an idle server", func() error {
		clients, goroutines := c.left(admin)
		if goroutines > few+10 {
			return fmt.Errorf("%d goroutines, %d before", goroutines, few)
		}
		return testkit.Equal(clients, "1 client, 0 blocked, 0 tracking, 0 subscribed, 0 watching, 0 keys")
	})
	close(idle)
	killing.Wait()
	c.check(c.p, c.all)
	alike(t, c.p, c.r)
	(&cell{scene: &scene{serverSet: &serverSet{TB: t}}}).rewritten(c.p)
	digest := c.p.Do("DEBUG", "DIGEST").Text
	c.p.Do("DEBUG", "LOADAOF")
	if err := testkit.Equal(c.p.Do("DEBUG", "DIGEST").Text, digest); err != nil {
		t.Errorf("the log has other data than the server: %v", err)
	}
	t.Logf("%d tokens in %d lists", len(c.sent), len(c.all))
}

// left returns what clients have left on the primary: themselves and goroutines.
func (c *chaos) left(admin string) (clients string, goroutines int) {
	i := c.p.Info("clients")
	r, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		c.Fatal(err)
	}
	defer r.Body.Close()
	page, _ := io.ReadAll(r.Body)
	_, text, _ := strings.Cut(string(page), "\ngo_goroutines ")
	text, _, _ = strings.Cut(text, "\n")
	if goroutines, err = strconv.Atoi(text); err != nil {
		c.Fatal(err)
	}
	return fmt.Sprintf("%s client, %s blocked, %s tracking, %s subscribed, %s watching, %s keys", i["connected_clients"],
		i["blocked_clients"], i["tracking_clients"], i["pubsub_clients"], i["watching_clients"],
		i["total_blocking_keys"]), goroutines
}

// tell sends s a command, and again as long as it is refused.
func (c *chaos) tell(s *testkit.Server, words ...any) {
	testkit.Until(c, testkit.Slowly(20*time.Second), fmt.Sprint(words...), func() error {
		v, err := s.Ask(words...)
		if err == nil {
			err = v.Err()
		}
		return err
	})
}

// killScripts kills endless scripts, also those of clients that have left.
func (c *chaos) killScripts(until <-chan struct{}) {
	for tick := time.Tick(15 * time.Millisecond); ; {
		select {
		case <-until:
			return
		case <-tick:
			if client, err := respclient.Dial(c.p.Addr); err == nil {
				client.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
				_, _ = client.Do("SCRIPT", "KILL")
				_ = client.Close()
			}
		}
	}
}

// watch has a script on s read each counter and list. They must be equal, and they may not change meanwhile.
func (c *chaos) watch(s *testkit.Server, until <-chan struct{}) {
	for tick := time.Tick(5 * time.Millisecond); ; {
		select {
		case <-until:
			return
		case <-tick:
			v, err := s.Ask("EVAL_RO", `for i = 0, ARGV[2] - 1 do
				local n, length = redis.call('GET', 'c:' .. i) or '0', redis.call('LLEN', 'l:' .. i)
				`+spin+`
				if n ~= tostring(length) or redis.call('LLEN', 'l:' .. i) ~= length then
					return redis.error_reply('ERR torn: ' .. i .. ' ' .. n .. ' ' .. length) end end
				return 'whole'`, 0, "0.0007", talkers)
			if err == nil && v.Err() != nil && !mayRefuse(v.Err()) {
				c.Errorf("%s: %v", s.Addr, v)
			}
		}
	}
}

// disturb sends commands that kill, pause, save, and break the replica's link. Some of them are refused.
func (c *chaos) disturb(rng *rand.Rand) {
	for !c.over.Load() {
		testkit.Moment(rng, 15*time.Millisecond)
		s, id := c.p, c.all[rng.IntN(talkers)].id.Load()
		words := pick(rng, []any{"CLIENT", "KILL", "ID", id}, []any{"CLIENT", "KILL", "ID", id},
			[]any{"CLIENT", "KILL", "TYPE", pick(rng, "replica", "pubsub", "normal")},
			[]any{"CLIENT", "PAUSE", 1 + rng.IntN(20), pick(rng, "WRITE", "ALL")}, []any{"CLIENT", "UNPAUSE"},
			[]any{"CLIENT", "UNBLOCK", id, pick(rng, "TIMEOUT", "ERROR")}, []any{"CLIENT", "UNBLOCK", id},
			[]any{"FUNCTION", "LOAD", "REPLACE", mixedLibrary}, []any{"FUNCTION", "LOAD", "REPLACE", mixedLibrary},
			[]any{"FUNCTION", "FLUSH", pick(rng, "SYNC", "ASYNC")}, []any{"SCRIPT", "FLUSH"},
			[]any{"CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", pick(rng, "volatile-lru", "noeviction")},
			[]any{"CONFIG", "SET", "maxmemory", 0, "min-replicas-to-write", 0},
			[]any{"CONFIG", "SET", "maxmemory", 0, "min-replicas-to-write", pick(rng, 0, 1)},
			[]any{"CONFIG", "SET", "maxmemory-clients", pick(rng, "0", "0", "300kb", "3mb")},
			[]any{"CONFIG", "SET", "busy-reply-threshold", pick(rng, 3, 5000)},
			[]any{"CONFIG", "SET", "appendfsync", pick(rng, "always", "everysec", "no")},
			[]any{"CONFIG", "SET", "repl-diskless-sync", pick(rng, "yes", "no")},
			[]any{"CONFIG", "SET", "appendonly", pick(rng, "yes", "yes", "no")}, []any{"BGREWRITEAOF"}, []any{"BGSAVE"},
			[]any{"DEBUG", pick(rng, "CHANGE-REPL-ID", "RELOAD")}, []any{"DEBUG", "SLEEP", 0.005},
			[]any{"SWAPDB", 1, 2}, []any{"KEYS", "*"}, []any{"CLIENT", "LIST"})
		if rng.IntN(6) == 0 {
			s, words = c.r, pick(rng, []any{"REPLICAOF", "NO", "ONE"}, []any{"REPLICAOF", "127.0.0.1", c.p.Port},
				[]any{"REPLICAOF", "127.0.0.1", c.p.Port}, []any{"CLIENT", "KILL", "TYPE", "master"},
				[]any{"CONFIG", "SET", "repl-diskless-load", pick(rng, "disabled", "swapdb", "on-empty-db")})
		}
		_, _ = s.Ask(words...)
	}
}

// An outcome is what a client knows about a token that it wanted to write.
type outcome int8

const (
	unknown outcome = iota // the reply is lost
	done
	refused
)

// A ledger has what all clients know.
type ledger struct {
	mu     sync.Mutex
	sent   map[string]int // all tokens, in their order
	state  map[string]outcome
	queued map[string]bool // tokens that are added to a queue
	taken  map[string]bool // tokens that were taken from a queue
	news   []string        // acknowledged messages
	lost   int             // elements of queues whose reply may be lost
}

// with runs f while no other client uses the ledger.
func (l *ledger) with(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// settle sets what a client knows about tokens.
func (l *ledger) settle(as outcome, tokens []string) {
	l.with(func() {
		for _, tok := range tokens {
			l.state[tok] = as
		}
	})
}

// take reports whether a token may be taken from a queue: it may once.
func (l *ledger) take(tok string) (may bool) {
	l.with(func() {
		may = l.queued[tok] && !l.taken[tok] && l.state[tok] != refused
		l.taken[tok] = true
	})
	return may
}

// check compares the primary's data with the ledger.
func (l *ledger) check(p *testkit.Server, all []*talker) {
	there, waits, missing := map[string]bool{}, map[string]bool{}, 0
	for _, k := range all {
		before, list := map[string]int{}, p.Do("LRANGE", k.key("l"), 0, -1).Strings()
		if n := p.Do("GET", k.key("c")).Text; n != strconv.Itoa(len(list)) && len(list) != 0 {
			k.Errorf("client %d has counted %s of %d", k.name, n, len(list))
		}
		for _, tok := range list {
			from, n := parsed(tok)
			if n <= before[from] || l.state[tok] == refused {
				k.Errorf("a list has %s after %d; refused: %t", tok, before[from], l.state[tok] == refused)
			}
			before[from], there[tok] = n, true
		}
	}
	for i := range queues {
		for _, tok := range p.Do("LRANGE", fmt.Sprint("q:", i), 0, -1).Strings() {
			if waits[tok] || l.taken[tok] || !there[tok] {
				all[0].Errorf("a queue has %s; twice: %t, taken: %t, listed: %t", tok, waits[tok], l.taken[tok], there[tok])
			}
			waits[tok] = true
		}
	}
	for tok := range l.sent {
		if l.state[tok] == done && !there[tok] {
			all[0].Errorf("%s was acknowledged and is missing", tok)
		}
		if l.queued[tok] && there[tok] && !waits[tok] && !l.taken[tok] {
			missing++
		}
	}
	if missing > l.lost {
		all[0].Errorf("%d elements are missing from the queues, at most %d were lost", missing, l.lost)
	}
}
