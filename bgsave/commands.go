package bgsave

import (
	"spindle/bgsave/codec"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/logging"
	"spindle/protocol"
)

// Commands are this package's command handlers. They run on the core, in turns.
type Commands struct {
	Scheduler *Scheduler
	Settings  *Settings
	// AnyChecksum is set by DEBUG SET-SKIP-CHECKSUM-VALIDATION.
	AnyChecksum bool
	// Limits returns the sizes up to which restored values are packed. nil means the defaults.
	Limits func() codec.Limits
	// Log gets the reason why RESTORE refuses a payload. nil means no log.
	Log *logging.Logger
	// SkipsSanitize reports whether a client's user has skip-sanitize-payload. nil means that no user has it.
	SkipsSanitize func(cl *client.Client) bool

	// The core's functions for a large RESTORE. If they are nil, RESTORE works in its own turn.
	//
	// Turn runs f in a turn. Writable runs f in a turn in which a client's write is allowed. The other functions are
	// called in turns. Wake resumes a client that waits. Readmit returns an error if the command may no longer write
	// key. Latch makes commands that name one of keys wait until release is called.
	Turn     func(f func())
	Writable func(f func())
	Wake     func(cl *client.Client)
	Readmit  func(c *command.Context, key []byte) error
	Latch    func(keys [][]byte) (release func())

	payload       []byte // DUMP's buffer for short values
	packer        packer
	expander      codec.Expander
	sanitizations int64 // packed values that sanitize-dump-payload had checked
}

// Families returns the command rows: those of the group server, and those on keys.
func (h *Commands) Families() []command.Family {
	restored := command.FirstArg(command.KeyOW | command.KeyUpdate)
	return []command.Family{
		{Name: "server", Rows: []command.Spec{
			{Name: "save", Arity: 1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.NoMulti,
				Run: h.save},
			{Name: "bgsave", Arity: -1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading, Run: h.bgsave},
			{Name: "lastsave", Arity: 1, Flags: command.Loading | command.Stale | command.Fast,
				ACL:  command.ACLAdmin | command.ACLDangerous,
				Tips: []string{"nondeterministic_output"}, Run: h.lastSave},
			{Name: "restore-asking", Arity: -4, Flags: command.Write | command.DenyOOM | command.Asking,
				ACL: command.ACLKeyspace | command.ACLDangerous, Keys: restored, Run: h.restore},
		}},
		{Name: "generic", ACL: command.ACLKeyspace, Rows: []command.Spec{
			{Name: "dump", Arity: 2, Flags: command.ReadOnly, Keys: command.FirstArg(command.KeyRO | command.KeyAccess),
				Tips: []string{"nondeterministic_output"}, Run: h.dump},
			{Name: "restore", Arity: -4, Flags: command.Write | command.DenyOOM, ACL: command.ACLDangerous, Keys: restored,
				Run: h.restore},
		}},
	}
}

// save runs SAVE. It returns when the file is on disk; all clients wait meanwhile.
//
// Replies: OK.
// Errors: ErrInProgress, ErrHeld; a bare ERR when the file could not be written (the log has the reason).
func (h *Commands) save(c *command.Context) error {
	err := h.Scheduler.Save()
	if err == ErrInProgress || err == ErrHeld {
		return err
	}
	if err != nil {
		return ErrSaveFailed
	}
	c.Reply.OK()
	return nil
}

// bgsave runs BGSAVE [SCHEDULE]. Inside MULTI the save starts after the transaction.
//
// Replies: "Background saving started" or "Background saving scheduled".
// Errors: ErrInProgress, ErrHeld, ErrBusy, ErrSyntax.
func (h *Commands) bgsave(c *command.Context) error {
	schedule := false
	if len(c.Args) == 2 && command.Is(c.Args[1], "CANCEL") {
		return h.cancel(c)
	}
	if len(c.Args) > 1 {
		if len(c.Args) != 2 || !command.Is(c.Args[1], "SCHEDULE") {
			return protocol.ErrSyntax
		}
		schedule = true
	}
	queued, err := h.Scheduler.Background(schedule, c.Client.Is(client.Multi))
	switch {
	case err != nil:
		return err
	case queued:
		c.Reply.Simple("Background saving scheduled")
	default:
		c.Reply.Simple("Background saving started")
	}
	return nil
}

// cancel runs BGSAVE CANCEL: it ends the background save, or removes a scheduled one.
func (h *Commands) cancel(c *command.Context) error {
	switch {
	case h.Scheduler.InProgress():
		h.Scheduler.Abort("BGSAVE CANCEL")
		c.Reply.Simple("Background saving cancelled")
	case h.Scheduler.Unschedule():
		c.Reply.Simple("Scheduled background saving cancelled")
	default:
		return errNoSave
	}
	return nil
}

// lastSave runs LASTSAVE. Replies: the Unix time of the last successful save.
func (h *Commands) lastSave(c *command.Context) error {
	c.Reply.Int(h.Scheduler.LastSave().Unix())
	return nil
}
