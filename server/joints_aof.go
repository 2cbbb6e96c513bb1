package server

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"spindle/aof"
	"spindle/bgsave"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/config"
	"spindle/internal/process"
	"spindle/protocol"
	"spindle/replication"
)

// joinLog makes the append-only file, which is off until the data set is there.
func (in *instance) joinLog() {
	in.aof = aof.NewLog(aof.Parts{
		Core: in.core, Settings: &in.aofSettings, Log: in.log, Gate: in.gate,
		Dir: workingDir, Fatal: func() { os.Exit(1) },
		Base:    in.baseOptions,
		Saving:  func() bool { return in.scheduler.InProgress() },
		Held:    in.holdsFiles,
		Changed: func() { in.stopWrites() },
		Latency: in.logLatency, Room: in.logRoom,
	})
	in.sections = append(in.sections, in.aof.Sections()...)
}

// baseOptions are how the base of the append-only file is written. Turn only.
func (in *instance) baseOptions() bgsave.Options {
	o := bgsave.Options{
		Compress: in.save.Compress.Get(), Checksum: in.save.Checksum.Get(), Delay: in.save.SaveDelay.Get(),
		Newest: int(in.save.Version.Get()),
		Savers: int(in.save.SaverConcurrency.Get()), Header: in.header(), Clock: in.clockOf(),
	}
	return o
}

// logLatency tells the latency monitor of what the log has waited for.
func (in *instance) logLatency(event string, took time.Duration) {
	if limit := in.engine.LatencyThreshold.Get(); limit > 0 && took >= time.Duration(limit)*time.Millisecond {
		in.latency(event, took)
	}
}

// switchLog is CONFIG SET appendonly.
func (in *instance) switchLog() error {
	if in.aofSettings.On.Get() {
		if in.aof.TurnOn() != nil {
			return errTurnOn
		}
	} else {
		in.aof.TurnOff()
	}
	in.countThreads()
	return nil
}

// errTurnOn is what CONFIG SET appendonly yes answers when the log cannot be had.
var errTurnOn = errors.New("Unable to turn on AOF. Check server logs.")

// workingDir is where the process is, so that a later CONFIG SET dir moves no file that is in use.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// logTarget is how a log is loaded. A nil turn says that the caller holds one.
func (in *instance) logTarget(turn func(f func())) aof.Target {
	t := aof.Target{Replay: in.core.Replay, CanReplay: in.core.CanReplay, Turn: turn, Options: in.loadOptions}
	t.Into = func() bgsave.Inserter {
		if turn != nil {
			return &bgsave.Into{Space: in.space, Turn: turn, Functions: in.restoreLibrary}
		}
		held := in.core.OnBehalf() // the load of a base has two goroutines
		return &bgsave.Into{Space: in.space, Turn: held, Functions: func(source []byte) (err error) {
			held(func() { err = in.scripts.Restore(source, false) })
			return err
		}}
	}
	return t
}

// load reads the data set, while connections are answered with LOADING. Where there is none, nobody reads that:
// connections are served behind it. With appendonly the log is the data set, whatever other files there are.
//
// Errors: context.Canceled if a shutdown was asked for; config.ErrLogged. The server then stays in the loading state,
// because the data set is not whole. No client may read, change or save it until the process has ended.
func (in *instance) load() error {
	in.aof.Locate()
	if err := in.aof.ReadManifest(); err != nil {
		return config.ErrLogged
	}
	paths, read := []string{in.save.FileName.Get()}, in.loadSnapshot
	if in.aofSettings.On.Get() {
		paths, read = []string{in.aof.Path(), in.aofSettings.FileName.Get()}, in.loadLog // of before 7.0, the latter
	}
	if slices.ContainsFunc(paths, exists) {
		in.reactor.Serve()
	} else {
		defer in.reactor.Serve()
	}
	state, err := read()
	switch {
	case err == nil:
		in.core.Do(func() {
			in.core.SetLoading(false)
			in.tellHealth()
			in.countThreads()
			if !in.aofSettings.On.Get() { // what a log's increments hold is in no RDB file
				in.scheduler.Loaded()
			}
			in.follower.Start(state.ID, state.Offset, state.StreamDB)
			if in.cluster != nil {
				in.cluster.Start()
			}
		})
		return nil
	case errors.Is(err, context.Canceled):
		return err
	}
	return config.ErrLogged
}

// loadSnapshot reads the RDB file, if there is one. state is where it stands in the stream of a primary.
func (in *instance) loadSnapshot() (state bgsave.ReplicationState, err error) {
	path := in.save.FileName.Get()
	options := in.loadOptions(path)
	var lapses *replication.Lapses
	// On a replica it is for the primary to remove them.
	if options.KeepExpired = in.following.Of.Get().Host != ""; !options.KeepExpired {
		in.core.Do(func() { lapses = in.feed.BeginLoad() })
		options.Lapsed = func(db int, key []byte) { lapses.Add(db, in.wordOfExpiry(), key) }
	}
	found, err := bgsave.Load(in.loadContext, path, &bgsave.Into{Space: in.space, Turn: in.core.Do,
		Functions: in.restoreLibrary}, options)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state, err
	}
	if found.Replication != nil {
		state = *found.Replication
	}
	if lapses != nil {
		in.core.Do(func() { lapses.End(state.ID, state.Offset) })
	}
	return state, nil
}

// logPatienceAtStart is how long a server that ends may keep its log from the next.
const logPatienceAtStart = 2 * time.Second

// loadLog reads the append-only file, and begins to write it.
func (in *instance) loadLog() (state bgsave.ReplicationState, err error) {
	if err := in.aof.Claim(logPatienceAtStart); err != nil {
		return state, err
	}
	found, err := in.aof.Load(in.loadContext, in.logTarget(in.core.Do))
	if err != nil {
		return state, err
	}
	return state, in.aof.Open(found)
}

// loadAOF is DEBUG LOADAOF: the data set comes back from the log. Others hear LOADING meanwhile. It is one turn where
// the client cannot wait, and on a replica: what its primary sends must not be refused.
func (in *instance) loadAOF(c *command.Context) error {
	if in.core.Loading() {
		return protocol.ErrLoading
	}
	in.core.EndUnit()
	release := in.aof.Flush()
	in.scheduler.Abort("what it saves is replaced by the append-only file")
	in.whole.EmptyAllKeepingSaves(in.space)
	in.scripts.Clear()
	if c.Client.Is(client.DenyBlocking|client.Multi|client.Fake) || in.follower.Following() {
		in.space.Trusting = true
		found, err := in.aof.Load(context.Background(), in.logTarget(nil))
		in.space.Trusting = false
		release(found)
		if err = in.loadedAOF(found, err); err == nil {
			c.Reply.OK()
		}
		return err
	}
	cl := c.Client
	in.core.SetLoading(true)
	in.tellHealth()
	c.Core.Block(c, command.Wait{Busy: true})
	go func() {
		found, err := in.aof.Load(in.loadContext, in.logTarget(in.core.Do))
		in.core.Do(func() {
			release(found)
			if errors.Is(err, context.Canceled) {
				return // the server ends, and what is here is a part of the data set
			}
			in.core.SetLoading(false)
			in.tellHealth()
			in.countThreads()
			in.core.Answer(cl, func(c *command.Context) {
				if err := in.loadedAOF(found, err); err != nil {
					c.Reply.Error(err)
				} else {
					c.Reply.OK()
				}
			})
		})
	}()
	return nil
}

// loadedAOF ends DEBUG LOADAOF. It answers what the client is told, nil for OK. A log whose end was cut off is loaded,
// and the client is told to look at the server's log, as Redis does: there the load has told of the cut.
func (in *instance) loadedAOF(found aof.Loaded, err error) error {
	if err == nil {
		in.scheduler.Loaded()
	}
	if err != nil || found.Truncated() {
		return protocol.Errorf("ERR", "Error trying to load the AOF files, check server logs.")
	}
	in.log.Notice("Append Only File loaded by DEBUG LOADAOF")
	return nil
}

// endLog writes what the log still has, when the server ends. It answers false if that must not be: the data set is not
// on disk yet. Turn only.
func (s *shutdown) endLog() (wait func(limit time.Duration), ok bool) {
	if s.in.aof.Waiting() && s.in.aof.Rewriting() {
		if s.mode&process.ShutdownForce == 0 {
			s.log.Warning("Writing initial AOF, can't exit.")
			s.in.supervisor.Tell("STATUS=Writing initial AOF, can't exit.\n")
			return nil, false
		}
		s.log.Warning("Writing initial AOF. Exit anyway.")
	}
	return s.in.aof.Close(), true
}

// logPatience is how long a server that ends waits for the disk to take the last of the log.
const logPatience = time.Duration(math.MaxInt64)

// tickLog is the log's share of the tick.
func (in *instance) tickLog(nowMs int64) { in.aof.Tick(nowMs) }
