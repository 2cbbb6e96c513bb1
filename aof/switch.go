package aof

import (
	"os"
	"time"

	"spindle/engine/client"
	"spindle/internal/reason"
)

// distrust ends a file whose sync has failed, because it is unknown which of the file's bytes are on disk. Later
// effects go to another file. The files stay as they are until a rewrite has made a new data set.
func (l *Log) distrust(why error) {
	if !l.attached {
		return
	}
	l.parts.Log.Warning("What was written to the AOF since the last sync may be lost: a rewrite makes a new one.")
	l.abortRewrite("the file that it continues cannot be believed")
	l.failBackup(why)
	if l.state == off {
		return // the log was on only for the backup
	}
	l.detach()
	l.state = waiting
	l.w.abandon()
	l.rw.scheduled = true
}

// attach makes the log a sink of the core, which then gets all effects.
func (l *Log) attach() {
	l.selected, l.stamped = -1, 0
	if !l.attached {
		l.parts.Core.AddSink(l, client.ToLog)
		l.attached = true
	}
}

func (l *Log) detach() {
	if l.attached {
		l.parts.Core.RemoveSink(l)
		l.attached = false
		l.relax()
	}
}

// TurnOn is CONFIG SET appendonly yes. A rewrite begins, at once or as soon as it is allowed.
//
// Errors: those of Claim; the system's, if no file can be made in the folder. They are logged.
func (l *Log) TurnOn() error {
	l.backup.own = false
	if l.state != off {
		return nil
	}
	if l.rw.job != nil {
		l.parts.Log.Notice("AOF was enabled but there is already an AOF rewriting in background. " +
			"Stopping background AOF and starting a rewrite now.")
		l.abortRewrite("")
	}
	l.Locate()
	err := l.Claim(0)
	if err == nil {
		err = l.tryFolder()
	}
	if err != nil {
		l.parts.Log.Warning("Redis needs to enable the AOF but can't trigger a background AOF rewrite operation. " +
			"Check the above logs for more info about the error.")
		return err
	}
	l.state = waiting
	const scheduled = "An AOF background was scheduled to start when possible."
	switch {
	case l.parts.Saving():
		l.rw.scheduled = true
		l.parts.Log.Notice("AOF was enabled but there is already another background operation. " + scheduled)
	case l.isHeld():
		l.rw.scheduled = true
		l.parts.Log.Notice("AOF was enabled while a copy of the primary's is loaded, or could not be. " + scheduled)
	case l.parts.Core.Transacting():
		l.rw.scheduled = true
		l.parts.Log.Notice("AOF was enabled during a transaction. " + scheduled)
	default:
		l.startRewrite()
	}
	return nil
}

// tryFolder makes the first file of a rewrite, to see whether files can be made in the folder. It removes the file
// again, because the rewrite may begin much later, or never. Like Claim it uses the disk inside the turn.
func (l *Log) tryFolder() error {
	f := l.folder
	there := f.exists(f.path(f.temporaryIncr())) // of a log that was just switched off; its writer removes the file
	file, err := f.disk.Open(f.path(f.temporaryIncr()), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		l.parts.Log.Warning("Can't open the append-only file %s: %s", f.temporaryIncr(), reason.Of(err))
		l.w.do(0, func() { go l.parts.Core.Do(l.giveBack) }) // after what a log that was just switched off has to write
		return err
	}
	err = file.Close()
	if !there {
		_ = f.disk.Remove(f.path(f.temporaryIncr()))
	}
	return err
}

// Suspend notes that a copy of a primary's data begins to replace the data set. Earlier effects are written and synced.
// The files then stay as they are: if the copy cannot be loaded, they still hold the old data set. A rewrite begins
// after Replaced, or when Held returns false.
func (l *Log) Suspend() {
	if l.state == off {
		return
	}
	l.abortRewrite("a copy of the primary's takes the place of what it reads")
	if l.failBackup(errOtherData); l.state == off {
		return
	}
	if l.state == on {
		l.flushTurn() // before the gate is no longer told of turns
		l.detach()
		l.w.finish()
	} else { // the collected effects have no base
		l.detach()
		l.w.abandon()
	}
	l.fresh, l.state, l.rw.scheduled = false, waiting, true
}

// Replaced notes that a primary's data have replaced the data set. The files stay as they are until a rewrite has made
// new ones.
func (l *Log) Replaced() {
	if l.state == off {
		return
	}
	l.abortRewrite("other data has taken the place of what it reads")
	if l.failBackup(errOtherData); l.state == off {
		return
	}
	l.detach()
	l.fresh, l.state = false, waiting
	l.w.abandon()
	if l.rw.scheduled = true; !l.parts.Saving() {
		l.startRewrite()
	}
}

func (l *Log) isHeld() bool { return l.parts.Held != nil && l.parts.Held() }

// TurnOff is CONFIG SET appendonly no. Earlier effects are written and synced, during later turns.
func (l *Log) TurnOff() {
	if l.state == off {
		return
	}
	l.abortRewrite("")
	if l.failBackup(errSwitchedOff); l.state == off {
		return
	}
	l.flushTurn() // before the gate is no longer told of turns
	l.detach()
	l.state, l.rw.scheduled = off, false
	l.w.finish()
	l.release()
	l.look()
	l.serveWaits()
}

// giveBack unlocks the log's files for other servers, if this server no longer uses them.
func (l *Log) giveBack() {
	if l.state == off && l.rw.job == nil {
		l.folder.unclaim()
	}
}

// flushTurn passes the effects of the present turn to the writer.
func (l *Log) flushTurn() {
	l.fresh = false
	l.w.publish(l.parts.Core.TurnNumber(), l.durable())
}

// Close is for a shutdown. It calls off a rewrite, and writes and syncs all effects. wait returns when that is done, or
// after limit. Close is called outside of turns.
func (l *Log) Close() (wait func(limit time.Duration)) {
	j := l.rw.job
	if j != nil {
		l.parts.Log.Warning("There is a child rewriting the AOF. Killing it!")
		l.abortRewrite("")
	}
	if l.state != off {
		l.flushTurn()
		l.parts.Log.Notice("Calling fsync() on the AOF file.")
	}
	done := l.w.last() // a log that was just turned off may not be on disk yet
	return func(limit time.Duration) {
		select {
		case <-done:
			if n := l.w.unwritten(); n > 0 {
				l.parts.Log.Warning("The last %d bytes of the AOF are lost: the disk did not take them.", n)
			}
		case <-time.After(limit):
			l.parts.Log.Warning("The disk does not take the last of the AOF within %s.", limit)
		}
		l.cleanUp(j)
	}
}

// NoteEnd notes in the manifest that the log has all data of a server that ends, whose stream ends at offset. It waits
// for the disk. It is called after the wait of Close. If the disk has failed, it notes nothing.
func (l *Log) NoteEnd(offset int64) {
	done := make(chan struct{})
	l.w.doAfterAll(func() {
		defer close(done)
		l.w.noteEnd(offset)
	})
	<-done
}

func (w *writer) noteEnd(offset int64) {
	s := w.lock()
	whole := s.buf.first >= s.ready && s.sync.synced >= s.ready && s.trouble.why() == ""
	w.unlock()
	n := len(w.manifest.incrs)
	if !whole || n == 0 || w.file.File == nil || w.file.temp {
		return
	}
	size, err := w.folder.size(w.manifest.incrs[n-1])
	if err != nil {
		return
	}
	m := w.manifest.clone()
	m.end = &ending{offset, size}
	_ = w.persist(m) // the log has the error
}

// rewritePatience is how long a server that ends waits for a rewrite to remove its files.
const rewritePatience = time.Second

// cleanUp waits for a rewrite that was called off. If the rewrite takes too long to stop, cleanUp removes its file.
func (l *Log) cleanUp(j *rewriting) {
	if j == nil {
		return
	}
	select {
	case <-j.gone:
	case <-time.After(rewritePatience):
		if temp := j.temp.Load(); temp != nil {
			_ = l.parts.Disk.Remove(*temp)
		}
	}
}

// Flush waits until all effects so far are in the files, so that DEBUG LOADAOF can read them. The files then stay as
// they are until release is called in a turn. No rewrite begins meanwhile, because the data set may be incomplete.
// release gets the result of Load, also after an error.
func (l *Log) Flush() (release func(found Loaded)) {
	if l.state != off {
		l.flushTurn()
	}
	l.reading = true
	done, goOn := l.w.drain()
	<-done
	return func(found Loaded) {
		l.reading = false
		l.reread(found)
		close(goOn)
	}
}

// reread prepares the log for its next effect after DEBUG LOADAOF. The writer's goroutine does not run during this
// call. The load or an operator may have shortened the file. So the file is measured again, and the next effect starts
// with a SELECT.
func (l *Log) reread(found Loaded) {
	l.selected, l.stamped = -1, 0
	l.w.measure()
	switch {
	case l.state != on || !found.there:
	case l.rw.job == nil:
		l.rw.old, l.rw.current = found.size, l.w.unwritten()
	default:
		l.rw.current = max(l.rw.current-found.cut, 0)
	}
}
