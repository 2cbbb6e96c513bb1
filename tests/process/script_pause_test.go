package process

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// transfer is a script that lends the turn several times, in the middle of a pcall, a sort, a gsub and a coroutine. It
// moves an amount from one account to another in two steps. It can be killed only before the first step.
const transfer = `
local function work(n) local x = 0 for i = 1, n do x = x + i % 7 end return x end
pcall(function() string.gsub('abc', '.', function(c) work(ARGV[2]) return c end) end)
redis.call('decrby', KEYS[1], ARGV[1])
local t = {3, 1, 2}
table.sort(t, function(a, b) work(ARGV[2]) return a < b end)
coroutine.wrap(function() coroutine.yield(work(ARGV[2])) end)()
redis.call('incrby', KEYS[2], ARGV[1])
return redis.call('incr', 'transfers')`

// TestScriptsPauseUnderLoad: scripts that lend the turn repeatedly run with transactions, readers, and a client that
// kills scripts. No amount is lost, and each transfer with a reply has happened. The test runs with every event loop,
// with one thread and with two. SPINDLE_SCRIPT_PAUSES sets the total number of pauses to reach. Without it, the time is
// limited.
func TestScriptsPauseUnderLoad(t *testing.T) {
	const accounts, total = 8, 8000
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		for _, threads := range []string{"1", "2"} {
			t.Run(backend+"/"+threads, func(t *testing.T) {
				s := testkit.Start(t, "--reactor-backend", backend, "--io-threads", threads, "--busy-reply-threshold", "60000")
				for i := range accounts {
					s.Do("SET", account(i), total/accounts)
				}
				wanted, _ := strconv.ParseInt(os.Getenv("SPINDLE_SCRIPT_PAUSES"), 10, 64)
				end := time.Now().Add(time.Duration(testkit.Scale()) * 700 * time.Millisecond)
				var enough atomic.Bool
				goesOn := func() bool { return time.Now().Before(end) || wanted > 0 && !enough.Load() }
				var group sync.WaitGroup
				var moved, killed, refused, sums atomic.Int64
				run := func(body func(c *respclient.Client, rng *rand.Rand)) {
					c := s.Dial()
					c.SetTimeout(testkit.Slowly(60 * time.Second))
					group.Add(1)
					go func() {
						defer group.Done()
						defer c.Close()
						rng := rand.New(rand.NewPCG(rand.Uint64(), 5))
						for goesOn() {
							body(c, rng)
						}
					}()
				}
				for range 3 {
					run(func(c *respclient.Client, rng *rand.Rand) {
						v, err := c.Do("EVAL", transfer, 2, account(rng.IntN(accounts)), account(rng.IntN(accounts)), rng.IntN(50),
							rng.IntN(40_000))
						switch {
						case err != nil:
							t.Error(err)
						case v.Err() == nil:
							moved.Add(1)
						case !strings.Contains(v.Err().Error(), "killed by user"):
							t.Error(v.Err())
						}
					})
				}
				run(func(c *respclient.Client, rng *rand.Rand) {
					n := rng.IntN(50)
					a, b := account(rng.IntN(accounts)), account(rng.IntN(accounts))
					if _, err := c.Pipeline([]any{"MULTI"}, []any{"DECRBY", a, n}, []any{"INCRBY", b, n}, []any{"EXEC"}); err != nil {
						t.Error(err)
					}
				})
				run(func(c *respclient.Client, _ *rand.Rand) {
					request := []any{"MGET"}
					for i := range accounts {
						request = append(request, account(i))
					}
					v, err := c.Do(request...)
					if err != nil {
						t.Error(err)
						return
					}
					sum := 0
					for _, text := range v.Strings() {
						n, _ := strconv.Atoi(text)
						sum += n
					}
					if sums.Add(1); sum != total {
						t.Errorf("the accounts hold %d, want %d: %q", sum, total, v.Strings())
					}
				})
				run(func(c *respclient.Client, rng *rand.Rand) {
					if wanted > 0 && pauses(c) >= wanted/6 {
						enough.Store(true)
					}
					v, err := c.Do("SCRIPT", "KILL")
					switch {
					case err != nil:
						t.Error(err)
					case v.Err() == nil:
						killed.Add(1)
					case strings.HasPrefix(v.Err().Error(), "UNKILLABLE"):
						refused.Add(1)
					}
					testkit.Moment(rng, 20*time.Millisecond)
				})
				group.Wait()
				if v := s.Do("INCRBY", "transfers", 0); v.Int != moved.Load() {
					t.Errorf("%d transfers were made, %d answered", v.Int, moved.Load())
				}
				t.Logf("%d pauses, %d transfers, %d killed, %d kills refused, %d sums",
					pauses(s.Dial()), moved.Load(), killed.Load(), refused.Load(), sums.Load())
				if v := s.Do("EVAL", "return 7", 0); v.Int != 7 {
					t.Errorf("afterwards: %v", v)
				}
			})
		}
	}
}

// pauses returns how many times finished scripts have lent the turn. It returns 0 if the server is busy.
func pauses(c *respclient.Client) (n int64) {
	v, err := c.Do("SCRIPT", "STATS")
	if err != nil || v.Err() != nil {
		return 0
	}
	for _, f := range v.Elems {
		count, _ := f.Get("pauses")
		n += count.Int
	}
	return n
}

func account(i int) string { return "account:" + strconv.Itoa(i) }
