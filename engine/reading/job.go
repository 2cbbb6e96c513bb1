package reading

import (
	"runtime"
	"sync/atomic"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// A Job is one long read of one client.
//
//	Begin ──▶ waiting ──▶ started ──▶ Read returns ──▶ Over, in a turn: the reply leaves
//	             │           │
//	             └── Stop ───┴──▶ the goroutine ends at its next rest, and Over drops the reply
//
// reading.J1. From Begin to End the Job is a reader of its view. Read runs in between, at most once.
type Job struct {
	Client *client.Client
	Read   func(*command.Reading) error
	Args   [][]byte // copies of the command's arguments
	Now    int64    // the command's time, Unix ms
	Reply  *protocol.Reply
	Over   func(*Job) // called once, on the Job's goroutine, outside the turn; it has to call End in a turn

	// These are set when Over is called:
	Ended bool          // Read has returned; otherwise the Job was stopped, or the Reply is Full
	Err   error         // the error that Read returned
	Took  time.Duration // the time that Read took, without waiting for other Jobs

	read    *command.Reading
	heap    *memory.Heap // of values that Read builds; nil if it builds none
	queue   *Queue
	view    *View
	started bool
	stop    atomic.Bool
	sliced  time.Time // when the present slice began
	turned  time.Time // when the Job last began to compute
}

const (
	stepsARest = 128                    // elements between two readings of the clock
	slice      = 200 * time.Microsecond // between two yields, and two counts of memory
	round      = 4 * time.Millisecond   // between two changes of the Jobs that compute
	nap        = time.Millisecond       // after each round on a single processor
)

// Stop makes the Job end soon. Any goroutine may call it.
func (j *Job) Stop() { j.stop.Store(true) }

// run is the Job's goroutine. If a Step does not return, Goexit ends the goroutine.
func (j *Job) run() {
	defer func() {
		if r := recover(); r != nil {
			panic(r)
		}
		if j.heap != nil {
			j.heap.Close()
		}
		j.pause()
		j.Over(j)
	}()
	j.goOn()
	if inner := j.Reply.Chunks; inner != nil {
		j.Reply.Chunks = counted{inner, j}
	}
	j.read = command.NewReading(j.Reply, j.Args, j.Now, j.rest, j.apart)
	j.Err = j.Read(j.read)
	j.Ended = true
}

// apart makes the store for values that Read builds. They lie in a heap that belongs to the Job.
func (j *Job) apart() *value.Store {
	h, err := memory.New(memory.Options{Databases: 2})
	if err != nil {
		panic(memory.ErrExhausted)
	}
	j.heap = h
	return keyspace.New(h, keyspace.Options{Databases: 1}).Store()
}

// Lookups returns how many keys Read has looked up, with and without success. It is valid when Over is called.
func (j *Job) Lookups() (hits, misses int64) { return j.read.Hits, j.read.Misses }

// count adds to the client's memory what the reply, of this many bytes, the values that Read builds and the lists that
// it collects cost.
func (j *Job) count(replied int) {
	replied += j.read.Held()
	if j.heap != nil {
		replied += int(j.heap.Used())
	}
	j.Client.Prepare(replied)
}

// goOn waits until the Job may compute.
func (j *Job) goOn() {
	j.queue.places <- struct{}{}
	j.turned = time.Now()
	j.sliced = j.turned
}

// pause lets another Job compute.
func (j *Job) pause() {
	j.Took += time.Since(j.turned)
	<-j.queue.places
}

// rest lets event loops and other Jobs run, or ends the goroutine. It returns the number of steps until the next call.
func (j *Job) rest() (steps int) {
	if j.stop.Load() || j.Reply.Full() {
		runtime.Goexit()
	}
	now := time.Now()
	if now.Sub(j.sliced) < slice {
		return stepsARest
	}
	if now.Sub(j.turned) >= round {
		j.pause()
		if j.queue.alone {
			time.Sleep(nap)
		}
		j.goOn()
		return stepsARest
	}
	if j.heap != nil || j.read.Held() > 0 {
		j.count(j.Reply.Len())
	}
	if runtime.GOMAXPROCS(0) == 1 { // only then, because a yield wakes idle threads, which then look for work
		runtime.Gosched()
	}
	j.sliced = time.Now()
	return stepsARest
}

// counted is the chunks of a reply, which it counts as the client's memory before the client's loop gets the reply.
type counted struct {
	protocol.Chunks
	j *Job
}

func (c counted) Chunk(n, held int) (chunk []byte, release func()) {
	if chunk, release = c.Chunks.Chunk(n, held); chunk != nil {
		c.j.count(held + cap(chunk))
	}
	return chunk, release
}
