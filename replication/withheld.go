package replication

// This file is for a primary of a cluster that has started. Its replicas may have confirmed writes that it lacks. So
// the cluster has it give them no data until it has heard of their offsets (state.Q4).

// NoteLog notes that the data come from an append-only file, after a load at start. whole means that the server had
// ended in good order, with all data in the file, and the stream at offset. It then continues there, in a new history.
// Turn only.
func (f *Feed) NoteLog(offset int64, whole bool) {
	f.loaded.offset, f.loaded.isLog, f.loaded.whole = 0, true, whole
	if whole {
		f.loaded.offset = offset
		f.moveTo(offset)
	}
}

// NoteSnapshot notes that the data come from a snapshot of offset; 0 means that the offset is not known. The stream may
// have gone on since, by removals of keys that had expired. Turn only.
func (f *Feed) NoteSnapshot(offset int64) { f.loaded.offset = offset }

// Loaded returns the offset of the data that were loaded at start, or 0. isLog means that they come from an append-only
// file. whole means that the server before had ended in good order, and had no more. Any goroutine, after the load.
func (f *Feed) Loaded() (offset int64, isLog, whole bool) {
	return f.loaded.offset, f.loaded.isLog, f.loaded.whole
}

// Withhold has this primary refuse replicas until Lead. Turn only.
func (f *Feed) Withhold() { f.withheld = true }

// Lead ends what Withhold began. If offset is not 0, a new history begins there: replicas of earlier ones need a full
// copy. Turn only.
func (f *Feed) Lead(offset int64) {
	f.withheld = false
	if offset == 0 || f.following {
		return
	}
	f.core.AssertWhole("the history changes")
	f.flush()
	if f.log != nil {
		f.endLog()
		f.core.RemoveSink(f.sink)
	}
	f.history, f.departed = newHistory(), nil
	f.moveTo(offset)
	f.acks.again()
}

// End returns the offset at which this primary's stream ends, when the server ends. ok is false if replicas may have
// more than this server. Turn only.
func (f *Feed) End() (offset int64, ok bool) {
	return f.offset, !f.following && (!f.withheld || f.loaded.whole) && f.settings.MinAck.Get() > 0
}
