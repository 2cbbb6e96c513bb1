package keys

import (
	"bytes"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/protocol"
)

// rename is RENAME key newkey. Replies: OK. Errors: ErrNoSuchKey. Propagates as written, unless both names are the
// same.
func rename(c *command.Context) error {
	if _, err := renameTo(c, true); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

// renameNX is RENAMENX key newkey. Replies: 1, or 0 if newkey exists. Errors: ErrNoSuchKey. Propagates as written.
func renameNX(c *command.Context) error {
	done, err := renameTo(c, false)
	if err != nil {
		return err
	}
	if done {
		c.Reply.Int(1)
	} else {
		c.Reply.Int(0)
	}
	return nil
}

func renameTo(c *command.Context, overwrite bool) (done bool, err error) {
	from, to := c.Args[1], c.Args[2]
	if !c.DB.LookupWrite(from).Exists() {
		return false, protocol.ErrNoSuchKey
	}
	if bytes.Equal(from, to) || (c.DB.LookupWrite(to).Exists() && !overwrite) {
		return false, nil
	}
	was := c.Overwritten(c.DB, to)
	c.DB.Rename(from, to)
	c.Changed(1)
	c.Notify(command.EventNew, "new", to)
	c.Notify(command.EventGeneric, "rename_from", from)
	c.Notify(command.EventGeneric, "rename_to", to)
	c.NotifyOverwritten(c.DB, to, was, c.DB.Peek(to).Type())
	return true, nil
}

// move is MOVE key db. Replies: 1, or 0 if key does not exist or db already has that key.
//
// Errors: ErrNotInteger, "DB index is out of range", "source and destination objects are the same".
// Propagates as written.
func move(c *command.Context) error {
	if c.Space.BySlot() && c.Space.Len() == 1 {
		return errMoveInCluster
	}
	to, err := database(c, c.Args[2])
	if err != nil {
		return err
	}
	if to == c.DB {
		return errSameObject
	}
	key := c.Args[1]
	if !c.DB.LookupWrite(key).Exists() || to.LookupWrite(key).Exists() {
		c.Reply.Int(0)
		return nil
	}
	c.DB.MoveTo(key, to)
	c.Changed(1)
	c.Core.Notify(command.EventNew, "new", to.Index(), key)
	c.Notify(command.EventGeneric, "move_from", key)
	c.Core.Notify(command.EventGeneric, "move_to", to.Index(), key)
	c.Reply.Int(1)
	return nil
}

// copyKey is COPY source destination [DB db] [REPLACE]. Replies: 1, or 0 if there is no source, or if the destination
// exists and REPLACE is not given.
//
// Errors: ErrSyntax, ErrNotInteger, "DB index is out of range", "source and destination objects are the same".
// Propagates as written.
func copyKey(c *command.Context) error {
	to, overwrite := c.DB, false
	for i := 3; i < len(c.Args); i++ {
		switch {
		case command.Is(c.Args[i], "REPLACE"):
			overwrite = true
		case isCopyDB(c.Args, i):
			i++
			var err error
			if to, err = database(c, c.Args[i]); err != nil {
				return err
			}
		default:
			return protocol.ErrSyntax
		}
	}
	if to != c.DB && c.Space.BySlot() && c.Space.Len() == 1 {
		return errCopyInCluster
	}
	key, copied := c.Args[1], c.Args[2]
	if to == c.DB && bytes.Equal(key, copied) {
		return errSameObject
	}
	if !c.DB.Lookup(key).Exists() {
		c.Notify(command.EventKeyMiss, "keymiss", key)
		c.Reply.Int(0)
		return nil
	}
	if to.LookupWrite(copied).Exists() && !overwrite {
		c.Reply.Int(0)
		return nil
	}
	size := c.Space.MemoryUsage(c.DB.Peek(key), copySamples)
	if heap := c.Space.Heap(); !heap.Affords(size) || !heap.AffordsSmall(size) {
		return protocol.ErrNoMemory
	}
	was := c.Overwritten(to, copied)
	c.DB.CopyTo(key, to, copied)
	c.Changed(1)
	c.Core.Notify(command.EventNew, "new", to.Index(), copied)
	c.Core.Notify(command.EventGeneric, "copy_to", to.Index(), copied)
	c.NotifyOverwritten(to, copied, was, to.Peek(copied).Type())
	c.Reply.Int(1)
	return nil
}

// isCopyDB reports whether COPY's option DB, with its number, is at i.
func isCopyDB(args [][]byte, i int) bool { return command.Is(args[i], "DB") && i+1 < len(args) }

// copyDatabases returns the places of the databases that COPY's options DB name. The last one counts.
func copyDatabases(into []int, args [][]byte) []int {
	for i := 3; i < len(args); i++ {
		switch {
		case isCopyDB(args, i):
			i++
			into = append(into, i)
		case !command.Is(args[i], "REPLACE"):
			return into[:0] // the handler refuses the call
		}
	}
	return into
}

// copySamples is the number of elements from which the size of a copy is estimated.
const copySamples = 5

// database returns the database whose number is arg.
func database(c *command.Context, arg []byte) (*keyspace.DB, error) {
	n, err := command.Int32(arg)
	if err != nil {
		return nil, err
	}
	if n < 0 || n >= c.Space.Len() {
		return nil, protocol.ErrDBIndex
	}
	return c.Space.DB(n), nil
}
