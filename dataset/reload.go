package dataset

import (
	"context"
	"errors"

	"spindle/aof"
	"spindle/bgsave"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/introspect"
	"spindle/protocol"
)

// Reload runs DEBUG RELOAD: it saves the data set and loads it again, in one turn.
func (d *Set) Reload(c *command.Context, o introspect.ReloadOptions) error {
	if d.Core.Loading() {
		return protocol.ErrLoading
	}
	if d.Core.Importing() && d.Follower.Following() {
		return errReload // the stream continues, and the keys that it has brought are in no file
	}
	d.Core.EndUnit()
	if !o.NoSave {
		if err := d.Scheduler.Now(); err != nil {
			if err == bgsave.ErrInProgress || err == bgsave.ErrHeld {
				return err
			}
			return bgsave.ErrSaveFailed // the log has the reason
		}
	}
	d.Scheduler.Abort("what it saves is replaced by the RDB file")
	if !o.NoFlush {
		d.Whole.EmptyAllKeepingSaves(d.Space)
		d.Scripts.Clear()
	}
	path := d.Settings.Save.FileName.Get()
	options := d.loadOptions(path)
	options.NoChecksum = options.NoChecksum || d.Saver.AnyChecksum
	options.KeepExpired = d.Follower.Following() // only the primary removes expired keys
	d.Space.Trusting = true
	turn := d.Core.OnBehalf() // the load uses two goroutines
	_, err := bgsave.Load(context.Background(), path, &bgsave.Into{
		Space: d.Space, Turn: turn, Replace: o.Merge,
		Functions: func(source []byte) (err error) {
			turn(func() { err = d.Scripts.Restore(source, o.Merge) })
			return err
		},
	}, options)
	d.Space.Trusting = false
	if err != nil { // a missing file is an error too
		return errLoadDump
	}
	d.Scheduler.Loaded()
	d.Log.Warning("DB reloaded by DEBUG RELOAD")
	return nil
}

// LoadAOF runs DEBUG LOADAOF: it loads the data set from the log again. Other clients get LOADING meanwhile. It takes
// one turn if the client cannot wait. It does so on a replica too, because the primary's stream must not be refused. A
// primary that must become a replica meanwhile becomes one after the load: the load is a unit (R6).
func (d *Set) LoadAOF(c *command.Context) error {
	if d.Core.Loading() {
		return protocol.ErrLoading
	}
	if d.Core.Importing() && d.Follower.Following() {
		return errReload
	}
	d.Core.EndUnit()
	release := d.AOF.Flush()
	d.Scheduler.Abort("what it saves is replaced by the append-only file")
	d.Whole.EmptyAllKeepingSaves(d.Space)
	d.Scripts.Clear()
	if c.Client.Is(client.DenyBlocking|client.Multi|client.Fake) || d.Follower.Following() {
		d.Space.Trusting = true
		found, err := d.AOF.Load(context.Background(), d.logTarget(nil))
		d.Space.Trusting = false
		release(found)
		if err = d.loadedAOF(found, err); err == nil {
			c.Reply.OK()
		}
		return err
	}
	cl := c.Client
	d.Core.BeginReload()
	d.Changed()
	c.Core.Block(c, command.Wait{Busy: true})
	go func() {
		found, err := d.AOF.Load(d.loadContext, d.logTarget(d.Core.Do))
		d.Core.Do(func() {
			release(found)
			if errors.Is(err, context.Canceled) {
				return // the server is ending with a partial data set
			}
			d.Core.EndReload(func() {
				d.Changed()
				d.Core.Answer(cl, func(c *command.Context) {
					if err := d.loadedAOF(found, err); err != nil {
						c.Reply.Error(err)
					} else {
						c.Reply.OK()
					}
				})
			})
		})
	}()
	return nil
}

// loadedAOF ends DEBUG LOADAOF. It returns the client's error, or nil for OK. A log with a damaged end is loaded, but
// the reply tells the client to look at the server's log, as in Redis.
func (d *Set) loadedAOF(found aof.Loaded, err error) error {
	if err == nil {
		d.Scheduler.Loaded()
	}
	if err != nil || found.Truncated() {
		return errLoadLog
	}
	d.Log.Notice("Append Only File loaded by DEBUG LOADAOF")
	return nil
}
