package longreads

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestMomentsOfLongReads compares long reads with those of redis-server, while a second client writes. A long read must
// have the reply that redis-server gives before the writes.
func TestMomentsOfLongReads(t *testing.T) {
	const elements = 6000
	s := testkit.Start(t, "--long-read-elements", "1000", "--enable-debug-command", "yes")
	redis := testkit.Redis(t, "--enable-debug-command", "yes")
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := 300 * testkit.Scale()
	if testkit.Checked {
		rounds /= 5
	}
	reader, writer, reference := s.Dial(), s.Dial(), redis.Dial()
	for _, c := range []*respclient.Client{reader, writer, reference} {
		c.SetTimeout(testkit.Slowly(time.Minute))
	}
	start := func() {
		for _, c := range []*respclient.Client{writer, reference} {
			c.Must("FLUSHALL")
			fill(t, c, elements)
		}
	}
	start()
	for round := range rounds {
		one := calls[rng.IntN(len(calls))]
		had := func() string { // values that differ after the command's turn, long read or not
			return s.Info("stats")["total_long_reads"] + s.Info("commandstats")["cmdstat_"+one.name()]
		}
		var inline respclient.Value // the reply of this server in a transaction
		if one.own {
			replies, err := writer.Pipeline([]any{"MULTI"}, one.args, []any{"EXEC"})
			if err != nil {
				t.Fatal(err)
			}
			inline = replies[2].Elems[0]
		}
		turns := had()
		reader.Send(one.args...)
		if err := reader.Flush(); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, testkit.Slowly(time.Minute), "the turn of the command", func() error {
			if now := had(); now == turns {
				return errors.New(now)
			}
			return nil
		})
		want := inline
		if !one.own {
			var err error
			if want, err = reference.Do(one.args...); err != nil {
				t.Fatal(err)
			}
		}
		requests := writes(rng)
		emptied := rng.IntN(20) == 0
		if emptied {
			requests = append(requests, [][]any{{"FLUSHALL"}, {"SWAPDB", 0, 1}}[rng.IntN(2)])
		}
		for _, c := range []*respclient.Client{writer, reference} {
			if _, err := c.Pipeline(requests...); err != nil {
				t.Fatal(err)
			}
		}
		got, err := reader.Receive()
		if err != nil {
			t.Fatal(one, err)
		}
		if a, b := canonical(got, one.unordered), canonical(want, one.unordered); a != b {
			t.Fatalf("seed %d, round %d, %v: the long read has\n%.2000s\nredis-server has\n%.2000s", seed, round, one.args, a, b)
		}
		if emptied {
			start()
		}
	}
}

// writes returns random writes to the data of fill.
func writes(rng *rand.Rand) (requests [][]any) {
	at := func() int { return rng.IntN(8000) }
	for range 1 + rng.IntN(40) {
		var request []any
		switch rng.IntN(12) {
		case 0:
			request = []any{"SADD", "set", fmt.Sprint("member:", at())}
		case 1:
			request = []any{"SREM", "set2", fmt.Sprint("member:", at())}
		case 2:
			request = []any{"HSET", "hash", fmt.Sprint("field:", at()), at()}
		case 3:
			request = []any{"HDEL", "volatile", fmt.Sprint("field:", at())}
		case 4:
			request = []any{"LSET", "list", at() / 2, at()}
		case 5:
			request = []any{"LPUSH", "list", at()}
		case 6:
			request = []any{"ZADD", "zset", at(), fmt.Sprint("member:", at())}
		case 7:
			request = []any{"ZREMRANGEBYRANK", "zset2", at(), -1}
		case 8:
			request = []any{"XDEL", "stream", fmt.Sprint(1+at(), "-0")}
		case 9:
			request = []any{"SETBIT", "text", at() << 10, rng.IntN(2)}
		case 10:
			request = []any{"SET", fmt.Sprint("key:", at()), at()}
		default:
			request = []any{"DEL", fmt.Sprint("key:", at())}
		}
		requests = append(requests, request)
	}
	return requests
}

// canonical returns a reply as text. If unordered is true, its elements are sorted.
func canonical(v respclient.Value, unordered bool) string {
	if !unordered {
		return v.String()
	}
	texts := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		texts[i] = e.String()
	}
	slices.Sort(texts)
	return fmt.Sprint(texts)
}
