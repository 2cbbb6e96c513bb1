package aof

import (
	"errors"
	"math"
	"strings"

	"spindle/internal/setting"
)

// Settings are the parameters of the append-only file.
type Settings struct {
	On              setting.Bool
	FileName        setting.String
	DirName         setting.String
	Fsync           setting.Enum[Policy]
	NoSyncOnRewrite setting.Bool
	Percentage      setting.Int // of growth since the last rewrite, that asks for another
	MinSize         setting.Int
	Truncated       setting.Bool // a log whose end is missing is loaded
	Preamble        setting.Bool // bases are RDB files
	Timestamps      setting.Bool
	IncrementalSync setting.Bool
	KeepHistory     setting.Bool
	BufferLimit     setting.Int // bytes that wait for the disk, past which writers are held
}

// A Policy says when the disk is to confirm what was written.
type Policy int

const (
	EverySecond Policy = iota
	Always             // before the reply leaves
	Never              // when the system pleases
)

// Rows are the directives of this package.
func (s *Settings) Rows() []setting.Row {
	const maxInt, maxLong = math.MaxInt32, math.MaxInt64
	return []setting.Row{
		setting.NewBool("appendonly", &s.On, false, setting.DenyLoading),
		setting.NewString("appendfilename", &s.FileName, "appendonly.aof", setting.Immutable,
			setting.CheckString(baseName("appendfilename", "filename"))),
		setting.NewString("appenddirname", &s.DirName, "appendonlydir", setting.Immutable,
			setting.CheckString(baseName("appenddirname", "dirname"))),
		setting.NewEnum("appendfsync", &s.Fsync, EverySecond, []setting.Choice[Policy]{
			{Name: "everysec", Value: EverySecond}, {Name: "always", Value: Always}, {Name: "no", Value: Never}}),
		setting.NewBool("no-appendfsync-on-rewrite", &s.NoSyncOnRewrite, false),
		setting.NewInt("auto-aof-rewrite-percentage", &s.Percentage, 100, setting.Between(0, maxInt)),
		setting.NewMemory("auto-aof-rewrite-min-size", &s.MinSize, 64<<20, setting.Between(0, maxLong)),
		setting.NewBool("aof-load-truncated", &s.Truncated, true),
		setting.NewBool("aof-use-rdb-preamble", &s.Preamble, true),
		setting.NewBool("aof-timestamp-enabled", &s.Timestamps, false),
		setting.NewBool("aof-rewrite-incremental-fsync", &s.IncrementalSync, true),
		setting.NewBool("aof-disable-auto-gc", &s.KeepHistory, false, setting.Hidden),
		setting.NewMemory("aof-buffer-limit", &s.BufferLimit, 256<<20, setting.Between(1<<20, maxLong)),
	}
}

// baseName refuses what is no plain name.
func baseName(directive, kind string) func(string) error {
	return func(name string) error {
		switch {
		case name == "":
			return errors.New(directive + " can't be empty")
		case strings.ContainsAny(name, `/\`):
			return errors.New(directive + " can't be a path, just a " + kind)
		}
		return nil
	}
}
