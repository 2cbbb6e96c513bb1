package lazyfree

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A pace leaves the processor to the loops. After each slice a reclaimer lets them go first. After each millisecond of
// work it rests as long if there were turns meanwhile, those of the core's own duties among them; when there were none,
// or jobs pile up, it only lets the kernel run others.
//
// lazyfree.P1. A rest is never longer than maxRest, so that memory comes back under any load.
// lazyfree.P2. What is too short for a rest is owed, not slept: a slice of 100 µs before each sleep of a millisecond
// would be a tenth of the speed. Nor is the kernel asked after each slice: beside another process on the core it may
// take some milliseconds to come back.
type pace struct {
	turns atomic.Uint64
	seen  atomic.Uint64 // turns at the last rest
}

const (
	leastRest = time.Millisecond // a sleep is never shorter: the runtime rounds it up to that
	maxRest   = 2 * time.Millisecond
)

// turn is called while there are turns, about once a millisecond.
func (p *pace) turn() { p.turns.Add(1) }

// rest follows a slice. owed is the time worked since the last rest; what is still owed after this one comes back.
func (p *pace) rest(owed time.Duration, crowded bool) time.Duration {
	if owed < leastRest {
		runtime.Gosched()
		return owed
	}
	turns := p.turns.Load()
	if p.seen.Swap(turns) != turns && !crowded {
		time.Sleep(min(owed, maxRest))
		return 0
	}
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	return 0
}
