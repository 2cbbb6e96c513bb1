package bgsave

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// Parts connects a Scheduler to its server.
type Parts struct {
	Settings *Settings
	Log      *logging.Logger
	Freeze   func() View    // keyspace.Keyspace.Freeze, called in a turn
	Dirty    func() int64   // changes since the start (engine.Core.Dirty), called in a turn
	Turn     func(f func()) // runs f in its own turn (engine.Core.Do); called by savers
	// BeforeReply runs f when no unit is open, and before the reply of the open unit leaves (engine.Core.BeforeReply).
	// It is called in a turn. If BeforeReply is nil, f runs at once.
	BeforeReply func(f func())
	Header      func() Header // facts about the server for the file, called in a turn
	// Clock is called in the turn that freezes the view; savers call its result (Options.Clock). If Clock or its result
	// is nil, no clocks are written.
	Clock func() ClockFunc
	// Retained returns how many bytes views keep from being freed (INFO's cow size). nil means 0.
	Retained func() int64
	// Busy reports whether a background task that must run alone, such as a rewrite, is running. Then a plain BGSAVE
	// does not start. nil means never.
	Busy func() bool
	// Held reports whether the data must not be saved, because a copy of the primary's data is being loaded, or its
	// load has failed. A save would replace a good file. nil means never.
	Held func() bool
	// Settled, if not nil, runs in the turn in which a save has ended and WritesStopped may have changed.
	Streaming func() bool // a full synchronisation is running, which INFO shows as a save; nil: never
	Settled   func()
	Now       func() time.Time // nil: time.Now
	Forks     func() int64     // other tasks for which Redis forks; nil: none
}

// retryAfter is how long the save rules pause after a failed save.
const retryAfter = 5 * time.Second

// ErrAborted is the cause of a cancelled save.
var ErrAborted = errors.New("called off")

// A Scheduler decides when a snapshot is saved, and knows the result of the last save. All methods but Progress run in
// turns.
//
// bgsave.S1. At most one save runs at a time, in the background or not.
// bgsave.S2. Changes counts the changes that are not in the file: those since the freeze of the last successful save.
// bgsave.S3. A cancelled save leaves status and times as they were.
type Scheduler struct {
	parts  Parts
	rules  func() []Rule
	job    *saving
	queued bool // BGSAVE SCHEDULE waits to start

	savedDirty int64 // value of Parts.Dirty that the file has
	lastSave   time.Time
	lastTry    time.Time
	failed     bool   // the last background save failed
	why        string // why the last background save has failed, in the system's words
	rests      bool   // the save was cut off because it kept too much memory; the next waits as after a failure
	lastSpan   time.Duration
	lastKept   int64 // greatest Retained during the last save
	saves      int64
	forks      int64 // background saves, for which Redis forks
	peak       int64 // greatest Retained so far

	current atomic.Pointer[Progress] // progress of the current save
}

// saving is a running background save.
type saving struct {
	began    time.Time
	dirty    int64
	progress Progress
	cancel   context.CancelCauseFunc
	gone     chan struct{} // closed when its goroutine has removed its files
	kept     int64
}

// NewScheduler returns a scheduler with these parts. The present data set counts as saved.
func NewScheduler(p Parts) *Scheduler {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.BeforeReply == nil {
		p.BeforeReply = func(f func()) { f() }
	}
	return &Scheduler{parts: p, rules: p.Settings.Rules.Get, lastSave: p.Now()}
}

// Loaded notes that the file holds the keyspace (after a start, DEBUG RELOAD, or a full copy through the disk).
func (s *Scheduler) Loaded() { s.savedDirty = s.parts.Dirty() }

// Replaced notes that other data, with this many keys, have replaced the keyspace, and that the file does not hold
// them. They count as that many changes, so that the rules save them.
func (s *Scheduler) Replaced(keys int64) {
	s.savedDirty = s.parts.Dirty() - max(keys, s.Changes(), 1)
}

// Changes returns how many changes are not in the file (bgsave.S2).
func (s *Scheduler) Changes() int64 { return s.parts.Dirty() - s.savedDirty }

// Progress returns how far the current save has come, in the background or not. It returns nil if none runs. Any
// goroutine may call it.
func (s *Scheduler) Progress() *Progress { return s.current.Load() }

// InProgress reports whether a background save is running.
func (s *Scheduler) InProgress() bool { return s.job != nil }

// LastSave returns when the last save succeeded. Before the first save, it returns when the server started.
func (s *Scheduler) LastSave() time.Time { return s.lastSave }

// WritesStopped reports whether writes must be refused with ErrStopWrites, because saving is configured and fails.
func (s *Scheduler) WritesStopped() bool {
	return s.failed && s.parts.Settings.StopWrites.Get() && len(s.rules()) > 0
}

// Saving reports whether save rules are configured. If they are, SHUTDOWN and FLUSHALL save.
func (s *Scheduler) Saving() bool { return len(s.rules()) > 0 }

// Tick checks the rules and the queued save, ten times a second.
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

// watch updates the figures of the memory that a save keeps from being freed.
func (s *Scheduler) watch() {
	if s.job == nil || s.parts.Retained == nil {
		return
	}
	s.job.kept = max(s.job.kept, s.parts.Retained())
	s.peak = max(s.peak, s.job.kept)
}

// Background runs BGSAVE: it starts a save, or queues it. queued says which of the two.
//
// With schedule or inTransaction, a save that cannot start now is queued.
// Errors: ErrInProgress, ErrHeld, ErrBusy.
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

// options returns the options for both kinds of save. It runs in the turn that freezes the view.
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
	f.Path = absolute(f.Path) // CONFIG SET dir must not move a running save
	return f, o
}

// start freezes the keyspace and starts the saver's goroutine.
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

// finished records the end of a background save.
func (s *Scheduler) finished(j *saving, err error) {
	if s.job != j {
		return // it was cancelled before
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
		s.failed, s.why = true, reason.Of(err)
	}
	s.settled()
}

func (s *Scheduler) settled() {
	if s.parts.Settled != nil {
		s.parts.Settled()
	}
}

// Failure returns why the last background save failed, in the system's words, or "" if it did not.
func (s *Scheduler) Failure() string {
	if !s.failed {
		return ""
	}
	return s.why
}

// Began returns when the current background save began, or the zero time without one.
func (s *Scheduler) Began() (at time.Time) {
	if s.job != nil {
		at = s.job.began
	}
	return at
}

// CutOff is Abort for a save that keeps too much memory alive. The rules then pause for some seconds.
func (s *Scheduler) CutOff(why string) {
	s.Abort(why)
	s.lastTry, s.rests = s.parts.Now(), true
}

// Abort cancels the current save. Its temporary file is removed soon (bgsave.S3). A queued save stays queued. why is
// for the log.
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

// Unschedule removes a queued save. It returns false if there is none.
func (s *Scheduler) Unschedule() (was bool) {
	was, s.queued = s.queued, false
	return was
}

// AbortAndWait is Abort for shutdown. wait, called outside turns, returns when the temporary file is gone, or after
// limit.
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

// Now saves before it returns, for SAVE, SHUTDOWN, FLUSHALL and DEBUG RELOAD. It blocks the turn meanwhile, as Redis
// does. rdb_saves counts only calls of Save.
// Errors: logged; ErrInProgress if a background save is running; ErrHeld.
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

// Save runs SAVE: it calls Now, and rdb_saves counts it.
func (s *Scheduler) Save() error {
	if s.job == nil && !s.held() {
		s.saves++
	}
	return s.Now()
}

// Flushed is called by FLUSHALL after it has removed this many keys, and before it counts them as changes.
//
// The current save is useless then. With save rules, an empty file replaces the old one, so that the old keys do not
// come back.
func (s *Scheduler) Flushed(removed int64) {
	s.Abort("the data set was flushed")
	if !s.Saving() {
		return
	}
	counted := false
	s.parts.BeforeReply(func() { // in a transaction or script it runs at the end of the unit
		if s.Now() == nil && !counted { // a failure is logged; the changes stay counted, so that a rule tries again
			s.savedDirty += removed
		}
	})
	counted = true
}
