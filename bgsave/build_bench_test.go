package bgsave

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/listpack"
	"spindle/internal/logging"
)

// huge are RDB forms of values with many elements, whose building takes several turns.
var huge = []struct {
	kind  rdb.Kind
	write func(w *rdb.Writer, n int)
}{
	{rdb.KindSet, func(w *rdb.Writer, n int) {
		w.Length(uint64(n))
		for i := range n {
			w.Text(fmt.Appendf(nil, "member:%d", i))
		}
	}},
	{rdb.KindHash, func(w *rdb.Writer, n int) {
		w.Length(uint64(n))
		for i := range n {
			w.Text(fmt.Appendf(nil, "field:%d", i))
			w.Int(int64(i))
		}
	}},
	{rdb.KindZSet2, func(w *rdb.Writer, n int) { // from the last to the first, as files have them
		w.Length(uint64(n))
		for i := range n {
			w.Text(fmt.Appendf(nil, "member:%d", n-i))
			w.Float64(float64(n - i))
		}
	}},
	{rdb.KindListQuicklist2, func(w *rdb.Writer, n int) {
		const per = 500
		w.Length(uint64(n / per))
		for range n / per {
			lp := listpack.AppendEmpty(nil)
			for i := range per {
				lp = listpack.AppendElement(lp, listpack.Of(fmt.Appendf(nil, "element:%d", i)))
			}
			w.Length(rdb.NodePacked)
			w.Text(lp)
		}
	}},
	{rdb.KindList, func(w *rdb.Writer, n int) {
		w.Length(uint64(n))
		for i := range n {
			w.Text(fmt.Appendf(nil, "element:%d", i))
		}
	}},
	{rdb.KindStream2, func(w *rdb.Writer, n int) {
		const per = 100
		w.Length(uint64(n / per))
		for i := range n / per {
			var id [16]byte
			binary.BigEndian.PutUint64(id[:], uint64(i+1))
			w.Text(id[:])
			lp := listpack.AppendEmpty(nil)
			for _, e := range []string{"100", "0", "1", "field", "0"} {
				lp = listpack.AppendElement(lp, listpack.Of([]byte(e)))
			}
			for j := range per {
				for _, e := range []string{"2", "0", fmt.Sprint(j), fmt.Sprint("value:", j), "4"} {
					lp = listpack.AppendElement(lp, listpack.Of([]byte(e)))
				}
			}
			w.Text(lp)
		}
		for _, x := range []int{n, n / per, per - 1, 1, 0, 0, 0, n, 0} {
			w.Length(uint64(x))
		}
	}},
}

// BenchmarkBuild loads one value of 10 M elements. Watch ms/turn, the CPU time of the longest turn, and how many turns
// took more than a millisecond. There should be none, except where the kernel clears a huge page. Reclaimers run
// between turns here, so that turns touch no new memory.
// Run one kind: go test -run=- -bench=Build/set -benchtime=1x ./bgsave
func BenchmarkBuild(b *testing.B) {
	const n = 10_000_000
	for _, h := range huge {
		b.Run(h.kind.String(), func(b *testing.B) {
			var w rdb.Writer
			h.write(&w, n)
			runtime.GC()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for range b.N {
				space := newTestServer(b).space
				var turns turnMeter
				into := &Into{Space: space, Turn: func(f func()) {
					turns.run(f)
					for job, _ := space.Heap().TakeJob(); job != nil; job, _ = space.Heap().TakeJob() { // reclaimers
						for !job(1 << 10) {
						}
					}
				}}
				into.Prepare(codec.Env{Limits: codec.DefaultLimits})
				r := rdb.Record{Op: rdb.OpKey, Kind: h.kind, Key: []byte("huge"), Raw: w.Buf, DeadlineMs: rdb.None,
					Idle: rdb.None, Freq: rdb.None}
				x := &codec.Expander{Env: into.env}
				ready, err := x.Read(r.Kind, r.Raw)
				if err != nil || ready.Whole() {
					b.Fatal(err)
				}
				r.Encoding, r.Packed = uint8(ready.Encoding), ready.Packed
				if done, err := into.Insert([]rdb.Record{r}); done != 1 || err != nil {
					b.Fatal(err)
				}
				turns.report(b, n, "ns/element")
				if got := space.Store().Count(space.DB(0).Peek([]byte("huge"))); got != n {
					b.Fatalf("%d elements", got)
				}
			}
		})
	}
}

// threadCPU returns the CPU time of this thread.
func threadCPU() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// BenchmarkInto loads a file of 4 M keys of 16 bytes with values of 32, every tenth with a deadline. Watch ns/key and,
// as in BenchmarkBuild, the turns.
func BenchmarkInto(b *testing.B) {
	const keys = 4_000_000
	w := rdb.Writer{Buf: rdb.AppendHeader(nil, 9)}
	w.Buf = rdb.AppendLength(rdb.AppendLength(append(w.Buf, byte(rdb.OpResizeDB)), keys), keys/10)
	val := []byte("0123456789abcdef0123456789abcdef")
	for i := range keys {
		a := rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
		if i%10 == 0 {
			a.DeadlineMs = 4_000_000_000_000 + int64(i)
		}
		w.Buf = w.AppendKey(w.Buf, a, rdb.KindString, fmt.Appendf(nil, "key:%012d", i*7919%keys))
		w.Text(val)
	}
	file := rdb.AppendEOF(append(w.Buf, byte(rdb.OpEOF)), 0)
	runtime.GC()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ResetTimer()
	for range b.N {
		space := newTestServer(b).space
		var turns turnMeter
		_, err := Read(b.Context(), bytes.NewReader(file), &Into{Space: space, Turn: func(f func()) {
			turns.run(f)
		}}, LoadOptions{NowMs: 1, Size: int64(len(file)), Log: logging.New(io.Discard)})
		if err != nil || space.DB(0).Len() != keys {
			b.Fatalf("%d keys, %v", space.DB(0).Len(), err)
		}
		turns.report(b, keys, "ns/key")
		space.Heap().Close()
	}
}

// A turnMeter measures how long a load's turns take, by their thread's CPU time.
type turnMeter struct {
	longest, sum time.Duration
	turns, long  int // long: turns over a millisecond
}

func (m *turnMeter) run(turn func()) {
	from := threadCPU()
	turn()
	took := threadCPU() - from
	m.longest, m.sum, m.turns = max(m.longest, took), m.sum+took, m.turns+1
	if took > time.Millisecond {
		m.long++
	}
}

// report reports the figures of a load of n keys or elements.
func (m *turnMeter) report(b *testing.B, n int, unit string) {
	b.ReportMetric(m.longest.Seconds()*1e3, "ms/turn")
	b.ReportMetric(float64(m.sum.Nanoseconds())/float64(n), unit)
	b.ReportMetric(float64(m.turns), "turns")
	b.ReportMetric(float64(m.long), "turns>1ms")
}
