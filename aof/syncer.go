package aof

import (
	"math"
	"time"

	"spindle/internal/reason"
)

// A syncer decides when to sync, and records how far the disk has confirmed the log.
//
// aof.W5. The clients that a sync has released write again at once. The next sync waits until as many bytes have come
// as the last one covered, if that has lately been quicker than a sync. Otherwise it would begin with the bytes of the
// first client, and the other clients would wait for two syncs.
type syncer struct {
	due     bool      // a sync was requested
	syncing bool      // a sync is running
	began   time.Time // when it began
	synced  int64     // the offset up to which the log is on disk
	awaited int64     // a turn is told when synced reaches this offset; 0: none
	blocked time.Time // when a sync began to keep bytes from the file; zero: none does

	// The fields for aof.W5:
	group   int64 // a sync with waiting replies waits until ready reaches this offset; 0: no wait
	until   time.Time
	back    int64         // ready will reach it when as many bytes have come as the last sync released; 0: it has
	left    time.Time     // when the last sync released the clients
	returns time.Duration // how long they take to return: the longest of late, less an eighth for each sync since
}

// handover is what a sync costs beyond the disk's time: it wakes the goroutine, the loops and the monitor of Go's
// runtime. On a fast disk this doubles the time.
const handover = 300 * time.Microsecond

// letGo notes that a sync releases the replies that depend on this many bytes. It delays the next sync if the clients
// are likely to return before that sync could end.
func (y *syncer) letGo(ready, bytes int64, took time.Duration) {
	if y.back != 0 {
		y.came()
	}
	took += handover
	y.returns = min(y.returns, 2*took) // so that a pause of the clients is soon forgotten
	y.back, y.left = ready+bytes, time.Now()
	if y.returns < took {
		y.group, y.until = y.back, y.left.Add(2*y.returns)
	}
}

// came notes how long the clients took to return after the last sync released them.
func (y *syncer) came() { y.back, y.returns = 0, max(time.Since(y.left), y.returns-y.returns/8) }

// confirm notes that the disk has the log up to an offset. It reports whether a turn waits for this confirmation.
func (y *syncer) confirm(at int64) (isAwaited bool) {
	y.synced = max(y.synced, at)
	if isAwaited = y.awaited != 0 && y.awaited <= y.synced; isAwaited {
		y.awaited = 0
	}
	return isAwaited
}

// askSync requests a sync of the file. It reports whether there are bytes to sync for which no reply waits.
func (w *writer) askSync() bool {
	s := w.lock()
	defer w.unlock()
	if !s.filed || s.trouble.bad != nil || s.sync.synced >= s.ready || s.sync.syncing || s.gated {
		return false
	}
	s.sync.due = true
	w.rouse()
	return true
}

// syncStalls reports whether a running sync keeps bytes from the file.
func (w *writer) syncStalls() bool {
	s := w.lock()
	defer w.unlock()
	return s.sync.syncing && s.buf.first < s.ready
}

// sync syncs the file. Then it opens the gate for the confirmed turns.
func (w *writer) sync() {
	s := w.lock()
	s.sync.due, s.sync.syncing = false, true
	from, at, turn, gated := s.sync.synced, s.buf.first, s.turn, s.gated
	covers := at == s.ready
	began := time.Now()
	s.sync.began = began
	w.unlock()
	err := w.file.Sync()
	took := time.Since(began)
	s = w.lock()
	defer w.unlock()
	s.sync.syncing = false
	if since := s.sync.blocked; !since.IsZero() {
		if s.sync.blocked = (time.Time{}); !gated {
			s.trouble.slow(eventPending, time.Since(since))
		}
	}
	if err != nil {
		w.syncFailed(s, err)
		return
	}
	if gated {
		s.trouble.slow(eventSync, took)
		s.sync.letGo(s.ready, at-from, took)
	}
	w.confirmed(s, at)
	switch {
	case s.gated && (s.ready == at || w.log.set.Fsync.Get() != Always):
		w.open(s)
	case s.gated && covers:
		w.log.parts.Gate.Open(turn + 1)
	}
}

// confirmed notes that the disk has the log up to an offset, and wakes a turn that waits for this.
func (w *writer) confirmed(s *shared, at int64) {
	if s.sync.confirm(at) {
		w.notify()
	}
}

// open lets all replies leave.
func (w *writer) open(s *shared) {
	s.gated = false
	w.log.parts.Gate.Open(math.MaxUint64)
}

// syncAll writes and syncs everything added so far, and then calls done on the writer's goroutine. why says why the
// disk does not have it.
func (w *writer) syncAll(done func(why string)) {
	s := w.lock()
	at := s.buf.end
	w.unlock()
	w.doAfterAll(func() {
		s := w.lock()
		due := s.filed && s.trouble.why() == "" && s.sync.synced < at
		w.unlock()
		if due {
			w.sync()
		}
		s = w.lock()
		why := s.trouble.why()
		w.unlock()
		done(why)
	})
}

// syncFailed ends the file, and under always the process.
func (w *writer) syncFailed(s *shared, err error) {
	w.syncRefused(s, err)
	s.trouble.bad = err
	w.notify()
}

// syncRefused logs that a sync has failed. It ends the process if replies wait for a sync, or may begin to wait before
// a turn hears of the failure. Such replies could never leave.
func (w *writer) syncRefused(s *shared, err error) {
	l := w.log
	if s.gated || l.set.Fsync.Get() == Always {
		l.parts.Log.Warning("Can't persist AOF for fsync error when the AOF fsync policy is 'always': %s. Exiting...",
			reason.Of(err))
		l.parts.Fatal()
	}
	l.parts.Log.Warning("Fail to fsync the AOF file: %s", reason.Of(err))
}

// syncWhole syncs a file before a rewrite continues. A failure ends the file, as it does in sync.
func (w *writer) syncWhole() error {
	err := w.file.Sync()
	if err != nil {
		s := w.lock()
		defer w.unlock()
		w.syncFailed(s, err)
	}
	return err
}
