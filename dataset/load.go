package dataset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"spindle/aof"
	"spindle/bgsave"
	"spindle/internal/config"
	"spindle/internal/process"
	"spindle/replication"
)

// workingDir returns the process's present folder. With it, a later CONFIG SET dir does not move a file in use.
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

// logTarget returns the target for loading a log. A nil turn means that the caller holds a turn.
func (d *Set) logTarget(turn func(f func())) aof.Target {
	t := aof.Target{Replay: d.Core.Replay, CanReplay: d.Core.CanReplay, Turn: turn, Options: d.loadOptions}
	if !d.Cluster {
		t.DropSlots = d.Core.DropKeysIn
	}
	t.Into = func() bgsave.Inserter {
		if turn != nil {
			return &bgsave.Into{Space: d.Space, Turn: turn, Functions: d.restoreLibrary}
		}
		held := d.Core.OnBehalf() // the load of a base uses two goroutines
		return &bgsave.Into{Space: d.Space, Turn: held, Functions: func(source []byte) (err error) {
			held(func() { err = d.Scripts.Restore(source, false) })
			return err
		}}
	}
	return t
}

// Load reads the data set while connections get LOADING. If there is no file, connections are served only after Load,
// so no client gets LOADING. With appendonly the log is the data set, whatever other files exist.
//
// Errors: context.Canceled if a shutdown was requested; config.ErrLogged. Then the server stays in the loading state,
// because the data set is not complete. No client may read, change or save it until the process has ended.
func (d *Set) Load() error {
	if len(d.Settings.Save.Rules.Get()) > 0 {
		process.WarnOfFolder(d.Log)
	}
	d.AOF.Locate()
	if err := d.AOF.ReadManifest(); err != nil {
		return config.ErrLogged
	}
	paths, read := []string{d.Settings.Save.FileName.Get()}, d.loadSnapshot
	if d.Settings.Log.On.Get() {
		paths, read = []string{d.AOF.Path(), d.Settings.Log.FileName.Get()}, d.loadLog // the second is from before 7.0
	}
	if d.Settings.Log.Preload.Get() != "" {
		paths, read = []string{"."}, d.preload
	}
	if d.Settings.Log.Preload.Get() != "" || !d.Settings.Log.On.Get() {
		d.AOF.PassOver()
	}
	if slices.ContainsFunc(paths, exists) {
		d.Serve()
	} else {
		defer d.Serve()
	}
	kept := d.Feed.FindKept()
	state, err := read()
	switch {
	case err == nil:
		d.Core.Do(func() {
			d.Core.SetLoading(false)
			d.Changed()
			if !d.Settings.Log.On.Get() { // the log's increments are not in an RDB file
				d.Scheduler.Loaded()
			}
			d.Follower.Start(state.ID, state.Offset, state.StreamDB)
			d.Feed.Continue(kept, state.ID, state.Offset)
			d.Loaded()
		})
		return nil
	case errors.Is(err, context.Canceled):
		return err
	}
	return config.ErrLogged
}

// loadSnapshot reads the RDB file, if there is one. state is its position in a primary's stream.
func (d *Set) loadSnapshot() (state bgsave.ReplicationState, err error) {
	path := d.Settings.Save.FileName.Get()
	options := d.loadOptions(path)
	var lapses *replication.Lapses
	// On a replica, only the primary removes expired keys.
	if options.KeepExpired = d.Settings.Follow.Of.Get().Host != ""; !options.KeepExpired {
		d.Core.Do(func() { lapses = d.Feed.BeginLoad() })
		options.Lapsed = func(db int, key []byte) { lapses.Add(db, d.wordOfExpiry(), key) }
	}
	found, err := bgsave.Load(d.loadContext, path, &bgsave.Into{Space: d.Space, Turn: d.Core.Do,
		Functions: d.restoreLibrary}, options)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state, err
	}
	if found.Replication != nil {
		state = *found.Replication
	}
	if lapses != nil {
		d.Core.Do(func() { lapses.End(state.ID, state.Offset); d.Feed.NoteSnapshot(state.Offset) })
	}
	return state, nil
}

// logPatienceAtStart is how long this server waits for another server, which is ending, to unlock the log.
const logPatienceAtStart = 2 * time.Second

// loadLog reads the append-only file, and starts writing it.
func (d *Set) loadLog() (state bgsave.ReplicationState, err error) {
	if err := d.AOF.Claim(logPatienceAtStart); err != nil {
		return state, err
	}
	found, err := d.AOF.Load(d.loadContext, d.logTarget(d.Core.Do))
	if err != nil {
		return state, err
	}
	if err := d.AOF.Open(found); err != nil {
		return state, err
	}
	if offset, whole := found.Ended(); found.There() && d.Settings.Follow.Of.Get().Host == "" {
		d.Core.Do(func() { d.Feed.NoteLog(offset, whole && d.Settings.Feed.MinAck.Get() > 0) })
	}
	return state, nil
}

// preload reads the file of preload-file instead of the data set on disk. If the log is on, it then gets a new base.
func (d *Set) preload() (state bgsave.ReplicationState, err error) {
	kind, path, _ := strings.Cut(d.Settings.Log.Preload.Get(), ":")
	if kind == "aof" {
		err = d.AOF.LoadOther(d.loadContext, path, d.logTarget(d.Core.Do))
	} else {
		options := d.loadOptions(path)
		_, err = bgsave.Load(d.loadContext, path, &bgsave.Into{Space: d.Space, Turn: d.Core.Do,
			Functions: d.restoreLibrary}, options)
		if errors.Is(err, fs.ErrNotExist) {
			d.Log.Warning("preload-file: there is no %s", path)
		}
	}
	if err == nil && d.Settings.Log.On.Get() {
		d.Core.Do(func() { err = d.AOF.TurnOn() })
	}
	return state, err
}

// wordOfExpiry returns the command that removes expired keys on replicas.
func (d *Set) wordOfExpiry() string {
	if d.Common.LazyfreeExpire.Get() {
		return "UNLINK"
	}
	return "DEL"
}

// restoreLibrary loads a function library from a file, outside the turn.
func (d *Set) restoreLibrary(source []byte) (err error) {
	d.Core.Do(func() { err = d.Scripts.Restore(source, false) })
	return err
}
