package aof

import (
	"sync"
	"time"

	"spindle/internal/reason"
)

// A guard is the lock over the state that turns and the writer's goroutine share. Only its method lock returns that
// state. So a function with a *shared parameter runs under the lock.
type guard struct {
	mu    sync.Mutex
	state shared
}

func (g *guard) lock() *shared {
	g.mu.Lock()
	return &g.state
}

func (g *guard) unlock() { g.mu.Unlock() }

// A shared is the state that turns and the writer's goroutine share.
type shared struct {
	running bool // the goroutine exists
	busy    bool // the goroutine is working
	buf     buffer
	ready   int64  // the end of the last complete turn
	turn    uint64 // the number of that turn
	gated   bool   // replies wait for bytes before ready
	filed   bool   // there is a file
	here    int64  // nanoseconds that turns have spent on writing
	jobs    jobs
	sync    syncer
	trouble trouble
}

// Jobs are the jobs of the writer's goroutine, in order.
type jobs []job

// A job runs once the bytes before offset at are in the file (aof.W3). A failing disk does not delay the job, which
// then checks how far the file is.
type job struct {
	at  int64
	run func()
}

func (q *jobs) add(at int64, run func()) { *q = append(*q, job{at, run}) }

// first returns the next job, or nil if there is none.
func (q jobs) first() *job {
	if len(q) == 0 {
		return nil
	}
	return &q[0]
}

// pop removes the next job and returns its function.
func (q *jobs) pop() (run func()) {
	run = (*q)[0].run
	*q = append((*q)[:0:0], (*q)[1:]...)
	return run
}

// A trouble records what has gone wrong with the file, and the disk's news for turns.
type trouble struct {
	failing error // why the last write failed; nil: it succeeded
	tried   time.Time
	logged  time.Time // when the log last had a line about it
	bad     error     // a sync has failed, so the file's contents are unknown
	lost    error     // the same error, from the end of the file until a rewrite has replaced it
	news    []event
}

// An event is something for the latency monitor.
type event struct {
	name string
	took time.Duration
}

// The latency monitor's events. An event of a write comes with a second one, which says what else was running.
const (
	eventWrite   = "aof-write"
	eventPending = "aof-write-pending-fsync" // bytes have waited for a sync
	eventActive  = "aof-write-active-child"  // a snapshot or a base was being written
	eventAlone   = "aof-write-alone"
	eventSync    = "aof-fsync-always"
	eventRename  = "aof-rename" // a rewrite's files were renamed
)

// slow notes an event that took long.
func (t *trouble) slow(name string, took time.Duration) {
	if took >= time.Millisecond && len(t.news) < 64 {
		t.news = append(t.news, event{name, took})
	}
}

// retryAfter is how long the goroutine rests after a failed write.
const retryAfter = time.Second

// isResting reports whether a write has failed a moment ago.
func (t *trouble) isResting() bool { return t.failing != nil && time.Since(t.tried) < retryAfter }

// why returns the reason to refuse writes, in the system's words, or "" if there is none.
func (t *trouble) why() string {
	for _, err := range []error{t.bad, t.lost, t.failing} {
		if err != nil {
			return reason.Of(err)
		}
	}
	return ""
}
