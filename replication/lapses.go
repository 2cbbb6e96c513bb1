package replication

import (
	"strconv"

	"spindle/protocol"
)

// Lapses are the keys of a file that had expired when the file was loaded. A replica that followed this server up to
// the file's offset still has these keys. Commands that remove them become the stream's first bytes.
type Lapses struct {
	feed     *Feed
	selected int
	pending  []byte // not in the stream yet
}

// lapsesAtOnce is how many bytes of removals one turn adds to the stream.
const lapsesAtOnce = 64 << 10

// BeginLoad prepares a primary's stream for the removals. Turn only.
func (f *Feed) BeginLoad() *Lapses {
	f.beginLog()
	f.beginning = true
	return &Lapses{feed: f, selected: -1}
}

// Add notes that key of db was not loaded. verb is the command that removes a key. One goroutine calls Add, outside
// turns.
func (l *Lapses) Add(db int, verb string, key []byte) {
	if db != l.selected {
		l.selected = db
		l.pending = protocol.AppendCommand(l.pending, [][]byte{[]byte("SELECT"), strconv.AppendInt(nil, int64(db), 10)})
	}
	if l.pending = protocol.AppendCommand(l.pending, [][]byte{[]byte(verb), key}); len(l.pending) >= lapsesAtOnce {
		l.feed.core.Do(l.forward)
	}
}

// forward adds the removals to the stream. Turn only.
func (l *Lapses) forward() {
	if len(l.pending) > 0 {
		l.feed.forward(l.pending)
	}
	l.pending = l.pending[:0]
}

// End ends the removals. The data are history id up to offset. This server continues that history under a new name, and
// so may its replicas. Without an id no replica can continue. Turn only.
func (l *Lapses) End(id string, offset int64) {
	f := l.feed
	l.forward()
	f.beginning, f.idleSinceMs = false, f.core.SteadyMs()
	if id == "" {
		f.endLog()
		f.moveTo(0)
		f.acks.again()
		return
	}
	f.ID2, f.secondOffset = id, offset+1
	f.moveTo(f.offset + offset)
	f.log.end += offset
	f.lead()
	f.acks.again()
}
