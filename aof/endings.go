package aof

import "time"

// This file has the ways in which the writer's file ends or is left alone for a while.

// abandon gives up the file and the bytes that wait for it. No bytes are added any more. The caller may hold the turn.
func (w *writer) abandon() {
	w.do(0, func() {
		w.closeFile()
		s := w.lock()
		defer w.unlock()
		t := &s.trouble
		if t.bad != nil {
			if s.gated { // the policy has become always since
				w.syncRefused(s, t.bad)
			}
			t.lost = t.bad
		}
		t.bad, t.failing = nil, nil
		w.forget(s)
	})
}

// forget drops the buffer, and lets the held replies leave.
func (w *writer) forget(s *shared) {
	s.ready = s.buf.end
	w.backed.Add(-s.buf.size())
	s.buf.drop(s.buf.end)
	w.noteCost(s)
	w.open(s)
}

// doAfterAll queues f for the writer's goroutine, after all bytes added so far. A write that has failed is retried
// once, at once.
func (w *writer) doAfterAll(f func()) {
	s := w.lock()
	at := s.buf.end
	s.trouble.tried = time.Time{}
	w.unlock()
	w.do(at, f)
}

// finish writes and syncs everything added so far, and then closes the file.
func (w *writer) finish() {
	w.doAfterAll(func() {
		w.syncLast()
		w.closeFile()
		w.dropMade()
		s := w.lock()
		s.trouble.lost, s.trouble.bad, s.trouble.failing = nil, nil, nil
		w.forget(s)
		w.unlock()
		go w.log.parts.Core.Do(w.log.giveBack)
	})
}

// syncLast runs the last sync of a file.
func (w *writer) syncLast() {
	if w.file.File == nil {
		return
	}
	s := w.lock()
	whole := s.buf.first >= s.ready
	w.unlock()
	err := w.file.Sync()
	s = w.lock()
	defer w.unlock()
	switch {
	case err != nil:
		w.syncRefused(s, err)
	case whole:
		s.sync.synced = s.ready
		w.open(s)
	}
}

// last writes and syncs everything added so far, and then closes done.
func (w *writer) last() (done <-chan struct{}) {
	c := make(chan struct{})
	w.doAfterAll(func() {
		w.syncLast()
		w.dropMade()
		close(c)
	})
	return c
}

// drain writes everything added so far and closes done, also if the write failed. The writer's goroutine then rests
// until resume is closed.
func (w *writer) drain() (done <-chan struct{}, resume chan<- struct{}) {
	c, rest := make(chan struct{}), make(chan struct{})
	w.doAfterAll(func() {
		close(c)
		<-rest
	})
	return c, rest
}
