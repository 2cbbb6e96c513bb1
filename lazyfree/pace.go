package lazyfree

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A pace leaves the processor to the loops. After each slice a reclaimer lets them run first. After each millisecond of
// work it rests as long, if there were turns meanwhile (turns for duties count too). Without turns, or if jobs pile up,
// it only yields to the kernel.
//
// lazyfree.P1. A rest is never longer than maxRest, so that memory comes back under any load.
// lazyfree.P2. Time too short for a rest is added up, not slept. A sleep of a millisecond after each slice of 100 µs
// would leave a tenth of the speed. It also does not yield to the kernel after each slice: with another process on the
// core, a yield may take some milliseconds.
type pace struct {
	turns atomic.Uint64
	seen  atomic.Uint64 // turns at the last rest
}

const (
	leastRest = time.Millisecond // a sleep is never shorter: the runtime rounds it up
	maxRest   = 2 * time.Millisecond
)

// turn counts a turn. It is called about once a millisecond while there are turns.
func (p *pace) turn() { p.turns.Add(1) }

// rest is called after a slice. owed is the time worked since the last rest. It returns the part that is still owed
// after this rest.
func (p *pace) rest(owed time.Duration, crowded bool) time.Duration {
	if owed < leastRest {
		runtime.Gosched()
		return owed
	}
	if d := p.due(owed, crowded); d > 0 {
		time.Sleep(d)
		return 0
	}
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	return 0
}

// due returns how long a rest is. It is 0 if a reclaimer must only yield to the kernel.
func (p *pace) due(owed time.Duration, crowded bool) time.Duration {
	turns := p.turns.Load()
	if p.seen.Swap(turns) == turns || crowded {
		return 0
	}
	return min(owed, maxRest)
}
