package engine

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/diagnose"
)

// The stall log lists what held a turn for longer than stall-threshold, while all other goroutines waited. Each part of
// a turn is checked where its time is known anyway: a run of commands, an inner command, a duty.
//
// engine.G1. A logged part counts as covered. The part that contains it is logged only if the rest of its time exceeds
// the threshold.
// engine.G2. The CPU time of a stall is known only as an upper bound: the CPU time of the process since the last tick.
// If even that is less than a quarter of the stall, the machine is the cause, unless the command is one that waits by
// itself.

// ApplyStallThreshold applies the setting stall-threshold. Turn only.
func (c *Core) ApplyStallThreshold() {
	c.assertHeld()
	c.stalls.limit = math.MaxInt64
	if ms := c.settings.StallThreshold.Get(); ms > 0 {
		c.stalls.limit = ms * 1e6
	}
}

// watchStall checks calls of a command, which took so long together. args belong to the first call, and may be nil.
func (c *Core) watchStall(cl *client.Client, spec *command.Spec, args [][]byte, calls int, took int64) {
	w := &c.stalls
	covered := w.covered
	if c.stack.depth == 0 {
		w.covered = 0
	}
	if took-covered < w.limit {
		return
	}
	e := diagnose.Stall{Kind: diagnose.Command, What: shortened(args)}
	switch {
	case c.stack.depth > 0 && c.stack.frames[0].Spec.Has(command.Scripts):
		e.Kind, e.What = diagnose.Script, scriptName(&c.stack.frames[0])+": "+e.What
		cl = c.stack.frames[0].Client
	case spec.Has(command.Scripts) && len(args) > 1:
		e.Kind, e.What = diagnose.Script, scriptName(&command.Context{Spec: spec, Args: args})
	case calls > 1 || args == nil:
		e.What = fmt.Sprintf("%s (%d calls)", spec.Full, calls)
	}
	if len(args) > 0 {
		keys, err := spec.AppendKeys(nil, args, 0)
		if err == nil && len(keys) > 0 && keys[0].Index < len(args) {
			e.Key = cut(args[keys[0].Index], 512)
		}
	}
	if cl != nil {
		e.Name, e.Addr = cl.Name, cl.Addr()
	}
	c.noteStall(e, took, waitsItself(spec))
}

// watchLent checks a command that had lent the turn. Other clients could do little since it began.
func (c *Core) watchLent(l *lent) {
	w := &c.stalls
	w.covered = 0
	if l.p.took+l.took >= w.limit {
		c.watchStall(l.p.cl, l.p.spec, l.p.args, 1, c.nanos-l.began)
		w.covered = 0
	}
}

// watchLater checks a function that ran at the end of a turn (Later).
func (c *Core) watchLater(f func(), began int64) {
	w := &c.stalls
	if took := c.wall.Nanos() - began; took-w.covered >= w.limit {
		c.noteStall(diagnose.Stall{Kind: diagnose.Other, What: funcName(reflect.ValueOf(f).Pointer())}, took, true)
	}
}

// waitsItself reports whether a command may wait without using CPU: for a disk, another server or a time.
func waitsItself(spec *command.Spec) bool {
	return spec.Flags&command.Admin != 0 || spec.Has(command.MovesKeys|command.RunsQueue|command.Scripts)
}

// noteStall adds a stall that ends now.
func (c *Core) noteStall(e diagnose.Stall, took int64, waits bool) {
	w := &c.stalls
	cpu := min(w.processCPU()-w.cpu, took)
	if cpu < took/4 && !waits {
		e.Kind = diagnose.Machine
	}
	e.AtMs, e.Took, e.CPU = c.clock().UnixMilli(), time.Duration(took), time.Duration(cpu)
	w.covered += took
	w.noted += took
	w.log.Note(e)
}

// A Holder describes the call that holds the turn, or has lent it.
type Holder struct {
	Command string // "" if it is not known
	Client  int64  // its ID; 0 means none
	Addr    string
}

// Holder returns the call that holds the turn now. Any goroutine. The call may end at any moment.
func (c *Core) Holder() Holder {
	spec, cl := c.running.spec.Load(), c.running.client.Load()
	if spec == nil || cl == nil {
		return Holder{}
	}
	return Holder{spec.Full, cl.ID, cl.Addr()}
}

// Lender returns the command that has lent the turn, and the nanoseconds since it began. nanos is 0 if no command has.
// Turn only.
func (c *Core) Lender() (h Holder, nanos int64) {
	c.assertHeld()
	if c.lent == nil {
		return Holder{}, 0
	}
	nanos = max(c.nanos-c.lent.began, 1)
	if c.lent.p == nil || c.lent.p.cl == nil {
		return Holder{}, nanos
	}
	h = Holder{Client: c.lent.p.cl.ID, Addr: c.lent.p.cl.Addr()}
	if p := c.lent.p; p.spec != nil {
		h.Command = p.spec.Full
		if p.spec.Has(command.Scripts) {
			h.Command = scriptName(&command.Context{Spec: p.spec, Args: p.args})
		}
	}
	return h, nanos
}

// dutiesBegin records the time at which the first of several duties begins.
func (c *Core) dutiesBegin(nanos int64) { c.stalls.at = nanos }

// dutyDone checks the duty that has just ended.
func (c *Core) dutyDone(name string) {
	w := &c.stalls
	now := c.wall.Nanos()
	if took := now - w.at; took-w.covered >= w.limit {
		c.noteStall(diagnose.Stall{Kind: diagnose.Duty, What: name}, took, false)
	}
	w.at, w.covered = now, 0
}

// tickDone is dutyDone for a function of Hooks.Tick.
func (c *Core) tickDone(f func(int64)) {
	w := &c.stalls
	if now := c.wall.Nanos(); now-w.at-w.covered >= w.limit {
		c.dutyDone(funcName(reflect.ValueOf(f).Pointer()))
	} else {
		w.at = now
	}
}

// watchTick looks for gaps between turns that the machine causes: a tick that came late although the process had
// nothing to do.
func (c *Core) watchTick(nanos int64) {
	w := &c.stalls
	if w.limit == math.MaxInt64 {
		return
	}
	cpu := w.processCPU()
	late := nanos - c.duties.lastTick - tickEvery - w.noted
	if c.duties.lastTick != 0 && late >= max(w.limit, tickLeast) && cpu-w.cpu < late/4 {
		c.noteStall(diagnose.Stall{Kind: diagnose.Machine, What: "the process did not run"}, late, false)
	}
	w.cpu, w.noted, w.covered = cpu, 0, 0
}

// tickLeast is how late a tick must be, in nanoseconds, to count as a gap.
const tickLeast = int64(20 * time.Millisecond)

// closure matches the end of a function literal's name.
var closure = regexp.MustCompile(`\.(func)?\d+$`)

// watchDo checks the function that a turn of Do has run.
func (c *Core) watchDo(took int64) {
	w := &c.stalls
	covered := w.covered
	if w.covered = 0; took-covered < w.limit {
		return
	}
	// A function literal is named after the function that contains it, as "name.func1". The name without ".func1" is
	// clearer.
	what := closure.ReplaceAllString(funcName(w.job), "")
	c.noteStall(diagnose.Stall{Kind: diagnose.Other, What: what}, took, true)
	w.covered = 0
}

// funcName returns the name of the function at pc, without its package's path.
func funcName(pc uintptr) string {
	f := runtime.FuncForPC(pc)
	if f == nil {
		return "?"
	}
	name := strings.TrimSuffix(f.Name(), "-fm")
	return name[strings.LastIndexByte(name, '/')+1:]
}

// scriptName returns the name that SCRIPT STATS gives to the script that a call runs.
func scriptName(ctx *command.Context) string {
	name := ctx.Spec.Full
	if len(ctx.Args) < 2 {
		return name
	}
	if ctx.Spec.Has(command.RunsText) {
		sum := sha1.Sum(ctx.Args[1])
		return name + " " + hex.EncodeToString(sum[:])
	}
	return name + " " + cut(ctx.Args[1], 64)
}

// shortened returns a call's arguments in the short form that the log shows.
func shortened(args [][]byte) string {
	const most, each = 8, 32
	var b strings.Builder
	for i, a := range args {
		if i == most {
			fmt.Fprintf(&b, " ... (%d more)", len(args)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(cut(a, each))
	}
	return b.String()
}

// cut returns a, or its first n bytes and "..." if a is longer.
func cut(a []byte, n int) string {
	if len(a) > n {
		return string(a[:n]) + "..."
	}
	return string(a)
}
