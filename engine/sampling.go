package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/diagnose"
)

// Sampling of hot keys: one command in several is sampled. A sample records the keys that the command has named, their
// use, and its cost. The number of commands between two samples follows the load. So samples cost the same share of a
// busy core at any rate.
//
// engine.S1. A sample stands for all commands since the previous sample. A request is picked by chance from a group, so
// that a pipeline's pattern does not distort the result.

// ApplyHotKeys applies the setting hot-keys. Turn only.
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

// sampleInner samples a command that another command has run, if the sampler picks it.
func (c *Core) sampleInner(cl *client.Client, spec *command.Spec, args [][]byte, nanos int64) {
	if at, weight := c.sampler.pick(1); at >= 0 {
		c.sample(cl, spec, args, weight, 0, float64(nanos))
	}
}

// sample records the keys of a command that has run. It leaves out keys that scripts declare, because the commands of
// scripts are sampled themselves.
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

// firstKey returns the index of the only key of a command that names one key at a fixed place. It returns 0 for other
// commands. The key's flags may depend on options, as in SET.
func firstKey(spec *command.Spec) int {
	if len(spec.Keys) != 1 {
		return 0
	}
	if k := &spec.Keys[0]; k.LastKey == 0 && !k.KeyNum && k.Keyword == "" && !k.Unknown && k.Flags&command.KeyNotKey == 0 {
		return k.Index
	}
	return 0
}
