package acl

import (
	"spindle/engine/acl"
	"spindle/engine/command"
	"spindle/protocol"
)

// hide removes names and rules from the arguments, so that the slow log and MONITOR do not show them. Handlers call it
// when they do not need the arguments any more.
func hide(c *command.Context) {
	for i := 2; i < len(c.Args); i++ {
		c.Redact(i)
	}
}

// setUser is ACL SETUSER username [rule ...].
//
// Errors: those of acl.Users.Set. After an error the user is unchanged.
func (f *family) setUser(c *command.Context) error {
	defer hide(c)
	change, err := f.Users.Set(c.Args[2], c.Args[3:])
	if err != nil {
		return err
	}
	f.carryOut(c, change)
	c.Reply.OK()
	return nil
}

// carryOut closes the clients that lose their user, or a channel that they subscribe to, through the change.
func (f *family) carryOut(c *command.Context, change acl.Change) {
	switch {
	case change.Deleted:
		f.Kill(c, change.User)
	case change.Old != nil && change.Old.LosesChannels(change.User.Rights()):
		f.KillSubscribers(c, change.User)
	}
}

// delUser is ACL DELUSER username [username ...]. Replies: the number of deleted users. If one of the names is the
// default user, it deletes no user.
func (f *family) delUser(c *command.Context) error {
	defer hide(c)
	for _, name := range c.Args[2:] {
		if string(name) == acl.DefaultName {
			return errKeepDefault
		}
	}
	deleted := int64(0)
	for _, name := range c.Args[2:] {
		if user := f.Users.Delete(name); user != nil {
			f.Kill(c, user)
			deleted++
		}
	}
	c.Reply.Int(deleted)
	return nil
}

// getUser is ACL GETUSER username. Replies: a map of flags, passwords, the root selector's rules and the other
// selectors, or null for an unknown user. The map shows databases only if a selector has a rule for them.
func (f *family) getUser(c *command.Context) error {
	defer hide(c)
	user := f.Users.Find(c.Args[2])
	if user == nil {
		c.Reply.Null()
		return nil
	}
	rights, r, more := user.Rights(), c.Reply, 0
	if rights.NamesDatabases() {
		more = 1
	}
	r.Map(6 + more)
	r.BulkString("flags")
	flags := rights.Flags()
	r.Set(len(flags))
	for _, flag := range flags {
		r.BulkString(flag)
	}
	r.BulkString("passwords")
	passwords := rights.Passwords()
	r.Array(len(passwords))
	for _, p := range passwords {
		r.BulkString(p)
	}
	selectors := rights.Selectors()
	appendSelector(r, selectors[0], more > 0)
	r.BulkString("selectors")
	r.Array(len(selectors) - 1)
	for _, s := range selectors[1:] {
		r.Map(3 + more)
		appendSelector(r, s, more > 0)
	}
	return nil
}

// appendSelector appends a selector's commands, keys and channels to the reply, each with its name. If databases is
// true, it also appends the databases.
func appendSelector(r *protocol.Reply, s acl.SelectorText, databases bool) {
	r.BulkString("commands")
	r.BulkString(s.Commands)
	r.BulkString("keys")
	r.BulkString(s.Keys)
	r.BulkString("channels")
	r.BulkString(s.Channels)
	if databases {
		r.BulkString("databases")
		r.BulkString(s.Databases)
	}
}

// list is ACL LIST. Replies: each user as a line of the ACL file.
func (f *family) list(c *command.Context) error {
	appendAll(c.Reply, f.Users.Lines())
	return nil
}

func (f *family) users(c *command.Context) error {
	appendAll(c.Reply, f.Users.Names())
	return nil
}

func appendAll(r *protocol.Reply, all []string) {
	r.Array(len(all))
	for _, s := range all {
		r.BulkString(s)
	}
}

func whoAmI(c *command.Context) error {
	c.Reply.BulkString(c.Client.UserName())
	return nil
}

// load is ACL LOAD. It closes the clients of users that are gone, and subscribers that lose a channel.
//
// Errors: one text for all errors in the file. Then all users are unchanged.
func (f *family) load(c *command.Context) error {
	path := f.File()
	if path == "" {
		return errNoFile
	}
	changes, err := f.Users.Load(path)
	if err != nil {
		return errLoad(err)
	}
	for _, change := range changes {
		f.carryOut(c, change)
	}
	c.Reply.OK()
	return nil
}

// save is ACL SAVE. If it fails, the server's log has the reason.
func (f *family) save(c *command.Context) error {
	path := f.File()
	if path == "" {
		return errNoFile
	}
	if err := f.Users.Save(path); err != nil {
		f.Warn(err.Error())
		return errSave
	}
	c.Reply.OK()
	return nil
}
