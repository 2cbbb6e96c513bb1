package command

import (
	"math"

	"spindle/engine/client"
	"spindle/engine/data/value/list"
	"spindle/engine/data/value/set"
	"spindle/engine/data/value/zset"
	"spindle/internal/setting"
	"spindle/internal/version"
)

// Settings are the settings that handlers of several families read. The core puts them into every Context.
type Settings struct {
	// MaxBulk is proto-max-bulk-len, in bytes, which the loops also read. No string may grow past it. Nil means the
	// default.
	MaxBulk        *setting.Int
	MaxMemory      *setting.Uint // maxmemory, bytes; nil means none
	MaxFilter      setting.Int   // bf-max-size: the most bytes of a Bloom filter, set or not
	LongRead       setting.Int   // long-read-elements: calls that read more run outside the turn; 0 means none
	LazyfreeExpire setting.Bool  // lazyfree-lazy-expire: an expired key is propagated as UNLINK, not DEL
	LazyfreeServer setting.Bool  // lazyfree-lazy-server-del: the same for a key that a command replaces by nothing
	Sets           set.Settings  // when a set leaves its compact encodings
	Lists          list.Settings // how large their pieces may become
	ZSets          zset.Settings // when a sorted set leaves its compact encoding

	// Compat is compat-version, the Redis version that the server reports to clients.
	Compat setting.Enum[Compat]
}

// Compat is a Redis version that the server may report. Tools choose their behaviour by it.
type Compat int

const (
	Redis74 Compat = iota
	Redis84
)

// Redis returns the Redis version that the server reports to clients. s may be nil.
func (s *Settings) Redis() string {
	if s != nil && s.Compat.Get() == Redis84 {
		return "8.4.0"
	}
	return version.Redis
}

// Rows returns the settings that no other package declares.
func (s *Settings) Rows() []setting.Row {
	rows := []setting.Row{
		setting.NewMemory("bf-max-size", &s.MaxFilter, defaultMaxFilter, setting.Between(1, 64<<30)),
		setting.NewInt("long-read-elements", &s.LongRead, 10_000, setting.Between(0, math.MaxInt64)),
		setting.NewBool("lazyfree-lazy-expire", &s.LazyfreeExpire, false),
		setting.NewBool("lazyfree-lazy-server-del", &s.LazyfreeServer, false),
		setting.NewEnum("compat-version", &s.Compat, Redis74,
			[]setting.Choice[Compat]{{Name: "7.4", Value: Redis74}, {Name: "8.4", Value: Redis84}}),
	}
	rows = append(rows, s.Sets.Rows()...)
	rows = append(rows, s.ZSets.Rows()...)
	rows = append(rows, s.Lists.Rows()...)
	return rows
}

// defaultMaxBulk is the default of proto-max-bulk-len.
const defaultMaxBulk = 512 << 20

// MaxBulk returns the maximum length of a string, in bytes.
func (c *Context) MaxBulk() int64 {
	if c.Settings == nil || c.Settings.MaxBulk == nil {
		return defaultMaxBulk
	}
	return c.Settings.MaxBulk.Get()
}

// defaultMaxFilter is the default of bf-max-size.
const defaultMaxFilter = 512 << 20

// MaxFilter returns the maximum size of a Bloom filter after this command, in bytes: bf-max-size, or maxmemory if that
// is less. Bits that were never set use no memory, so maxmemory alone would not limit them. A filter from the primary
// or from a file has no limit, because another server has already allowed it.
func (c *Context) MaxFilter() uint64 {
	most := uint64(defaultMaxFilter)
	switch {
	case c.Obeys():
		return math.MaxUint64
	case c.Settings == nil:
		return most
	case c.Settings.MaxFilter.Get() > 0:
		most = uint64(c.Settings.MaxFilter.Get())
	}
	if m := c.Settings.MaxMemory; m != nil && m.Get() > 0 {
		most = min(most, m.Get())
	}
	return most
}

// lazyExpire reports whether an expired key's removal is sent to the sinks as UNLINK instead of DEL.
func (c *Context) lazyExpire() bool { return c.Settings != nil && c.Settings.LazyfreeExpire.Get() }

// HasPassed reports whether a key with this deadline (Unix ms) must be removed at once. A replica waits until its
// primary removes it, and a server that loads removes no key.
func (c *Context) HasPassed(deadlineMs int64) bool {
	return deadlineMs <= c.Now && !c.Space.Replica && !c.Space.Trusting
}

var (
	wordDel    = []byte("DEL")
	wordUnlink = []byte("UNLINK")
)

// Removal returns the command that sinks get for an expired key, DEL or UNLINK.
func (c *Context) Removal() []byte {
	if c.lazyExpire() {
		return wordUnlink
	}
	return wordDel
}

// Displacement returns the command that sinks get for a key that the call has removed without a new value, DEL or
// UNLINK.
func (c *Context) Displacement() []byte {
	if c.Settings != nil && c.Settings.LazyfreeServer.Get() {
		return wordUnlink
	}
	return wordDel
}

// Obeys reports whether the command comes from our primary, from a file, or from the source of slots that move here.
// Another server has already allowed it, and this one does not refuse it.
func (c *Context) Obeys() bool { return c.Client.Is(client.Primary | client.Importing) }
