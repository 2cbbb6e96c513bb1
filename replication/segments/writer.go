package segments

import "spindle/internal/disk"

const (
	// batchBytes bounds the bytes of one write to the disk.
	batchBytes = 256 << 10
	// writeOutFrom is the size of a log from which its bytes are flushed to the disk early, writeOutBytes at a time.
	// Otherwise the kernel would collect them, and then block the writer for long. A smaller log is often removed
	// before it has reached the disk.
	writeOutFrom  = 64 << 20
	writeOutBytes = 8 << 20
)

// A writer is the goroutine that writes a log's files and removes them.
type writer struct {
	*Log
	file disk.File // the newest segment; nil: the next bytes begin one
	size int64     // of file
	sent int64     // how many bytes of file were flushed
	buf  []byte
}

// run is the loop of a log's writer. It ends with the log.
func (l *Log) run() {
	defer close(l.done)
	w := &writer{Log: l}
	err := l.folder.claim()
	for err == nil {
		var more bool
		if more, err = w.step(); !more {
			break
		}
	}
	if w.file != nil {
		if closed := w.file.Close(); err == nil {
			err = closed
		}
	}
	if err == nil {
		err = w.leaveNote()
	}
	if err == nil {
		w.GiveUp(ErrClosed) // the log is sealed: readers end too
		return
	}
	w.GiveUp(err)
	w.folder.removeAll(w.nonce)
}

// leaveNote writes the note of a sealed log.
func (w *writer) leaveNote() error {
	w.mu.Lock()
	n := *w.seal
	n.Nonce, n.Segments = w.nonce, w.segments
	w.mu.Unlock()
	return w.folder.writeNote(n)
}

// A task is what the writer does next.
type task struct {
	batch   []piece
	surplus []segment // to be removed
	roll    bool      // the batch begins a segment
	at      int64     // the offset of the batch
}

// step waits for work and does it. more is false after the last step of a sealed log, and after an error.
func (w *writer) step() (more bool, err error) {
	t, err := w.next()
	if err != nil {
		return false, err
	}
	end := w.encode(t)
	for _, s := range t.surplus {
		if err := w.folder.remove(w.nonce, s.Begin); err != nil {
			return false, err
		}
	}
	if len(t.batch) > 0 {
		if err := w.write(t, end); err != nil {
			return false, err
		}
	}
	return len(t.batch)+len(t.surplus) > 0, nil
}

// next waits for work and returns it. An empty task marks the end of a sealed log.
func (w *writer) next() (t task, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if w.err != nil {
			return t, w.err
		}
		t.at = w.written
		bytes, n := int64(0), 0
		for n < len(w.queue) && (n == 0 || bytes+int64(len(w.queue[n].p)) <= batchBytes) {
			bytes += int64(len(w.queue[n].p)) + blockHead
			n++
		}
		t.batch, w.queue = w.queue[:n:n], w.queue[n:]
		if n > 0 {
			last := len(w.segments) - 1
			t.roll = last < 0 || w.file == nil || w.segments[last].End-w.segments[last].Begin >= segmentBytes(w.limit)
			if last == 0 && w.inFiles+bytes+headLen > w.limit {
				t.roll = true // so that the only segment can be removed
			}
		}
		if t.surplus = w.surplus(bytes, t.roll); n > 0 || len(t.surplus) > 0 || w.seal != nil {
			return t, nil
		}
		w.moved.Wait()
	}
}

// surplus removes from the list the segments that are not needed, or must make room for more bytes. The newest one
// stays unless another is begun. The caller holds mu.
func (w *writer) surplus(more int64, roll bool) (gone []segment) {
	if roll {
		more += headLen
	}
	for {
		n := len(w.segments)
		if n == 0 || n == 1 && !roll {
			return gone
		}
		if first := w.segments[0]; first.End <= w.need || w.inFiles+more > w.limit {
			gone, w.segments = append(gone, first), w.segments[1:]
			w.inFiles -= first.Bytes
			w.begin = first.End
			continue
		}
		return gone
	}
}

// encode encodes the pieces of a batch, and releases them. It returns the stream's offset after them.
func (w *writer) encode(t task) (end int64) {
	w.buf, end = w.buf[:0], t.at
	if t.roll {
		w.buf = appendHead(w.buf, w.nonce, t.at)
	}
	for _, q := range t.batch {
		w.buf = appendBlock(w.buf, w.nonce, q.at, q.p)
		end += int64(len(q.p))
		w.release(q.p)
	}
	return end
}

// write writes the encoded batch of t, which ends at the stream's offset end.
func (w *writer) write(t task, end int64) error {
	if t.roll {
		if w.file != nil {
			if err := w.file.Close(); err != nil {
				return err
			}
		}
		file, err := w.folder.create(w.nonce, t.at)
		if w.file, w.size, w.sent = file, 0, 0; err != nil {
			return err
		}
	}
	if _, err := w.file.Write(w.buf); err != nil {
		return err
	}
	if w.size += int64(len(w.buf)); w.size-w.sent >= writeOutBytes && w.inFiles >= writeOutFrom {
		if err := w.file.WriteOut(w.sent, w.size-w.sent, false); err != nil {
			return err
		}
		w.sent = w.size
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if t.roll {
		w.segments = append(w.segments, segment{Begin: t.at})
	}
	s := &w.segments[len(w.segments)-1]
	s.End, s.Bytes = end, s.Bytes+int64(len(w.buf))
	w.inFiles += int64(len(w.buf))
	w.queued -= end - t.at
	w.written = end
	w.steps++
	w.moved.Broadcast()
	return nil
}
