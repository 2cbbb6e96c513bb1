// Package scripting runs Lua scripts and functions: EVAL and its kin, SCRIPT, FUNCTION, FCALL, and the API of scripts.
//
// Owner: the core; only the holder of the turn calls anything here.
// Never: knows how a command is admitted or how the turn is lent (command.Core does), reads or writes a file, or starts
// a goroutine.
// Start here; run.go is one run from its first instruction to its reply, environment.go the state it sees. api.go has
// the functions that it may call, library.go the libraries; values.go and reply.go are the conversions.
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

// Deps is what scripts need of the rest of the server. Only Find is required.
type Deps struct {
	Settings *Settings
	// Find returns the row that args would run, or nil.
	Find func(args [][]byte) *command.Spec
	// MayRun is redis.acl_check_cmd, for the user of cl. If it is nil, all commands are allowed.
	MayRun func(cl *client.Client, spec *command.Spec, args [][]byte) bool
	// Conditions returns the states that forbid scripts. If it is nil, there are none.
	Conditions func() Conditions
	// Log is redis.log. Level 0 is debug, 3 is warning.
	Log func(level int, text string)
	// LogLevel returns the log's level. Lines below it are not formatted.
	LogLevel func() int
	// BusyMs returns busy-reply-threshold. 0 means never.
	BusyMs func() int64
	// Pack returns FUNCTION DUMP's payload.
	Pack func(libraries [][]byte) []byte
	// Unpack reads such a payload. checked is false if its version or checksum is wrong.
	Unpack func(payload []byte) (libraries [][]byte, checked bool, err error)
	// Libraries are cjson and others. Each adds its tables to s.Globals.
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

// Settings are the settings of scripts.
type Settings struct {
	MemoryLimit setting.Int  // bytes of memory for a script; 0 means no limit
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

// New returns a server's scripts, without any script yet. The functions in deps need not work yet.
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

// evalWorld returns EVAL's environment, and makes it at the first use.
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
