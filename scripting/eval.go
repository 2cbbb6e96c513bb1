package scripting

import (
	"bytes"
	"container/list"
	"errors"

	"spindle/engine/command"
	"spindle/internal/ascii"
	"spindle/scripting/lua"
)

// A script is a compiled script of EVAL or SCRIPT LOAD.
type script struct {
	digest   string
	body     string
	flags    Flags
	function lua.Value     // in EVAL's environment
	recent   *list.Element // in cache.evaluated; nil for SCRIPT LOAD
	figures  *Figures
	code     int // bytes of the compiled form
}

// maxEvaluated is the maximum number of kept scripts that only EVAL has sent. Scripts of SCRIPT LOAD stay until SCRIPT
// FLUSH.
const maxEvaluated = 500

// A cache holds the scripts.
//
// scripting.C1. byDigest and byBody hold the same scripts.
// scripting.C2. evaluated holds the scripts that only EVAL has sent, the least recently used first.
type cache struct {
	byDigest  map[string]*script
	byBody    map[string]*script // so that EVAL needs no digest
	evaluated list.List
	bytes     int // of bodies and digests
}

func (k *cache) clear() { *k = cache{byDigest: map[string]*script{}, byBody: map[string]*script{}} }

func (k *cache) add(sc *script) {
	k.byDigest[sc.digest], k.byBody[sc.body] = sc, sc
	k.bytes += len(sc.digest) + len(sc.body)
}

func (k *cache) drop(sc *script) {
	delete(k.byDigest, sc.digest)
	delete(k.byBody, sc.body)
	k.bytes -= len(sc.digest) + len(sc.body)
}

const digestLen = 40

// find returns the script with this digest, in any case, or nil.
func (k *cache) find(name []byte) *script {
	if len(name) != digestLen {
		return nil
	}
	var lower [digestLen]byte
	for i, c := range name {
		lower[i] = ascii.Lower(c)
	}
	return k.byDigest[string(lower[:])]
}

// define returns the script with this body, and compiles a new one. stays means that a command other than EVAL has sent
// it.
//
// Errors: those of its first line, and of the compiler.
func (s *Scripts) define(body []byte, stays bool) (*script, error) {
	if sc := s.cache.byBody[string(body)]; sc != nil {
		return sc, nil
	}
	flags, code, err := parseShebang(body)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile("@user_script", code)
	if err != nil {
		return nil, errCompileScript(compileText(err))
	}
	e := s.evalWorld()
	sc := &script{digest: digest(body), body: string(body), flags: flags, function: e.state.Load(proto, nil),
		code: proto.Bytes()}
	if !stays {
		for s.cache.evaluated.Len() >= maxEvaluated {
			oldest := s.cache.evaluated.Remove(s.cache.evaluated.Front()).(*script)
			s.cache.drop(oldest)
			e.drop(oldest.function, oldest.code)
			delete(s.figures.scripts, oldest.digest)
			s.figures.EvictedScripts++
		}
		sc.recent = s.cache.evaluated.PushBack(sc)
	}
	s.cache.add(sc)
	e.hold(sc.function, sc.code)
	return sc, nil
}

func compileText(err error) string {
	if e := new(lua.SyntaxError); errors.As(err, &e) {
		return e.Text
	}
	return err.Error()
}

// splitKeys splits the arguments after the number of keys, args[2], into keys and the rest.
func splitKeys(args [][]byte) (keys, rest [][]byte, err error) {
	n, err := command.Int(args[2])
	switch {
	case err != nil:
		return nil, nil, err
	case n > int64(len(args)-3):
		return nil, nil, errManyKeys
	case n < 0:
		return nil, nil, errNegativeKeys
	}
	return args[3 : 3+n], args[3+n:], nil
}

// strings returns a table with copies of args.
func (e *environment) strings(args [][]byte) lua.Value {
	t := e.state.NewTable(len(args), 0)
	e.fill(t, args)
	return t.Value()
}

func (e *environment) fill(t *lua.Table, args [][]byte) {
	for i, a := range args {
		t.SetInt(i+1, e.state.Bytes(a))
	}
}

// setGlobal sets the global KEYS or ARGV to a table with copies of args. It reuses the last script's table, because no
// script of EVAL can keep a reference to it.
func (e *environment) setGlobal(name lua.Value, args [][]byte) {
	g := e.state.Globals
	if t := g.Get(name).Table(); t != nil && t.Renew(len(args)) {
		e.fill(t, args)
		return
	}
	put(g, name, e.strings(args))
}

// runScript runs the script sc. If sc is nil, it compiles the body args[1] first.
func (s *Scripts) runScript(c *command.Context, sc *script, readOnly bool) error {
	keys, args, err := splitKeys(c.Args)
	if err != nil {
		return err
	}
	if sc == nil {
		if sc, err = s.define(c.Args[1], false); err != nil {
			return err
		}
	}
	e := s.evalWorld()
	if err := s.prepare(c, e, sc.flags, readOnly); err != nil {
		return err
	}
	r := &s.run
	r.name, r.script = sc.digest, sc
	if sc.figures == nil {
		sc.figures = figuresOf(&s.figures.scripts, "script", sc.digest)
	}
	r.figures = sc.figures
	e.state.SetEnv(sc.function, e.state.Globals)
	e.setGlobal(nameKeys, keys)
	e.setGlobal(nameArgv, args)
	return s.start(c, sc.function)
}

// touch marks sc as the most recently used script.
func (s *Scripts) touch(sc *script) {
	if sc.recent != nil {
		s.cache.evaluated.MoveToBack(sc.recent)
	}
}

// evalFlags returns the flags of a call of EVAL or EVALSHA: the script's own, if it declares any. It implements Means
// of command.Spec.
func (s *Scripts) evalFlags(bySHA bool) func(args [][]byte, row command.Flags) command.Flags {
	return func(args [][]byte, row command.Flags) command.Flags {
		if bySHA {
			if sc := s.cache.find(args[1]); sc != nil {
				return sc.flags.Of(row)
			}
			return row
		}
		if sc := s.cache.byBody[string(args[1])]; sc != nil {
			return sc.flags.Of(row)
		}
		if !bytes.HasPrefix(args[1], []byte("#!")) {
			return row
		}
		if f, _, err := parseShebang(args[1]); err == nil {
			return f.Of(row)
		}
		return row
	}
}

// flush is SCRIPT FLUSH: it drops the scripts and their environment. Go's collector frees them.
func (s *Scripts) flush() {
	s.cache.clear()
	s.eval = nil
	s.figures.scripts = nil
}
