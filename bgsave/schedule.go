package bgsave

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"spindle/internal/logging"
	"spindle/protocol"
)

// Parts is what a Scheduler is joined to.
type Parts struct {
	Settings *Settings
	Log      *logging.Logger
	Freeze   func() View    // keyspace.Keyspace.Freeze, in a turn
	Dirty    func() int64   // changes since the start (engine.Core.Dirty), in a turn
	Turn     func(f func()) // runs f in a turn of its own (engine.Core.Do); called by savers
	Between  func(f func()) // runs f while no unit is open (engine.Core.Between), in a turn; nil runs it at once
	Header   func() Header  // what a file says of the server now, in a turn
	// Clock is made in the turn that freezes, and asked by savers (Options.Clock); nil, or a nil answer, writes no clocks.
	Clock func() ClockFunc
	// Retained is how many bytes views keep from being freed now (INFO's cow size); nil is 0.
	Retained func() int64
	// Busy says that another background task keeps a plain BGSAVE from starting; nil is never. Views do not need it, it
	// is there for a rewrite that asks to be alone.
	Busy func() bool
	// Held says that the data here are not to be saved: a copy of the primary's is taking their place, or could not be
	// loaded and has left nothing. A save would replace a good file. nil is never.
	Held func() bool
	// Settled runs in the turn in which a save ended and WritesStopped may have changed; nil is nothing.
	Streaming func() bool // a full synchronisation is under way, which INFO shows as a save; nil: never
	Settled   func()
	Now       func() time.Time // nil is time.Now
	Forks     func() int64     // what else the reference forks for; nil is nothing
}

// retryAfter is how long after a failed save the rules are not looked at.
const retryAfter = 5 * time.Second

// Errors as clients match them.
var (
	ErrInProgress = &protocol.Error{Code: "ERR", Text: "Background save already in progress"}
	ErrBusy       = &protocol.Error{Code: "ERR", Text: "Another child process is active (AOF?): can't BGSAVE right now. " +
		"Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible."}
	ErrHeld = &protocol.Error{Code: "ERR", Text: "The data here are not whole: a copy of the primary's is being loaded, " +
		"or could not be. What is on disk stays until a copy has been loaded"}
	ErrSaveFailed = &protocol.Error{Code: "ERR", Text: ""}
	ErrStopWrites = &protocol.Error{Code: "MISCONF",
		Text: "Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. " +
			"Commands that may modify the data set are disabled, because this instance is configured to report errors during " +
			"writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). " +
			"Please check the Redis logs for details about the RDB error."}
)

// ErrAborted is the cause of a save that was called off.
var ErrAborted = errors.New("called off")

// A Scheduler decides when a snapshot is saved and knows how the last one went. Every method runs in a turn, but for
// Progress.
//
// bgsave.S1. At most one save at a time, in the background or not.
// bgsave.S2. Changes counts what the file does not have: those made since the freeze of the last save that succeeded.
// bgsave.S3. A save that was called off leaves status and times as they were.
type Scheduler struct {
	parts  Parts
	rules  func() []Rule
	job    *saving
	queued bool // BGSAVE SCHEDULE waits for its turn

	savedDirty int64 // Parts.Dirty of what the file has
	lastSave   time.Time
	lastTry    time.Time
	failed     bool // the last background save failed
	rests      bool // it was called off because of what it kept: the next one waits as behind a failure
	lastSpan   time.Duration
	lastKept   int64 // greatest Retained during the last one
	saves      int64
	forks      int64 // background saves: what the reference forks for
	peak       int64 // greatest Retained so far

	current atomic.Pointer[Progress] // of the save under way
}

// saving is a background save under way.
type saving struct {
	began    time.Time
	dirty    int64
	progress Progress
	cancel   context.CancelCauseFunc
	gone     chan struct{} // closed when its goroutine has put away its files
	kept     int64
}

// NewScheduler joins a scheduler to its server. The data set counts as saved now.
func NewScheduler(p Parts) *Scheduler {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Between == nil {
		p.Between = func(f func()) { f() }
	}
	return &Scheduler{parts: p, rules: p.Settings.Rules.Get, lastSave: p.Now()}
}

// Loaded says that the keyspace now is what the file holds (start, DEBUG RELOAD, a full copy that came by the disk).
func (s *Scheduler) Loaded() { s.savedDirty = s.parts.Dirty() }

// Replaced says that other data of so many keys have taken the keyspace's place, and that the file does not hold them.
// They count as that many changes, so that the rules save them.
func (s *Scheduler) Replaced(keys int64) {
	s.savedDirty = s.parts.Dirty() - max(keys, s.Changes(), 1)
}

// Changes is how many changes the file does not have (bgsave.S2).
func (s *Scheduler) Changes() int64 { return s.parts.Dirty() - s.savedDirty }

// Progress is how far the save under way has come, in the background or not; nil without one. Any goroutine may ask.
func (s *Scheduler) Progress() *Progress { return s.current.Load() }

// InProgress says whether a background save is under way.
func (s *Scheduler) InProgress() bool { return s.job != nil }

// LastSave is when the last save succeeded; at first, when the server started.
func (s *Scheduler) LastSave() time.Time { return s.lastSave }

// WritesStopped says that writes are to be refused with ErrStopWrites: saving is asked for, and does not work.
func (s *Scheduler) WritesStopped() bool {
	return s.failed && s.parts.Settings.StopWrites.Get() && len(s.rules()) > 0
}

// Saving says whether rules are configured: SHUTDOWN and FLUSHALL save then.
func (s *Scheduler) Saving() bool { return len(s.rules()) > 0 }

// Tick looks at the rules and at what is queued: ten times a second.
func (s *Scheduler) Tick() {
	s.watch()
	if s.job != nil || s.busy() || s.held() {
		return
	}
	now := s.parts.Now()
	rested := !s.failed && !s.rests || now.Sub(s.lastTry) > retryAfter
	if !rested {
		return
	}
	if s.queued {
		s.queued = false
		s.start()
		return
	}
	changes := s.Changes()
	for _, r := range s.rules() {
		if changes >= r.Changes && now.Sub(s.lastSave) > time.Duration(r.Seconds)*time.Second {
			s.parts.Log.Notice("%d changes in %d seconds. Saving...", r.Changes, r.Seconds)
			s.start()
			return
		}
	}
}

func (s *Scheduler) busy() bool { return s.parts.Busy != nil && s.parts.Busy() }

func (s *Scheduler) held() bool { return s.parts.Held != nil && s.parts.Held() }

// watch keeps the figures of what a save costs.
func (s *Scheduler) watch() {
	if s.job == nil || s.parts.Retained == nil {
		return
	}
	s.job.kept = max(s.job.kept, s.parts.Retained())
	s.peak = max(s.peak, s.job.kept)
}

// Background is BGSAVE: it starts a save, or queues it. queued says which.
//
// inTransaction and schedule queue what cannot start now. Errors: ErrInProgress, ErrHeld, ErrBusy.
func (s *Scheduler) Background(schedule, inTransaction bool) (queued bool, err error) {
	switch {
	case s.job != nil:
		return false, ErrInProgress
	case s.held():
		return false, ErrHeld
	case inTransaction || s.busy():
		if !schedule && !inTransaction {
			return false, ErrBusy
		}
		s.queued = true
		return true, nil
	}
	s.start()
	return false, nil
}

// options is what both kinds of save write. It runs in the turn that freezes.
func (s *Scheduler) options() (FileOptions, Options) {
	set := s.parts.Settings
	f := FileOptions{Path: set.FileName.Get(), Sync: set.IncrementalSync.Get(), Compression: set.FileCompression.Get(),
		Log: s.parts.Log}
	o := Options{
		Compress: set.Compress.Get(), Checksum: set.Checksum.Get(), Delay: set.SaveDelay.Get(),
		Newest: int(set.Version.Get()),
		Savers: int(set.SaverConcurrency.Get()), Header: s.parts.Header(),
	}
	if s.parts.Clock != nil {
		o.Clock = s.parts.Clock()
	}
	f.Path = absolute(f.Path) // CONFIG SET dir must not move a save under way
	return f, o
}

// start freezes and lets a saver write.
func (s *Scheduler) start() {
	ctx, cancel := context.WithCancelCause(context.Background())
	j := &saving{began: s.parts.Now(), dirty: s.parts.Dirty(), cancel: cancel, gone: make(chan struct{})}
	f, o := s.options()
	o.Progress = &j.progress
	v := s.parts.Freeze()
	j.progress.expect(v)
	s.job, s.lastTry, s.rests = j, j.began, false
	s.current.Store(&j.progress)
	s.saves++
	s.forks++
	s.parts.Log.Notice("Background saving started by pid %d", pid)
	go func() {
		size, err := SaveFile(ctx, v, f, o)
		v.Close()
		if err == nil {
			s.parts.Log.Notice("DB saved on disk (%d bytes)", size)
		}
		if ctx.Err() != nil && err != nil {
			err = context.Cause(ctx)
		}
		close(j.gone)
		s.parts.Turn(func() { s.finished(j, err) })
		cancel(nil)
	}()
}

// finished books the end of a background save.
func (s *Scheduler) finished(j *saving, err error) {
	if s.job != j {
		return // called off; nobody waits for it any more
	}
	s.watch()
	s.job = nil
	s.current.Store(nil)
	now := s.parts.Now()
	s.lastSpan, s.lastKept = max(now.Sub(j.began), 1), j.kept
	switch {
	case err == nil:
		s.parts.Log.Notice("Background saving terminated with success")
		s.savedDirty, s.lastSave, s.failed = j.dirty, now, false
	case errors.Is(err, ErrAborted):
	default:
		s.parts.Log.Warning("Background saving error")
		s.failed = true
	}
	s.settled()
}

func (s *Scheduler) settled() {
	if s.parts.Settled != nil {
		s.parts.Settled()
	}
}

// Began is when the save under way began; the zero time without one.
func (s *Scheduler) Began() (at time.Time) {
	if s.job != nil {
		at = s.job.began
	}
	return at
}

// CutOff is Abort for a save that keeps too much memory alive. The rules wait some seconds before they ask for another.
func (s *Scheduler) CutOff(why string) {
	s.Abort(why)
	s.lastTry, s.rests = s.parts.Now(), true
}

// Abort calls off the save that is under way: its temporary file goes away soon, bgsave.S3. A queued save stays queued.
// why is for the log.
func (s *Scheduler) Abort(why string) {
	if s.job == nil {
		return
	}
	s.parts.Log.Warning("Background saving called off: %s", why)
	s.job.cancel(ErrAborted)
	s.lastSpan = max(s.parts.Now().Sub(s.job.began), 1)
	s.job = nil
	s.current.Store(nil)
}

// AbortAndWait is Abort for a server that ends: the returned wait, called outside of any turn, holds until the
// temporary file is gone, but not longer than limit.
func (s *Scheduler) AbortAndWait(why string) (wait func(limit time.Duration)) {
	j := s.job
	s.queued = false
	s.Abort(why)
	return func(limit time.Duration) {
		if j == nil {
			return
		}
		select {
		case <-j.gone:
		case <-time.After(limit):
		}
	}
}

// Now saves before it returns: SAVE, SHUTDOWN, FLUSHALL, DEBUG RELOAD. The turn is held meanwhile, as the reference
// does. rdb_saves does not count it: Save does.
// Errors: logged; ErrInProgress if a background save is under way; ErrHeld.
func (s *Scheduler) Now() error {
	switch {
	case s.job != nil:
		return ErrInProgress
	case s.held():
		return ErrHeld
	}
	dirty := s.parts.Dirty()
	f, o := s.options()
	o.Delay = s.parts.Settings.SaveDelay.Get()
	o.Progress = &Progress{}
	v := s.parts.Freeze()
	o.Progress.expect(v)
	s.current.Store(o.Progress)
	_, err := SaveFile(context.Background(), v, f, o)
	s.current.Store(nil)
	v.Close()
	if err != nil {
		return err
	}
	s.parts.Log.Notice("DB saved on disk")
	s.savedDirty, s.lastSave, s.failed = dirty, s.parts.Now(), false
	s.settled()
	return nil
}

// Save is SAVE: Now, and it counts among the saves that were asked for.
func (s *Scheduler) Save() error {
	if s.job == nil && !s.held() {
		s.saves++
	}
	return s.Now()
}

// Flushed is called by FLUSHALL, which has just removed so many keys and has yet to count them as changes.
//
// A save under way is of no use any more. With save rules an empty file takes the old one's place, so that the old keys
// do not come back.
func (s *Scheduler) Flushed(removed int64) {
	s.Abort("the data set was flushed")
	if !s.Saving() {
		return
	}
	counted := false
	s.parts.Between(func() { // inside a transaction or a script, the file waits for the end of the unit
		if s.Now() == nil && !counted { // a failure is logged, and leaves the changes counted, so that a rule tries again
			s.savedDirty += removed
		}
	})
	counted = true
}
