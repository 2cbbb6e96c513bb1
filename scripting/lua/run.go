package lua

// An outcome says how a coroutine stopped.
type outcome struct {
	thread *Thread
	first  int // where its values begin on its stack
	failed bool
}

// signal is the reason why execute returned.
type signal uint8

const (
	signalNext    signal = iota // another frame is on top
	signalPause                 // the budget is used up
	signalRaise                 // errValue is set
	signalOutcome               // a Go function returned goOutcome, which is not a number of results
)

// protected runs until the script ends or stops. ended is false after a panic with an error. The next call then unwinds
// to the frame that catches the error.
func (s *State) protected() (status Status, ended bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != any(raisedPanic) {
				panic(r)
			}
			s.throwing = true // thrown in the next call, because unwinding may fail, too
		}
	}()
	return s.loop(), true
}

func (s *State) loop() Status {
	if s.killed {
		return s.die()
	}
	if t := s.cur; t.starting {
		t.starting = false
		t.level = s.level
		s.pushCall(t, 0, -1, entryGo, 0)
	}
	if s.throwing {
		s.throwing = false
		if status, stop := s.throw(); stop {
			return status
		}
	}
	for {
		t := s.cur
		if len(t.frames) == 0 {
			if t == s.main {
				return Done
			}
			s.leaveThread(outcome{t, 0, false}, threadDead)
			continue
		}
		if s.budget < 0 {
			return Paused
		}
		f := t.frame()
		var status Status
		stop := false
		if f.cl != nil {
			switch s.execute(t) {
			case signalPause:
				return Paused
			case signalRaise:
				status, stop = s.throw()
			case signalOutcome:
				status, stop = s.after(t, s.goOutcome)
			}
		} else {
			status, stop = s.step(t, f)
		}
		if stop {
			return status
		}
	}
}

// step runs the next step of the Go function on top.
func (s *State) step(t *Thread, f *frame) (Status, bool) {
	c := &s.call
	c.state, c.t, c.base, c.n = s, t, f.base, f.aux
	s.budget -= 4
	return s.after(t, f.step(c))
}

// after applies a Go function's outcome.
func (s *State) after(t *Thread, o Outcome) (Status, bool) {
	switch {
	case o >= 0:
		s.finishGo(t, int(o))
	case o == outcomeInvoke:
		f := t.frame()
		f.pc = s.invoked.function
		s.nested(t, s.invoked.function, s.invoked.results, entryGo)
	case o == outcomeRaise:
		return s.throw()
	case o == outcomeYield:
		s.leaveThread(outcome{t, s.invoked.function, false}, threadYielded)
	case o == outcomeSuspend:
		t.frame().pc = t.top // the place for Wake's results
		return Suspended, true
	}
	return 0, false // outcomeResume: the loop reads s.cur
}

// finishGo ends the running Go function. The last n values of the stack are its results.
func (s *State) finishGo(t *Thread, n int) {
	f := t.frame()
	slot, results, how := f.slot, f.results, f.entry
	t.moveResults(t.top-n, n, slot, results)
	t.popFrame()
	s.returned(t, slot, how)
}

// moveResults moves n values to slot, cut or padded to the wanted number. It sets t.top after them.
func (t *Thread) moveResults(from, n, slot, wanted int) {
	if wanted < 0 {
		wanted = n
	}
	if n > wanted {
		n = wanted
	}
	copy(t.stack[slot:slot+n], t.stack[from:from+n])
	for i := n; i < wanted; i++ {
		t.stack[slot+i] = Nil
	}
	t.top = slot + wanted
}

// returned continues the frame whose callee has left its results at slot.
func (s *State) returned(t *Thread, slot int, how entry) {
	switch how {
	case entryEvent:
		s.finishInstruction(t, slot)
	case entryHandler:
		s.errValue, s.errKind = t.stack[slot], errorHandled
		panic(raisedPanic)
	}
}

const errorHandled errorKind = 100 // the handler has seen it

// throw unwinds to the frame that catches errValue. The frame that failed is on top.
func (s *State) throw() (Status, bool) {
	t := s.cur
	catcher := len(t.frames) - 1
	for catcher >= 0 && t.frames[catcher].catches == catchesNothing {
		catcher--
	}
	handler := catcher
	for handler >= 0 && (t.frames[handler].catches == catchesForLoad || t.frames[handler].catches == catchesNothing) {
		handler--
	}
	if s.errKind == errorRun && handler >= 0 && t.frames[handler].catches == catchesWithHandler {
		return s.callHandler(t, t.stack[t.frames[handler].base])
	}
	value := s.errValue
	if catcher < 0 {
		t.closeUpvalues(0)
		for i := range t.frames {
			t.frames[i].drop()
		}
		t.frames = t.frames[:0]
		if t == s.main {
			return Failed, true
		}
		t.ensureTo(1)
		t.stack[0], t.top = value, 1
		s.leaveThread(outcome{t, 0, true}, threadDead)
		return 0, false
	}
	f := &t.frames[catcher]
	t.closeUpvalues(f.base)
	for i := catcher + 1; i < len(t.frames); i++ {
		t.frames[i].drop()
	}
	t.frames = t.frames[:catcher+1]
	if t.frameLimit == lastFrameLimit && len(t.frames) < nextFrameLimit {
		t.frameLimit = nextFrameLimit
	}
	t.top = f.base
	t.stack[t.top], t.stack[t.top+1] = False, value
	if f.catches == catchesForLoad {
		t.stack[t.top] = Nil
	}
	t.top += 2
	s.finishGo(t, 2)
	return 0, false
}

// callHandler calls xpcall's handler with the error, while the failed frames still exist.
func (s *State) callHandler(t *Thread, handler Value) (Status, bool) {
	if !handler.IsFunction() {
		s.errValue, s.errKind = handlerText, errorHandler
		return s.throw()
	}
	t.top = t.liveTop()
	t.ensure(2)
	slot := t.top
	t.stack[slot], t.stack[slot+1] = handler, s.errValue
	t.top += 2
	s.nested(t, slot, 1, entryHandler)
	return 0, false
}

// die ends the script, whatever its state.
func (s *State) die() Status {
	for t := s.cur; t != nil; t = t.parent {
		t.closeUpvalues(0)
		for i := range t.frames {
			t.frames[i].drop()
		}
		t.frames = t.frames[:0]
		t.status = threadDead
	}
	s.cur, s.killed = s.main, false
	s.main.starting = false
	s.errValue = s.killWith
	return Killed
}

// leaveThread returns to the coroutine that resumed this one. The step of its frame reads the outcome.
func (s *State) leaveThread(o outcome, status threadStatus) {
	t := o.thread
	t.status = status
	s.outcome = o
	s.cur = t.parent
	t.parent = nil
}
