package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/diagnose"
)

// Sampling of hot keys: one command of several tells which keys it has named, as what, and what that took. How many
// are passed over follows the load, so that samples cost the same share of a busy core at any rate.
//
// engine.S1. A sample stands for all commands since the one before. Chance picks one request of a group, so that a
// pipeline's pattern shows nothing false.

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

// sampleInner takes a sample of a command that another one has run, if it is its turn.
func (c *Core) sampleInner(cl *client.Client, spec *command.Spec, args [][]byte, nanos int64) {
	if at, weight := c.sampler.pick(1); at >= 0 {
		c.sample(cl, spec, args, weight, 0, float64(nanos))
	}
}

// sample notes the keys of a command that has run. Keys that scripts declare are left out: the commands of scripts are
// sampled themselves.
func (c *Core) sample(cl *client.Client, spec *command.Spec, args [][]byte, weight, bytes, nanos float64) {
	if spec.Has(command.Scripts) {
		return
	}
	s := &c.sampler
	if at := firstKey(spec); at > 0 && at < len(args) {
		write := spec.Keys[0].Flags&command.KeyRO == 0
		s.keys.Note(&diagnose.Use{Key: args[at], DB: cl.DB, Write: write, Weight: weight, Bytes: bytes * weight,
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
			s.keys.Note(&diagnose.Use{Key: args[k.Index], DB: cl.DB, Write: k.Flags&command.KeyRO == 0, Weight: each,
				Bytes: bytes / n * each, Nanos: nanos / n * each})
		}
	}
}

// firstKey is the index of the only key of a command that names one at a fixed place; 0 of other commands. Its flags
// may depend on options, as SET's do.
func firstKey(spec *command.Spec) int {
	if len(spec.Keys) != 1 {
		return 0
	}
	if k := &spec.Keys[0]; k.LastKey == 0 && !k.KeyNum && k.Keyword == "" && !k.Unknown && k.Flags&command.KeyNotKey == 0 {
		return k.Index
	}
	return 0
}
