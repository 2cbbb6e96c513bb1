package engine

import (
	"math"
	"math/rand/v2"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/insight"
	"spindle/protocol"
)

// Sampling of hot keys: one command of several tells which keys it has named, as what, and what that took. How many
// are passed over follows the load, so that samples cost the same share of a busy core at any rate.
//
// engine.S1. A sample stands for all commands since the one before. Which of a group of requests is taken is left to
// chance, so that a pipeline's pattern shows nothing false.

const (
	samplesPerSecond = 20_000 // at 60,000 a GET at pipeline 1 cost 7 % more than without
	timedOf          = 4      // one of so many samples is timed alone
	sampledKeys      = 64     // of one command; if it has more, some in a row stand for all
)

// A sampler decides which commands are looked at.
type sampler struct {
	keys    *insight.HotKeys
	off     bool
	left    int // commands until the next sample
	since   int // commands between the last one and the one that left counts down to
	gap     int // on average
	rng     rand.PCG
	timed   int    // samples until one is timed
	counted uint64 // meter.commands at the last tick
	found   []command.KeyPosition
}

// never is more commands than there will be.
const never = math.MaxInt / 2

func (s *sampler) init(seed uint64) {
	s.keys, s.gap = insight.NewHotKeys(), 1
	s.rng.Seed(seed, 0)
}

// HotKeys is what was sampled of keys. Turn only.
func (c *Core) HotKeys() *insight.HotKeys {
	c.assertHeld()
	return c.sampler.keys
}

// ApplyHotKeys follows the setting hot-keys. Turn only.
func (c *Core) ApplyHotKeys() {
	c.assertHeld()
	s := &c.sampler
	if s.off = !c.settings.HotKeys.Get(); s.off {
		s.left = never
		s.keys.Reset()
	} else {
		s.left, s.since = 0, 0
	}
}

// tick has the samples follow the load, ten times a second.
func (s *sampler) tick(nanos int64, commands uint64) {
	if s.off {
		return
	}
	s.keys.Fade(nanos)
	if commands >= s.counted { // else CONFIG RESETSTAT was here
		s.gap = int(max((commands-s.counted)*10/samplesPerSecond, 1))
	}
	s.counted = commands
	s.left = min(s.left, 2*s.gap)
}

// pick says which of the next n commands is to be sampled, and for how many it stands (engine.S1); -1 if none is.
func (s *sampler) pick(n int) (at int, weight float64) {
	if s.left -= n; s.left > 0 || s.off {
		return -1, 0
	}
	chance := s.rng.Uint64()
	weight = float64(max(s.since-s.left, 1))
	s.since = s.gap
	if s.gap > 1 {
		s.since = s.gap/2 + int(chance>>32)%s.gap
	}
	s.left = s.since
	return int(uint32(chance)) % n, weight
}

// executeSampled is execute of a request that is a sample.
func (c *Core) executeSampled(cl *client.Client, req *protocol.Request, spec *command.Spec, weight float64) bool {
	s := &c.sampler
	timed := false
	if s.timed--; s.timed < 0 {
		s.timed, timed = timedOf-1, true
		c.lap()
	}
	began, out, mark, ran := c.nanos, cl.Out, cl.Out.Mark(), cl.CommandsRun
	if !c.execute(cl, req, spec) {
		return false
	}
	if cl.CommandsRun == ran || cl.Is(client.Blocked) || out != cl.Out {
		return true // it was refused, queued, or is not over
	}
	if spec == nil || spec.Subs != nil {
		spec, _ = c.catalogue.Resolve(spec, req.Args)
	}
	if spec == nil || !spec.HasKeys(command.IncludeNotKeys) {
		return true
	}
	nanos := 0.0
	if timed {
		c.lap()
		nanos = float64(c.nanos-began) * timedOf
	}
	bytes := max(out.Since(mark), 0)
	for _, a := range req.Args {
		bytes += len(a)
	}
	c.sample(cl, spec, req.Args, weight, float64(bytes), nanos)
	return true
}

// sampleInner takes a sample of a command that another one has run, if it is its turn.
func (c *Core) sampleInner(cl *client.Client, spec *command.Spec, args [][]byte, nanos int64) {
	if at, weight := c.sampler.pick(1); at >= 0 {
		c.sample(cl, spec, args, weight, 0, float64(nanos))
	}
}

// sample notes the keys of a command that has run. What scripts declare is left out: the commands that they run are
// samples of their own.
func (c *Core) sample(cl *client.Client, spec *command.Spec, args [][]byte, weight, bytes, nanos float64) {
	if spec.Has(command.Scripts) {
		return
	}
	s := &c.sampler
	if at := firstKey(spec); at > 0 && at < len(args) {
		write := spec.Keys[0].Flags&command.KeyRO == 0
		s.keys.Note(&insight.Use{Key: args[at], DB: cl.DB, Write: write, Weight: weight, Bytes: bytes * weight,
			Nanos: nanos * weight})
		return
	}
	keys, err := spec.AppendKeys(s.found[:0], args, 0)
	if err != nil || len(keys) == 0 {
		return
	}
	if cap(keys) <= 4*sampledKeys {
		s.found = keys
	}
	n := float64(len(keys))
	if len(keys) > sampledKeys {
		from := int(s.rng.Uint64() % uint64(len(keys)-sampledKeys+1))
		keys = keys[from : from+sampledKeys]
	}
	each := n / float64(len(keys)) * weight // accesses that one of keys stands for
	for _, k := range keys {
		if k.Index < len(args) {
			s.keys.Note(&insight.Use{Key: args[k.Index], DB: cl.DB, Write: k.Flags&command.KeyRO == 0, Weight: each,
				Bytes: bytes / n * each, Nanos: nanos / n * each})
		}
	}
}

// firstKey is where the key of a command stands that names one, at a place of its own; 0 of all others. Its flags may
// depend on options, as SET's do.
func firstKey(spec *command.Spec) int {
	if len(spec.Keys) != 1 {
		return 0
	}
	if k := &spec.Keys[0]; k.LastKey == 0 && !k.KeyNum && k.Keyword == "" && !k.Unknown && k.Flags&command.KeyNotKey == 0 {
		return k.Index
	}
	return 0
}
