package keys

import (
	"spindle/engine/command"
	"spindle/protocol"
)

// flushDB is FLUSHDB [ASYNC | SYNC]. Replies: OK. Errors: ErrSyntax. Propagates as written, even for an empty database.
//
// Both words mean the same here. Emptying a database costs the turn O(1), and reclaimers free the memory.
func flushDB(c *command.Context) error {
	if err := flushMode(c); err != nil {
		return err
	}
	c.Changed(c.Whole.Empty(c.DB))
	c.Propagate(c.Args...)
	c.Reply.OK()
	return nil
}

// flushAll is FLUSHALL [ASYNC | SYNC]: FLUSHDB of every database.
func flushAll(c *command.Context) error {
	if err := flushMode(c); err != nil {
		return err
	}
	c.Changed(c.Whole.EmptyAll(c.Space))
	c.Propagate(c.Args...)
	c.Reply.OK()
	return nil
}

func flushMode(c *command.Context) error {
	if len(c.Args) == 1 || (len(c.Args) == 2 && (command.Is(c.Args[1], "SYNC") || command.Is(c.Args[1], "ASYNC"))) {
		return nil
	}
	return protocol.ErrSyntax
}

// swapDB is SWAPDB index1 index2. Clients of each database then see the keys of the other. Replies: OK.
//
// Errors: "invalid first DB index", "invalid second DB index", "DB index is out of range".
// Propagates as written.
func swapDB(c *command.Context) error {
	if c.Space.BySlot() {
		return errSwapInCluster
	}
	a, err := command.Int32(c.Args[1])
	if err != nil {
		return errFirstDB
	}
	b, err := command.Int32(c.Args[2])
	if err != nil {
		return errSecondDB
	}
	if n := c.Space.Len(); a < 0 || b < 0 || a >= n || b >= n {
		return protocol.ErrDBIndex
	}
	c.Whole.Swap(c.Space, a, b)
	c.Changed(1)
	c.Reply.OK()
	return nil
}

// dbSize is DBSIZE. Replies: the number of keys. Keys past their deadline count until they are removed.
func dbSize(c *command.Context) error {
	c.Reply.Int(int64(c.DB.Len()))
	return nil
}
