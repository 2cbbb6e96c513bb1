package scripting

import (
	"crypto/sha1"
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"spindle/engine/client"
	"spindle/internal/number"
	"spindle/internal/version"
	"spindle/scripting/lua"
)

// These are the levels of redis.log.
const (
	logDebug = iota
	logVerbose
	logNotice
	logWarning
)

// These are the bits of redis.set_repl.
const (
	replLog      = int(client.ToLog)
	replReplicas = int(client.ToReplicas)
)

// api returns the table redis of scripts.
func (e *environment) api(forLibraries bool) *lua.Table {
	s := e.state
	t := s.NewTable(0, 32)
	s.Register(t, "call", func(c *lua.Call) lua.Outcome { return e.command(c, true) })
	s.Register(t, "pcall", func(c *lua.Call) lua.Outcome { return e.command(c, false) })
	e.addLog(t)
	e.addVersion(t)
	s.Register(t, "setresp", e.setResp)
	s.Register(t, "sha1hex", e.sha1hex)
	s.Register(t, "error_reply", e.errorReply)
	s.Register(t, "status_reply", e.statusReply)
	s.Register(t, "set_repl", e.setRepl)
	s.Register(t, "acl_check_cmd", e.checkCommand)
	for name, bits := range map[string]int{"REPL_NONE": 0, "REPL_AOF": replLog, "REPL_SLAVE": replReplicas,
		"REPL_REPLICA": replReplicas, "REPL_ALL": replLog | replReplicas} {
		t.SetName(name, lua.Number(float64(bits)))
	}
	if !forLibraries {
		s.Register(t, "breakpoint", func(c *lua.Call) lua.Outcome { return c.Return1(lua.False) }) // no debugger is attached
		s.Register(t, "debug", func(c *lua.Call) lua.Outcome { return c.Return() })
		s.Register(t, "replicate_commands", func(c *lua.Call) lua.Outcome { return c.Return1(lua.True) })
	}
	return t
}

func (e *environment) addLog(t *lua.Table) {
	e.state.Register(t, "log", e.log)
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		t.SetName(name, lua.Number(float64(i)))
	}
}

func (e *environment) addVersion(t *lua.Table) {
	num := 0
	for _, part := range strings.SplitN(version.Redis, ".", 3) {
		n, _ := strconv.Atoi(part)
		num = num<<8 | n&0xFF
	}
	t.SetName("REDIS_VERSION", e.state.String(version.Redis))
	t.SetName("REDIS_VERSION_NUM", lua.Number(float64(num)))
}

// errorTable returns an error value for scripts. text begins with the error's code.
func (e *environment) errorTable(text string) lua.Value {
	return fieldTable(e.state, nameErr, e.state.String(text))
}

// throw raises an error with this text and with the code ERR.
func (e *environment) throw(c *lua.Call, text string) lua.Outcome {
	return c.Throw(e.errorTable("ERR " + text))
}

// readArgs stores the arguments of c as those of a command. Lifetime: until the next call.
//
// Numbers are written in full, as in Redis, and not as tostring writes them: 10000000000000000, not 1e+16.
func (e *environment) readArgs(c *lua.Call) (refusal string) {
	if c.Len() == 0 {
		return "Please specify at least one argument for this redis lib call"
	}
	e.args, e.text = e.args[:0], e.text[:0]
	for _, v := range c.Args() {
		switch {
		case v.IsString():
			e.args = append(e.args, v.Bytes())
		case v.IsNumber():
			from := len(e.text)
			e.text = appendArgument(e.text, v.Float())
			e.args = append(e.args, e.text[from:len(e.text):len(e.text)]) // stays valid when text is reallocated
		default:
			return "Lua redis lib command arguments must be strings or integers"
		}
	}
	return ""
}

func appendArgument(dst []byte, f float64) []byte {
	if f >= -1<<62 && f <= 1<<62 && f == float64(int64(f)) {
		return number.AppendInt(dst, int64(f))
	}
	if f != f && math.Signbit(f) {
		dst = append(dst, '-') // 0/0 is negative on Redis's machines
	}
	return number.AppendShortest(dst, f)
}

// keptText is the size up to which the buffer for numbers is kept for the next command.
const keptText = 64 << 10

// command is redis.call (if raise is true) and redis.pcall.
func (e *environment) command(c *lua.Call, raise bool) lua.Outcome {
	r := &e.scripts.run
	if r.env != e { // the error handler is a global, so a script may call it when no command may run
		return e.throw(c, "redis.call and redis.pcall can only be called inside a script invocation")
	}
	result, failed := lua.Nil, false
	if refusal := e.readArgs(c); refusal != "" {
		result, failed = e.errorTable("ERR "+refusal), true
	} else {
		result, failed = e.runCommand(r)
		c.Spend(commandCost)
		if e.scripts.overdue() {
			c.Spend(sliceBudget)
		}
	}
	clear(e.args) // they point into the script's strings
	if cap(e.text) > keptText {
		e.text = nil
	}
	if failed && raise {
		return c.Throw(result)
	}
	return c.Return1(result)
}

// commandCost is the number of instructions for which a command counts. A short command takes about as long.
const commandCost = 100

// runCommand runs e.args and converts the reply to a value. failed means that the reply is an error.
func (e *environment) runCommand(r *run) (result lua.Value, failed bool) {
	r.commands++
	limit := e.values.limit
	if limit != 0 {
		e.state.SetMemoryLimit(0) // the machine must not fail inside the core
	}
	err := r.core.Run(&e.client, e.args)
	if limit != 0 {
		e.state.SetMemoryLimit(limit)
	}
	if err != nil {
		e.values.Rollback(0)
		e.values.refuse(err)
	}
	failed = e.values.failed()
	return e.values.result(), failed
}

func (e *environment) sha1hex(c *lua.Call) lua.Outcome {
	if c.Len() != 1 {
		return e.throw(c, "wrong number of arguments")
	}
	var text []byte
	if v := c.Arg(1); v.IsString() || v.IsNumber() {
		text = e.state.ToString(v).Bytes()
	}
	c.Spend(len(text) >> 2)
	return c.Return1(e.state.String(digest(text)))
}

// digest returns the name of a script: its SHA-1 in hexadecimal.
func digest(body []byte) string {
	sum := sha1.Sum(body)
	return hex.EncodeToString(sum[:])
}

const wrongReplyArguments = "ERR wrong number or type of arguments"

func (e *environment) errorReply(c *lua.Call) lua.Outcome {
	if c.Len() != 1 || !c.Arg(1).IsString() {
		return c.Return1(e.errorTable(wrongReplyArguments))
	}
	text := strings.TrimPrefix(cString(c.Arg(1).Str()), "-")
	c.Spend(len(text) >> 4)
	code, rest, found := strings.Cut(text, " ")
	if !found {
		code, rest = "ERR", text
	}
	return c.Return1(e.errorTable(code + " " + strings.Trim(rest, "\r\n")))
}

func (e *environment) statusReply(c *lua.Call) lua.Outcome {
	if c.Len() != 1 || !c.Arg(1).IsString() {
		return c.Return1(e.errorTable(wrongReplyArguments))
	}
	return c.Return1(fieldTable(e.state, nameOK, c.Arg(1)))
}

func (e *environment) setResp(c *lua.Call) lua.Outcome {
	if c.Len() != 1 {
		return e.throw(c, "redis.setresp() requires one argument.")
	}
	version, _ := numberOf(c, 1)
	switch int(version) {
	case 2, 3:
		e.client.Protocol = int(version)
		e.out.RESP3 = int(version) == 3
		return c.Return()
	}
	return e.throw(c, "RESP version must be 2 or 3.")
}

func (e *environment) setRepl(c *lua.Call) lua.Outcome {
	if c.Len() != 1 {
		return e.throw(c, "redis.set_repl() requires one argument.")
	}
	f, _ := numberOf(c, 1)
	bits := int(f)
	if bits&^(replLog|replReplicas) != 0 {
		return e.throw(c, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	e.script.Targets = client.Targets(bits)
	return c.Return()
}

func (e *environment) checkCommand(c *lua.Call) lua.Outcome {
	if refusal := e.readArgs(c); refusal != "" {
		return e.throw(c, refusal)
	}
	spec := e.scripts.deps.Find(e.args)
	if spec == nil {
		return e.throw(c, "Invalid command passed to redis.acl_check_cmd()")
	}
	may := e.scripts.deps.MayRun
	c.Spend(commandCost + 4*len(e.args))
	return c.Return1(lua.Bool(may == nil || may(&e.client, spec, e.args)))
}

func (e *environment) log(c *lua.Call) lua.Outcome {
	if c.Len() < 2 {
		return e.throw(c, "redis.log() requires two arguments or more.")
	}
	f, ok := numberOf(c, 1)
	if !ok {
		return e.throw(c, "First argument must be a number (log level).")
	}
	level := int(f)
	if level < logDebug || level > logWarning {
		return e.throw(c, "Invalid log level.")
	}
	d := &e.scripts.deps
	if d.Log == nil || d.LogLevel != nil && level < d.LogLevel() {
		return c.Return()
	}
	var line strings.Builder
	for i, v := range c.Args()[1:] {
		if !v.IsString() && !v.IsNumber() {
			continue
		}
		if i > 0 {
			line.WriteByte(' ')
		}
		line.WriteString(e.state.ToString(v).Str())
	}
	c.Spend(commandCost + line.Len()>>2)
	d.Log(level, line.String())
	return c.Return()
}
