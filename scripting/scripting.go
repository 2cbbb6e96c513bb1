// Package scripting runs Lua scripts and functions: EVAL and its kin, SCRIPT, FUNCTION, FCALL, and the API of scripts.
//
// Owner: the core; only the holder of the turn calls anything here.
// Never: knows how a command is admitted or how the turn is lent (command.Core does), reads or writes a file, or starts
// a goroutine.
// Start here; run.go is one run from its first instruction to its reply, environment.go the state it sees. api.go is
// the functions it may call, library.go the libraries; values.go and reply.go are the conversions.
package scripting

import (
	"context"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/clock"
	"spindle/internal/setting"
	"spindle/scripting/lua"
)

// Deps is what scripts ask of the rest of the server. Only Find is required.
type Deps struct {
	Settings *Settings
	// Find: the row that args would run, or nil.
	Find func(args [][]byte) *command.Spec
	// MayRun: redis.acl_check_cmd, for the user of cl; nil: always true.
	MayRun func(cl *client.Client, spec *command.Spec, args [][]byte) bool
	// Conditions: the states that forbid scripts; nil: none.
	Conditions func() Conditions
	// Log: redis.log; 0 is debug, 3 a warning.
	Log func(level int, text string)
	// LogLevel: lines below it are not formatted.
	LogLevel func() int
	// BusyMs: busy-reply-threshold; 0: never.
	BusyMs func() int64
	// Pack: FUNCTION DUMP's payload.
	Pack func(libraries [][]byte) []byte
	// Unpack: checked is false for a wrong version or checksum.
	Unpack func(payload []byte) (libraries [][]byte, checked bool, err error)
	// Libraries: cjson and others. Each adds its tables to s.Globals.
	Libraries []func(s *lua.State)
}

// Conditions are the server's states that may forbid a script that declares flags.
type Conditions struct {
	Cluster     bool   // cluster mode is on
	Stale       bool   // the link to the primary is down, and stale reads are refused
	ReadOnly    bool   // a replica that accepts no writes
	SaveFailed  bool   // the last save failed, so writes are refused
	LogError    string // why the log cannot be written
	FewReplicas bool   // fewer good replicas than min-replicas-to-write
	OutOfMemory bool   // more memory is used than maxmemory
}

// Settings are the parameters of scripts.
type Settings struct {
	MemoryLimit setting.Int  // bytes of memory for a script; 0: no limit
	Deprecated  setting.Bool // scripts have getfenv, setfenv and newproxy
}

func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewMemory("script-memory-limit", &s.MemoryLimit, 0),
		setting.NewBool("lua-enable-deprecated-api", &s.Deprecated, true, setting.Immutable, setting.Hidden),
	}
}

// Scripts are the scripts and functions of a server.
type Scripts struct {
	deps      Deps
	clock     clock.Wall
	random    random48
	eval      *environment // EVAL's environment
	functions *environment // the libraries' environment; nil until one is loaded
	cache     cache
	libraries *registry
	run       run
	beside    beside
	labels    map[string]context.Context // by name, while a profile is taken; otherwise nil
	figures   figures
	pace      func() (nanos int64, budget int) // length of a slice; nil except in tests
}

// New returns a server's scripts; there are none yet. Functions in deps need not work yet.
func New(deps Deps) *Scripts {
	s := &Scripts{deps: deps, clock: clock.WallFrom(time.Now()), random: firstSeed}
	if s.deps.Settings == nil {
		s.deps.Settings = &Settings{}
		s.deps.Settings.Rows() // gives each its default
	}
	s.cache.clear()
	s.libraries = newRegistry()
	return s
}

// evalWorld is EVAL's environment, made at the first use.
func (s *Scripts) evalWorld() *environment {
	if s.eval == nil {
		s.eval = newEnvironment(s, false)
	}
	return s.eval
}

func (s *Scripts) functionWorld() *environment {
	if s.functions == nil {
		s.functions = newEnvironment(s, true)
	}
	return s.functions
}

func (s *Scripts) conditions() Conditions {
	if s.deps.Conditions == nil {
		return Conditions{}
	}
	return s.deps.Conditions()
}
