package replication

import (
	"time"

	"spindle/replication/segments"
)

// This file lets the backlog outlive the process. At an orderly end the whole backlog goes to disk, together with the
// name of the history and the offset of its end. The next process continues it if the data set that it loads is exactly
// that one.

// sealPatience is how long an ending server waits for the disk to store the backlog.
const sealPatience = 10 * time.Second

// EndStream ends the backlog when the server ends. saved means that the data set was saved in this turn, so that the
// next process can continue the stream. No effect comes after EndStream. wait waits for the disk, outside the turn.
func (e *Ends) EndStream(saved bool) (wait func()) {
	f := e.feed
	id, offset, _, ok := e.State()
	s := f.spool
	defer func() { s.sealed, s.log = true, nil }()
	switch {
	case f.log == nil:
		return func() {}
	case !saved || !ok || s.settings.DiskSize.Get() == 0 || f.log.end != offset || f.log.length == 0 && !s.on():
		if !s.on() {
			return func() {}
		}
		log := s.log
		log.Drop()
		return func() { await(log, log.Done()) }
	}
	if !s.on() {
		s.begin(f.log.end - f.log.filled())
	}
	for _, b := range f.log.blocks {
		s.log.Append(b.memory[:b.used])
	}
	f.log.blocks, f.log.length = nil, 0
	note := segments.Note{ID: id}
	for _, r := range f.replicas {
		if at, ok := r.acknowledged(); ok {
			note.Replicas = append(note.Replicas, segments.Replica{Host: r.host(), Port: r.port, At: at})
		}
	}
	for _, d := range f.departed {
		note.Replicas = append(note.Replicas, segments.Replica{Host: d.address.Host, Port: d.address.Port, At: d.at})
	}
	log := s.log
	done := log.Seal(note)
	return func() { await(log, done) }
}

// await waits until log has ended. After sealPatience it gives log up.
func await(log *segments.Log, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(sealPatience):
		log.GiveUp(segments.ErrSlow)
	}
}

// FindKept looks for the backlog that the previous process has left on disk. It removes files that cannot be used. It
// runs outside turns, because it reads the disk.
func (f *Feed) FindKept() *segments.Kept {
	s := f.spool
	kept, removed, err := s.folder().Find()
	if err != nil {
		s.settings.Log.Notice("The backlog on disk of an earlier process is not used: %v. Files removed: %d", err, removed)
	}
	return kept
}

// Continue continues kept, if kept is the stream up to the loaded data set, which is history id up to offset. Otherwise
// it removes kept's files. kept may be nil. Turn only.
func (f *Feed) Continue(kept *segments.Kept, id string, offset int64) {
	s := f.spool
	switch {
	case kept == nil:
		return
	case id == "" || kept.ID != id || kept.End() != offset || f.log == nil || f.log.begin() != offset ||
		!s.usable():
		s.settings.Log.Notice("The backlog on disk of an earlier process is not used: it is not that of the data set. " +
			"Its files are removed")
		go kept.Drop()
		return
	}
	s.start(kept.Continue(s.settings.DiskSize.Get(), s.release))
	for _, r := range kept.Replicas {
		f.departed = append(f.departed, departed{Address{r.Host, r.Port}, max(r.At, kept.Begin()), f.core.SteadyMs()})
	}
	f.log.trim()
	s.settings.Log.Notice("The backlog on disk continues: %d bytes up to offset %d", kept.End()-kept.Begin(), offset)
}
