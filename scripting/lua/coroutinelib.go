package lua

func (s *State) openCoroutine() {
	t := newTable(s, 0, 8)
	for _, r := range []struct {
		name string
		run  GoFunction
	}{{"create", coroutineCreate}, {"resume", coroutineResume}, {"running", coroutineRunning}, {"status", coroutineStatus},
		{"wrap", coroutineWrap}, {"yield", coroutineYield}} {
		s.Register(t, r.name, r.run)
	}
	s.Globals.SetName("coroutine", t.Value())
}

func (c *Call) newCoroutine() *Thread {
	v := c.Arg(1)
	if v.n != bitsClosure {
		c.ArgError(1, "Lua function expected")
	}
	t := c.state.newThread(c.t)
	t.stack[0], t.top, t.high = v, 1, 1
	return t
}

func coroutineCreate(c *Call) Outcome { return c.Return1(threadValue(c.newCoroutine())) }

func coroutineWrap(c *Call) Outcome {
	t := c.newCoroutine()
	return c.Return1(c.state.NewFunction("", wrapResume, threadValue(t)))
}

func (c *Call) checkThread() *Thread {
	v := c.Arg(1)
	if v.n != bitsThread {
		c.ArgError(1, "coroutine expected")
	}
	return v.thread()
}

func (t *Thread) statusFor(running *Thread) string {
	switch {
	case t == running:
		return "running"
	case t.status == threadDead:
		return "dead"
	case t.status == threadActive:
		return "normal"
	}
	return "suspended"
}

func coroutineStatus(c *Call) Outcome {
	return c.Return1(Intern(c.checkThread().statusFor(c.t)))
}

func coroutineRunning(c *Call) Outcome {
	if c.t == c.state.main {
		return c.Return1(Nil)
	}
	return c.Return1(threadValue(c.t))
}

// resume switches to a coroutine with the last n values as arguments. problem is the reason why it cannot.
func (c *Call) resume(co *Thread, n int, then GoFunction) (o Outcome, problem string) {
	t := c.t
	if co == c.state.main {
		co.status = threadActive
	}
	if status := co.statusFor(t); status != "suspended" {
		return 0, "cannot resume " + status + " coroutine"
	}
	f := t.frame()
	level := t.level + int(f.level)
	if level >= maxLevels {
		return 0, "C stack overflow"
	}
	co.level = level + 1
	co.ensure(n)
	copy(co.stack[co.top:], t.stack[t.top-n:t.top])
	co.top += n
	t.top -= n
	f.step = then
	f.pc = t.top
	co.parent = t
	c.state.cur = co
	if co.status == threadFresh {
		co.status = threadActive
		c.state.pushCall(co, 0, -1, entryGo, 0)
	} else {
		co.status = threadActive
		c.state.finishGo(co, n) // yield returns the arguments
	}
	return outcomeResume, ""
}

func coroutineResume(c *Call) Outcome {
	co := c.checkThread()
	c.drop()
	o, problem := c.resume(co, c.n-1, afterResume)
	if problem != "" {
		return c.Return(False, c.state.String(problem))
	}
	return o
}

// pushResults moves the values of the stopped coroutine onto the stack.
func (c *Call) pushResults() (n int, failed bool) {
	o := c.state.outcome
	co := o.thread
	n = co.top - o.first
	c.t.ensure(n)
	copy(c.t.stack[c.t.top:], co.stack[o.first:co.top])
	c.t.top += n
	co.top = o.first
	return n, o.failed
}

func afterResume(c *Call) Outcome {
	c.Push(True)
	n, failed := c.pushResults()
	if failed {
		c.t.stack[c.t.top-n-1] = False
	}
	return Outcome(n + 1)
}

func wrapResume(c *Call) Outcome {
	c.drop()
	o, problem := c.resume(c.Upvalue(0).thread(), c.n, afterWrap)
	if problem != "" {
		return c.wrapError(c.state.String(problem))
	}
	return o
}

func (c *Call) wrapError(v Value) Outcome {
	if v.IsString() || v.IsNumber() {
		v = c.state.String(c.t.where(1) + c.state.ToString(v).str())
	}
	return c.Throw(v)
}

func afterWrap(c *Call) Outcome {
	n, failed := c.pushResults()
	if failed {
		return c.wrapError(c.t.stack[c.t.top-1])
	}
	return Outcome(n)
}

func coroutineYield(c *Call) Outcome {
	if c.t == c.state.main || c.t.frame().level > 0 {
		c.state.runtimeError("attempt to yield across metamethod/C-call boundary")
	}
	c.state.invoked.function = c.base
	c.drop()
	return outcomeYield
}
