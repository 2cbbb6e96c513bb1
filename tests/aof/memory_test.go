package aof

import (
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestBufferIsCounted: log bytes that are not written yet count in used_memory, and cause no eviction. INFO debug shows
// how long turns have written to the log.
func TestBufferIsCounted(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes", "--enable-debug-command", "yes")
	s.Do("SET", "k", strings.Repeat("v", 1<<20))
	testkit.Until(t, testkit.Slowly(5*time.Second), "a write in a turn", func() error {
		s.Do("APPEND", "k", "v")
		return testkit.Equal(s.InfoInt("debug", "eventloop_duration_aof_sum") > 0, true)
	})
	before := s.Info("memory")
	used, spared := s.InfoInt("memory", "used_memory"), s.InfoInt("memory", "mem_not_counted_for_evict")
	s.Do("DEBUG", "AOF-FLUSH-SLEEP", 2_000_000)
	const pieces = 6
	for range pieces {
		s.Do("SET", "k", strings.Repeat("v", 1<<20)) // the new value takes the old one's memory
	}
	const least = (pieces-1)<<20 - 256<<10 // a spare chunk may have been free
	if n := s.InfoInt("memory", "mem_aof_buffer"); n < least {
		t.Errorf("mem_aof_buffer is %d, before %s", n, before["mem_aof_buffer"])
	}
	if n := s.InfoInt("memory", "used_memory") - used; n < least {
		t.Errorf("used_memory has risen by %d", n)
	}
	if n := s.InfoInt("memory", "mem_not_counted_for_evict") - spared; n < least {
		t.Errorf("mem_not_counted_for_evict has risen by %d", n)
	}
	s.Do("DEBUG", "AOF-FLUSH-SLEEP", 0)
	testkit.Until(t, testkit.Slowly(20*time.Second), "an empty buffer", func() error {
		return testkit.Equal(s.InfoInt("memory", "mem_aof_buffer") <= 2<<20, true)
	})
}

// TestRoomOfLog: kept-memory-limit bounds the bytes that wait for the log's disk. At the limit, writing clients wait
// until the disk has caught up.
func TestRoomOfLog(t *testing.T) {
	t.Parallel()
	const limit, piece, pieces = 4 << 20, 256 << 10, 64
	s := testkit.Start(t, "--appendonly", "yes", "--enable-debug-command", "yes", "--maxmemory", "40mb",
		"--kept-memory-limit", "10%")
	s.Do("DEBUG", "AOF-FLUSH-SLEEP", 200_000)
	writer, done := s.Dial(), make(chan struct{})
	go func() {
		defer close(done)
		testkit.Pipe(t, writer, pieces, func(int) []any { return []any{"SET", "k", strings.Repeat("v", piece)} })
	}()
	longest := int64(0)
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
			longest = max(longest, s.InfoInt("persistence", "aof_buffer_length"))
		}
	}
	if longest > limit+4*piece || longest < limit/2 {
		t.Errorf("%d bytes have waited", longest)
	}
}
