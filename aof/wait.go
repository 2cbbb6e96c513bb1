package aof

import (
	"cmp"
	"slices"

	"spindle/engine/client"
)

// A waiter is a client that waits until the disk has the log up to an offset.
type waiter struct {
	cl *client.Client
	at int64
}

// Synced implements replication.Disk: it reports whether all writes of cl are on disk.
func (l *Log) Synced(cl *client.Client) bool {
	s := l.w.lock()
	defer l.w.unlock()
	return l.state == on && s.sync.synced >= cl.LogOffset
}

// Confirmed implements replication.Disk.
func (l *Log) Confirmed() (synced, end int64, ok bool) {
	s := l.w.lock()
	defer l.w.unlock()
	return s.sync.synced, s.buf.end, l.state == on
}

// Await implements replication.Disk. It wakes cl when all writes of cl are on disk, or when the log is turned off.
// forget cancels the wait.
func (l *Log) Await(cl *client.Client) (forget func()) {
	w := waiter{cl, cl.LogOffset}
	at, _ := slices.BinarySearchFunc(l.waits, w, func(a, b waiter) int { return int(min(max(a.at-b.at, -1), 1)) })
	l.waits = slices.Insert(l.waits, at, w)
	l.awaitFirst()
	return func() {
		l.waits = slices.DeleteFunc(l.waits, func(other waiter) bool { return other == w })
	}
}

// Sync writes and syncs everything that was added so far, whatever appendfsync says. A write that has failed is tried
// once more. done is called in this turn or a later one. why is "" if the disk has everything, and the reason
// otherwise, mostly in the system's words. A log that is off, or is on only for a backup, has nothing to sync. The
// files of one that waits for its first base hold other data. Turn only.
func (l *Log) Sync(done func(why string)) {
	switch {
	case l.state == off || l.backup.own:
		done("")
	case l.state == on:
		l.w.syncAll(func(why string) { go l.parts.Core.Do(func() { done(why) }) })
	default:
		done(l.Lacks())
	}
}

// Lacks returns why the files do not hold the data set, while the log waits for its first base. It returns "" for any
// other log. Turn only.
func (l *Log) Lacks() string {
	if l.state != waiting || l.backup.own {
		return ""
	}
	return cmp.Or(l.w.refusal(), "its first base is not written yet")
}

// awaitFirst asks the writer for news when the writes of the first waiting client are on disk.
func (l *Log) awaitFirst() {
	s := l.w.lock()
	defer l.w.unlock()
	if s.sync.awaited = 0; len(l.waits) > 0 {
		s.sync.awaited = max(l.waits[0].at, 1)
	}
}

// serveWaits wakes the clients whose writes are on disk.
func (l *Log) serveWaits() {
	if len(l.waits) == 0 {
		return
	}
	var ready []*client.Client
	for _, w := range l.waits {
		if l.state == off || l.Synced(w.cl) {
			ready = append(ready, w.cl)
		}
	}
	for _, cl := range ready {
		l.parts.Core.Wake(cl) // its reply ends the wait, which removes it here
	}
	l.awaitFirst()
}
