package replication

import (
	"slices"
	"strconv"

	"spindle/engine/client"
	"spindle/protocol"
)

// The feed's history as the role of this server changes. While it follows, the core does not know this sink: what
// runs here is in the stream already (replication.H1).

// follow has the stream come from a primary: forward makes it, and nothing else does.
func (f *Feed) follow() {
	if f.following {
		return
	}
	f.flush()
	if f.log == nil {
		f.log = newBacklog(f.settings.BacklogSize.Get(), f.offset)
	} else {
		f.core.RemoveSink(f)
	}
	f.following, f.asking = true, false
}

// lead has the stream come from this server's core again.
func (f *Feed) lead() {
	f.following, f.selected, f.idleSinceMs = false, -1, f.core.SteadyMs()
	f.core.AddSink(f, client.ToReplicas)
}

// forward appends what was applied of the primary's stream.
func (f *Feed) forward(p []byte) {
	f.write(p)
	f.flush()
}

// restart begins another stream: that of history id, behind offset.
func (f *Feed) restart(id string, offset int64) {
	f.core.AssertWhole("the history changes")
	f.flush()
	f.dismissReplicas()
	f.ID, f.offset = id, offset
	f.shown.Store(offset)
	f.forgetID2()
	f.specialAt = 0
	clear(f.tooOld)
	f.log.rebase(offset)
	f.noteBacklog()
}

// rename says that the primary goes on under another name: it was promoted.
func (f *Feed) rename(id string) {
	f.core.AssertWhole("the history is renamed")
	f.ID2, f.secondOffset = f.ID, f.offset+1
	f.ID = id
	f.dismissReplicas()
}

// dismissReplicas closes all of them: they come back, and learn what has changed.
func (f *Feed) dismissReplicas() {
	for _, r := range slices.Clone(f.replicas) {
		f.core.Expel(r.cl, false)
	}
}

// Lapses are the keys of a file that were past their deadline when it was loaded: who has followed this server up to
// the file's offset has them still. What removes them is the stream's beginning.
type Lapses struct {
	feed     *Feed
	any      bool
	selected int
	pending  []byte // not in the stream yet
}

// lapsesAtOnce is how many bytes of removals one turn takes over.
const lapsesAtOnce = 64 << 10

// BeginLoad readies a primary's stream for what its file lacks. Turn only.
func (f *Feed) BeginLoad() *Lapses {
	f.log, f.beginning = newBacklog(f.settings.BacklogSize.Get(), f.offset), true
	return &Lapses{feed: f, selected: -1}
}

// Add says that key of db was not loaded. verb removes a key. It is called outside the turn, by one goroutine.
func (l *Lapses) Add(db int, verb string, key []byte) {
	if db != l.selected {
		l.selected = db
		l.pending = protocol.AppendCommand(l.pending, [][]byte{[]byte("SELECT"), strconv.AppendInt(nil, int64(db), 10)})
	}
	if l.pending = protocol.AppendCommand(l.pending, [][]byte{[]byte(verb), key}); len(l.pending) >= lapsesAtOnce {
		l.feed.core.Do(l.settle)
	}
}

// settle puts what has come into the stream. Turn only.
func (l *Lapses) settle() {
	if len(l.pending) > 0 {
		l.feed.forward(l.pending)
	}
	l.pending = l.pending[:0]
}

// End closes the stream's beginning. The data are history id up to offset: this server goes on under a new name, and
// whoever followed it up to there may go on. Without an id nobody can. Turn only.
func (l *Lapses) End(id string, offset int64) {
	f := l.feed
	l.settle()
	f.beginning, f.idleSinceMs = false, f.core.SteadyMs()
	if id == "" {
		f.log.free()
		f.log = nil
		f.noteBacklog()
		f.offset = 0
		f.shown.Store(0)
		return
	}
	f.ID2, f.secondOffset = id, offset+1
	f.offset += offset
	f.shown.Store(f.offset)
	f.log.end += offset
	f.lead()
}

// State is what a file says of the history: name, offset and the stream's database. Not ok: there is nothing to go on
// from.
func (f *Feed) State() (id string, offset int64, db int, ok bool) {
	f.flush()
	switch {
	case f.following:
		return f.ID, f.offset, f.StreamDB(), f.follower.known
	case f.log != nil:
		return f.ID, f.offset, max(f.selected, 0), true
	}
	return "", 0, 0, false
}

// StreamDB is the database that the stream stands in, for whoever begins to read it here. A primary's own says SELECT
// first.
func (f *Feed) StreamDB() int {
	if f.following {
		return f.follower.StreamDB()
	}
	return 0
}
