package scripting

import (
	"context"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"spindle/engine/command"
	"spindle/internal/info"
)

// Figures are the cost of a script or function since it was loaded, or since CONFIG RESETSTAT.
type Figures struct {
	Kind, Name string // "script" and its digest, or "function" and its name
	Calls      int64
	Worked     time.Duration // in its own slices, with the commands it called
	Paused     time.Duration // between its slices, while other clients had the turn
	Pauses     int64         // how often it lent the turn
	Commands   int64         // called by it
	Bytes      int64         // the most memory that one run allocated, garbage included
}

// figures are the figures of scripts by digest, and of functions by name.
type figures struct {
	scripts, functions map[string]*Figures
	EvictedScripts     int64
	Freed              int64 // scripts, functions and environments that FLUSH has dropped
}

func figuresOf(of *map[string]*Figures, kind, name string) *Figures {
	if *of == nil {
		*of = map[string]*Figures{}
	}
	f := (*of)[name]
	if f == nil {
		f = &Figures{Kind: kind, Name: name}
		(*of)[name] = f
	}
	return f
}

// book adds the run that has ended to the figures of its script or function.
func (s *Scripts) book() {
	r := &s.run
	f := r.figures
	f.Calls++
	f.Worked += time.Duration(r.worked)
	f.Paused += time.Duration(r.paused)
	f.Pauses += r.pauses
	f.Commands += r.commands
	f.Bytes = max(f.Bytes, int64(r.env.state.Used()-r.memory))
}

// ResetStats does the part of CONFIG RESETSTAT for scripts.
func (s *Scripts) ResetStats() {
	for _, f := range s.figures.scripts {
		*f = Figures{Kind: f.Kind, Name: f.Name}
	}
	for _, f := range s.figures.functions {
		*f = Figures{Kind: f.Kind, Name: f.Name}
	}
	s.figures.EvictedScripts, s.figures.Freed = 0, 0
}

// Freed returns the number of scripts, functions and environments that SCRIPT FLUSH and FUNCTION FLUSH have dropped.
// Go's collector frees them.
func (s *Scripts) Freed() int64 { return s.figures.Freed }

// Each yields the figures of all scripts and functions, sorted by name.
func (s *Scripts) Each(yield func(f Figures) bool) {
	for _, of := range []map[string]*Figures{s.figures.scripts, s.figures.functions} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if !yield(*of[name]) {
				return
			}
		}
	}
}

// stats is SCRIPT STATS, which Redis does not have. It shows the cost of each script and function.
//
// Replies: an array of maps. Times are in microseconds.
func (s *Scripts) stats(c *command.Context) error {
	c.Reply.Array(len(s.figures.scripts) + len(s.figures.functions))
	for f := range s.Each {
		c.Reply.Map(8)
		c.Reply.BulkString("kind")
		c.Reply.BulkString(f.Kind)
		c.Reply.BulkString("name")
		c.Reply.BulkString(f.Name)
		for _, each := range []struct {
			name string
			n    int64
		}{{"calls", f.Calls}, {"usec", f.Worked.Microseconds()}, {"paused_usec", f.Paused.Microseconds()},
			{"pauses", f.Pauses}, {"commands", f.Commands}, {"bytes", f.Bytes}} {
			c.Reply.BulkString(each.name)
			c.Reply.Int(each.n)
		}
	}
	return nil
}

func (s *Scripts) logf(level int, format string, args ...any) {
	if s.deps.Log != nil && (s.deps.LogLevel == nil || level >= s.deps.LogLevel()) {
		s.deps.Log(level, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// SetProfiling sets whether profiles name the running script or function, in the label "script".
func (s *Scripts) SetProfiling(on bool) {
	s.labels = nil
	if on {
		s.labels = map[string]context.Context{}
	}
}

// label sets the name of what runs, for profiles. An empty name means that nothing runs.
func (s *Scripts) label(name string) {
	if s.labels == nil {
		return
	}
	if name == "" {
		pprof.SetGoroutineLabels(context.Background())
		return
	}
	labels := s.labels[name]
	if labels == nil {
		labels = pprof.WithLabels(context.Background(), pprof.Labels("script", name))
		s.labels[name] = labels
	}
	pprof.SetGoroutineLabels(labels)
}

func (s *Scripts) Sections() []info.Section {
	return []info.Section{
		{Name: "Memory", Fields: []info.Field{
			info.Int("used_memory_lua", func() int64 { return s.eval.bytes() }),
			info.Int("used_memory_vm_eval", func() int64 { return s.eval.bytes() }),
			info.Text("used_memory_lua_human", func() string { return string(info.AppendHuman(nil, s.eval.bytes())) }),
			info.Int("used_memory_scripts_eval", s.scriptsBytes),
			info.Int("number_of_cached_scripts", func() int64 { return int64(len(s.cache.byDigest)) }),
			info.Int("number_of_functions", func() int64 { return int64(len(s.libraries.functions)) }),
			info.Int("number_of_libraries", func() int64 { return int64(len(s.libraries.libraries)) }),
			info.Int("used_memory_vm_functions", func() int64 { return s.functions.bytes() }),
			info.Bytes("used_memory_vm_total", func() int64 { return s.eval.bytes() + s.functions.bytes() }),
			info.Int("used_memory_functions", func() int64 { return s.libraries.stored }),
			info.Bytes("used_memory_scripts", func() int64 { return s.scriptsBytes() + s.libraries.stored }),
		}},
		{Name: "Stats", Fields: []info.Field{
			info.Int("evicted_scripts", func() int64 { return s.figures.EvictedScripts }),
		}},
	}
}

// scriptBytes is the cost of a script, library or function in addition to its texts: entries in two maps, and an
// object.
const scriptBytes = 256

// StoredBytes returns the bytes of the stored scripts and libraries: their texts and indexes, without the machines'
// memory. Turn only.
func (s *Scripts) StoredBytes() (scripts, libraries int64) {
	return int64(s.cache.bytes + len(s.cache.byDigest)*scriptBytes), s.libraries.stored
}

func (s *Scripts) scriptsBytes() int64 {
	scripts, _ := s.StoredBytes()
	return scripts
}
