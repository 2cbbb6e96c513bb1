package scripting

import (
	"maps"
	"slices"
	"strings"

	"spindle/engine/command"
	"spindle/internal/glob"
	"spindle/protocol"
)

func (s *Scripts) Family() command.Family {
	const (
		runs = command.NoScript | command.Stale | command.SkipMonitor | command.MayReplicate | command.NoMandatoryKeys |
			command.MovableKeys
		reads = command.ReadOnly | command.NoScript | command.Stale | command.SkipMonitor | command.NoMandatoryKeys |
			command.MovableKeys
		worst = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"
		least = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"
	)
	shards := []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	nodes := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	one := []string{"request_policy:all_shards", "response_policy:one_succeeded"}
	changes := command.Write | command.DenyOOM | command.NoScript
	return command.Family{Name: "scripting", ACL: command.ACLScripting, Rows: command.Mark([]command.Spec{
		{Name: "eval", Arity: -3, Traits: command.RunsText, Flags: runs,
			Keys: keysAfter(command.KeyRW|command.KeyAccess|command.KeyUpdate, worst), Means: s.evalFlags(false),
			Run: s.evalCommand},
		{Name: "eval_ro", Arity: -3, Traits: command.RunsText, Flags: reads, Keys: keysAfter(command.KeyRO|command.KeyAccess,
			least), Means: s.evalFlags(false), Run: s.evalReadOnly},
		{Name: "evalsha", Arity: -3, Flags: runs, Keys: keysAfter(command.KeyRW|command.KeyAccess|command.KeyUpdate, ""),
			Means: s.evalFlags(true), Run: s.evalSHA},
		{Name: "evalsha_ro", Arity: -3, Flags: reads, Keys: keysAfter(command.KeyRO|command.KeyAccess, ""),
			Means: s.evalFlags(true), Run: s.evalSHAReadOnly},
		{Name: "fcall", Arity: -3, Traits: command.RunsFunction, Flags: runs,
			Keys: keysAfter(command.KeyRW|command.KeyAccess|command.KeyUpdate, worst), Means: s.functionFlags,
			Run: func(c *command.Context) error { return s.runFunction(c, false) }},
		{Name: "fcall_ro", Arity: -3, Traits: command.RunsFunction, Flags: reads,
			Keys: keysAfter(command.KeyRO|command.KeyAccess, least), Means: s.functionFlags,
			Run: func(c *command.Context) error { return s.runFunction(c, true) }},
		{Name: "script", Arity: -2, Subs: []command.Spec{
			{Name: "debug", Arity: 3, Flags: command.NoScript, Run: s.scriptDebug},
			{Name: "exists", Arity: -3, Flags: command.NoScript,
				Tips: []string{"request_policy:all_shards", "response_policy:agg_logical_and"}, Run: s.scriptExists},
			{Name: "flush", Arity: -2, Traits: command.InLogs, Flags: command.NoScript, Tips: nodes, Run: s.scriptFlush},
			{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: scriptHelp},
			{Name: "kill", Arity: 2, Flags: command.NoScript | command.AllowBusy, Tips: one, Run: s.scriptKill},
			{Name: "load", Arity: 3, Traits: command.InLogs, Flags: command.NoScript | command.Stale, Tips: nodes,
				Run: s.scriptLoad},
			{Name: "show", Arity: 3, Flags: command.NoScript | command.Stale, Run: s.scriptShow},
			// SCRIPT STATS shows the scripts of all clients, and a client with +@scripting could then run them.
			{Name: "stats", Arity: 2, Flags: command.NoScript | command.Admin, Apart: true,
				Tips: []string{"nondeterministic_output"}, Run: s.stats},
		}},
		{Name: "function", Arity: -2, Subs: []command.Spec{
			{Name: "delete", Arity: 3, Flags: command.Write | command.NoScript, Tips: shards, Run: s.functionDelete},
			{Name: "dump", Arity: 2, Flags: command.NoScript, Run: s.functionDump},
			{Name: "flush", Arity: -2, Flags: command.Write | command.NoScript, Tips: shards, Run: s.functionFlush},
			{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: functionHelp},
			{Name: "kill", Arity: 2, Flags: command.NoScript | command.AllowBusy, Tips: one, Run: s.functionKill},
			{Name: "list", Arity: -2, Flags: command.NoScript, Tips: []string{"nondeterministic_output_order"},
				Run: s.functionList},
			{Name: "load", Arity: -3, Flags: changes, Tips: shards, Run: s.functionLoad},
			{Name: "restore", Arity: -3, Flags: changes, Tips: shards, Run: s.functionRestore},
			{Name: "stats", Arity: 2, Flags: command.NoScript | command.AllowBusy,
				Tips: []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
				Run:  s.functionStats},
		}},
	}, command.Scripts)}
}

// keysAfter returns the key spec of commands whose second argument is the number of keys. The keys follow that
// argument.
func keysAfter(f command.KeyFlags, notes string) []command.KeySpec {
	return []command.KeySpec{{Flags: f, Notes: notes, Index: 2, KeyNum: true, FirstKey: 1, KeyStep: 1}}
}

// evalCommand is EVAL script numkeys [key …] [arg …]. Replies: the script's result.
//
// It propagates only the commands that the script calls.
func (s *Scripts) evalCommand(c *command.Context) error {
	c.Core.Show(c) // MONITOR shows it before the commands that the script calls
	return s.runScript(c, s.cache.byBody[string(c.Args[1])], false)
}

func (s *Scripts) evalReadOnly(c *command.Context) error {
	c.Core.Show(c)
	return s.runScript(c, s.cache.byBody[string(c.Args[1])], true)
}

func (s *Scripts) evalSHA(c *command.Context) error         { return s.runKnown(c, false) }
func (s *Scripts) evalSHAReadOnly(c *command.Context) error { return s.runKnown(c, true) }

// runKnown is EVALSHA sha1 numkeys [key …] [arg …].
//
// Errors: ErrNoScript.
func (s *Scripts) runKnown(c *command.Context, readOnly bool) error {
	c.Core.Show(c)
	if len(c.Args[1]) != digestLen {
		return protocol.ErrNoScript
	}
	sc := s.cache.find(c.Args[1])
	if sc == nil {
		if _, _, err := splitKeys(c.Args); err != nil {
			return err
		}
		return protocol.ErrNoScript
	}
	return s.runScript(c, sc, readOnly)
}

// functionFlags returns the flags of a call of FCALL, which are those of the function. It implements Means of
// command.Spec.
func (s *Scripts) functionFlags(args [][]byte, row command.Flags) command.Flags {
	if f := s.libraries.find(args[1]); f != nil {
		return f.flags.Of(row)
	}
	return row
}

// runFunction is FCALL function numkeys [key …] [arg …]. Replies: the function's result.
//
// Errors: no such function, a wrong number of keys, and those of scripts that may not run.
func (s *Scripts) runFunction(c *command.Context, readOnly bool) error {
	c.Core.Show(c)
	f := s.libraries.find(c.Args[1])
	if f == nil {
		return errNoFunction
	}
	keys, args, err := splitKeys(c.Args)
	if err == protocol.ErrNotInteger {
		err = errBadKeys
	}
	if err != nil {
		return err
	}
	e := s.functionWorld()
	if err := s.prepare(c, e, f.flags, readOnly); err != nil {
		return err
	}
	if f.figures == nil {
		f.figures = figuresOf(&s.figures.functions, "function", f.name)
	}
	s.run.name, s.run.figures = f.name, f.figures
	e.keys, e.argv = e.strings(keys), e.strings(args)
	return s.start(c, f.value)
}

// scriptLoad is SCRIPT LOAD script. Replies: the script's digest.
func (s *Scripts) scriptLoad(c *command.Context) error {
	sc, err := s.define(c.Args[2], true)
	if err != nil {
		return err
	}
	c.Reply.BulkString(sc.digest)
	return nil
}

// scriptExists is SCRIPT EXISTS sha1 [sha1 …]. Replies: 1 or 0 for each.
func (s *Scripts) scriptExists(c *command.Context) error {
	c.Reply.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		n := int64(0)
		if s.cache.find(name) != nil {
			n = 1
		}
		c.Reply.Int(n)
	}
	return nil
}

// scriptShow is SCRIPT SHOW sha1. Replies: the script's text.
func (s *Scripts) scriptShow(c *command.Context) error {
	found := s.cache.find(c.Args[2])
	if found == nil {
		return errNotShown
	}
	c.Reply.BulkString(found.body)
	return nil
}

// isFlush checks FLUSH [ASYNC|SYNC]. Both words mean the same, because Go's collector frees the scripts.
func isFlush(args [][]byte) bool {
	return len(args) == 2 || len(args) == 3 && (command.Is(args[2], "SYNC") || command.Is(args[2], "ASYNC"))
}

// scriptFlush is SCRIPT FLUSH [ASYNC|SYNC]. Replies: OK.
func (s *Scripts) scriptFlush(c *command.Context) error {
	if !isFlush(c.Args) {
		return errScriptFlush
	}
	s.figures.Freed += int64(len(s.cache.byDigest))
	s.flush()
	c.Reply.OK()
	return nil
}

// scriptKill is SCRIPT KILL. Replies: OK. The script then ends before its next instruction.
//
// Errors: NOTBUSY, UNKILLABLE, or BUSY if a function runs.
func (s *Scripts) scriptKill(c *command.Context) error { return s.killed(c, true) }

// functionKill is FUNCTION KILL; see scriptKill.
func (s *Scripts) functionKill(c *command.Context) error { return s.killed(c, false) }

func (s *Scripts) killed(c *command.Context, isEval bool) error {
	if err := s.kill(isEval); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

// scriptDebug is SCRIPT DEBUG YES|SYNC|NO. Replies: OK to NO, because debugging is off for every client.
func (s *Scripts) scriptDebug(c *command.Context) error {
	switch mode := c.Args[2]; {
	case command.Is(mode, "NO"):
		c.Reply.OK()
		return nil
	case command.Is(mode, "YES"), command.Is(mode, "SYNC"):
		return errNoDebugger
	}
	return errDebugMode
}

func scriptHelp(c *command.Context) error {
	command.Help(c,
		"DEBUG (YES|SYNC|NO)", "    NO is how every client is. There is no debugger to turn on.",
		"EXISTS <sha1> [<sha1> ...]", "    Say for each digest whether the cache holds its script.",
		"FLUSH [ASYNC|SYNC]", "    Empty the cache of scripts. Both modes are the same.",
		"KILL", "    End the script that is running, unless it has written.",
		"LOAD <script>", "    Put a script into the cache without running it, and give its digest.",
		"SHOW <sha1>", "    Give the text of the script with this digest.",
		"STATS", "    Give what each script and function has cost.")
	return nil
}

func functionHelp(c *command.Context) error {
	command.Help(c,
		"LOAD [REPLACE] <FUNCTION CODE>", "    Add a library; its first line names it: #!lua name=<library>.",
		"DELETE <LIBRARY NAME>", "    Remove a library and its functions.",
		"LIST [LIBRARYNAME PATTERN] [WITHCODE]", "    Give the libraries, their functions and, with WITHCODE, their sources.",
		"STATS", "    Give the function that is running, and how many libraries and functions there are.",
		"KILL", "    End the function that is running, unless it has written.",
		"FLUSH [ASYNC|SYNC]", "    Remove all libraries. Both modes are the same.",
		"DUMP", "    Give all libraries as one payload for FUNCTION RESTORE.",
		"RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
		"    Add the libraries of a payload. What happens to those that are there:",
		"    * FLUSH: they are removed first.",
		"    * APPEND: they stay, and one of the same name is an error. This is the default.",
		"    * REPLACE: one of the same name is replaced. A function of the same name in another library is an error.")
	return nil
}

// functionLoad is FUNCTION LOAD [REPLACE] source. Replies: the library's name. Propagates as written.
func (s *Scripts) functionLoad(c *command.Context) error {
	last := len(c.Args) - 1
	replace := false
	for _, word := range c.Args[2:last] {
		if !command.Is(word, "REPLACE") {
			return errOption(word)
		}
		replace = true
	}
	if last < 2 {
		return errNoCode
	}
	name, err := s.load(s.functionWorld(), s.libraries, c.Args[last], replace, !c.Obeys())
	if err != nil {
		return err
	}
	c.Changed(1)
	c.Reply.BulkString(name)
	return nil
}

// functionDelete is FUNCTION DELETE library. Replies: OK. Propagates as written.
func (s *Scripts) functionDelete(c *command.Context) error {
	l := s.libraries.libraries[string(c.Args[2])]
	if l == nil {
		return errNoLibrary
	}
	s.libraries.unlink(l)
	s.forget(l)
	c.Changed(1)
	c.Reply.OK()
	return nil
}

// forget drops the functions of a library that was replaced, deleted or refused, and their figures.
func (s *Scripts) forget(l *library) {
	l.env.release(l)
	for name, f := range l.functions {
		if f.figures != nil && s.figures.functions[name] == f.figures {
			delete(s.figures.functions, name)
		}
	}
}

// functionFlush is FUNCTION FLUSH [ASYNC|SYNC]. Replies: OK. Propagates as written.
func (s *Scripts) functionFlush(c *command.Context) error {
	if len(c.Args) > 3 {
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	if !isFlush(c.Args) {
		return errFunctionFlush
	}
	if s.functions != nil {
		s.figures.Freed += int64(len(s.libraries.functions)) + 1 // with their environment
	}
	s.Clear()
	c.Changed(1)
	c.Reply.OK()
	return nil
}

// functionList is FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]. Replies: a map for each library, sorted by name.
func (s *Scripts) functionList(c *command.Context) error {
	var pattern []byte
	withCode := false
	for i := 2; i < len(c.Args); i++ {
		switch word := c.Args[i]; {
		case !withCode && command.Is(word, "WITHCODE"):
			withCode = true
		case pattern == nil && command.Is(word, "LIBRARYNAME"):
			if i++; i == len(c.Args) {
				return errNoLibraryName
			}
			pattern = c.Args[i]
		default:
			return errArgument(word)
		}
	}
	mark, n := c.Reply.Mark(), 0
	for _, l := range s.libraries.sorted() {
		if pattern != nil && !glob.MatchFold(pattern, []byte(l.name)) {
			continue
		}
		n++
		l.append(c.Reply, withCode)
	}
	c.Reply.ArrayAt(mark, n)
	return nil
}

func (l *library) append(r *protocol.Reply, withCode bool) {
	n := 3
	if withCode {
		n = 4
	}
	r.Map(n)
	r.BulkString("library_name")
	r.BulkString(l.name)
	r.BulkString("engine")
	r.BulkString("LUA")
	r.BulkString("functions")
	r.Array(len(l.functions))
	for _, name := range slices.Sorted(maps.Keys(l.functions)) {
		f := l.functions[name]
		r.Map(3)
		r.BulkString("name")
		r.BulkString(f.name)
		r.BulkString("description")
		if f.described {
			r.BulkString(f.description)
		} else {
			r.Null()
		}
		r.BulkString("flags")
		flags := f.flags.names()
		r.Set(len(flags))
		for _, flag := range flags {
			r.Simple(flag)
		}
	}
	if withCode {
		r.BulkString("library_code")
		r.BulkString(l.code)
	}
}

// functionStats is FUNCTION STATS. Replies: a map of the running function, or null, and of the engines.
//
// Errors: BUSY if a script of EVAL runs.
func (s *Scripts) functionStats(c *command.Context) error {
	r := &s.run
	if r.env != nil && r.isEval {
		return protocol.ErrBusyScript
	}
	c.Reply.Map(2)
	c.Reply.BulkString("running_script")
	if r.env == nil {
		c.Reply.Null()
	} else {
		c.Reply.Map(3)
		c.Reply.BulkString("name")
		c.Reply.BulkString(r.name)
		c.Reply.BulkString("command")
		c.Reply.Array(len(r.args))
		for _, a := range r.args {
			c.Reply.Bulk(a)
		}
		c.Reply.BulkString("duration_ms")
		c.Reply.Int((s.clock.Nanos() - r.began) / 1e6)
	}
	c.Reply.BulkString("engines")
	c.Reply.Map(1)
	c.Reply.BulkString("LUA")
	c.Reply.Map(2)
	c.Reply.BulkString("libraries_count")
	c.Reply.Int(int64(len(s.libraries.libraries)))
	c.Reply.BulkString("functions_count")
	c.Reply.Int(int64(len(s.libraries.functions)))
	return nil
}

// functionDump is FUNCTION DUMP. Replies: a payload for FUNCTION RESTORE, in this server and in Redis.
func (s *Scripts) functionDump(c *command.Context) error {
	c.Reply.Bulk(s.deps.Pack(s.Sources()))
	return nil
}

// functionRestore is FUNCTION RESTORE payload [FLUSH|APPEND|REPLACE]. Replies: OK. It propagates the command with a
// payload made by this server, because older replicas refuse payloads of newer servers.
//
// Errors: those of the payload and of its libraries; a library or function that exists. Then nothing has changed.
func (s *Scripts) functionRestore(c *command.Context) error {
	if len(c.Args) > 4 {
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	policy := "append"
	if len(c.Args) == 4 {
		policy = strings.ToLower(string(c.Args[3]))
	}
	if !slices.Contains([]string{"append", "replace", "flush"}, policy) {
		return errPolicy
	}
	sources, checked, wrong := s.deps.Unpack(c.Args[2])
	if !checked {
		return errPayload
	}
	if wrong != nil {
		return errBadPayload(wrong)
	}
	restored, err := newRegistry(), error(nil)
	for i := 0; i < len(sources) && err == nil; i++ {
		_, err = s.load(s.functionWorld(), restored, sources[i], false, !c.Obeys())
	}
	gone := restored.libraries // libraries to drop: after an error these, otherwise the replaced ones
	if err == nil {
		if policy == "flush" {
			gone, s.libraries = s.libraries.libraries, restored
		} else {
			var replaced []*library
			if replaced, err = s.libraries.join(restored, policy == "replace"); err == nil {
				gone = nil
			}
			for _, l := range replaced {
				s.forget(l)
			}
		}
	}
	for _, l := range gone {
		s.forget(l)
	}
	if err != nil {
		return err
	}
	if !c.Effects.Unheard {
		c.Propagate(append([][]byte{c.Args[0], c.Args[1], s.deps.Pack(sources)}, c.Args[3:]...)...)
	}
	c.Changed(1)
	c.Reply.OK()
	return nil
}
