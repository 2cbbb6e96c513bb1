package server

import (
	"errors"
	"io"
	"os"
	"strings"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
	"spindle/replication"
)

// This server as a replica: how it takes a full copy, and what its role forbids.

// newFollower joins the replica's side with the rest.
func (in *instance) newFollower() *replication.Follower {
	return replication.NewFollower(in.core, in.feed, &in.following, replication.FollowerParts{
		Taker: taker{in}, Dial: in.dialPrimary, Port: in.replicaPort,
		Changed:    func() { in.roleChanged() },
		Fatal:      func(why string) { panic(why) },
		PatienceMs: func() int64 { return in.feeding.Timeout.Get() * 1000 },
		Log:        in.log,
		Clustered:  in.clustering.Enabled.Get(),
	})
}

// roleBarriers are what a replica refuses: writes, and, if it is told to, everything that shows data while the link
// is down.
func (in *instance) roleBarriers() (all []*engine.Barrier) {
	readOnly := &engine.Barrier{Name: "read-only", Spares: true, Refuse: func(cl *client.Client, call engine.Call) error {
		if call.Flags&command.Write == 0 || cl.Is(client.Primary) {
			return nil
		}
		return protocol.ErrReadOnly
	}}
	stale := &engine.Barrier{Name: "stale", Refuse: func(cl *client.Client, call engine.Call) error {
		switch {
		case call.Flags&command.Stale != 0 || cl.Is(client.Primary):
			return nil
		case cl.Script != nil:
			return errStaleInScript
		}
		return protocol.ErrPrimaryDown
	}}
	beside := &engine.Barrier{Name: "async-loading", Refuse: func(cl *client.Client, call engine.Call) error {
		if call.Flags&command.NoAsyncLoading == 0 || cl.Is(client.Primary) {
			return nil
		}
		return protocol.ErrLoading
	}}
	in.roleChanged = func() {
		on := in.follower.Following()
		if in.asSentinel {
			return
		}
		if in.emptied && !on { // a primary's data set is its own, even if it is empty
			in.emptied = false
			in.aof.Replaced()
		}
		in.log.SetRole(map[bool]byte{false: 'M', true: 'S'}[on])
		in.core.Raise(readOnly, on && in.following.ReadOnly.Get())
		in.core.Raise(stale, in.isStale())
		in.core.Raise(beside, in.loading.Beside.Load())
		in.core.IgnoreMemoryLimit(on && in.following.IgnoreMemory.Get())
		_ = in.oom.Apply(on) // it has told the log
	}
	in.registry.Follow(func() { in.roleChanged() }, "replica-read-only",
		"replica-serve-stale-data", "replica-ignore-maxmemory")
	in.registry.Follow(func() { in.follower.Hurry() }, "masterauth", "masteruser",
		"replica-ignore-unknown-commands")
	return []*engine.Barrier{readOnly, stale, beside}
}

// writeThrough is a primary's command on a replica whose disk fails: to refuse it would make the two differ.
func (in *instance) writeThrough(call engine.Call) {
	if !in.following.IgnoreDiskErrors.Get() && !call.Spec.Has(command.Probes) {
		panic("Replica was unable to write command to disk.")
	}
	if now := in.core.Now(); now-in.diskToldMs > 10_000 {
		in.diskToldMs = now
		in.log.Warning("Replica is applying a command even though it is unable to write to disk.")
	}
}

var errStaleInScript = &protocol.Error{Code: "ERR", Text: "Can not execute the command on a stale replica"}

// isStale says whether this replica has lost its primary and is told not to show what it has.
func (in *instance) isStale() bool {
	return in.follower.Following() && !in.follower.Up() && !in.following.StaleData.Get()
}

// A taker takes full copies.
type taker struct{ in *instance }

var (
	errMark    = errors.New("the mark behind the copy is not the one that was announced")
	errGivenUp = errors.New("the link was given up before the copy was loaded")
)

// Take implements replication.Taker.
func (t taker) Take(c *replication.Copy, begin func() bool, done func(db int)) error {
	in := t.in
	how, empty := in.following.Load.Get(), true
	in.core.Do(func() {
		for i := range in.space.Len() {
			empty = empty && in.space.DB(i).Len() == 0
		}
	})
	bySocket := how == replication.LoadBeside || how == replication.LoadOnEmpty && empty
	target, form := "disk", "receiving streamed RDB from master with EOF to "
	if bySocket {
		target = "parser"
	}
	if c.Mark != "" {
		in.log.Notice("MASTER <-> REPLICA sync: %s%s", form, target)
	} else {
		in.log.Notice("MASTER <-> REPLICA sync: receiving %d bytes from master to %s", c.Size, target)
	}
	if bySocket && how == replication.LoadBeside {
		return t.beside(c, begin, done)
	}
	if bySocket {
		return t.inPlace(in.turnBetween, begin, done, c.Size, nil,
			func(to bgsave.Inserter, o bgsave.LoadOptions) (bgsave.Loaded, error) {
				return readCopy(in, c, to, o)
			})
	}
	return t.byDisk(c, begin, done)
}

// byDisk receives the copy into a temporary file and loads it from there. Only a copy that was loaded takes the place
// of this server's own file.
func (t taker) byDisk(c *replication.Copy, begin func() bool, done func(db int)) error {
	in := t.in
	path := in.save.FileName.Get()
	file, err := bgsave.ReceiveFile(path, func(w io.Writer) error { return receive(w, c) })
	if err != nil {
		in.log.Warning("Failed trying to receive the copy of the MASTER that is to become %s: %s", path, err)
		return err
	}
	read := func(to bgsave.Inserter, o bgsave.LoadOptions) (bgsave.Loaded, error) {
		stored, err := os.Open(file.Name)
		if err != nil {
			return bgsave.Loaded{}, err
		}
		defer stored.Close()
		o.Live = false
		return bgsave.Read(in.loadContext, stored, to, o)
	}
	if t.fitsATurn(file.Size) {
		err = t.wholly(begin, done, c.Size, file, read)
	} else {
		err = t.inPlace(in.turnBetween, begin, done, c.Size, file, read)
	}
	if syncing := file.Close(); syncing != nil {
		in.log.Warning("The folder of %s cannot be synced, after the copy of the MASTER was put there: %s", path, syncing)
	}
	if err == nil && in.save.DeleteSyncFiles.Get() && !in.scheduler.Saving() && !in.aofSettings.On.Get() {
		in.log.Notice("Removing the RDB file obtained from the master. This replica has persistence disabled")
		_ = os.Remove(path)
	}
	return err
}

// holdsFiles says that what is on disk stays as it is, because what is in memory is no data set: a full copy is being
// loaded, or could not be and has left nothing. Turn only.
func (in *instance) holdsFiles() bool { return in.copying || in.emptied }

// beginCopy says that a full copy is going to take the data's place. A save under way is called off in this turn, and
// no other begins before endCopy. Turn only.
func (in *instance) beginCopy() {
	in.copying = true
	in.scheduler.Abort("a copy of the primary's takes the place of what it saves")
}

// endCopy says that a full copy is in memory, or that it could not be loaded. A copy that came in a file takes the
// place of this server's own file only now. Turn only.
func (in *instance) endCopy(file *bgsave.CopyFile, l bgsave.Loaded, err error) {
	in.copying = false
	if err != nil {
		return
	}
	in.emptied = false
	in.aof.Replaced()
	if file == nil {
		in.scheduler.Replaced(l.Keys)
	} else if err := file.Place(); err != nil {
		in.log.Warning("The copy of the MASTER is loaded, but cannot become this server's RDB file: %s", err)
		in.scheduler.Replaced(l.Keys)
	} else {
		in.scheduler.Loaded()
	}
}

// receive writes the copy to w.
func receive(w io.Writer, c *replication.Copy) error {
	if c.Mark == "" {
		n, err := io.Copy(w, c.Stream)
		if err == nil && n < c.Size {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	kept := make([]byte, 0, 64<<10+len(c.Mark)) // what may be the mark, and what came last
	for {
		n, err := c.Stream.Read(kept[len(kept) : len(kept)+64<<10])
		kept = kept[:len(kept)+n]
		if strings.HasSuffix(string(kept[max(0, len(kept)-len(c.Mark)):]), c.Mark) {
			_, err := w.Write(kept[:len(kept)-len(c.Mark)])
			return err
		}
		if err != nil {
			return err
		}
		if over := len(kept) - len(c.Mark); over > 0 {
			if _, err := w.Write(kept[:over]); err != nil {
				return err
			}
			kept = kept[:copy(kept, kept[over:])]
		}
	}
}

// readCopy reads the copy from its connection, mark included.
func readCopy(in *instance, c *replication.Copy, to bgsave.Inserter, o bgsave.LoadOptions) (bgsave.Loaded, error) {
	o.Live = true
	l, err := bgsave.Read(in.loadContext, c.Stream, to, o)
	if err != nil || c.Mark == "" {
		return l, err
	}
	mark := make([]byte, len(c.Mark))
	n := copy(mark, l.Rest)
	if _, err := io.ReadFull(c.Stream, mark[n:]); err != nil {
		return l, err
	}
	if string(mark) != c.Mark || len(l.Rest) > len(c.Mark) {
		in.log.Warning("Replication stream EOF marker is broken")
		return l, errMark
	}
	return l, nil
}

// copyOptions are how a full copy is read.
func (t taker) copyOptions(size int64) bgsave.LoadOptions {
	o := t.in.loadOptions("the primary's copy")
	o.KeepExpired, o.Size = true, max(size, 0) // it is for the primary to remove them
	return o
}

// smallCopy is what is read in one turn: no client of a replica of little data meets a server that is loading.
const smallCopy = 64 << 10

// fitsATurn says whether a copy of so many bytes is read in one turn. It is not if settings want turns to be shorter,
// or a pause behind each key.
func (t taker) fitsATurn(size int64) bool {
	save := &t.in.save
	interval := save.LoadingInterval.Get()
	return size <= smallCopy && (interval == 0 || size <= interval) && save.LoadDelay.Get() == 0
}

// wholly is inPlace within one turn, for a small copy in a file.
func (t taker) wholly(begin func() bool, done func(db int), size int64, file *bgsave.CopyFile,
	read reader) (err error) {
	t.in.core.DoBetween(func() { err = t.inPlace(t.in.core.OnBehalf(), begin, done, size, file, read) })
	return err
}

// turnBetween runs f in a turn in which no unit is open.
func (in *instance) turnBetween(f func()) { in.core.DoBetween(f) }

// A reader reads a copy.
type reader func(bgsave.Inserter, bgsave.LoadOptions) (bgsave.Loaded, error)

// inPlace empties the databases and reads the copy into them: from file, or if that is nil from the socket. No client
// is served meanwhile. turn runs a function in a turn.
//
// What is on disk stays as it is until the copy has been loaded, the append-only file too.
func (t taker) inPlace(turn func(func()), begin func() bool, done func(db int), size int64, file *bgsave.CopyFile,
	read reader) error {
	in := t.in
	still, from := true, "disk"
	if file == nil {
		from = "socket"
	}
	in.log.Notice("MASTER <-> REPLICA sync: Flushing old data")
	in.loading.Begin(max(size, 0))
	turn(func() {
		if still = begin(); !still {
			return
		}
		in.beginCopy()
		in.aof.Suspend()
		in.whole.EmptyAllKeepingSaves(in.space)
		in.scripts.Clear()
		in.core.SetLoading(true)
		in.tellHealth()
	})
	if !still {
		in.loading.Active.Store(false)
		return errGivenUp
	}
	in.log.Notice("MASTER <-> REPLICA sync: Loading DB in memory")
	l, err := read(&bgsave.Into{Space: in.space, Turn: turn, Functions: func(source []byte) (err error) {
		turn(func() { err = in.scripts.Restore(source, false) })
		return err
	}}, t.copyOptions(size))
	in.loading.Active.Store(false)
	turn(func() {
		if err != nil { // half a copy is nothing
			in.whole.EmptyAllKeepingSaves(in.space)
			in.scripts.Clear()
			in.emptied = in.follower.Following()
		}
		in.endCopy(file, l, err)
		in.core.SetLoading(false)
		if err == nil {
			done(streamDB(l))
		}
		in.tellHealth()
	})
	if err != nil {
		in.log.Warning("Failed trying to load the MASTER synchronization DB from %s, check server logs.", from)
		in.log.Warning("What it met: %s", err)
		in.log.Notice("What is on disk stays as it was before the copy: nothing is saved until a copy has been loaded.")
	}
	return err
}

// beside reads the copy into databases that nobody sees, and puts them in the place of the others at once. If it is
// of the same history, clients read the old data meanwhile.
func (t taker) beside(c *replication.Copy, begin func() bool, done func(db int)) error {
	in := t.in
	in.log.Notice("MASTER <-> REPLICA sync: Loading DB in memory")
	first, staged, still := 0, in.scripts.Stage(), true
	in.loading.Beside.Store(c.Same)
	in.loading.Begin(max(c.Size, 0))
	in.core.DoBetween(func() {
		if !c.Same {
			if still = begin(); !still {
				return
			}
			in.core.SetLoading(true)
		}
		in.beginCopy()
		first = in.space.Beside()
		in.roleChanged()
		in.tellHealth()
	})
	if !still {
		in.loading.Active.Store(false)
		in.loading.Beside.Store(false)
		return errGivenUp
	}
	o := t.copyOptions(c.Size)
	o.First = first
	l, err := readCopy(in, c, &bgsave.Into{Space: in.space,
		Turn: func(f func()) { in.core.Do(func() { in.core.Trusting(f) }) },
		Functions: func(source []byte) (err error) {
			in.core.Do(func() { err = staged.Add(source) })
			return err
		}}, o)
	in.loading.Active.Store(false)
	in.loading.Beside.Store(false)
	if err == nil {
		in.log.Notice("MASTER <-> REPLICA sync: Swapping active DB with loaded DB")
	} else {
		in.log.Warning("Failed trying to load the MASTER synchronization DB from socket, check server logs.")
		in.log.Warning("What it met: %s", err)
		in.log.Notice("MASTER <-> REPLICA sync: Discarding temporary DB in background")
	}
	in.core.DoBetween(func() {
		if err == nil && !begin() {
			err = errGivenUp // a server that was promoted meanwhile keeps its data
		}
		if err == nil {
			for i := range in.space.Len() {
				in.whole.Swap(in.space, i, first+i)
			}
			staged.Install()
		} else {
			staged.Discard()
		}
		in.endCopy(nil, l, err)
		for i := range in.space.Len() {
			in.space.DB(first + i).Flush() // in the background
		}
		in.core.SetLoading(false)
		if err == nil {
			done(streamDB(l))
		}
		in.roleChanged()
		in.tellHealth()
	})
	return err
}

// streamDB is the database in which the stream behind a copy stands.
func streamDB(l bgsave.Loaded) int {
	if l.Replication == nil {
		return 0
	}
	return l.Replication.StreamDB
}
