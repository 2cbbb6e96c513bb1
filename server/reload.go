package server

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"spindle/bgsave"
	"spindle/engine/command"
	"spindle/engine/family/introspect"
	"spindle/internal/process"
	"spindle/protocol"
)

// reload is DEBUG RELOAD: the data set goes to disk and comes back, in one turn.
func (in *instance) reload(c *command.Context, o introspect.ReloadOptions) error {
	if in.core.Loading() {
		return protocol.ErrLoading
	}
	in.core.EndUnit()
	if !o.NoSave {
		if err := in.scheduler.Now(); err != nil {
			if err == bgsave.ErrInProgress || err == bgsave.ErrHeld {
				return err
			}
			return bgsave.ErrSaveFailed // the log says why
		}
	}
	in.scheduler.Abort("what it saves is replaced by the RDB file")
	if !o.NoFlush {
		in.whole.EmptyAllKeepingSaves(in.space)
		in.scripts.Clear()
	}
	path := in.save.FileName.Get()
	options := in.loadOptions(path)
	options.NoChecksum = options.NoChecksum || in.saver.AnyChecksum
	in.space.Trusting = true
	turn := in.core.OnBehalf() // the load has two goroutines
	_, err := bgsave.Load(context.Background(), path, &bgsave.Into{
		Space: in.space, Turn: turn, Replace: o.Merge,
		Functions: func(source []byte) (err error) {
			turn(func() { err = in.scripts.Restore(source, o.Merge) })
			return err
		},
	}, options)
	in.space.Trusting = false
	if err != nil { // no file is one too
		return protocol.Errorf("ERR", "Error trying to load the RDB dump, check server logs.")
	}
	in.scheduler.Loaded()
	in.log.Warning("DB reloaded by DEBUG RELOAD")
	return nil
}

// crash is DEBUG SEGFAULT, PANIC, ASSERT and OOM: a report, then the end. PANIC takes the road that a mistake of ours
// would take.
func (in *instance) crash(how string) {
	if how == "panic" {
		panic("DEBUG PANIC")
	}
	if how == "segfault" {
		_ = unix.Kill(os.Getpid(), unix.SIGSEGV) // the report, and the death of one, come from the signal's handler
		select {}
	}
	in.log.Raw(process.CrashReport("DEBUG "+how, process.Stacks()))
	os.Exit(1)
}
