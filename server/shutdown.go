package server

import (
	"math"
	"time"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/protocol"
)

// A shutdown takes the server from the wish to end to the point where nothing can be lost any more.
//
// It runs in turns. With replicas that lag it first holds writes back and gives them shutdown-timeout seconds; then it
// saves, if asked to or if save rules exist, and only then lets go.
type shutdown struct {
	in      *instance
	log     *logging.Logger
	mode    process.ShutdownMode
	asked   bool // a signal waits for the next tick, because DEBUG PAUSE-CRON holds ticks back
	askedAs process.ShutdownMode
	waiting bool
	until   int64            // Unix ms: how long lagging replicas are waited for
	callers []*client.Client // blocked in SHUTDOWN
	over    bool
	done    chan struct{} // closed when the process may end
}

var (
	errShutdown   = protocol.Errorf("ERR", "Errors trying to SHUTDOWN. Check logs.")
	errNoShutdown = protocol.Errorf("ERR", "No shutdown in progress.")
)

// Family is SHUTDOWN.
func (s *shutdown) Family() command.Family {
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "shutdown", Arity: -1, Flags: command.Admin | command.NoScript | command.Loading | command.Stale |
			command.NoMulti |
			command.AllowBusy | command.Sentinel, Run: s.run},
	}}
}

// run is SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]. It replies only when there is no shutdown, or no more.
func (s *shutdown) run(c *command.Context) error {
	mode, abort := process.ShutdownMode(0), false
	for _, arg := range c.Args[1:] {
		switch {
		case command.Is(arg, "NOSAVE") && mode&process.ShutdownSave == 0:
			mode |= process.ShutdownNoSave
		case command.Is(arg, "SAVE") && mode&process.ShutdownNoSave == 0:
			mode |= process.ShutdownSave
		case command.Is(arg, "NOW"):
			mode |= process.ShutdownNow
		case command.Is(arg, "FORCE"):
			mode |= process.ShutdownForce
		case command.Is(arg, "ABORT") && len(c.Args) == 2:
			abort = true
		default:
			return protocol.ErrSyntax
		}
	}
	if abort {
		return s.abort(c)
	}
	if c.Client.Is(client.DenyBlocking | client.Multi) {
		return protocol.Errorf("ERR", "SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client")
	}
	if busy := s.in.core.Busy(); busy != nil && mode&process.ShutdownNoSave == 0 {
		return busy
	}
	return s.request(c, mode)
}

// request begins a shutdown for a client, or for a signal when c is nil.
func (s *shutdown) request(c *command.Context, mode process.ShutdownMode) error {
	if s.over {
		return nil
	}
	if s.in.core.Loading() || s.in.asSentinel {
		mode = mode&^process.ShutdownSave | process.ShutdownNoSave // what is in memory is a part of what is on disk
	}
	if s.in.holdsFiles() && mode&process.ShutdownNoSave == 0 {
		s.log.Warning("The data here are not whole: a copy of the primary's is being loaded, or could not be. " +
			"They are not saved: what is on disk stays.")
		mode = mode&^process.ShutdownSave | process.ShutdownNoSave
	}
	if s.in.core.Lent() {
		// Half of what a script writes is not saved, and no tick comes.
		mode = mode&^process.ShutdownSave | process.ShutdownNoSave | process.ShutdownNow
	}
	s.mode = mode
	if !s.waiting {
		s.log.Notice("User requested shutdown...")
		if lagging := s.in.feed.Lagging(); lagging > 0 && mode&process.ShutdownNow == 0 &&
			s.in.settings.Process.ShutdownWait.Get() > 0 {
			s.waiting = true
			s.until = s.in.core.Now() + s.in.settings.Process.ShutdownWait.Get()*1000
			s.log.Notice("Waiting for replicas before shutting down.")
			s.in.core.Pause(engine.PauseShutdown, false, s.until+1000)
			s.in.feed.Prompt()
		}
	}
	wait := s.waiting && mode&process.ShutdownNow == 0
	if !wait && !s.finish() {
		s.fail()
		return errShutdown
	}
	if c != nil { // who asked hears no more, unless the shutdown is given up
		c.Core.Block(c, command.Wait{})
		s.callers = append(s.callers, c.Client)
	}
	return nil
}

// signalled is a signal's wish. It waits for the tick behind a script that runs: half of what that writes must not be
// saved, and nothing may be lost. Turn only.
func (s *shutdown) signalled(mode process.ShutdownMode) {
	if s.in.core.Lent() || s.in.core.CronPaused() && !s.in.core.Loading() {
		s.asked, s.askedAs = true, mode
		return
	}
	if s.request(nil, mode) != nil {
		s.in.signals.Refused()
	}
}

// tick looks whether the replicas that were waited for have caught up, ten times a second.
func (s *shutdown) tick(nowMs int64) {
	if s.asked {
		s.asked = false
		s.signalled(s.askedAs)
	}
	if !s.waiting || (nowMs < s.until && s.in.feed.Lagging() > 0) {
		return
	}
	if !s.finish() {
		s.fail()
		s.in.signals.Refused()
	}
}

// fail is the end of a shutdown that cannot be: the log has just told why.
func (s *shutdown) fail() {
	s.log.Warning("Errors trying to shut down the server. Check the logs for more information.")
	s.release(errShutdown)
}

// finish saves and lets the process end; false if that failed and the server goes on.
func (s *shutdown) finish() bool {
	s.in.feed.LogLag()
	endLog, ok := s.endLog()
	if !ok {
		return false
	}
	wait := s.in.scheduler.AbortAndWait("the server shuts down")
	save := s.mode&process.ShutdownSave != 0 || (s.in.scheduler.Saving() && s.mode&process.ShutdownNoSave == 0)
	if save {
		s.log.Notice("Saving the final RDB snapshot before exiting.")
		s.in.supervisor.Status("Saving the final RDB snapshot", "")
		if err := s.in.scheduler.Now(); err != nil {
			if s.mode&process.ShutdownForce == 0 {
				s.log.Warning("Error trying to save the DB, can't exit.")
				s.in.supervisor.Status("Error trying to save the DB, can't exit.", "")
				return false
			}
			s.log.Warning("Error trying to save the DB. Exit anyway.")
		}
	}
	s.over, s.waiting = true, false
	// What was written now would be lost, and must not be promised.
	s.in.core.Halt()
	s.in.core.Pause(engine.PauseShutdown, true, math.MaxInt64)
	s.in.stopLoading()
	go func() {
		wait(time.Second)
		endLog(logPatience)
		close(s.done)
	}()
	return true
}

// abort is SHUTDOWN ABORT.
func (s *shutdown) abort(c *command.Context) error {
	if !s.waiting && !s.asked {
		return errNoShutdown
	}
	s.asked = false
	s.log.Notice("Shutdown manually aborted.")
	s.release(errShutdown)
	s.in.signals.Refused()
	c.Reply.OK()
	return nil
}

// release lets everything go on: the shutdown does not happen.
func (s *shutdown) release(err error) {
	s.waiting, s.until = false, 0
	s.in.core.Unpause(engine.PauseShutdown)
	s.in.feed.Resume()
	for _, cl := range s.callers {
		s.in.core.Answer(cl, func(c *command.Context) { c.Reply.Error(err) })
	}
	s.callers = nil
}

// remaining is INFO's shutdown_in_milliseconds: -1 when none is under way.
func (s *shutdown) remaining() int64 {
	if !s.waiting {
		return -1
	}
	return max(0, s.until-s.in.core.Now())
}
