package lazyfree

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A pace leaves the processor to the loops: while turns run, a reclaimer rests as long as it worked, a millisecond at least, and between
// slices lets them go first; when the core is idle or jobs pile up it works through.
//
// P1. A rest is never longer than maxRest, so that memory comes back under any load.
// P2. What is too short for a rest is owed, not slept: a slice of 100 µs before each sleep of a millisecond would be a tenth of the speed.
type pace struct {
	turns atomic.Uint64
	seen  atomic.Uint64 // turns at the last rest
}

const (
	leastRest = time.Millisecond // a sleep is never shorter: the runtime rounds it up to that
	maxRest   = 2 * time.Millisecond
)

// turn is called once per turn.
func (p *pace) turn() { p.turns.Add(1) }

// rest follows a slice. owed is the time worked since the last real rest; what is still owed after this one comes back.
func (p *pace) rest(owed time.Duration, crowded bool) time.Duration {
	turns := p.turns.Load()
	busy := p.seen.Swap(turns) != turns && !crowded
	if busy && owed >= leastRest {
		time.Sleep(min(owed, maxRest))
		return 0
	}
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if !busy {
		return 0
	}
	return owed
}
