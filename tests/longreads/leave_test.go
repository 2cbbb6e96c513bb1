package longreads

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestLongReadsLeaveNothing: after ten thousand long reads among writes the server uses as much memory as before.
func TestLongReadsLeaveNothing(t *testing.T) {
	s := testkit.Start(t, "--long-read-elements", "50")
	c, writer := s.Dial(), s.Dial()
	c.SetTimeout(testkit.Slowly(time.Minute))
	fill(t, c, 100)
	reads := [][]any{{"SMEMBERS", "set"}, {"SUNION", "set", "set2"}, {"ZUNION", 2, "zset", "zset2"}, {"HGETALL", "hash"},
		{"LRANGE", "list", 0, -1}, {"XREAD", "STREAMS", "stream", 0}, {"SRANDMEMBER", "set", -100},
		{"HRANDFIELD", "hash", 60}, {"ZSCAN", "zset", 0, "COUNT", 1000}, {"XINFO", "STREAM", "stream", "FULL", "COUNT", 0},
		{"XPENDING", "stream", "group", "-", "+", 1000}, {"ZRANDMEMBER", "zset", -100}, {"SCAN", 0, "COUNT", 1000},
		{"SSCAN", "set", 0, "COUNT", 1000}, {"HSCAN", "hash", 0, "COUNT", 1000}, {"SORT", "numbers"},
		{"GEOSEARCH", "zset", "FROMLONLAT", 0, 0, "BYRADIUS", 30_000, "km", "ASC"}, {"DIGEST", "text"}}
	batch := func() {
		for i := range 500 {
			c.Send(reads[i%len(reads)]...)
		}
		for i := range 100 {
			writer.Send("HSET", "hash", fmt.Sprint("field:", i), i)
			writer.Send("SADD", "set", fmt.Sprint("member:", i))
		}
		receive(t, writer, 200)
		receive(t, c, 500)
	}
	batch()
	before := s.InfoInt("memory", "used_memory_dataset")
	for range 20 {
		batch()
	}
	if n := s.InfoInt("stats", "total_long_reads"); n != 21*500 {
		t.Errorf("%d long reads, want %d", n, 21*500)
	}
	testkit.Until(t, testkit.Slowly(20*time.Second), "the memory of before", func() error {
		views, used := s.Info("memory")["long_read_views"], s.InfoInt("memory", "used_memory_dataset")
		if views != "0" || used > before+256<<10 {
			return fmt.Errorf("%s views, %d bytes; %d before", views, used, before)
		}
		return nil
	})
}

// TestLongReadDuringFailover: a replica that gets another primary, or becomes a primary, replies to a long read with
// the data as of the call.
func TestLongReadDuringFailover(t *testing.T) {
	const members = 100_000
	old, next, replica := testkit.Start(t), testkit.Start(t), testkit.Start(t)
	load := func(s *testkit.Server, name string) {
		c := s.Dial()
		for from := 0; from < members; from += fillEach {
			args := []any{"SADD", "set"}
			for i := range fillEach {
				args = append(args, fmt.Sprint(name, from+i))
			}
			c.Send(args...)
			receive(t, c, 1)
		}
	}
	load(old, "old:")
	load(next, "next:")
	reader := replica.Dial()
	reader.SetTimeout(testkit.Slowly(time.Minute))
	follow := func(s *testkit.Server) {
		host, port, _ := strings.Cut(s.Addr, ":")
		if v := replica.Do("REPLICAOF", host, port); v.Err() != nil {
			t.Fatal(v)
		}
	}
	synced := func() { replica.AwaitInfo(testkit.Slowly(time.Minute), "replication", "master_link_status", "up") }
	read := func(name string, meanwhile func()) {
		t.Helper()
		before := replica.InfoInt("stats", "total_long_reads")
		reader.Send("SMEMBERS", "set")
		if err := reader.Flush(); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, testkit.Slowly(time.Minute), "the turn of the command", func() error {
			if replica.InfoInt("stats", "total_long_reads") == before {
				return fmt.Errorf("%d long reads", before)
			}
			return nil
		})
		meanwhile()
		v, err := reader.Receive()
		if err != nil || len(v.Elems) != members {
			t.Fatal(len(v.Elems), err)
		}
		for _, e := range v.Elems {
			if !strings.HasPrefix(e.Text, name) {
				t.Fatalf("%s is not %s's", e.Text, name)
			}
		}
	}
	follow(old)
	synced()
	read("old:", func() { follow(next) })
	synced()
	read("next:", func() { replica.Do("REPLICAOF", "NO", "ONE") })
	read("next:", func() { replica.Do("FLUSHALL") })
}

// TestLongReadsBesideEviction: if a value is evicted during a long read of it, the reply still has the whole value.
func TestLongReadsBesideEviction(t *testing.T) {
	const members = 50_000
	s := testkit.Start(t, "--maxmemory-policy", "allkeys-random", "--maxmemory", "24mb")
	reader, writer := s.Dial(), s.Dial()
	reader.SetTimeout(testkit.Slowly(time.Minute))
	reads, empty := 0, 0
	for round := range 12 * testkit.Scale() {
		for from := 0; from < members; from += fillEach {
			args := []any{"SADD", fmt.Sprint("set:", round)}
			for i := range fillEach {
				args = append(args, fmt.Sprint("member:", from+i))
			}
			writer.Send(args...)
		}
		receive(t, writer, members/fillEach)
		whole := writer.Must("SCARD", fmt.Sprint("set:", round)).Int // smaller if it was evicted while it grew
		for range 5 {
			reader.Send("SMEMBERS", fmt.Sprint("set:", round))
		}
		if err := reader.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			writer.Send("SET", fmt.Sprint("key:", round, ":", i), strings.Repeat("x", 8000))
		}
		receive(t, writer, 200)
		for range 5 {
			v, err := reader.Receive()
			if err != nil {
				t.Fatal(err)
			}
			switch len(v.Elems) {
			case int(whole):
				reads++
			case 0:
				empty++
			default:
				t.Fatalf("round %d: %d members, want %d or none", round, len(v.Elems), whole)
			}
		}
	}
	if evicted := s.InfoInt("stats", "evicted_keys"); evicted == 0 || reads == 0 {
		t.Errorf("%d keys were evicted, %d reads had all members, %d none", evicted, reads, empty)
	}
}
