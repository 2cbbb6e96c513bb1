package replication

import (
	"slices"

	"spindle/engine/client"
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
	f.following, f.selected, f.idleSinceMs = false, -1, f.core.Now()
	f.core.AddSink(f, client.ToReplicas)
}

// forward appends what was applied of the primary's stream.
func (f *Feed) forward(p []byte) {
	f.write(p)
	f.flush()
}

// restart begins another stream: that of history id, behind offset.
func (f *Feed) restart(id string, offset int64) {
	f.flush()
	f.dismissReplicas()
	f.ID, f.offset = id, offset
	f.forgetID2()
	f.log.rebase(offset)
	f.core.NoteStream(f.log.bytes())
}

// rename says that the primary goes on under another name: it was promoted.
func (f *Feed) rename(id string) {
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

// resumeAsPrimary goes on from the history that the data set was loaded from, under a new name: whoever followed it
// up to there may go on.
func (f *Feed) resumeAsPrimary(id string, offset int64) {
	f.ID2, f.secondOffset, f.offset = id, offset+1, offset
	f.keep()
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
