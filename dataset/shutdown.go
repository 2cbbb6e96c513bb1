package dataset

import (
	"math"
	"time"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/protocol"
)

// A Shutdown brings the server to the point where no data can be lost any more.
//
// It runs in turns. If replicas lag, it first pauses writes and gives the replicas shutdown-timeout seconds. With
// FAILOVER it then tells a replica that has the whole stream to take over, and waits until that replica has. Then it
// saves, if the client asked for that or save rules exist. Only then may the process end.
type Shutdown struct {
	d       *Set
	log     *logging.Logger
	mode    process.ShutdownMode
	asked   bool // a signal waits for the next tick, because DEBUG PAUSE-CRON holds ticks back
	askedAs process.ShutdownMode
	waiting bool
	handing int64         // end of the wait for the heir, by Core.SteadyMs; 0: no heir was told
	handed  bool          // an heir has taken over
	until   int64         // end of the wait for lagging replicas, by Core.SteadyMs
	refuse  []func(error) // functions that tell clients in SHUTDOWN that it is given up
	over    bool
	Done    chan struct{} // closed when the process may end
}

// Family returns SHUTDOWN.
func (s *Shutdown) Family() command.Family {
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "shutdown", Arity: -1, Flags: command.Admin | command.NoScript | command.Loading | command.Stale |
			command.NoMulti |
			command.AllowBusy | command.Sentinel, Run: s.run},
	}}
}

// run runs SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [SAFE] [FAILOVER] [ABORT]. It replies only if there is no shutdown, or
// if the shutdown is given up.
func (s *Shutdown) run(c *command.Context) error {
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
		case command.Is(arg, "SAFE"):
			mode |= process.ShutdownSafe
		case command.Is(arg, "FAILOVER"):
			mode |= process.ShutdownFailover
		case command.Is(arg, "ABORT") && len(c.Args) == 2:
			abort = true
		default:
			return protocol.ErrSyntax
		}
	}
	if abort {
		return s.abort(c)
	}
	if mode&process.ShutdownFailover != 0 && !s.d.Cluster {
		return errNoCluster
	}
	if c.Client.Is(client.DenyBlocking | client.Multi) {
		return errShutdownWaits
	}
	if busy := s.d.Core.Busy(); busy != nil && mode&process.ShutdownNoSave == 0 {
		return busy
	}
	cl := c.Client
	err := s.Request(mode, func(err error) {
		s.d.Core.Answer(cl, func(c *command.Context) { c.Reply.Error(err) })
	})
	if err == nil {
		c.Core.Block(c, command.Wait{})
	}
	return err
}

// Request begins a shutdown. If it is given up later, refuse is called once, in a turn. Turn only.
//
// While a shutdown waits for replicas, it stays as it was asked for. A further request with NOW only ends the wait, but
// may say SAVE or NOSAVE.
func (s *Shutdown) Request(mode process.ShutdownMode, refuse func(error)) error {
	const saving = process.ShutdownSave | process.ShutdownNoSave
	switch {
	case s.over:
		return nil
	case s.waiting && mode&process.ShutdownNow == 0:
		s.refuse = append(s.refuse, refuse)
		return nil
	case s.waiting && mode&saving == 0:
		mode |= s.mode
	case s.waiting:
		mode |= s.mode &^ saving
	}
	if s.d.Core.Loading() || s.d.Sentinel {
		mode = mode&^process.ShutdownSave | process.ShutdownNoSave // memory has only a part of the data on disk
	}
	if s.d.holdsFiles() && mode&process.ShutdownNoSave == 0 {
		s.log.Warning("The data here are not whole: a copy of the primary's is being loaded, or could not be. " +
			"They are not saved: what is on disk stays.")
		mode = mode&^process.ShutdownSave | process.ShutdownNoSave
	}
	if s.d.Core.Lent() {
		// Half of a script's writes must not be saved, and no tick will come.
		mode = mode&^process.ShutdownSave | process.ShutdownNoSave | process.ShutdownNow
	}
	s.mode = mode
	if !s.waiting {
		s.log.Notice("User requested shutdown...")
		s.d.Notices.Leaving()
		lagging := s.d.Feed.Lagging()
		if (lagging > 0 || s.handsOver()) && mode&process.ShutdownNow == 0 && s.d.ShutdownWait() > 0 {
			s.waiting = true
			s.until = s.d.Core.SteadyMs() + s.d.ShutdownWait()*1000
			if lagging > 0 {
				s.log.Notice("Waiting for replicas before shutting down.")
			}
			s.d.Core.Pause(engine.PauseShutdown, false, s.until+1000)
			s.d.Feed.Prompt()
		}
	}
	wait := s.waiting && mode&process.ShutdownNow == 0
	if !wait && !s.finish() {
		s.fail()
		return errShutdown
	}
	s.refuse = append(s.refuse, refuse)
	return nil
}

// Signalled begins the shutdown that a signal asks for. A running script ends first, because half of its writes must
// not be saved, and no unit may be lost. Turn only.
func (s *Shutdown) Signalled(mode process.ShutdownMode) {
	if s.d.Core.Lent() || s.d.Core.CronPaused() && !s.d.Core.Loading() {
		s.asked, s.askedAs = true, mode
		return
	}
	if s.Request(mode, func(error) {}) != nil {
		s.d.Refused()
	}
}

// tick checks whether the lagging replicas have caught up, ten times a second.
func (s *Shutdown) tick(int64) {
	if s.asked {
		s.asked = false
		s.Signalled(s.askedAs)
	}
	if !s.waiting || s.handing == 0 && s.Remaining() > 0 && s.d.Feed.Lagging() > 0 || s.handOver() {
		return
	}
	if !s.finish() {
		s.fail()
		s.d.Refused()
	}
}

// handsOver reports whether the shutdown must hand over to a replica, if there is one.
func (s *Shutdown) handsOver() bool {
	return s.mode&process.ShutdownFailover != 0 && s.d.Cluster && !s.d.Follower.Following() && s.d.Feed.Replicas() > 0
}

// handOverMs is how long an heir may take to win its election.
const handOverMs = 5000

// handOver tells an heir to take over, once. It reports whether the shutdown still waits for the heir.
func (s *Shutdown) handOver() (waits bool) {
	now := s.d.Core.SteadyMs()
	switch {
	case s.handing != 0 && !s.handed && s.d.Follower.Following():
		s.handed = true
		s.d.Core.Unpause(engine.PauseShutdown)
		return true // until the next tick, so that clients with held writes learn where to go
	case s.handed:
		return false
	case s.handing != 0: // an heir that has won closes its link before this node learns of it
		return now < s.handing
	case !s.handsOver():
		return false
	case s.d.handsOver() && s.Remaining() > 0: // the heir and the slots' next owner could both serve them
		return true
	case s.d.handsOver():
		s.log.Warning("No replica is told to take over: slots are being handed over.")
		return false
	}
	s.handing = now
	at, ok := s.d.Feed.Heir()
	id := ""
	if ok {
		id = s.d.Heir(at)
	}
	if id == "" {
		s.log.Warning("No replica can take over: none has the whole stream and understands the order.")
		return false
	}
	s.log.Notice("Telling replica %s (%s:%d) to take over before this server ends.", id, at.Host, at.Port)
	s.handing = now + handOverMs
	s.d.Core.Pause(engine.PauseShutdown, false, s.handing+1000)
	s.d.Core.Between(func() { // DEBUG LOADAOF may be under way
		if s.handing != 0 { // else the shutdown has been given up
			s.d.Core.TellReplicas([]byte("CLUSTER"), []byte("FAILOVER"), []byte("FORCE"), []byte("REPLICAID"), []byte(id))
		}
	})
	return true
}

// fail gives up a shutdown that failed. The log already has the reason.
func (s *Shutdown) fail() {
	s.log.Warning("Errors trying to shut down the server. Check the logs for more information.")
	s.release(errShutdown)
}

// finish saves and lets the process end. It returns false if the save failed; the server then continues.
func (s *Shutdown) finish() bool {
	s.d.Feed.LogLag()
	if s.mode&process.ShutdownSafe != 0 && s.d.Serves() {
		s.log.Warning("This primary serves slots, and the cluster may go down without it. Can't exit.")
		if s.mode&process.ShutdownForce == 0 {
			return false
		}
	}
	if s.handing != 0 && (s.d.Core.Loading() || s.d.holdsFiles()) { // a copy of the new primary's data
		s.mode = s.mode&^process.ShutdownSave | process.ShutdownNoSave
	}
	endLog, ok := s.endLog()
	if !ok {
		return false
	}
	wait := s.d.Scheduler.AbortAndWait("the server shuts down")
	save := s.mode&process.ShutdownSave != 0 || (s.d.Scheduler.Saving() && s.mode&process.ShutdownNoSave == 0)
	saved := false
	if save {
		s.log.Notice("Saving the final RDB snapshot before exiting.")
		s.d.Supervisor().Status("Saving the final RDB snapshot", "")
		err := s.d.Scheduler.Now()
		if saved = err == nil; !saved {
			if s.mode&process.ShutdownForce == 0 {
				s.log.Warning("Error trying to save the DB, can't exit.")
				s.d.Supervisor().Status("Error trying to save the DB, can't exit.", "")
				return false
			}
			s.log.Warning("Error trying to save the DB. Exit anyway.")
		}
	}
	s.d.Feed.HoldStill(true) // a PING after the end would leave replicas ahead of it
	// If the log is on, the next process loads the log, which names no offset.
	endStream := s.d.Ends.EndStream(saved && !s.d.Settings.Log.On.Get())
	end, ok := s.d.Feed.End()
	ok = ok && s.d.Cluster && s.d.Settings.Log.On.Get() && !s.d.Core.Loading() && !s.d.holdsFiles()
	s.over, s.waiting = true, false
	// A later write would be lost, so no client may get OK for it.
	s.d.Feed.EndAcks()
	s.d.Core.Halt()
	s.d.Core.Pause(engine.PauseShutdown, true, math.MaxInt64)
	s.d.stopLoading()
	go func() {
		wait(time.Second)
		endLog(logPatience)
		if ok {
			s.d.AOF.NoteEnd(end)
		}
		endStream()
		bgsave.RemoveTemporaries() // of a full copy that is under way; nothing waits for its link
		close(s.Done)
	}()
	return true
}

// abort runs SHUTDOWN ABORT.
func (s *Shutdown) abort(c *command.Context) error {
	if !s.waiting && !s.asked {
		return errNoShutdown
	}
	s.asked = false
	s.log.Notice("Shutdown manually aborted.")
	s.release(errShutdown)
	s.d.Refused()
	c.Reply.OK()
	return nil
}

// release ends the pause of writes, because the shutdown is given up.
func (s *Shutdown) release(err error) {
	s.waiting, s.until, s.handing, s.handed = false, 0, 0, false
	s.d.Core.Unpause(engine.PauseShutdown)
	s.d.Feed.Resume()
	for _, refuse := range s.refuse {
		refuse(err)
	}
	s.refuse = nil
}

// Remaining returns INFO's shutdown_in_milliseconds, or -1 without a shutdown.
func (s *Shutdown) Remaining() int64 {
	if !s.waiting {
		return -1
	}
	return max(0, s.until-s.d.Core.SteadyMs())
}

// endLog writes the rest of the log when the server ends. It returns false if the server must not end, because the
// data set is not on disk yet. Turn only.
func (s *Shutdown) endLog() (wait func(limit time.Duration), ok bool) {
	if s.d.AOF.Waiting() && s.d.AOF.Rewriting() {
		if s.mode&process.ShutdownForce == 0 {
			s.log.Warning("Writing initial AOF, can't exit.")
			s.d.Supervisor().Tell("STATUS=Writing initial AOF, can't exit.\n")
			return nil, false
		}
		s.log.Warning("Writing initial AOF. Exit anyway.")
	}
	return s.d.AOF.Close(), true
}

// logPatience is how long an ending server waits for the disk to store the rest of the log.
const logPatience = time.Duration(math.MaxInt64)

// Waiting reports whether a shutdown waits for lagging replicas.
func (s *Shutdown) Waiting() bool { return s.waiting }
