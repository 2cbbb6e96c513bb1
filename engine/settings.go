package engine

import (
	"errors"
	"math"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/internal/setting"
)

// Settings are the settings that the core itself reads.
type Settings struct {
	Databases           setting.Int // number of databases; fixed at the start
	RequirePass         setting.String
	ProtectedMode       setting.Bool
	EnableDebugCommand  setting.Enum[Permission]
	EnableModuleCommand setting.Enum[Permission]
	Timeout             setting.Int // seconds; 0 keeps silent clients
	SlowlogSlowerThan   setting.Int // µs; negative: never
	LargeRequest        setting.Int // bytes that bring a request into COMMANDLOG; negative: never
	LargeReply          setting.Int
	LatencyThreshold    setting.Int // ms; 0 means off
	NotifyEvents        setting.Int // command.EventClass bits
	LazyfreeEviction    setting.Bool
	BusyReplyThreshold  setting.Int  // ms for which a command may lend the turn before others get BUSY
	MeasureTurnCPU      setting.Bool // reads the thread's clock at each turn: two system calls
	StallThreshold      setting.Int  // ms; 0 means off
	StallsKept          setting.Int  // of the stall log
	HotKeys             setting.Bool // sample which keys are used
	BigKeys             setting.Bool // track the largest keys; fixed at the start

	MaxMemory     setting.Uint // bytes; 0 means no limit
	ClientsMemory setting.Int  // bytes, or as a negative number a percentage of MaxMemory; 0 means no limit
	KeptMemory    setting.Int  // bytes that views may keep, or as a negative number a percentage of MaxMemory; 0: no limit
	Policy        setting.Enum[EvictionPolicy]
	Samples       setting.Int
	Tenacity      setting.Int
	LFULogFactor  setting.Int
	LFUDecayTime  setting.Int

	Defrag         setting.Bool
	DefragIgnore   setting.Int // bytes of slabs in use that may be free
	DefragLower    setting.Int // percent of the bytes used: the least at which blocks are moved
	DefragUpper    setting.Int // and the least at which DefragCycleMax holds
	DefragCycleMin setting.Int // percent of the time
	DefragCycleMax setting.Int
}

// Permission says which clients may run commands that are dangerous on a shared host.
type Permission int

const (
	PermitNobody Permission = iota
	PermitAnyone
	PermitLocal
)

// Allows reports whether a client may run such commands. local means that the client is on this host.
func (p Permission) Allows(local bool) bool { return p == PermitAnyone || p == PermitLocal && local }

// Permissions are the values in the configuration.
var Permissions = []setting.Choice[Permission]{
	{Name: "no", Value: PermitNobody}, {Name: "yes", Value: PermitAnyone}, {Name: "local", Value: PermitLocal},
}

// EvictionPolicy is the setting maxmemory-policy. Its values are those of keyspace.Policy.
type EvictionPolicy int

var policies = []setting.Choice[EvictionPolicy]{
	{Name: "volatile-lru", Value: EvictionPolicy(keyspace.VolatileLRU)},
	{Name: "volatile-lfu", Value: EvictionPolicy(keyspace.VolatileLFU)},
	{Name: "volatile-lrm", Value: EvictionPolicy(keyspace.VolatileLRM)},
	{Name: "volatile-random", Value: EvictionPolicy(keyspace.VolatileRandom)},
	{Name: "volatile-ttl", Value: EvictionPolicy(keyspace.VolatileTTL)},
	{Name: "allkeys-lru", Value: EvictionPolicy(keyspace.AllKeysLRU)},
	{Name: "allkeys-lfu", Value: EvictionPolicy(keyspace.AllKeysLFU)},
	{Name: "allkeys-lrm", Value: EvictionPolicy(keyspace.AllKeysLRM)},
	{Name: "allkeys-random", Value: EvictionPolicy(keyspace.AllKeysRandom)},
	{Name: "noeviction", Value: EvictionPolicy(keyspace.NoEviction)},
}

// Rows returns the settings as CONFIG and the configuration file know them. A call resets all settings to their
// defaults.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("databases", &s.Databases, 16, setting.Between(1, math.MaxInt32), setting.Immutable),
		setting.NewString("requirepass", &s.RequirePass, "", setting.Sensitive),
		setting.NewBool("protected-mode", &s.ProtectedMode, true),
		setting.NewEnum("enable-debug-command", &s.EnableDebugCommand, PermitNobody, Permissions, setting.Immutable),
		setting.NewEnum("enable-module-command", &s.EnableModuleCommand, PermitNobody, Permissions, setting.Immutable),
		setting.NewInt("timeout", &s.Timeout, 0, setting.Between(0, math.MaxInt32)),
		setting.NewInt("slowlog-log-slower-than", &s.SlowlogSlowerThan, 10000, setting.Between(-1, math.MaxInt64),
			setting.Also("commandlog-execution-slower-than")),
		setting.NewInt("commandlog-request-larger-than", &s.LargeRequest, 1<<20, setting.Between(-1, math.MaxInt64)),
		setting.NewInt("commandlog-reply-larger-than", &s.LargeReply, 1<<20, setting.Between(-1, math.MaxInt64)),
		setting.NewInt("latency-monitor-threshold", &s.LatencyThreshold, 0, setting.Between(0, math.MaxInt64)),
		setting.NewLetters("notify-keyspace-events", &s.NotifyEvents, 0, eventLetters,
			errors.New("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")),
		setting.NewInt("busy-reply-threshold", &s.BusyReplyThreshold, 5000, setting.Between(0, math.MaxInt64),
			setting.Also("lua-time-limit")),
		setting.NewInt("stall-threshold", &s.StallThreshold, 10, setting.Between(0, math.MaxInt32)),
		setting.NewInt("stall-log-max-len", &s.StallsKept, 128, setting.Between(0, 100_000)),
		setting.NewBool("hot-keys", &s.HotKeys, true),
		setting.NewBool("big-keys", &s.BigKeys, true, setting.Fixed),
		setting.NewBool("measure-turn-cpu", &s.MeasureTurnCPU, false),
		setting.NewBool("lazyfree-lazy-eviction", &s.LazyfreeEviction, false),
		setting.NewMemoryUint("maxmemory", &s.MaxMemory, 0),
		setting.NewMemoryPercent("maxmemory-clients", &s.ClientsMemory, 0, setting.Between(-100, math.MaxInt64)),
		setting.NewMemoryPercent("kept-memory-limit", &s.KeptMemory, -25, setting.Between(-100, math.MaxInt64)),
		setting.NewEnum("maxmemory-policy", &s.Policy, EvictionPolicy(keyspace.NoEviction), policies),
		setting.NewInt("maxmemory-samples", &s.Samples, 5, setting.Between(1, 64)),
		setting.NewInt("maxmemory-eviction-tenacity", &s.Tenacity, 10, setting.Between(0, 100)),
		setting.NewInt("lfu-log-factor", &s.LFULogFactor, 10, setting.Between(0, math.MaxInt32)),
		setting.NewInt("lfu-decay-time", &s.LFUDecayTime, 1, setting.Between(0, math.MaxInt32)),
		setting.NewBool("activedefrag", &s.Defrag, true),
		setting.NewMemory("active-defrag-ignore-bytes", &s.DefragIgnore, 8<<20, setting.Between(1, math.MaxInt64)),
		setting.NewInt("active-defrag-threshold-lower", &s.DefragLower, 10, setting.Between(0, 1000)),
		setting.NewInt("active-defrag-threshold-upper", &s.DefragUpper, 100, setting.Between(0, 1000)),
		setting.NewInt("active-defrag-cycle-min", &s.DefragCycleMin, 1, setting.Between(1, 99)),
		setting.NewInt("active-defrag-cycle-max", &s.DefragCycleMax, 25, setting.Between(1, 99)),
	}
}

// allEvents are the classes that A stands for: all but m, n, o and c. K, E, S, T, I and V are channels.
const allEvents = command.EventGeneric | command.EventString | command.EventList | command.EventSet |
	command.EventHash |
	command.EventZSet | command.EventExpired | command.EventEvicted | command.EventStream | command.EventModule

// eventLetters are the classes in the order in which CONFIG GET shows them. Redis hides n if A is set, and loses n in
// CONFIG REWRITE. Here n stays.
var eventLetters = []setting.Letter{
	{Char: 'A', Bits: int64(allEvents)},
	{Char: 'g', Bits: int64(command.EventGeneric)}, {Char: '$', Bits: int64(command.EventString)},
	{Char: 'l', Bits: int64(command.EventList)}, {Char: 's', Bits: int64(command.EventSet)},
	{Char: 'h', Bits: int64(command.EventHash)}, {Char: 'z', Bits: int64(command.EventZSet)},
	{Char: 'x', Bits: int64(command.EventExpired)}, {Char: 'e', Bits: int64(command.EventEvicted)},
	{Char: 't', Bits: int64(command.EventStream)}, {Char: 'd', Bits: int64(command.EventModule)},
	{Char: 'n', Bits: int64(command.EventNew)}, {Char: 'K', Bits: int64(command.EventKeyspace)},
	{Char: 'E', Bits: int64(command.EventKeyevent)}, {Char: 'm', Bits: int64(command.EventKeyMiss)},
	{Char: 'o', Bits: int64(command.EventOverwritten)}, {Char: 'c', Bits: int64(command.EventTypeChanged)},
	{Char: 'S', Bits: int64(command.EventSubkeyspace)}, {Char: 'T', Bits: int64(command.EventSubkeyevent)},
	{Char: 'I', Bits: int64(command.EventSubkeyspaceItem)}, {Char: 'V', Bits: int64(command.EventSubkeyspaceEvent)},
}
