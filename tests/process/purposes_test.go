package process

import (
	"strconv"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// TestMemoryByPurpose: the purposes in INFO memory add up to the resident set within a twentieth. The cases are small
// keys, large values and lists, deletions, many clients and scripts, and a view (a snapshot) that keeps old values.
func TestMemoryByPurpose(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address)
	adds := func(when string) {
		t.Helper()
		m := s.Info("memory")
		figure := func(name string) int64 {
			n, err := strconv.ParseInt(m[name], 10, 64)
			if err != nil {
				t.Fatalf("%s: %s is %q", when, name, m[name])
			}
			return n
		}
		rss, sum := figure("used_memory_rss"), int64(0)
		var parts []string
		for name, text := range m {
			if strings.HasPrefix(name, "memory_purpose_") {
				sum += figure(name)
				parts = append(parts, strings.TrimPrefix(name, "memory_purpose_")+"="+text)
			}
		}
		left := figure("memory_purpose_unaccounted")
		t.Logf("%s: rss %d, unaccounted %d (%.1f %%)", when, rss, left, 100*float64(left)/float64(rss))
		// The race detector has its own memory, which INFO cannot count. Go's heap grows by 4 MB, and those pages count as
		// free before they are resident. Whether it has just grown depends on the number of loops, for example.
		known := testkit.Race || left*20 <= rss && (-left-figure("memory_purpose_go_free"))*20 <= rss
		if len(parts) < 15 || !known || max(sum-rss, rss-sum) > 4<<20 {
			t.Errorf("%s: rss %d, sum %d, unaccounted %d: %v", when, rss, sum, left, parts)
		}
	}
	c := s.Dial()
	testkit.Pipe(t, c, 400_000, func(i int) []any { return []any{"SET", "key:" + strconv.Itoa(i), i * 7, "EX", 10_000} })
	adds("small keys")
	large := strings.Repeat("x", 100_000)
	testkit.Pipe(t, c, 1_000, func(i int) []any { return []any{"SET", "large:" + strconv.Itoa(i), large} })
	testkit.Pipe(t, c, 200_000, func(i int) []any { return []any{"RPUSH", "list:" + strconv.Itoa(i%50), large[:i%200]} })
	adds("large values and lists")
	testkit.Pipe(t, c, 200_000, func(i int) []any { return []any{"DEL", "key:" + strconv.Itoa(2*i)} })
	testkit.Pipe(t, c, 900, func(i int) []any { return []any{"DEL", "large:" + strconv.Itoa(i)} })
	adds("after deletions")
	for i := range 300 {
		s.Dial().Must("SET", "from:"+strconv.Itoa(i), large)
	}
	testkit.Pipe(t, c, 5_000, func(i int) []any {
		return []any{"SCRIPT", "LOAD", "return " + strconv.Itoa(i) + " --" + large[:1000]}
	})
	adds("clients and scripts")
	s.Do("CONFIG", "SET", "rdb-key-save-delay", 100)
	s.Do("BGSAVE")
	testkit.Pipe(t, c, 300_000, func(i int) []any { return []any{"SET", "key:" + strconv.Itoa(i), large[:50]} })
	adds("while a view keeps old values")
	s.Do("CONFIG", "SET", "rdb-key-save-delay", 0)
	s.Do("FLUSHALL")
	_, text := fetch(t, "http://"+address+"/metrics")
	for _, purpose := range []string{"keys", "go-heap", "program", "unaccounted"} {
		if !strings.Contains(text, `spindle_memory_purpose_bytes{purpose="`+purpose+`"} `) {
			t.Errorf("/metrics has no memory for %s", purpose)
		}
	}
}
