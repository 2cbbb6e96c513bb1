package aof

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"spindle/internal/disk"
	"spindle/internal/reason"
)

// A writer is the disk's side of a log: it owns the file, the manifest and all calls that a disk may keep waiting for.
//
//	turn: add, publish ──▶ buffer ──▶ writer's goroutine: write, sync, jobs
//	                            └───▶ or the turn itself writes, while the goroutine is asleep and nothing waits
//
// aof.W1. Between its locks only one of the two writes to the file: the goroutine while busy, else the turn that holds
// mu.
// aof.W2. Bytes are written in order, each once. After a failure the file is cut back to size, and written again from
// there.
// aof.W3. A job runs when everything before its offset is in the file, and before anything behind it is.
// aof.W4. The gate opens for a turn only when a sync that began after its bytes were written has succeeded.
// aof.W5. The clients that a sync has let go write again at once. The next sync waits until as many bytes have come as
// the last one covered, if that has lately taken less time than a sync costs: else it would begin with the first of the
// clients, and the others would wait for two.
type writer struct {
	log  *Log
	wake chan struct{}

	mu      sync.Mutex
	running bool // there is a goroutine
	busy    bool // it is at work
	buf     buffer
	ready   int64 // up to where turns are complete
	turn    uint64
	gated   bool // bytes before ready are awaited by replies
	jobs    []job
	due     bool // a sync was asked for
	syncing bool
	synced  int64 // offset up to which the disk has confirmed
	group   int64 // a sync that replies wait for is put off until ready has come so far (aof.W5); 0: none is
	until   time.Time
	back    int64         // ready, once as many bytes have come as the last sync let go; 0: they have
	left    time.Time     // when it let them go
	returns time.Duration // how long that takes: the longest of late, less an eighth for each sync since
	failing error         // why the last write failed
	tried   time.Time
	lastLog time.Time
	bad     error // a sync failed: the file is not believed any more
	lost    error // the same, once the file has been abandoned and until a rewrite stands in for it
	news    []event
	blocked time.Time // since when a sync keeps bytes from the file; zero: none does
	awaited int64     // a turn wants to hear when synced has come so far; 0: none does

	// The goroutine's, or who holds mu while it is asleep.
	folder   *folder
	file     disk.File
	size     int64 // of the file
	temp     bool  // file is the temporary increment
	manifest *manifest
	latest   *rewriting // that was prepared
	made     *rewriting // the last whose increment was made
	runs     [][]byte   // put's own

	rest   atomic.Int64 // DEBUG AOF-FLUSH-SLEEP, in nanos
	backed atomic.Int64 // bytes in the buffer
	cost   atomic.Int64 // of its memory
	here   int64        // nanoseconds that turns have spent in writing
}

// A job is done by the goroutine once everything before an offset is in the file (aof.W3). A disk that fails does not
// hold it up: then it has to find out how far the file is.
type job struct {
	at  int64
	run func()
}

// An event is something for the latency monitor.
type event struct {
	name string
	took time.Duration
}

func newWriter(l *Log, f *folder) *writer {
	return &writer{log: l, folder: f, wake: make(chan struct{}, 1), manifest: &manifest{}}
}

// move has the writer go on in another folder, behind what it still has to do. Then nobody needs the old one.
func (w *writer) move(to *folder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		w.folder = to
		return
	}
	w.jobs = append(w.jobs, job{0, func() {
		w.dropMade()
		w.folder.unclaim()
		w.folder = to
	}})
	w.rouse()
}

// retryAfter is how long the goroutine rests after a write that failed.
const retryAfter = time.Second

// add appends bytes of the turn that is held. They are not complete before publish. Turn only.
func (w *writer) add(p []byte) {
	w.mu.Lock()
	w.buf.add(p)
	w.priced()
	w.mu.Unlock()
	w.backed.Add(int64(len(p)))
}

// behind is how much waits for the disk.
func (w *writer) behind() int64 { return w.backed.Load() }

// end is the offset behind everything added so far. Turn only.
func (w *writer) end() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.end
}

// priced notes what the buffer costs. Under mu.
func (w *writer) priced() {
	if n := w.buf.memory(); n != w.cost.Load() {
		w.cost.Store(n)
	}
}

// memory is what the buffer costs.
func (w *writer) memory() int64 { return w.cost.Load() }

// publish says that all added so far belongs to complete turns, of which turn is the last. With durable its replies
// wait for the disk. While the goroutine is asleep and nobody waits for a sync, the turn writes by itself: that costs
// no switch.
func (w *writer) publish(turn uint64, durable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready == w.buf.end {
		return
	}
	w.ready, w.turn = w.buf.end, turn
	if w.syncing && w.blocked.IsZero() {
		w.blocked = time.Now()
	}
	switch {
	case durable:
		w.gated = true
		w.log.parts.Gate.Shut(turn)
		if w.back != 0 && w.ready >= w.back {
			w.came()
		}
		if w.ready < w.group {
			return
		}
	case !w.busy && !w.gated && len(w.jobs) == 0 && w.file != nil && w.rest.Load() == 0 && w.bad == nil && w.failing == nil:
		w.writeHere()
		if w.buf.first == w.ready {
			return
		}
	}
	w.rouse()
}

// handover is what a sync costs beside the disk's time: the goroutine, the loops and the monitor of Go's runtime are
// woken for it. On a quick disk that is as much again.
const handover = 300 * time.Microsecond

// letGo notes that a sync lets the replies to so many bytes go, and puts the next one off if those who wait for them
// are likely to be back before it could be over (aof.W5). Under mu.
func (w *writer) letGo(bytes int64, took time.Duration) {
	if w.back != 0 {
		w.came()
	}
	took += handover
	w.returns = min(w.returns, 2*took) // a pause of the clients is not remembered for long
	w.back, w.left = w.ready+bytes, time.Now()
	if w.returns < took {
		w.group, w.until = w.back, w.left.Add(2*w.returns)
	}
}

// came notes how long it has been since the last sync let replies go. Under mu.
func (w *writer) came() { w.back, w.returns = 0, max(time.Since(w.left), w.returns-w.returns/8) }

// rouse wakes the goroutine. Under mu.
func (w *writer) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// writeHere writes what is ready, in the turn. What it cannot write stays for the goroutine. Under mu.
func (w *writer) writeHere() {
	began := time.Now()
	w.runs = w.buf.appendRuns(w.runs[:0], w.ready)
	n, err := w.put(w.runs)
	took := time.Since(began)
	w.here += int64(took)
	w.slow(eventWrite, took)
	w.wrote(n)
	if err != nil {
		w.failed(err)
	}
}

// put writes bytes of the buffer (aof.B2). If not all can be written the file is cut back to where it
// was, so that it ends with a whole unit; n is what could not be taken back.
func (w *writer) put(runs [][]byte) (n int64, err error) {
	for _, p := range runs {
		var k int
		k, err = w.file.Write(p)
		if n += int64(k); err == nil && k < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			break
		}
	}
	if err == nil || n == 0 {
		return n, err
	}
	expected := int64(0)
	for _, p := range runs {
		expected += int64(len(p))
	}
	err = &shortWrite{n, expected, err}
	if cut := w.file.Truncate(w.size); cut != nil {
		w.log.parts.Log.Warning("Could not remove short write from the append-only file.  "+
			"Redis may refuse to load the AOF the next time it starts.  ftruncate: %s", reason.Of(cut))
		return n, err
	}
	return 0, err
}

// A shortWrite is a write that has failed behind its first bytes.
type shortWrite struct {
	written, expected int64
	error
}

func (e *shortWrite) Unwrap() error { return e.error }

// wrote counts bytes that are in the file. Under mu.
func (w *writer) wrote(n int64) {
	w.size += n
	w.buf.drop(w.buf.first + n)
	w.priced()
	w.backed.Add(-n)
}

// The latency monitor's events. One of a write has a second, which says what else went on.
const (
	eventWrite   = "aof-write"
	eventPending = "aof-write-pending-fsync" // bytes have waited for a sync
	eventActive  = "aof-write-active-child"  // a snapshot or a base was written meanwhile
	eventAlone   = "aof-write-alone"
	eventSync    = "aof-fsync-always"
	eventRename  = "aof-rename" // a rewrite's files were put in their places
)

// slow notes what took long. Under mu.
func (w *writer) slow(name string, took time.Duration) {
	if took >= time.Millisecond && len(w.news) < 64 {
		w.news = append(w.news, event{name, took})
	}
}

// takeNews is what the turn has to hear: events, and a sync's failure, once.
func (w *writer) takeNews() (events []event, bad error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, w.news = w.news, nil
	return events, w.bad
}

// trouble is why writes are to be refused, as the system words it; "" while they are not.
func (w *writer) trouble() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.bad != nil:
		return reason.Of(w.bad)
	case w.lost != nil:
		return reason.Of(w.lost)
	case w.failing != nil:
		return reason.Of(w.failing)
	}
	return ""
}

// askSync asks for a sync of what is written, and answers whether there is anything to sync that no reply waits for.
func (w *writer) askSync() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil || w.bad != nil || w.synced >= w.ready || w.syncing || w.gated {
		return false
	}
	w.due = true
	w.rouse()
	return true
}

// syncStalls says that a sync under way keeps bytes from the file.
func (w *writer) syncStalls() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.syncing && w.buf.first < w.ready
}

// do has the goroutine run f when everything before at is in the file, or no more can be written to it.
func (w *writer) do(at int64, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, job{at, f})
	w.start()
	w.rouse()
}

// start begins the goroutine. Under mu.
func (w *writer) start() {
	if !w.running {
		w.running = true
		go w.run()
	}
}

// run is the goroutine.
func (w *writer) run() {
	for {
		w.mu.Lock()
		step := w.next()
		w.busy = step != nil
		again := (<-chan time.Time)(nil)
		switch {
		case w.failing != nil:
			again = time.After(retryAfter)
		case w.group > 0:
			again = time.After(time.Until(w.until))
		}
		w.mu.Unlock()
		if step != nil {
			step()
			continue
		}
		select {
		case <-w.wake:
		case <-again:
			w.mu.Lock()
			w.group = 0
			w.mu.Unlock()
		}
	}
}

// next is what the goroutine does next, nil if there is nothing. Under mu.
func (w *writer) next() (step func()) {
	to := w.ready
	var first *job
	if len(w.jobs) > 0 {
		first = &w.jobs[0]
		to = min(to, first.at)
	}
	if w.ready >= w.group || first != nil || w.due || w.failing != nil {
		w.group = 0
	}
	resting := w.failing != nil && time.Since(w.tried) < retryAfter
	switch {
	case w.group > 0:
		return nil
	case w.buf.first < to && w.file != nil && w.bad == nil && !resting:
		return func() { w.write(to) }
	case first != nil && (w.buf.first >= first.at || w.failing != nil || w.bad != nil || w.file == nil):
		run := first.run
		w.jobs = append(w.jobs[:0:0], w.jobs[1:]...)
		return run
	case w.file != nil && w.bad == nil && (w.due || w.gated && w.failing == nil) && w.buf.first >= to:
		return w.sync
	}
	return nil
}

// write writes what is ready before to.
func (w *writer) write(to int64) {
	if rest := w.rest.Load(); rest > 0 {
		time.Sleep(time.Duration(rest))
	}
	w.mu.Lock()
	w.runs = w.buf.appendRuns(w.runs[:0], to)
	w.mu.Unlock()
	began := time.Now()
	n, err := w.put(w.runs)
	took := time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow(eventWrite, took)
	w.wrote(n)
	switch {
	case err != nil:
		w.failed(err)
	case w.failing != nil:
		w.failing = nil
		w.log.parts.Log.Notice("AOF write error looks solved, Redis can write again.")
		w.tell()
	}
	if w.log.holding.Load() {
		w.tell()
	}
}

// failed notes a write that failed. Under mu.
func (w *writer) failed(err error) {
	l := w.log
	w.tried = time.Now()
	if w.tried.Sub(w.lastLog) >= logEvery {
		w.lastLog = w.tried
		if short := (*shortWrite)(nil); errors.As(err, &short) {
			l.parts.Log.Warning("Short write while writing to the AOF file: (nwritten=%d, expected=%d)",
				short.written, short.expected)
		}
		l.parts.Log.Warning("Error writing to the AOF file: %s", reason.Of(err))
	}
	if w.gated {
		l.parts.Log.Warning("Can't recover from AOF write error when the AOF fsync policy is 'always'. Exiting...")
		l.parts.Fatal()
	}
	w.failing = err
	w.tell()
}

// logEvery is how often a write that goes on failing is told.
const logEvery = 30 * time.Second

// tell has a turn look at the news. Any goroutine that holds no turn and waits for none.
func (w *writer) tell() { go w.log.parts.Core.Do(w.log.look) }

// sync has the disk confirm what is written. Then it opens the gate.
func (w *writer) sync() {
	w.mu.Lock()
	w.due, w.syncing = false, true
	from, at, turn, gated := w.synced, w.buf.first, w.turn, w.gated
	covers := at == w.ready
	w.mu.Unlock()
	began := time.Now()
	err := w.file.Sync()
	took := time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.syncing = false
	if since := w.blocked; !since.IsZero() {
		if w.blocked = (time.Time{}); !gated {
			w.slow(eventPending, time.Since(since))
		}
	}
	if err != nil {
		w.syncFailed(err)
		return
	}
	if gated {
		w.slow(eventSync, took)
		w.letGo(at-from, took)
	}
	w.confirmed(at)
	switch {
	case w.gated && (w.ready == at || w.log.set.Fsync.Get() != Always):
		w.open()
	case w.gated && covers:
		w.log.parts.Gate.Open(turn + 1)
	}
}

// confirmed notes that the disk has the log up to an offset, and tells a client that waits for that. Under mu.
func (w *writer) confirmed(at int64) {
	w.synced = max(w.synced, at)
	if w.awaited != 0 && w.awaited <= w.synced {
		w.awaited = 0
		w.tell()
	}
}

// open lets every reply leave. Under mu.
func (w *writer) open() {
	w.gated = false
	w.log.parts.Gate.Open(math.MaxUint64)
}

// syncFailed is the end of a file, and under always of the process. Under mu.
func (w *writer) syncFailed(err error) {
	w.syncRefused(err)
	w.bad = err
	w.tell()
}

// syncRefused logs that a sync has failed. It ends the process if replies wait for one, or may begin to before a turn
// has heard of this: they could never leave. Under mu.
func (w *writer) syncRefused(err error) {
	l := w.log
	if w.gated || l.set.Fsync.Get() == Always {
		l.parts.Log.Warning("Can't persist AOF for fsync error when the AOF fsync policy is 'always': %s. Exiting...",
			reason.Of(err))
		l.parts.Fatal()
	}
	l.parts.Log.Warning("Fail to fsync the AOF file: %s", reason.Of(err))
}

// syncWhole syncs a file before a rewrite goes on. That it fails is the end of the file, as in sync. The goroutine's.
func (w *writer) syncWhole() error {
	err := w.file.Sync()
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.syncFailed(err)
	}
	return err
}

// openIncr opens an increment to append to. fresh empties it, for good: a rewrite that a power cut has ended may have
// left one of that name. Its bytes must not come back once the manifest names the new one.
func (w *writer) openIncr(name string, fresh bool) (disk.File, error) {
	f := w.folder
	if err := f.disk.Mkdir(f.dir, 0o755); err != nil {
		return nil, err
	}
	flag := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if fresh {
		flag |= os.O_TRUNC
	}
	file, err := f.disk.Open(f.path(name), flag, 0o644)
	if err == nil && fresh {
		if err = file.Sync(); err != nil {
			_ = file.Close()
			return nil, err
		}
	}
	return file, err
}

// abandon forgets the file and what was to go into it, when nothing is added any more. Whoever calls may hold the turn.
func (w *writer) abandon() {
	w.do(0, func() {
		w.closeFile()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.bad != nil {
			if w.gated { // always was set since
				w.syncRefused(w.bad)
			}
			w.lost = w.bad
		}
		w.bad, w.failing = nil, nil
		w.forget()
	})
}

// forget takes the buffer for written, and lets replies go. Under mu.
func (w *writer) forget() {
	w.ready = w.buf.end
	w.backed.Add(-w.buf.size())
	w.buf.drop(w.buf.end)
	w.priced()
	w.open()
}

// closeFile ends the file. The goroutine's.
func (w *writer) closeFile() {
	if w.file == nil {
		return
	}
	_ = w.file.Close()
	w.mu.Lock()
	w.file, w.due = nil, false
	w.mu.Unlock()
	if w.temp {
		w.removeTemporary()
	}
}

// removeTemporary removes the temporary increment: there was no data set that it goes on from.
func (w *writer) removeTemporary() {
	w.temp = false
	f := w.folder
	w.log.parts.Log.Notice("Removing the temp incr aof file %s in the background", f.temporaryIncr())
	_ = f.disk.Remove(f.path(f.temporaryIncr()))
}

// doBehindAll has the goroutine run f behind everything added so far. A write that has failed is tried once more, at
// once.
func (w *writer) doBehindAll(f func()) {
	w.mu.Lock()
	at := w.buf.end
	w.tried = time.Time{}
	w.mu.Unlock()
	w.do(at, f)
}

// finish writes and syncs everything added so far, and ends the file.
func (w *writer) finish() {
	w.doBehindAll(func() {
		w.syncLast()
		w.closeFile()
		w.dropMade()
		w.mu.Lock()
		w.lost, w.bad, w.failing = nil, nil, nil
		w.forget()
		w.mu.Unlock()
		go w.log.parts.Core.Do(w.log.giveBack)
	})
}

// syncLast is the last sync of a file.
func (w *writer) syncLast() {
	if w.file == nil {
		return
	}
	w.mu.Lock()
	whole := w.buf.first >= w.ready
	w.mu.Unlock()
	err := w.file.Sync()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.syncRefused(err)
	case whole:
		w.synced = w.ready
		w.open()
	}
}

// last writes and syncs everything added so far. done is closed then.
func (w *writer) last() (done <-chan struct{}) {
	c := make(chan struct{})
	w.doBehindAll(func() {
		w.syncLast()
		w.dropMade()
		close(c)
	})
	return c
}

// drain writes everything added so far. done is closed then, or when that failed, and the goroutine rests until goOn
// is.
func (w *writer) drain() (done <-chan struct{}, goOn chan<- struct{}) {
	c, rest := make(chan struct{}), make(chan struct{})
	w.doBehindAll(func() {
		close(c)
		<-rest
	})
	return c, rest
}

// measure asks the disk how long the file is. While the goroutine rests in drain.
func (w *writer) measure() {
	n := len(w.manifest.incrs)
	if w.file == nil || w.temp || n == 0 {
		return
	}
	size, err := w.folder.size(w.manifest.incrs[n-1])
	if err != nil {
		w.log.parts.Log.Warning("Unable to obtain the AOF file %s length. stat: %s",
			w.manifest.incrs[n-1].name, reason.Of(err))
		return
	}
	w.setSize(size)
}

// spentHere is how many nanoseconds turns have spent in writing.
func (w *writer) spentHere() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.here
}

// isSyncing says that a sync is under way.
func (w *writer) isSyncing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.syncing
}
