package aof

import (
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/disk"
)

// BenchmarkWritingGoroutine is a SET whose effect goes into the log, in its own turn. Either the turn writes the
// effect, or the writer's goroutine does, as if turns never wrote. Turns follow each other at once, or after a rest, as
// in a server that waits for its clients. Watch cpu-ns/op: the CPU time of both threads.
func BenchmarkWritingGoroutine(b *testing.B) {
	for name, rest := range map[string]time.Duration{"busy": 0, "rests": 20 * time.Microsecond} {
		b.Run(name+"/turn", func(b *testing.B) { benchmarkWriter(b, true, rest) })
		b.Run(name+"/goroutine", func(b *testing.B) { benchmarkWriter(b, false, rest) })
	}
}

func benchmarkWriter(b *testing.B, turn bool, rest time.Duration) {
	b.Chdir(b.TempDir())
	s := newServer(b, disk.OS)
	s.set.Fsync.Set(Never)
	if err := s.start(); err != nil {
		b.Fatal(err)
	}
	s.waitFor("the writer's sleep", s.resting)
	if !turn {
		s.aof.w.do(math.MaxInt64, func() {}) // while a job waits, no turn writes
	}
	spent := cpu()
	for b.Loop() {
		s.do("SET", "k", "v")
		if rest > 0 {
			time.Sleep(rest)
		}
	}
	b.ReportMetric(float64(cpu()-spent)/float64(b.N), "cpu-ns/op")
}

// cpu is the CPU time of the process, in nanoseconds.
func cpu() int64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
