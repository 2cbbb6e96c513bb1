package dataset

import (
	"bytes"
	"errors"
	"io"
	"os"

	"spindle/bgsave"
	"spindle/bgsave/rdb"
	"spindle/replication"
)

// A copyLoader receives full copies.
type copyLoader struct{ d *Set }

var (
	errMark    = errors.New("the mark after the copy is not the announced one")
	errGivenUp = errors.New("the link was given up before the copy was loaded")
)

// Load implements replication.CopyLoader.
func (t copyLoader) Load(c *replication.Copy, begin func() bool, done func(db int)) error {
	d := t.d
	how, empty := d.Settings.Follow.Load.Get(), true
	d.Core.Do(func() {
		for i := range d.Space.Len() {
			empty = empty && d.Space.DB(i).Len() == 0
		}
	})
	bySocket := how == replication.LoadBeside || how == replication.LoadOnEmpty && empty
	target, from, form := "disk", "disk", "receiving streamed RDB from master with EOF to "
	if bySocket {
		target, from = "parser", "socket"
	}
	if c.Mark != "" {
		d.Log.Notice("MASTER <-> REPLICA sync: %s%s", form, target)
	} else {
		d.Log.Notice("MASTER <-> REPLICA sync: receiving %d bytes from master to %s", c.Size, target)
	}
	if err := d.checkHeader(c); err != nil {
		d.Log.Warning("Failed trying to load the MASTER synchronization DB from %s, check server logs.", from)
		d.Log.Warning("What it met: %s", err)
		return err
	}
	if bySocket && how == replication.LoadBeside {
		return t.intoHidden(c, begin, done)
	}
	if bySocket {
		return t.inPlace(d.turnBetween, begin, done, c.Size, nil,
			func(to bgsave.Inserter, o bgsave.LoadOptions) (bgsave.Loaded, error) {
				return readCopy(d, c, to, o)
			})
	}
	return t.byDisk(c, begin, done)
}

// checkHeader refuses a copy that this server cannot read, before the present data are dropped for it. The header stays
// in c.Stream.
func (d *Set) checkHeader(c *replication.Copy) error {
	var head bytes.Buffer
	relaxed := d.Settings.Save.VersionCheck.Get() == bgsave.VersionRelaxed
	err := rdb.NewDecoder(io.TeeReader(c.Stream, &head), rdb.DecoderOptions{Relaxed: relaxed}).Header()
	c.Stream = io.MultiReader(&head, c.Stream)
	return err
}

// byDisk receives the copy into a temporary file and loads it from there. A copy replaces this server's own file only
// after it was loaded.
func (t copyLoader) byDisk(c *replication.Copy, begin func() bool, done func(db int)) error {
	d := t.d
	path := d.Settings.Save.FileName.Get()
	file, err := bgsave.ReceiveFile(path, func(w io.Writer) error { return receive(w, c) })
	if err != nil {
		d.Log.Warning("Failed trying to receive the copy of the MASTER that is to become %s: %s", path, err)
		return err
	}
	read := func(to bgsave.Inserter, o bgsave.LoadOptions) (bgsave.Loaded, error) {
		stored, err := os.Open(file.Name)
		if err != nil {
			return bgsave.Loaded{}, err
		}
		defer stored.Close()
		o.Live = false
		return bgsave.Read(d.loadContext, stored, to, o)
	}
	if t.fitsATurn(file.Size) {
		err = t.wholly(begin, done, c.Size, file, read)
	} else {
		err = t.inPlace(d.turnBetween, begin, done, c.Size, file, read)
	}
	if syncing := file.Close(); syncing != nil {
		d.Log.Warning("The folder of %s cannot be synced, after the copy of the MASTER was put there: %s", path, syncing)
	}
	if err == nil && d.Settings.Save.DeleteSyncFiles.Get() && !d.Scheduler.Saving() && !d.Settings.Log.On.Get() {
		d.Log.Notice("Removing the RDB file obtained from the master. This replica has persistence disabled")
		_ = os.Remove(path)
	}
	return err
}

// holdsFiles reports whether the files on disk must stay as they are, because memory has no complete data set. That is
// so while a full copy is being loaded, and after its load has failed. Turn only.
func (d *Set) holdsFiles() bool { return d.copying || d.emptied }

// beginCopy announces a full copy that will replace the data. It cancels a running save in this turn. No other save
// begins before endCopy. Turn only.
func (d *Set) beginCopy() {
	d.copying = true
	d.Scheduler.Abort("a copy of the primary's takes the place of what it saves")
}

// endCopy reports a full copy that is in memory, or could not be loaded. Only now may a copy that came in a file
// replace this server's own file. Turn only.
func (d *Set) endCopy(file *bgsave.CopyFile, l bgsave.Loaded, err error) {
	d.copying = false
	if err != nil {
		return
	}
	d.emptied = false
	d.AOF.Replaced()
	if file == nil {
		d.Scheduler.Replaced(l.Keys)
	} else if err := file.Rename(); err != nil {
		d.Log.Warning("The copy of the MASTER is loaded, but cannot become this server's RDB file: %s", err)
		d.Scheduler.Replaced(l.Keys)
	} else {
		d.Scheduler.Loaded()
	}
}

// copyOptions returns the options for reading a full copy.
func (t copyLoader) copyOptions(size int64) bgsave.LoadOptions {
	o := t.d.loadOptions("the primary's copy")
	o.KeepExpired, o.Size = true, max(size, 0) // only the primary removes expired keys
	return o
}

// smallCopy is the size up to which a copy is read in one turn. No client then sees the loading state.
const smallCopy = 64 << 10

// fitsATurn reports whether a copy of this size is read in one turn. It returns false if the settings ask for shorter
// turns, or for a pause after each key.
func (t copyLoader) fitsATurn(size int64) bool {
	save := &t.d.Settings.Save
	interval := save.LoadingInterval.Get()
	return size <= smallCopy && (interval == 0 || size <= interval) && save.LoadDelay.Get() == 0
}

// wholly does the same as inPlace within one turn, for a small copy in a file.
func (t copyLoader) wholly(begin func() bool, done func(db int), size int64, file *bgsave.CopyFile,
	read reader) error {
	err := errGivenUp // if the server ends first
	t.d.Core.DoBetween(func() { err = t.inPlace(t.d.Core.OnBehalf(), begin, done, size, file, read) })
	return err
}

// turnBetween runs f in a turn while no unit is open.
func (d *Set) turnBetween(f func()) { d.Core.DoBetween(f) }

// A reader reads a copy.
type reader func(bgsave.Inserter, bgsave.LoadOptions) (bgsave.Loaded, error)

// inPlace empties the databases and reads the copy into them, from file or, if file is nil, from the socket. No
// client is served meanwhile. turn runs a function in a turn.
//
// The files on disk, including the append-only file, stay as they are until the copy has been loaded.
func (t copyLoader) inPlace(turn func(func()), begin func() bool, done func(db int), size int64, file *bgsave.CopyFile,
	read reader) error {
	d := t.d
	still, from := false, "disk" // still stays false if the server ends first
	if file == nil {
		from = "socket"
	}
	d.Log.Notice("MASTER <-> REPLICA sync: Flushing old data")
	d.Loading.Begin(max(size, 0))
	turn(func() {
		if still = begin(); !still {
			return
		}
		d.beginCopy()
		d.AOF.Suspend()
		d.Whole.EmptyAllKeepingSaves(d.Space)
		d.Scripts.Clear()
		d.Core.SetLoading(true)
		d.Changed()
	})
	if !still {
		d.Loading.Active.Store(false)
		return errGivenUp
	}
	d.Log.Notice("MASTER <-> REPLICA sync: Loading DB in memory")
	l, err := read(&bgsave.Into{Space: d.Space, Turn: turn, Functions: func(source []byte) (err error) {
		turn(func() { err = d.Scripts.Restore(source, false) })
		return err
	}}, t.copyOptions(size))
	turn(func() {
		d.Loading.Active.Store(false) // in the turn after which clients are served again
		if err != nil {               // a partial copy is useless
			d.Whole.EmptyAllKeepingSaves(d.Space)
			d.Scripts.Clear()
			d.emptied = d.Follower.Following()
		}
		d.endCopy(file, l, err)
		d.Core.SetLoading(false)
		if err == nil {
			done(streamDB(l))
		}
		d.Changed()
	})
	if err != nil {
		d.Log.Warning("Failed trying to load the MASTER synchronization DB from %s, check server logs.", from)
		d.Log.Warning("What it met: %s", err)
		d.Log.Notice("What is on disk stays as it was before the copy: nothing is saved until a copy has been loaded.")
	}
	return err
}

// intoHidden reads the copy into hidden databases, and then exchanges all databases in one turn. If the copy belongs to
// the same history, clients read the old data meanwhile.
func (t copyLoader) intoHidden(c *replication.Copy, begin func() bool, done func(db int)) error {
	d := t.d
	d.Log.Notice("MASTER <-> REPLICA sync: Loading DB in memory")
	first, staged, still := 0, d.Scripts.Stage(), false
	d.Loading.ServesOld.Store(c.Same)
	d.Loading.Begin(max(c.Size, 0))
	d.Core.DoBetween(func() {
		if still = c.Same || begin(); !still {
			return
		}
		if !c.Same {
			d.Core.SetLoading(true)
		}
		d.beginCopy()
		first = d.Space.Hidden()
		d.roleChanged()
		d.Changed()
	})
	if !still {
		d.Loading.Active.Store(false)
		d.Loading.ServesOld.Store(false)
		return errGivenUp
	}
	o := t.copyOptions(c.Size)
	o.First = first
	l, err := readCopy(d, c, &bgsave.Into{Space: d.Space,
		Turn: func(f func()) { d.Core.Do(func() { d.Core.Trusting(f) }) },
		Functions: func(source []byte) (err error) {
			d.Core.Do(func() { err = staged.Add(source) })
			return err
		}}, o)
	if err == nil {
		d.Log.Notice("MASTER <-> REPLICA sync: Swapping active DB with loaded DB")
	} else {
		d.Log.Warning("Failed trying to load the MASTER synchronization DB from socket, check server logs.")
		d.Log.Warning("What it met: %s", err)
		d.Log.Notice("MASTER <-> REPLICA sync: Discarding temporary DB in background")
	}
	d.Core.DoBetween(func() {
		d.Loading.Active.Store(false) // in the turn after which clients are served again
		d.Loading.ServesOld.Store(false)
		if err == nil && !begin() {
			err = errGivenUp // a server that was promoted meanwhile keeps its data
		}
		if err == nil {
			for i := range d.Space.Len() {
				d.Whole.Swap(d.Space, i, first+i)
			}
			staged.Install()
		}
		d.endCopy(nil, l, err)
		for i := range d.Space.Len() {
			d.Space.DB(first + i).Flush() // in the background
		}
		d.Core.SetLoading(false)
		if err == nil {
			done(streamDB(l))
		}
		d.roleChanged()
		d.Changed()
	})
	return err
}
