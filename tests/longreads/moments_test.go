package longreads

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestMomentsOfLongReads compares long reads with those of redis-server, while a second client writes. A long read must
// have the reply that redis-server gives before the writes.
func TestMomentsOfLongReads(t *testing.T) {
	const elements = 5000
	s := testkit.Start(t, "--long-read-elements", "1000", "--enable-debug-command", "yes")
	redis := testkit.Redis(t, "--enable-debug-command", "yes")
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := 100 * testkit.Scale()
	if testkit.Checked {
		rounds /= 2
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
			args := one.args
			if one.of != nil {
				args = one.of
			}
			if want, err = reference.Do(args...); err != nil {
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
		if one.of != nil {
			if err := drawn(one, got, want); err != nil {
				t.Fatalf("seed %d, round %d, %v: %v", seed, round, one.args, err)
			}
		} else if a, b := canonical(got, one), canonical(want, one); a != b {
			t.Fatalf("seed %d, round %d, %v: the long read has\n%.2000s\nredis-server has\n%.2000s", seed, round, one.args, a, b)
		}
		if emptied {
			start()
		}
	}
}

// writes returns random writes to the data of fill.
func writes(rng *rand.Rand) (requests [][]any) {
	at := func() int { return rng.IntN(6500) }
	for range 1 + rng.IntN(40) {
		var request []any
		switch rng.IntN(14) {
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
			request = []any{"XACK", "stream", "group", fmt.Sprint(1+at(), "-0")}
		case 11:
			request = []any{"XCLAIM", "stream", "group", "other", 0, fmt.Sprint(1+at(), "-0"), "JUSTID"}
		case 12:
			request = []any{"SET", fmt.Sprint("key:", at()), at()}
		default:
			request = []any{"DEL", fmt.Sprint("key:", at())}
		}
		requests = append(requests, request)
	}
	return requests
}

// canonical returns a reply as text, without ages. If its elements have no order, they are sorted.
func canonical(v respclient.Value, of call) string {
	if of.aged {
		text, _, _ := strings.Cut(v.Text, " lru:")
		v.Text = text
		for i := range v.Elems {
			if e := v.Elems[i].Elems; len(e) == 4 { // of XPENDING: ID, consumer, age, deliveries
				e[2] = respclient.Value{}
			}
		}
	}
	if !of.unordered {
		return v.String()
	}
	if n := len(v.Elems); n == 2 && v.Elems[1].Elems != nil { // a cursor and elements
		return v.Elems[0].String() + canonical(v.Elems[1], of)
	}
	texts := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		texts[i] = e.String()
	}
	slices.Sort(texts)
	return fmt.Sprint(texts)
}

// drawn checks a reply of elements drawn at random. all is the reply that has all of them.
func drawn(one call, got, all respclient.Value) error {
	texts := func(v respclient.Value) (list []string) {
		for group := range slices.Chunk(v.Elems, one.each) {
			list = append(list, fmt.Sprint(group))
		}
		return list
	}
	had, has := map[string]int{}, texts(got)
	for _, text := range texts(all) {
		had[text] = 0
	}
	count := one.args[2].(int)
	if n := min(max(count, -count), max(len(had), -count)); len(has) != n {
		return fmt.Errorf("%d elements, want %d", len(has), n)
	}
	for _, text := range has {
		times, ok := had[text]
		if !ok || count > 0 && times > 0 {
			return fmt.Errorf("%s was drawn %d times before, and was there: %t", text, times, ok)
		}
		had[text]++
	}
	return nil
}
