package scripting

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"spindle/protocol"
	"spindle/scripting/lua"
)

// A library is the result of one FUNCTION LOAD: a source, and the functions that it registered.
type library struct {
	name      string
	code      string // the source with its first line
	env       *environment
	functions map[string]*function
	stored    int64 // bytes of the stored library without its compiled form
	bytes     int   // bytes of the compiled form that stay
}

// A function is one that FCALL can call.
type function struct {
	name        string
	description string
	described   bool
	flags       Flags
	value       lua.Value // in the libraries' environment
	figures     *Figures
}

// A registry is a set of libraries. No two of their functions have the same name. Names of libraries are
// case-sensitive. Names of functions are case-sensitive only within a library.
//
// scripting.L1. functions holds exactly the functions of all libraries, by their names in lower case.
// scripting.L2. stored is the sum of the libraries' stored.
type registry struct {
	libraries map[string]*library
	functions map[string]*function
	stored    int64 // bytes, of all libraries
}

func newRegistry() *registry {
	return &registry{libraries: map[string]*library{}, functions: map[string]*function{}}
}

func (g *registry) link(l *library) {
	g.libraries[l.name] = l
	g.stored += l.stored
	for name, f := range l.functions {
		g.functions[strings.ToLower(name)] = f
	}
}

func (g *registry) unlink(l *library) {
	delete(g.libraries, l.name)
	g.stored -= l.stored
	for name := range l.functions {
		delete(g.functions, strings.ToLower(name))
	}
}

// find returns the function with this name, or nil.
func (g *registry) find(name []byte) *function {
	if f := g.functions[string(name)]; f != nil || !slices.ContainsFunc(name,
		func(c byte) bool { return c >= 'A' && c <= 'Z' }) {
		return f
	}
	return g.functions[strings.ToLower(string(name))]
}

// sorted returns the libraries, sorted by name.
func (g *registry) sorted() []*library {
	return slices.SortedFunc(maps.Values(g.libraries), func(a, b *library) int { return strings.Compare(a.name, b.name) })
}

// clash returns the first function of l whose name g contains, or nil.
func (g *registry) clash(l *library) *function {
	for _, name := range slices.Sorted(maps.Keys(l.functions)) {
		if g.functions[strings.ToLower(name)] != nil {
			return l.functions[name]
		}
	}
	return nil
}

// join adds the libraries of other. If replace is true, libraries of the same name are replaced and returned.
//
// Errors: a library or function that exists. Then g has not changed.
func (g *registry) join(other *registry, replace bool) (replaced []*library, err error) {
	err = func() error {
		for _, l := range other.sorted() {
			old := g.libraries[l.name]
			if old == nil {
				continue
			}
			if !replace {
				return errLibrary(l.name)
			}
			g.unlink(old)
			replaced = append(replaced, old)
		}
		for _, l := range other.sorted() {
			if f := g.clash(l); f != nil {
				return errFunction(f.name)
			}
		}
		return nil
	}()
	if err != nil {
		for _, l := range replaced {
			g.link(l)
		}
		return nil, err
	}
	for _, l := range other.libraries {
		g.link(l)
	}
	return replaced, nil
}

// isName reports whether a library or function may have this name.
func isName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != ""
}

const wrongName = "Library names can only contain letters, numbers, or underscores(_) and must be at least one " +
	"character long"

// parseLibrary parses the first line of a library, "#!lua name=mylib". code is the text to compile.
func parseLibrary(source []byte) (engine, name string, code []byte, err error) {
	if !bytes.HasPrefix(source, []byte("#!")) {
		return "", "", nil, errNoMetadata
	}
	line, code, ended := cutShebang(source)
	if !ended {
		return "", "", nil, errMetadata
	}
	words, _, ok := protocol.SplitWords(line, nil, nil)
	if !ok || len(words) == 0 {
		return "", "", nil, errMetadata
	}
	named := false
	for _, word := range words[1:] {
		if len(word) < 5 || !strings.EqualFold(string(word[:5]), "name=") {
			return "", "", nil, errMetadataValue(word)
		}
		if named {
			return "", "", nil, errNameTwice
		}
		named, name = true, string(word[5:])
	}
	if !named {
		return "", "", nil, errNoName
	}
	return string(words[0][2:]), name, code, nil
}

// loadTime is the maximum time that a library may take to register its functions.
const loadTime = 500 * time.Millisecond

// load compiles a library, runs it in e so that it registers its functions, and adds it to g. If patience is false,
// there is no limit of time.
//
// Errors: those of its first line, of the compiler, or of its code; a library or function of the same name. Then g has
// not changed.
func (s *Scripts) load(e *environment, g *registry, source []byte, replace, patience bool) (name string, err error) {
	engine, name, code, err := parseLibrary(source)
	switch {
	case err != nil:
		return "", err
	case !isName(name):
		return "", errWrongName
	case !strings.EqualFold(engine, "lua"):
		return "", errEngine(engine)
	}
	old := g.libraries[name]
	if old != nil && !replace {
		return "", errLibraryExists(name)
	}
	l := &library{name: name, code: string(source), env: e, functions: map[string]*function{}}
	if err := e.load(l, code, patience); err != nil {
		return "", err
	}
	if len(l.functions) == 0 {
		return "", errNoFunctions
	}
	l.stored = int64(len(l.name)+len(l.code)) + scriptBytes
	for _, f := range l.functions {
		l.stored += int64(len(f.name)+len(f.description)) + scriptBytes
	}
	if old != nil {
		g.unlink(old)
	}
	if f := g.clash(l); f != nil {
		if old != nil {
			g.link(old)
		}
		s.forget(l)
		return "", errFunction(f.name)
	}
	g.link(l)
	if old != nil {
		s.forget(old)
	}
	return name, nil
}

// load runs a library's code, which registers functions in l. The code sees loadGlobals.
func (e *environment) load(l *library, code []byte, patience bool) error {
	proto, err := lua.Compile("@user_function", code)
	if err != nil {
		return errCompileFunction(compileText(err))
	}
	put(e.lookup, nameIndex, e.loadGlobals.Value())
	e.loading = l
	e.setLimit(int(e.scripts.deps.Settings.MemoryLimit.Get()))
	defer func() {
		put(e.lookup, nameIndex, e.state.Globals.Value())
		e.loading = nil
		e.state.Reset()
		e.setLimit(0)
	}()
	e.state.Start(e.state.Load(proto, e.env))
	began := e.scripts.clock.Nanos()
	for {
		switch e.state.Run(10 * sliceBudget) {
		case lua.Done:
			values := make([]lua.Value, 0, len(l.functions))
			for _, f := range l.functions {
				put(e.anchor, f.value, lua.True)
				values = append(values, f.value)
			}
			l.bytes = lua.CodeBytes(values...)
			e.code += l.bytes
			return nil
		case lua.Paused:
			if patience && e.scripts.clock.Nanos()-began > int64(loadTime) {
				e.state.Kill(e.errorTable("ERR FUNCTION LOAD timeout"))
			}
		default:
			return errRegister(e.failureOf(e.state.Err()).text)
		}
	}
}

// release drops the functions of a library.
func (e *environment) release(l *library) {
	for _, f := range l.functions {
		put(e.anchor, f.value, lua.Nil)
	}
	e.code -= l.bytes
	e.stale = true
}

// registerFunction is redis.register_function. Its arguments are (name, callback), or a table with named arguments.
func (e *environment) registerFunction(c *lua.Call) lua.Outcome {
	if e.loading == nil {
		return e.throw(c, "redis.register_function can only be called on FUNCTION LOAD command")
	}
	f := &function{}
	refusal := ""
	switch c.Len() {
	case 1:
		refusal = e.readNamed(c.Arg(1), f)
	case 2:
		name, ok := e.wholeText(c.Arg(1))
		switch {
		case !ok:
			refusal = "first argument to redis.register_function must be a string"
		case !c.Arg(2).IsFunction():
			refusal = "second argument to redis.register_function must be a function"
		}
		f.name, f.value = name, c.Arg(2)
	default:
		refusal = "wrong number of arguments to redis.register_function"
	}
	switch {
	case refusal != "":
	case !isName(f.name):
		refusal = wrongName
	case e.loading.functions[f.name] != nil:
		refusal = "Function already exists in the library"
	}
	if refusal != "" {
		return e.throw(c, refusal)
	}
	e.loading.functions[f.name] = f
	return c.Return()
}

// readNamed reads the arguments from a table.
func (e *environment) readNamed(v lua.Value, f *function) (refusal string) {
	t := v.Table()
	if t == nil {
		return "calling redis.register_function with a single argument is only applicable to Lua table (representing named " +
			"arguments)."
	}
	named := false
	for key, v, next, more := t.Next(0); more; key, v, next, more = t.Next(next) {
		name, ok := e.textOf(key)
		if !ok {
			return "named argument key given to redis.register_function is not a string"
		}
		text, isText := e.wholeText(v)
		switch strings.ToLower(name) {
		case "function_name":
			if !isText {
				return "function_name argument given to redis.register_function must be a string"
			}
			f.name, named = text, true
		case "description":
			if !isText {
				return "description argument given to redis.register_function must be a string"
			}
			f.description, f.described = text, true
		case "callback":
			if !v.IsFunction() {
				return "callback argument given to redis.register_function must be a function"
			}
			f.value = v
		case "flags":
			if v.Table() == nil {
				return "flags argument to redis.register_function must be a table representing function flags"
			}
			if f.flags, ok = e.readFlags(v.Table()); !ok {
				return "unknown flag given"
			}
		default:
			return "unknown argument given to redis.register_function"
		}
	}
	switch {
	case !named:
		return "redis.register_function must get a function name argument"
	case !f.value.IsFunction():
		return "redis.register_function must get a callback argument"
	}
	return ""
}

func (e *environment) readFlags(t *lua.Table) (flags Flags, ok bool) {
	for i := 1; ; i++ {
		v := t.GetInt(i)
		if v.IsNil() {
			return flags, true
		}
		name, _ := e.textOf(v)
		flag, known := flagNamed(name, true)
		if !known {
			return 0, false
		}
		flags |= flag
	}
}

// Sources returns the libraries' sources, for saving and replication.
func (s *Scripts) Sources() (sources [][]byte) {
	for _, l := range s.libraries.sorted() {
		sources = append(sources, []byte(l.code))
	}
	return sources
}

// Restore adds a library from a file or from our primary. replace says whether it may replace a library of the same
// name.
//
// Errors: those of FUNCTION LOAD.
func (s *Scripts) Restore(source []byte, replace bool) error {
	_, err := s.load(s.functionWorld(), s.libraries, source, replace, false)
	return err
}

// Clear drops all libraries and their environment.
func (s *Scripts) Clear() {
	s.libraries = newRegistry()
	s.functions = nil
	s.figures.functions = nil
}

// Staged holds the libraries of a data set that is being received. They have their own environment, because a function
// of the present libraries may have lent the turn, and FUNCTION FLUSH may drop the present environment. Turn only.
type Staged struct {
	scripts   *Scripts
	libraries *registry
	env       *environment // nil until a library is added
}

// Stage returns an empty Staged. No client can call its libraries before Install.
func (s *Scripts) Stage() *Staged { return &Staged{scripts: s, libraries: newRegistry()} }

// Add adds a library to the staged ones.
//
// Errors: those of FUNCTION LOAD.
func (t *Staged) Add(source []byte) error {
	if t.env == nil {
		t.env = newEnvironment(t.scripts, true)
	}
	_, err := t.scripts.load(t.env, t.libraries, source, false, false)
	return err
}

// Install replaces the present libraries by the staged ones.
func (t *Staged) Install() {
	t.scripts.Clear()
	t.scripts.libraries, t.scripts.functions = t.libraries, t.env
}
