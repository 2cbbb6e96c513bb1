package route

// legacySpecs has the keys of commands that servers before Redis 7 only flag as movablekeys.
var legacySpecs = map[string][]spec{
	"eval": {counted2}, "evalsha": {counted2}, "eval_ro": {counted2}, "evalsha_ro": {counted2}, "fcall": {counted2},
	"fcall_ro": {counted2}, "zunionstore": {firstArg, counted2}, "zinterstore": {firstArg, counted2},
	"zdiffstore": {firstArg, counted2}, "zunion": {counted1}, "zinter": {counted1}, "zdiff": {counted1},
	"zintercard": {counted1}, "sintercard": {counted1}, "lmpop": {counted1}, "zmpop": {counted1}, "blmpop": {counted2},
	"bzmpop":     {counted2},
	"xread":      {{keyword: "streams", start: 1, last: -1, limit: 2, step: 1}},
	"xreadgroup": {{keyword: "streams", start: 4, last: -1, limit: 2, step: 1}},
}

var (
	firstArg = spec{start: 1, step: 1}
	counted1 = spec{start: 1, counted: true, first: 1, step: 1}
	counted2 = spec{start: 2, counted: true, first: 1, step: 1}
)

// blockingNames has the commands that servers before Redis 7 do not flag as blocking.
var blockingNames = map[string]bool{"blpop": true, "brpop": true, "brpoplpush": true, "blmove": true, "blmpop": true,
	"bzpopmin": true, "bzpopmax": true, "bzmpop": true, "xread": true, "xreadgroup": true, "wait": true, "waitaof": true}

// mayReplicate has the commands that may write without the flag write, and those that are propagated to replicas.
var mayReplicate = map[string]bool{"eval": true, "evalsha": true, "fcall": true, "pfcount": true, "publish": true,
	"spublish": true}

// legacySubs has the subcommands of containers, which servers before Redis 7 do not list in COMMAND. For those in
// keyed, the argument after the subcommand is a key.
var legacySubs = map[string]struct{ keyed, keyless []string }{
	"object": {[]string{"encoding", "freq", "idletime", "refcount"}, []string{"help"}},
	"xgroup": {[]string{"create", "createconsumer", "delconsumer", "destroy", "setid"}, []string{"help"}},
	"xinfo":  {[]string{"consumers", "groups", "stream"}, []string{"help"}},
	"memory": {[]string{"usage"}, []string{"doctor", "stats", "malloc-stats", "purge", "help"}},
	"script": {nil, []string{"exists", "flush", "kill", "load", "debug", "help"}},
	"acl": {nil, []string{"cat", "deluser", "genpass", "getuser", "help", "list", "load", "log", "save", "setuser",
		"users", "whoami"}},
}

// addLegacy adds the subcommands to a container command of a server before Redis 7.
func (raw *rawRow) addLegacy() {
	known, is := legacySubs[raw.name]
	if raw.hasSpecs || !is {
		return
	}
	for _, name := range known.keyed {
		raw.subs = append(raw.subs, rawRow{name: raw.name + "|" + name, arity: -3, flags: raw.flags &^ flagMovable,
			specs: []spec{{start: 2, step: 1}}})
	}
	for _, name := range known.keyless {
		raw.subs = append(raw.subs, rawRow{name: raw.name + "|" + name, arity: -2, flags: raw.flags &^ flagMovable})
	}
}
