package aof

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"spindle/internal/disk"
	"spindle/internal/reason"
)

// A writer is the disk's side of a log. It owns the file, the manifest and all calls that may wait for a disk.
//
//	turn: add, publish ──▶ buffer ──▶ writer's goroutine: write, sync, jobs
//	                            └───▶ or the turn itself writes, while the goroutine sleeps and no reply waits
//
// aof.W1. One goroutine at a time writes to the file: the writer's goroutine while it is busy, otherwise the turn that
// holds the lock.
// aof.W2. Bytes are written in order, each once. After a failure the file is cut back to its size, and the bytes after
// that are written again.
// aof.W3. A job runs when everything before its offset is in the file, and before anything after it is.
// aof.W4. The gate opens for a turn only when a sync that began after its bytes were written has succeeded.
type writer struct {
	log  *Log
	wake chan struct{}
	guard

	// As logFile, these belong to the writer's goroutine while it is busy:
	file     logFile
	folder   *folder
	manifest *manifest
	latest   *rewriting // the last rewrite that was prepared
	made     *rewriting // the last rewrite whose increment was made
	runs     [][]byte   // memory for put

	past     *history // nil: none is kept
	pastOn   atomic.Bool
	pastLost atomic.Bool  // the disk does not give the index
	pastSize atomic.Int64 // bytes of files that only the history needs
	pastFrom atomic.Int64 // the first moment that can be restored, Unix ms
	pastAt   atomic.Int64 // converts an offset of the buffer into one of the history, by addition

	rest   atomic.Int64 // DEBUG AOF-FLUSH-SLEEP, in nanos
	backed atomic.Int64 // bytes in the buffer
	cost   atomic.Int64 // the buffer's memory
}

func newWriter(l *Log, f *folder) *writer {
	return &writer{log: l, folder: f, wake: make(chan struct{}, 1), manifest: &manifest{}}
}

// move makes the writer use another folder after its present jobs. The old folder is then free for other servers.
func (w *writer) move(to *folder) {
	s := w.lock()
	defer w.unlock()
	if !s.running {
		w.folder = to
		return
	}
	s.jobs.add(0, func() {
		w.dropMade()
		w.folder.unclaim()
		w.folder, w.past = to, nil // each folder has a history
		w.pastOn.Store(false)
		w.pastLost.Store(false)
	})
	w.rouse()
}

// add appends bytes of the present turn. publish marks them complete. Turn only.
func (w *writer) add(p []byte) {
	s := w.lock()
	s.buf.add(p)
	w.noteCost(s)
	w.unlock()
	w.backed.Add(int64(len(p)))
}

// unwritten returns how many bytes wait for the disk.
func (w *writer) unwritten() int64 { return w.backed.Load() }

// end is the offset after everything added so far. Turn only.
func (w *writer) end() int64 {
	s := w.lock()
	defer w.unlock()
	return s.buf.end
}

func (w *writer) noteCost(s *shared) {
	if n := s.buf.memory(); n != w.cost.Load() {
		w.cost.Store(n)
	}
}

// memory returns how many bytes the buffer uses.
func (w *writer) memory() int64 { return w.cost.Load() }

// publish notes that all bytes added so far belong to complete turns, the last of which is turn. With durable, the
// turn's replies wait for the disk. If the goroutine sleeps and no reply waits for a sync, the turn itself writes,
// which saves a switch of goroutines.
func (w *writer) publish(turn uint64, durable bool) {
	s := w.lock()
	defer w.unlock()
	if s.ready == s.buf.end {
		return
	}
	s.ready, s.turn = s.buf.end, turn
	if s.sync.syncing && s.sync.blocked.IsZero() {
		s.sync.blocked = time.Now()
	}
	switch {
	case durable:
		s.gated = true
		w.log.parts.Gate.Shut(turn)
		if s.sync.back != 0 && s.ready >= s.sync.back {
			s.sync.came()
		}
		if s.ready < s.sync.group {
			return
		}
	case !s.busy && !s.gated && len(s.jobs) == 0 && s.filed && w.rest.Load() == 0 && s.trouble.bad == nil &&
		s.trouble.failing == nil:
		w.writeHere(s)
		if s.buf.first == s.ready {
			return
		}
	}
	w.rouse()
}

// rouse wakes the goroutine.
func (w *writer) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// writeHere writes the bytes of complete turns, inside the present turn. The goroutine writes what writeHere cannot.
func (w *writer) writeHere(s *shared) {
	began := time.Now()
	w.runs = s.buf.appendRuns(w.runs[:0], s.ready)
	n, err := w.file.put(w.runs, w.log.parts.Log)
	took := time.Since(began)
	s.here += int64(took)
	s.trouble.slow(eventWrite, took)
	w.wrote(s, n)
	if err != nil {
		w.failed(s, err)
	}
}

// wrote counts n bytes that are now in the file.
func (w *writer) wrote(s *shared, n int64) {
	w.file.size += n
	s.buf.drop(s.buf.first + n)
	w.noteCost(s)
	w.backed.Add(-n)
}

// takeNews returns the news of the writer's goroutine for a turn: events, and once the error of a failed sync.
func (w *writer) takeNews() (events []event, bad error) {
	s := w.lock()
	defer w.unlock()
	events, s.trouble.news = s.trouble.news, nil
	return events, s.trouble.bad
}

// refusal returns the reason to refuse writes, in the system's words, or "" if there is none.
func (w *writer) refusal() string {
	s := w.lock()
	defer w.unlock()
	return s.trouble.why()
}

// do queues f for the goroutine. f runs when everything before offset at is in the file, or when the file cannot be
// written any more.
func (w *writer) do(at int64, f func()) {
	s := w.lock()
	defer w.unlock()
	s.jobs.add(at, f)
	if !s.running {
		s.running = true
		go w.run()
	}
	w.rouse()
}

// run is the loop of the writer's goroutine.
func (w *writer) run() {
	for {
		s := w.lock()
		step := w.next(s)
		s.busy = step != nil
		again := (<-chan time.Time)(nil)
		switch {
		case s.trouble.failing != nil:
			again = time.After(retryAfter)
		case s.sync.group > 0:
			again = time.After(time.Until(s.sync.until))
		}
		w.unlock()
		if step != nil {
			step()
			continue
		}
		select {
		case <-w.wake:
		case <-again:
			w.lock().sync.group = 0
			w.unlock()
		}
	}
}

// next returns the goroutine's next step, or nil if it shall sleep.
func (w *writer) next(s *shared) (step func()) {
	to, first := s.ready, s.jobs.first()
	if first != nil {
		to = min(to, first.at)
	}
	healthy := s.filed && s.trouble.bad == nil
	if s.ready >= s.sync.group || first != nil || s.sync.due || s.trouble.failing != nil {
		s.sync.group = 0
	}
	switch {
	case s.sync.group > 0:
		return nil
	case s.buf.first < to && healthy && !s.trouble.isResting():
		return func() { w.write(to) }
	case first != nil && (s.buf.first >= first.at || s.trouble.failing != nil || !healthy):
		return s.jobs.pop()
	case healthy && (s.sync.due || s.gated && s.trouble.failing == nil) && s.buf.first >= to:
		return w.sync
	}
	return nil
}

// write writes complete turns up to offset to.
func (w *writer) write(to int64) {
	if rest := w.rest.Load(); rest > 0 {
		time.Sleep(time.Duration(rest))
	}
	w.runs = w.lock().buf.appendRuns(w.runs[:0], to)
	w.unlock()
	began := time.Now()
	n, err := w.file.put(w.runs, w.log.parts.Log)
	took := time.Since(began)
	s := w.lock()
	defer w.unlock()
	s.trouble.slow(eventWrite, took)
	w.wrote(s, n)
	switch {
	case err != nil:
		w.failed(s, err)
	case s.trouble.failing != nil:
		s.trouble.failing = nil
		w.log.parts.Log.Notice("AOF write error looks solved, Redis can write again.")
		w.notify()
	}
	if w.log.holding.Load() {
		w.notify()
	}
}

// logEvery is the interval between two log lines about failed writes.
const logEvery = 30 * time.Second

// failed notes a write that failed.
func (w *writer) failed(s *shared, err error) {
	l, t := w.log, &s.trouble
	t.tried = time.Now()
	if t.tried.Sub(t.logged) >= logEvery {
		t.logged = t.tried
		if short := (*shortWrite)(nil); errors.As(err, &short) {
			l.parts.Log.Warning("Short write while writing to the AOF file: (nwritten=%d, expected=%d)",
				short.written, short.expected)
		}
		l.parts.Log.Warning("Error writing to the AOF file: %s", reason.Of(err))
	}
	if s.gated {
		l.parts.Log.Warning("Can't recover from AOF write error when the AOF fsync policy is 'always'. Exiting...")
		l.parts.Fatal()
	}
	t.failing = err
	w.notify()
}

// notify makes a turn look at the news. Any goroutine.
func (w *writer) notify() { go w.log.parts.Core.Do(w.log.look) }

// useFile directs the log to another file, which has size bytes. If file is nil, the log goes to no file.
func (w *writer) useFile(file disk.File, size int64) {
	w.file.File, w.file.size = file, size
	w.lock().filed = file != nil
	w.unlock()
}

// openIncr opens an increment to append to. If fresh, it empties the file durably, because an interrupted rewrite may
// have left one of that name. The old bytes must not come back after a power cut, once the manifest names the new
// increment.
func (w *writer) openIncr(name string, fresh bool) (disk.File, error) {
	f := w.folder
	if err := f.disk.Mkdir(f.dir, 0o755); err != nil {
		return nil, err
	}
	flag := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if fresh {
		flag |= os.O_TRUNC
		if shared, _ := f.disk.Shared(f.path(name)); shared { // a backup has the file too, and it must stay as it is
			err := f.disk.Remove(f.path(name))
			if err == nil {
				err = f.disk.SyncDir(f.dir)
			}
			if err != nil {
				return nil, err
			}
		}
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

// closeFile ends the file.
func (w *writer) closeFile() {
	if w.file.File == nil {
		return
	}
	_ = w.file.Close()
	w.useFile(nil, 0)
	w.lock().sync.due = false
	w.unlock()
	if w.file.temp {
		w.file.temp = false
		f := w.folder
		w.log.parts.Log.Notice("Removing the temp incr aof file %s in the background", f.temporaryIncr())
		_ = f.disk.Remove(f.path(f.temporaryIncr())) // there is no data set for the file
	}
}

// measure asks the disk for the file's length. The goroutine rests in drain meanwhile.
func (w *writer) measure() {
	n := len(w.manifest.incrs)
	if w.file.File == nil || w.file.temp || n == 0 {
		return
	}
	size, err := w.folder.size(w.manifest.incrs[n-1])
	if err != nil {
		w.log.parts.Log.Warning("Unable to obtain the AOF file %s length. stat: %s",
			w.manifest.incrs[n-1].name, reason.Of(err))
		return
	}
	w.file.size = size
	if w.past != nil && w.past.live() != nil {
		first := w.lock().buf.first
		w.unlock()
		w.pastAt.Store(w.past.live().offset + size - first)
	}
}

// spentHere returns how many nanoseconds turns have spent on writing.
func (w *writer) spentHere() int64 {
	s := w.lock()
	defer w.unlock()
	return s.here
}

// syncingFor returns how long the running sync has taken so far, or 0 if none runs.
func (w *writer) syncingFor() time.Duration {
	s := w.lock()
	defer w.unlock()
	if !s.sync.syncing {
		return 0
	}
	return time.Since(s.sync.began)
}

// isSyncing reports whether a sync is running.
func (w *writer) isSyncing() bool {
	s := w.lock()
	defer w.unlock()
	return s.sync.syncing
}
