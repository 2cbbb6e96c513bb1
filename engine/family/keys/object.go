package keys

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// objectEncoding is OBJECT ENCODING key. Replies: Redis's name of the value's encoding, or null.
func objectEncoding(c *command.Context) error {
	return object(c, func(v value.Value) error {
		c.Reply.BulkString(v.Encoding().String())
		return nil
	})
}

// objectIdleTime is OBJECT IDLETIME key. Replies: the seconds since the last access, or null. Under an LRM policy the
// seconds since the last change. Errors: under an LFU policy.
func objectIdleTime(c *command.Context) error {
	return object(c, func(v value.Value) error {
		if c.Space.Policy.LFU() {
			return errNotLRU
		}
		c.Reply.Int(c.Space.IdleMs(v) / 1000)
		return nil
	})
}

// objectFreq is OBJECT FREQ key. Replies: the logarithmic use counter, or null. Errors: unless the policy is an LFU
// policy.
func objectFreq(c *command.Context) error {
	return object(c, func(v value.Value) error {
		if !c.Space.Policy.LFU() {
			return errNotLFU
		}
		c.Reply.Int(int64(c.Space.Frequency(v)))
		return nil
	})
}

// objectRefCount is OBJECT REFCOUNT key. Replies: 1, or null. If Redis would store the integer as a shared object if it
// were written now, it replies Redis's number for shared objects. How a value was written is not recorded.
func objectRefCount(c *command.Context) error {
	return object(c, func(v value.Value) error {
		n := int64(1)
		if i, ok := v.Int(); ok && 0 <= i && i < sharedIntegers && sharesIntegers(c) {
			n = math.MaxInt32
		}
		c.Reply.Int(n)
		return nil
	})
}

// sharedIntegers is the number of small integers that Redis shares.
const sharedIntegers = 10_000

// sharesIntegers reports whether Redis would share an integer that is written now. Under maxmemory with an LRU or LFU
// policy it would not, because each value needs its own clock.
func sharesIntegers(c *command.Context) bool {
	if c.Settings == nil || c.Settings.MaxMemory == nil || c.Settings.MaxMemory.Get() == 0 {
		return true
	}
	switch c.Space.Policy {
	case keyspace.VolatileLRU, keyspace.AllKeysLRU, keyspace.VolatileLFU, keyspace.AllKeysLFU,
		keyspace.VolatileLRM, keyspace.AllKeysLRM:
		return false
	}
	return true
}

// object replies null for a missing key. Otherwise it calls f. It does not count as an access.
func object(c *command.Context, f func(value.Value) error) error {
	v := inspect(c, c.Args[2])
	if !v.Exists() {
		c.Reply.Null()
		return nil
	}
	return f(v)
}

func objectHelp(c *command.Context) error {
	c.Reply.Array(len(objectHelpLines))
	for _, line := range objectHelpLines {
		c.Reply.Simple(line)
	}
	return nil
}

var objectHelpLines = []string{
	"OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"ENCODING <key>",
	"    Return the kind of internal representation used in order to store the value",
	"    associated with a <key>.",
	"FREQ <key>",
	"    Return the access frequency index of the <key>. The returned integer is",
	"    proportional to the logarithm of the recent access frequency of the key.",
	"IDLETIME <key>",
	"    Return the idle time of the <key>, that is the approximated number of",
	"    seconds elapsed since the last access to the key.",
	"REFCOUNT <key>",
	"    Return the number of references of the value associated with the specified",
	"    <key>.",
	"HELP",
	"    Print this help.",
}
