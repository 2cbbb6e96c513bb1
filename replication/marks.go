package replication

// diskMarks translate offsets of this server's AOF into offsets of the primary's stream, for FACK. They are in order.
// The first one is the last mark known to be on disk. If none is known to be, all marks wait for the disk.
type diskMarks []diskMark

// A diskMark says that the AOF ended at its offset log when it had the stream up to offset stream.
type diskMark struct{ log, stream int64 }

// diskMarksMost bounds the marks that wait for the disk. At the bound no new mark is made.
const diskMarksMost = 16

// confirmed returns the offset up to which the stream is known to be on disk. end is the stream's offset now. ok is
// false if no offset is known, or there is no AOF.
func (m *diskMarks) confirmed(disk Disk, end int64) (at int64, ok bool) {
	synced, logEnd, whole := disk.Confirmed()
	if !whole {
		*m = nil
		return 0, false
	}
	marks := *m
	if n := len(marks); n < diskMarksMost && (n == 0 || marks[n-1].log < logEnd || marks[n-1].stream < end) {
		marks = append(marks, diskMark{logEnd, end})
	}
	known := 0
	for known < len(marks) && marks[known].log <= synced {
		known++
	}
	*m = marks[max(0, known-1):]
	if known == 0 {
		return 0, false
	}
	return marks[known-1].stream, true
}
