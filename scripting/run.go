package scripting

import (
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
	"spindle/scripting/lua"
)

// A run is the running script or function. There is at most one, because no script may call a command that starts
// another.
//
// A run begins with prepare, then has slices until the machine is done, then a reply. The first slice belongs to the
// turn of the client's own batch. A script that needs more lends the turn, and the core calls resume for each further
// slice.
type run struct {
	env      *environment // nil means nothing runs
	core     command.Core
	script   *script // EVAL's; nil for a function
	name     string  // the script's digest, or the function's name
	isEval   bool
	obeys    bool // from our primary or a file
	killed   bool
	logged   bool // the log has a line that this script is slow
	began    int64
	paused   int64 // nanoseconds between slices
	pauses   int64 // how often it lent the turn
	left     int64 // when the last slice ended
	worked   int64 // nanoseconds in slices
	ends     int64 // when the slice ends
	commands int64
	memory   int // the machine's memory at the start
	figures  *Figures
	args     [][]byte // a copy of the call, made when the turn is lent
}

const (
	slice       = int64(time.Millisecond) // how long a script runs before it lends the turn
	sliceBudget = 10_000                  // instructions between two readings of the clock
)

// prepare makes the next run. It refuses the run if the server's state forbids what the script declares.
//
// Errors: the script must not run now, or not by this command. readOnly is true for EVAL_RO and its kin.
func (s *Scripts) prepare(c *command.Context, e *environment, f Flags, readOnly bool) error {
	if err := s.refuse(c, f, readOnly); err != nil {
		return err
	}
	cl := c.Client
	declared := f&Undeclared == 0
	e.script = client.Script{
		ReadOnly:   readOnly || declared && f&NoWrites != 0,
		AllowOOM:   declared && f&AllowOOM != 0,
		AllowStale: declared && f&AllowStale != 0,
		AnySlot:    !declared || f&AllowCrossSlot != 0,
		Slot:       client.NoSlot,
		Targets:    client.ToAll,
		Writes:     &s.beside.wrote,
	}
	e.client.DB, e.client.User, e.client.Name = cl.DB, cl.User, cl.Name
	e.client.Flags = e.client.Flags&^client.NoTouch | cl.Flags&client.NoTouch
	e.client.Protocol, e.out.RESP3 = 2, false
	e.setLimit(int(s.deps.Settings.MemoryLimit.Get()))
	s.run = run{env: e, core: c.Core, isEval: s.eval == e, obeys: c.Obeys(), args: s.run.args[:0]}
	s.beside.begin(s.run.isEval, s.run.obeys)
	return nil
}

// refuse checks the conditions that forbid a script with these flags.
func (s *Scripts) refuse(c *command.Context, f Flags, readOnly bool) error {
	at := s.conditions()
	if f&Undeclared != 0 {
		if at.Stale {
			return protocol.ErrPrimaryDown
		}
		return nil
	}
	obeys := c.Obeys()
	switch writes := f&NoWrites == 0; {
	case f&NoCluster != 0 && at.Cluster:
		return errScriptInCluster
	case f&AllowStale == 0 && at.Stale:
		return errScriptStale
	case writes && at.ReadOnly && !obeys:
		return errScriptReplica
	case writes && at.SaveFailed && !obeys:
		return errScriptSave
	case writes && at.LogError != "" && !obeys:
		return errScriptLog(at.LogError)
	case writes && readOnly:
		return errScriptReadOnly
	case writes && at.FewReplicas:
		return protocol.ErrNoReplicas
	case writes && f&AllowOOM == 0 && at.OutOfMemory:
		return errScriptMemory
	}
	return nil
}

// start begins the prepared run. function is a script, or a library's function, which gets keys and argv.
func (s *Scripts) start(c *command.Context, function lua.Value) error {
	r, e := &s.run, s.run.env
	if !r.isEval {
		e.function = function
		function = e.enter
	}
	r.memory = e.state.Used()
	e.state.Start(e.xpcall, function, e.handler)
	s.label(r.name)
	r.began = s.clock.Nanos()
	now, status := s.slice(r.began)
	for status == lua.Paused {
		if c.Core.Lend(c, s.resume) {
			r.left = now
			for _, a := range c.Args {
				r.args = append(r.args, append([]byte{}, a...))
			}
			s.label("")
			return nil
		}
		if c.Core.GiveWay(c) {
			back := s.clock.Nanos()
			r.paused += back - now
			now = back
			s.warn(now - r.began)
		}
		now, status = s.slice(now) // for example inside EXEC, where no other client may have the turn
	}
	return s.finish(c, status)
}

// resume returns a further slice of a script that has lent the turn. It implements command.Step.
func (s *Scripts) resume(c *command.Context) (done bool, err error) {
	r := &s.run
	now := s.clock.Nanos()
	r.paused += now - r.left
	r.pauses++
	s.label(r.name)
	now, status := s.slice(now)
	if status == lua.Paused {
		r.left = now
		s.warn(now - r.began)
		s.label("")
		return false, nil
	}
	return true, s.finish(c, status)
}

// slice runs the machine for about a millisecond from the time from. It returns the time at which the machine stopped.
func (s *Scripts) slice(from int64) (now int64, status lua.Status) {
	state, length, budget := s.run.env.state, slice, sliceBudget
	if s.pace != nil {
		length, budget = s.pace()
	}
	status = lua.Paused
	s.run.ends = from + length
	for now = from; now-from < length; now = s.clock.Nanos() {
		if s.beside.mustEnd() {
			s.beside.asked.Store(0)
			s.kill(s.run.isEval) // the request was checked when it was made
		}
		if status = state.Run(budget); status != lua.Paused {
			now = s.clock.Nanos()
			break
		}
	}
	s.run.worked += now - from
	return now, status
}

// callsALook is the number of commands that a script calls between two readings of the clock.
const callsALook = 8

// overdue reports, after a command, whether the slice must end. Commands may take much longer than instructions.
func (s *Scripts) overdue() bool {
	if s.beside.mustEnd() {
		return true
	}
	return s.run.commands%callsALook == 0 && s.clock.Nanos() >= s.run.ends
}

// warn logs once that a script has run for longer than busy-reply-threshold.
func (s *Scripts) warn(nanos int64) {
	r := &s.run
	if r.logged || s.deps.BusyMs == nil || s.deps.Log == nil {
		return
	}
	limit := s.deps.BusyMs()
	if limit == 0 || nanos < limit*1e6 {
		return
	}
	r.logged = true
	by := "SCRIPT KILL"
	if !r.isEval {
		by = "FUNCTION KILL"
	}
	s.logf(logWarning, "Slow script detected: still in execution after %d milliseconds. You can try killing the script "+
		"using the %s command. "+
		"Script name is: %s.", nanos/1e6, by, r.name)
}

// finish replies to the client, records the run and clears it. If it returns an error, that is the reply.
func (s *Scripts) finish(c *command.Context, status lua.Status) (err error) {
	e := s.run.env
	switch results := e.state.Results(); {
	case status == lua.Done && len(results) > 0 && results[0].Truth():
		result := lua.Nil
		if len(results) > 1 {
			result = results[1]
		}
		if t := result.Table(); t != nil && t.Get(nameErr).IsString() {
			f := e.failureOf(result)
			err = f.reply(f.text)
			break
		}
		out := replier{reply: c.Reply, bools: e.out.RESP3}
		out.value(result, 2)
	case status == lua.Done && len(results) > 1:
		err = s.fail(results[1])
	default:
		err = s.fail(e.state.Err())
	}
	s.book()
	s.close()
	return err
}

func (s *Scripts) close() {
	r, e := &s.run, s.run.env
	e.state.Reset()
	e.setLimit(0)
	e.function, e.keys, e.argv = lua.Nil, lua.Nil, lua.Nil
	s.label("")
	if r.script != nil {
		s.touch(r.script)
	}
	clear(r.args)
	*r = run{args: r.args[:0]}
	s.beside.end()
}

// fail replies an uncaught error. If a command caused the error, it was already counted there, and does not count again
// for the script.
func (s *Scripts) fail(v lua.Value) error {
	r := &s.run
	if !v.IsTable() { // the error handler did not run: memory was short, or it failed itself
		text := "execution failure"
		if t, ok := r.env.textOf(v); ok {
			text = t
		}
		return errRunning(r.name, text)
	}
	f := r.env.failureOf(v)
	if f.source != "" {
		f.text += " script: " + r.name + ", on " + f.source + ":" + f.line + "."
	}
	return f.reply(f.text)
}

// reply returns the error reply with this line. It marks the error as counted if it was.
func (f *failure) reply(line string) error {
	if f.counted {
		return command.CountedError{Reply: replyError(line)}
	}
	return replyError(line)
}

// kill ends the run at its next instruction. isEval is true for SCRIPT KILL.
//
// Errors: nothing runs, the run must not be killed, or it is of the other kind.
func (s *Scripts) kill(isEval bool) error {
	r := &s.run
	switch {
	case r.env == nil:
		return errNotBusy
	case r.obeys:
		return errObeyed
	case r.env.script.Wrote:
		return errHasWritten
	case isEval && !r.isEval:
		return protocol.ErrBusyFunction
	case !isEval && r.isEval:
		return protocol.ErrBusyScript
	}
	if !r.killed {
		r.killed = true
		e := r.env
		frame, known := e.state.InLua()
		e.state.Kill(e.located(e.errorTable("ERR Script killed by user with SCRIPT KILL..."), frame, known))
		s.logf(logNotice, "Lua script killed by user with SCRIPT KILL.")
	}
	return nil
}
