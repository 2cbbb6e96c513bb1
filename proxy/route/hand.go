package route

import (
	"strings"
)

// A Special names a command that needs special code in the proxy. Rows of class Local need only this code. Rows of
// other classes are also sent to shards.
type Special uint8

const (
	None Special = iota

	// These are of class Local.
	Ping
	Echo
	Time
	Select
	Auth
	Hello
	Reset
	Quit
	Asking
	ReadOnly  // READONLY
	ReadWrite // READWRITE
	Client
	Command
	Config
	Info
	Slowlog // SLOWLOG and COMMANDLOG
	Latency
	Cluster
	Scan
	Subscribe
	Unsubscribe
	PSubscribe
	PUnsubscribe
	SSubscribe
	SUnsubscribe
	Publish
	SPublish
	PubSub
	CrossProtocol // POST and HOST, from an attacked browser; the connection is closed

	// These are of class Pinned.
	Multi
	Exec
	Discard
	Watch
	Unwatch

	// These are of class All. Shards that join later also receive the scripts and functions.
	Wait // WAIT and WAITAOF: each counts from the writes of its connection
	ScriptLoad
	ScriptFlush
	ScriptExists
	FunctionLoad
	FunctionDelete
	FunctionFlush
	FunctionRestore
	FunctionList
	FunctionDump // of class Forward
)

// A decision is the entry of a command in hand.go.
type decision struct {
	class   Class
	special Special
	merge   Merge
	reason  string
}

func local(s Special) decision            { return decision{class: Local, special: s} }
func pinned(s Special) decision           { return decision{class: Pinned, special: s} }
func all(m Merge) decision                { return decision{class: All, merge: m} }
func with(d decision, s Special) decision { d.special = s; return d }
func refused(reason string) decision      { return decision{class: Refused, reason: reason} }

var anyShard = decision{class: Forward}

// These reasons are used by several commands.
const (
	ofOneServer = "it concerns a single server; send it to that server"
	ofUsers     = "the users of the shards are set at the shards"
	ofRole      = "the proxy has no part in replication"
	ofFiles     = "the files of a shard are saved at that shard"
)

// split lists the commands that are split by slot. Each key must be a separate operation, so that shards can run their
// parts independently. So MSETNX and MSETEX are not in the list.
var split = map[string]Merge{"mget": ByKey, "mset": AllSucceeded, "del": Sum, "unlink": Sum, "exists": Sum,
	"touch": Sum}

// hand lists the commands that the tips call special, those without keys and tips, and those that concern the proxy.
// The entry of a container covers all its subcommands that have no entry.
var hand = map[string]decision{
	// Connections.
	"ping": local(Ping), "echo": local(Echo), "time": local(Time), "select": local(Select), "auth": local(Auth),
	"hello": local(Hello), "reset": local(Reset), "quit": local(Quit), "asking": local(Asking),
	"readonly": local(ReadOnly), "readwrite": local(ReadWrite), "client": local(Client), "command": local(Command),
	"post": local(CrossProtocol), "host:": local(CrossProtocol),

	// The proxy's own figures.
	"config": local(Config), "info": local(Info), "slowlog": local(Slowlog), "commandlog": local(Slowlog),
	"latency": local(Latency), "cluster": local(Cluster),

	// Pub/sub.
	"subscribe": local(Subscribe), "unsubscribe": local(Unsubscribe), "psubscribe": local(PSubscribe),
	"punsubscribe": local(PUnsubscribe), "ssubscribe": local(SSubscribe), "sunsubscribe": local(SUnsubscribe),
	"publish": local(Publish), "spublish": local(SPublish), "pubsub": local(PubSub),

	// Transactions and blocking.
	"multi": pinned(Multi), "exec": pinned(Exec), "discard": pinned(Discard), "watch": pinned(Watch),
	"unwatch": pinned(Unwatch), "migrate": pinned(None),

	// All shards.
	"scan": local(Scan), "dbsize": all(Sum), "keys": all(Concat), "randomkey": all(AnyKey),
	"flushall": all(AllSucceeded), "flushdb": all(AllSucceeded),
	"wait": with(all(Min), Wait), "waitaof": with(all(Min), Wait),
	"script|load": with(all(AllSucceeded), ScriptLoad), "script|flush": with(all(AllSucceeded), ScriptFlush),
	"script|exists": with(all(HaveScript), ScriptExists), "script|kill": all(OneSucceeded), "script|show": anyShard,
	"script|debug":  refused("a debugger needs a connection to one server"),
	"function|load": with(all(AllSucceeded), FunctionLoad), "function|delete": with(all(AllSucceeded), FunctionDelete),
	"function|flush": with(all(AllSucceeded), FunctionFlush), "function|restore": with(all(AllSucceeded), FunctionRestore),
	"function|kill": all(OneSucceeded), "function|stats": all(FunctionStats), "function|list": with(all(SameLibraries),
		FunctionList),
	"function|dump": with(anyShard, FunctionDump),
	"memory|purge":  all(AllSucceeded),
	"memory|doctor": refused(ofOneServer), "memory|stats": refused(ofOneServer),
	"memory|malloc-stats": refused(ofOneServer),

	// Any shard can reply: all give the same reply.
	"lolwut": anyShard, "acl|whoami": anyShard, "acl|cat": anyShard, "acl|genpass": anyShard, "acl|dryrun": anyShard,
	"acl|getuser": anyShard, "acl|list": anyShard, "acl|users": anyShard,

	// These concern single servers.
	"acl": refused(ofUsers), "acl|log": refused(ofOneServer), "bgrewriteaof": refused(ofFiles), "bgsave": refused(ofFiles),
	"backup": refused(ofFiles),
	"save":   refused(ofFiles), "lastsave": refused(ofFiles), "shutdown": refused(ofOneServer),
	"debug": refused(ofOneServer), "module": refused(ofOneServer),
	"monitor": refused("it would show the requests of all clients of a single server"),
	"swapdb":  refused("the shards cannot exchange their databases at the same instant"), "sync": refused(ofRole),
	"psync": refused(ofRole), "replconf": refused(ofRole), "replicaof": refused(ofRole), "slaveof": refused(ofRole),
	"failover": refused(ofRole), "role": refused(ofRole), "restore-asking": refused("only servers send it to each other"),
	"pfselftest":  refused("it holds a shard up for seconds, for all clients; send it to a server"),
	"clusterscan": refused("its cursor names a single server; use SCAN"),
	"bigkeys":     refused(ofOneServer), "hotkeys": refused(ofOneServer), "stalls": refused(ofOneServer),
	"spindle": refused(ofOneServer), "script|stats": refused(ofOneServer), "sentinel": refused(ofOneServer),
}

// builtin lists the commands that the proxy answers itself, even if its shards are too old to have them.
var builtin = []rawRow{
	{name: "ping", arity: -1}, {name: "echo", arity: 2}, {name: "time", arity: 1}, {name: "select", arity: 2},
	{name: "auth", arity: -2}, {name: "hello", arity: -1}, {name: "reset", arity: 1}, {name: "quit", arity: -1},
	{name: "asking", arity: 1}, {name: "readonly", arity: 1}, {name: "readwrite", arity: 1}, {name: "client", arity: -2},
	{name: "command", arity: -1}, {name: "config", arity: -2}, {name: "info", arity: -1}, {name: "slowlog", arity: -2},
	{name: "latency", arity: -2}, {name: "cluster", arity: -2}, {name: "post", arity: -1}, {name: "host:", arity: -1},
}

// decide makes a row with its class and the positions of its keys.
//
// Order: the entry in hand.go; split and blocking commands; commands with keys; the tips. A command without keys and
// without tips is refused (route.R1).
func decide(raw rawRow) *Row {
	r := &Row{Name: raw.name, Arity: raw.arity, AllNodes: raw.request == "all_nodes",
		Readonly: raw.flags&flagReadonly != 0, Write: raw.flags&flagWrite != 0, Admin: raw.flags&flagAdmin != 0,
		NoMulti: raw.flags&flagNoMulti != 0, PubSub: raw.flags&flagPubSub != 0, Module: raw.flags&flagModule != 0,
		Blocking:     raw.flags&flagBlocking != 0 || blockingNames[raw.name],
		MayReplicate: raw.flags&flagMayReplicate != 0 || mayReplicate[raw.name], Script: scripted[raw.name],
	}
	reason := r.findKeys(raw)
	d, said := hand[raw.name]
	container, sub, isSub := strings.Cut(raw.name, "|")
	if whole := hand[container]; !said && isSub && !r.Keyed() && (sub != "help" || whole.class == Local) {
		d, said = hand[container]
	}
	merge, isSplit := split[raw.name]
	switch {
	case said && !(d.class == Forward && r.Keyed()):
		r.Class, r.Special, r.Merge, r.Reason = d.class, d.special, d.merge, d.reason
	case reason != "":
		r.Class, r.Reason = Refused, reason
	case isSplit && len(r.keys) == 1 && r.keys[0].keyword == "" && !r.keys[0].counted:
		r.Class, r.Merge = Split, merge
	case r.Keyed() && r.Blocking:
		r.Class = Pinned
	case r.Keyed() || sub == "help":
		r.Class = Forward
	case raw.request == "all_shards" || raw.request == "all_nodes":
		r.Class, r.Merge = All, mergeOf(raw.response)
		if r.Merge == NoMerge {
			r.Class, r.Reason = Refused, "its tips name the response policy \""+raw.response+"\""
		}
	case len(raw.subs) > 0:
		r.Class, r.Reason = Refused, "it needs a subcommand"
	default:
		r.Class, r.Reason = Refused, "it names no key, and its tips do not tell which shards it concerns"
	}
	r.setShape()
	if r.Class == Refused {
		r.refuse = notServed(r.Name, r.Reason)
	}
	return r
}

// mergeOf returns the merge for a response policy of the tips. Without a policy, the elements of the replies are
// joined.
func mergeOf(policy string) Merge {
	switch policy {
	case "":
		return Concat
	case "all_succeeded":
		return AllSucceeded
	case "one_succeeded":
		return OneSucceeded
	case "agg_sum":
		return Sum
	case "agg_min":
		return Min
	case "agg_max":
		return Max
	case "agg_logical_and":
		return And
	case "agg_logical_or":
		return Or
	}
	return NoMerge
}

// findKeys sets the key specifications of a row. It uses those of the shard, or else those of legacy.go, or else the
// first and the last key. It returns the reason why a call's keys cannot be found, or "".
func (r *Row) findKeys(raw rawRow) (reason string) {
	if c := customs[raw.name]; c != plain {
		r.custom = c
		return ""
	}
	if len(raw.specs) > 0 && !raw.unclear {
		r.keys = raw.specs
		return ""
	}
	if known := legacySpecs[raw.name]; known != nil {
		r.keys = known
		return ""
	}
	switch {
	case raw.unclear:
		return "its key specifications are incomplete"
	case raw.flags&flagMovable != 0:
		return "COMMAND does not tell where its keys are"
	case raw.first > 0 && raw.step > 0:
		s := spec{start: raw.first, step: raw.step, last: raw.last}
		if raw.last >= 0 {
			s.last = raw.last - raw.first
		}
		if s.last < 0 && raw.last >= 0 {
			return "COMMAND does not tell where its keys are"
		}
		r.keys = []spec{s}
	}
	return ""
}

func (r *Row) setShape() {
	least := r.Arity
	if least < 0 {
		least = -least
	}
	switch {
	case !r.Keyed():
		r.shape = keyless
	case r.Class == Split:
		r.shape = splitKeys
	case r.Name == "xread" || r.Name == "xreadgroup":
		r.shape = streams
	case r.PubSub: // detours do not hold for channels: see planKeys
		r.shape = someKeys
	case r.custom == plain && len(r.keys) == 1 && r.keys[0] == spec{start: 1, step: r.keys[0].step} && least >= 2:
		r.shape = oneKey
	default:
		r.shape = someKeys
	}
}
