// Package modules implements MODULE. All modules are built in. No shared library can be loaded.
//
// Owner: the core; everything here runs in a turn, except Configure, which is called before the first turn.
// Never: runs foreign code, or knows what a module's commands do.
package modules

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spindle/engine/command"
	"spindle/internal/info"
	"spindle/protocol"
)

// A Module is a built-in module, as clients see it.
type Module struct {
	Name    string
	Version int      // in the module's own numbering: 20802 is 2.8.2
	Files   []string // names of its shared library, without ".so"
	Path    string   // from the loadmodule line that named it, if any
	Args    []string // of that line

	parse func(args []string) error
}

// Modules are the modules of a server.
type Modules struct {
	list []*Module
	warn func(text string) // logs a line
}

// New returns the built-in modules. bloom receives the arguments of the loadmodule line that names RedisBloom.
func New(warn func(text string), bloom func(args []string) error) *Modules {
	return &Modules{warn: warn, list: []*Module{
		// This is the release that came with Redis 7.4.
		{Name: "bf", Version: 20802, Files: []string{"redisbloom", "bf"}, parse: bloom},
	}}
}

// An Unknown error reports a loadmodule line that cannot be served. Its text says what to do.
type Unknown struct{ Path, Why string }

func (e *Unknown) Error() string { return fmt.Sprintf("module %s: %s", e.Path, e.Why) }

// Configure applies a loadmodule line. It returns the built-in module that the line names.
//
// Errors: *Unknown, also for arguments that the module refuses.
func (m *Modules) Configure(path string, args []string) (*Module, error) {
	module := m.find(path)
	if module == nil {
		return nil, &Unknown{path, "native modules cannot be loaded; built in are: " + m.names()}
	}
	if err := module.parse(args); err != nil {
		return nil, &Unknown{path, err.Error()}
	}
	module.Path, module.Args = path, args
	return module, nil
}

// find returns the module whose shared library has this file name, or nil.
func (m *Modules) find(path string) *Module {
	file := strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".so")
	for _, module := range m.list {
		if slices.Contains(module.Files, file) {
			return module
		}
	}
	return nil
}

func (m *Modules) names() string {
	var names []string
	for _, module := range m.list {
		names = append(names, module.Name)
	}
	return strings.Join(names, ", ")
}

// Append replies the modules, for MODULE LIST and HELLO.
func (m *Modules) Append(r *protocol.Reply) {
	r.Array(len(m.list))
	for _, module := range m.list {
		r.Map(4)
		r.BulkString("name")
		r.BulkString(module.Name)
		r.BulkString("ver")
		r.Int(int64(module.Version))
		r.BulkString("path")
		r.BulkString(module.Path)
		r.BulkString("args")
		r.Array(len(module.Args))
		for _, arg := range module.Args {
			r.BulkString(arg)
		}
	}
}

func (m *Modules) Section() info.Section {
	return info.Section{Name: "Modules", Fields: []info.Field{info.Lines("module", func(w *info.Writer) {
		for _, module := range m.list {
			w.Text("module", fmt.Sprintf("name=%s,ver=%d,api=1,filters=0,usedby=[],using=[],options=[]",
				module.Name, module.Version))
		}
	})}}
}

func (m *Modules) Family() command.Family {
	const (
		admin = command.Admin | command.NoScript
		loads = admin | command.NoAsyncLoading | command.Protected
	)
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "module", Arity: -2, Subs: command.Mark([]command.Spec{
			{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: help},
			{Name: "list", Arity: 2, Flags: admin, Tips: []string{"nondeterministic_output_order"}, Run: m.show},
			{Name: "load", Arity: -3, Flags: loads, Run: m.load},
			{Name: "loadex", Arity: -3, Flags: loads, Run: m.loadEx},
			{Name: "unload", Arity: 3, Flags: loads, Run: m.unload},
		}, command.OfModules)},
	}}
}

// show is MODULE LIST. Replies: an array of maps: name, ver, path, args.
func (m *Modules) show(c *command.Context) error {
	m.Append(c.Reply)
	return nil
}

// refuse logs why the module at path is not loaded, and returns the reply.
func (m *Modules) refuse(path []byte) error {
	why := "native modules cannot be loaded; built in are: " + m.names()
	if module := m.find(string(path)); module != nil {
		why = module.Name + " is built in, and loaded already"
	}
	m.warn(fmt.Sprintf("Module %s is not loaded: %s", strconv.Quote(string(path)), why))
	return errLoad
}

// load is MODULE LOAD path [arg …]. Errors: always errLoad, because no shared library can be loaded.
func (m *Modules) load(c *command.Context) error { return m.refuse(c.Args[2]) }

// loadEx is MODULE LOADEX path [CONFIG name value …] [ARGS arg …]. Errors: always errLoad, as MODULE LOAD.
func (m *Modules) loadEx(c *command.Context) error { return m.refuse(c.Args[2]) }

// unload is MODULE UNLOAD name. Errors: always; the module is unknown, or it exports a type.
func (m *Modules) unload(c *command.Context) error {
	for _, module := range m.list {
		if module.Name == string(c.Args[2]) {
			return errHasType
		}
	}
	return errNoModule
}

func help(c *command.Context) error {
	command.Help(c,
		"LIST",
		"    The modules that are loaded: all that are built in.",
		"LOAD <path> [<arg> ...]",
		"    Load a shared library. None can be loaded here.",
		"LOADEX <path> [CONFIG <name> <value> ...] [ARGS <arg> ...]",
		"    Load a shared library with settings and arguments. None can be loaded here.",
		"UNLOAD <name>",
		"    Unload a module. Those that are built in have their own types, and stay.",
	)
	return nil
}
