package diagnose

import (
	"slices"
	"time"

	"spindle/engine/command"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A session shows sessionShown keys for each figure by default, and sessionMost at most.
const (
	sessionShown = 10
	sessionMost  = 64
)

// startSession is HOTKEYS START METRICS n [CPU] [NET] [COUNT k] [DURATION s] [SAMPLE r] [SLOTS n slot …].
// Replies: OK.
//
// The session uses the same samples as the figures that are always on, whatever r is. They stand for all commands.
func (f *family) startSession(c *command.Context) error {
	s := &Session{Count: sessionShown, Sample: 1, StartMs: c.Now}
	lasts := int64(0)
	args := c.Args[2:]
	for len(args) > 0 {
		if len(args) < 2 {
			return protocol.ErrSyntax
		}
		n, err := command.Int(args[1])
		if err != nil {
			return err
		}
		word := args[0]
		args = args[2:]
		switch {
		case command.Is(word, "METRICS") && !s.CPU && !s.Net:
			if args, err = metricsOf(s, args, n); err != nil {
				return err
			}
		case command.Is(word, "COUNT"):
			if n < 1 || n > sessionMost {
				return errSessionCount
			}
			s.Count = int(n)
		case command.Is(word, "DURATION"):
			if n < 0 || n > 1<<31 {
				return errDuration
			}
			lasts = n
		case command.Is(word, "SAMPLE"):
			if n < 1 {
				return errSample
			}
			s.Sample = n
		case command.Is(word, "SLOTS") && s.Slots == nil:
			if !f.Clustered() {
				return errSlotsAlone
			}
			if args, err = slotsOf(s, args, n); err != nil {
				return err
			}
		default:
			return protocol.ErrSyntax
		}
	}
	h := f.HotKeys()
	switch {
	case !s.CPU && !s.Net:
		return errMetrics
	case !f.Sampling():
		return errNotSampling
	case h.Session != nil && f.session().Active:
		return errActive
	}
	h.Start(s, f.Nanos(), time.Duration(lasts)*time.Second)
	c.Reply.OK()
	return nil
}

// metricsOf reads n metrics and returns the arguments after them.
func metricsOf(s *Session, args [][]byte, n int64) ([][]byte, error) {
	if n < 1 || n > int64(len(args)) {
		return nil, errMetrics
	}
	for _, a := range args[:n] {
		switch {
		case command.Is(a, "CPU") && !s.CPU:
			s.CPU = true
		case command.Is(a, "NET") && !s.Net:
			s.Net = true
		default:
			return nil, errMetrics
		}
	}
	return args[n:], nil
}

// slotsOf reads n slots and returns the arguments after them.
func slotsOf(s *Session, args [][]byte, n int64) ([][]byte, error) {
	if n < 1 || n > int64(len(args)) {
		return nil, protocol.ErrSyntax
	}
	for _, a := range args[:n] {
		slot, err := command.Int(a)
		if err != nil || slot < 0 || slot >= slots.Count {
			return nil, errSlot
		}
		s.Slots = append(s.Slots, uint16(slot))
	}
	slices.Sort(s.Slots)
	s.Slots = slices.Compact(s.Slots)
	return args[n:], nil
}

// session returns the last session, with its times up to date. It returns nil if there was none.
func (f *family) session() *Session {
	s := f.HotKeys().Session
	if s != nil {
		s.Update(f.Nanos())
	}
	return s
}

// stopSession is HOTKEYS STOP.
// Replies: OK; null if no session is active.
func (f *family) stopSession(c *command.Context) error {
	s := f.session()
	if s == nil || !s.Active {
		c.Reply.Null()
		return nil
	}
	s.Stop(f.Nanos())
	c.Reply.OK()
	return nil
}

// sessionOrTop is HOTKEYS GET.
// Replies: the session in Redis's form, an array of one map, or null if no session was started. With COUNT, the reply
// of SPINDLE HOTKEYS GET.
func (f *family) sessionOrTop(c *command.Context) error {
	if len(c.Args) != 2 {
		return f.hotKeysGet(c)
	}
	if s := f.session(); s != nil {
		showSession(c.Reply, s)
	} else {
		c.Reply.Null()
	}
	return nil
}

// resetSession is HOTKEYS RESET. It drops the results of the last session. If there was none, it drops the samples of
// the figures that are always on.
// Replies: OK.
func (f *family) resetSession(c *command.Context) error {
	switch s := f.session(); {
	case s == nil:
		return f.hotKeysReset(c)
	case s.Active:
		return errResetActive
	}
	f.HotKeys().Session = nil
	c.Reply.OK()
	return nil
}

func showSession(r *protocol.Reply, s *Session) {
	r.Array(1)
	type field struct {
		name string
		n    int64
	}
	ms := func(d time.Duration) int64 { return d.Milliseconds() }
	list := []field{{"tracking-active", 0}, {"sample-ratio", s.Sample}}
	if s.Active {
		list[0].n = 1
	}
	after := []field{{"all-commands-all-slots-us", int64(s.AllNanos / 1e3)},
		{"net-bytes-all-commands-all-slots", int64(s.AllBytes)}}
	if len(s.Slots) > 0 {
		after = append(after, field{"all-commands-selected-slots-us", int64(s.OurNanos / 1e3)},
			field{"net-bytes-all-commands-selected-slots", int64(s.OurBytes)})
		if s.Sample > 1 {
			after = append(after, field{"sampled-commands-selected-slots-us", int64(s.OurNanos/1e3) / s.Sample},
				field{"net-bytes-sampled-commands-selected-slots", int64(s.OurBytes) / s.Sample})
		}
	}
	after = append(after, field{"collection-start-time-unix-ms", s.StartMs}, field{"collection-duration-ms", ms(s.Took)})
	if s.CPU {
		after = append(after, field{"total-cpu-time-user-ms", ms(s.UserCPU)}, field{"total-cpu-time-sys-ms", ms(s.SystemCPU)})
	}
	if s.Net {
		after = append(after, field{"total-net-bytes", int64(s.AllBytes)})
	}
	tops := 0
	for _, shown := range []bool{s.CPU, s.Net} {
		if shown {
			tops++
		}
	}
	write := func(list []field) {
		for _, f := range list {
			r.BulkString(f.name)
			r.Int(f.n)
		}
	}
	r.Map(len(list) + 1 + len(after) + tops)
	write(list)
	r.BulkString("selected-slots")
	showSlots(r, s.Slots)
	write(after)
	if s.CPU {
		showTop(r, "by-cpu-time-us", s.TopByCPU())
	}
	if s.Net {
		showTop(r, "by-net-bytes", s.TopByNet())
	}
}

// showSlots writes the slots as ranges: [slot] or [from, to]. All slots are one range.
func showSlots(r *protocol.Reply, list []uint16) {
	if len(list) == 0 {
		r.Array(1)
		r.Array(2)
		r.Int(0)
		r.Int(slots.Count - 1)
		return
	}
	var ranges [][2]uint16
	for _, slot := range list {
		if n := len(ranges); n > 0 && ranges[n-1][1]+1 == slot {
			ranges[n-1][1] = slot
		} else {
			ranges = append(ranges, [2]uint16{slot, slot})
		}
	}
	r.Array(len(ranges))
	for _, span := range ranges {
		if span[0] == span[1] {
			r.Array(1)
		} else {
			r.Array(2)
			r.Int(int64(span[0]))
		}
		r.Int(int64(span[1]))
	}
}

func showTop(r *protocol.Reply, name string, list []KeyCost) {
	r.BulkString(name)
	r.Array(2 * len(list))
	for _, k := range list {
		r.BulkString(k.Key)
		r.Int(k.Cost)
	}
}

// spindleHotKeys is SPINDLE HOTKEYS GET [COUNT n] and SPINDLE HOTKEYS RESET. They act on the figures that are always
// on.
func (f *family) spindleHotKeys(c *command.Context) error {
	word := c.Args[2]
	shifted := *c
	shifted.Args = c.Args[1:]
	switch {
	case command.Is(word, "GET"):
		return f.hotKeysGet(&shifted)
	case command.Is(word, "RESET") && len(c.Args) == 3:
		return f.hotKeysReset(&shifted)
	}
	return protocol.ErrSyntax
}
