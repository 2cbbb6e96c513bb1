package tidy

import (
	"go/ast"
	"slices"
	"strings"
)

// A rule lists the imports from this module that packages in and below a folder may have. The rule of the longest
// matching folder applies. A target ending in "/" is the folder and everything below it; otherwise it is that package
// alone.
type rule struct {
	folder string
	may    []string
}

// floors is ARCHITECTURE.md's table of floors, from top to bottom. Everything may import internal/, so it is not
// listed. A change that adds a folder adds its row here, and its name to the rows above it. TestFloorsAreThere refuses
// rows of missing folders.
var floors = []rule{
	{".", []string{"server", "proxy", "proxy/dashboard", "tools/cli"}},
	{"server", []string{"reactor/", "protocol/", "engine/", "lazyfree/", "bgsave/", "aof", "replication/", "cluster/",
		"scripting/", "sentinel", "lane", "admin/", "dataset", "overview", "server/"}},
	{"overview", []string{"admin/", "dataset", "engine/", "scripting", "reactor", "protocol/"}},
	{"lane", []string{"engine", "engine/acl", "engine/client", "engine/command", "engine/diagnose", "engine/family/conn",
		"engine/family/introspect", "protocol/", "reactor"}},
	{"admin", []string{"admin/", "engine/command", "scripting"}},
	{"admin/live", []string{"protocol/"}},
	{"dataset", []string{"aof", "bgsave/", "engine/", "replication", "scripting", "protocol/"}},
	{"cluster", []string{"cluster/", "engine", "engine/command", "engine/client", "engine/data/", "engine/family/pubsub",
		"protocol/"}},
	{"cluster/state", []string{"cluster/bus", "protocol/"}},
	{"cluster/bus", nil},
	{"cluster/migrate", []string{"bgsave", "engine", "engine/part", "engine/command", "engine/client", "engine/data/",
		"protocol/"}},
	{"cluster/slotmove", []string{"aof", "bgsave", "engine", "engine/part", "engine/command", "engine/client",
		"engine/data/", "protocol/"}},
	{"aof", []string{"bgsave/", "engine/", "protocol/"}},
	{"replication", []string{"bgsave/", "engine/", "protocol/", "replication/segments"}},
	{"replication/segments", nil},
	{"sentinel", []string{"engine/command", "engine/client", "protocol/"}},
	{"proxy", []string{"proxy/", "reactor", "protocol/"}},
	{"proxy/route", []string{"protocol/"}},
	{"proxy/topology", []string{"protocol/"}},
	{"bgsave", []string{"bgsave/", "engine/command", "engine/client", "engine/data/", "protocol/"}},
	{"bgsave/rdb", []string{"engine/data/", "bgsave/rdb/"}},
	{"scripting", []string{"engine/command", "engine/client", "engine/data/", "protocol/", "scripting/"}},
	{"scripting/lib", []string{"scripting/lua", "scripting/lib/"}},
	{"scripting/lua", nil},
	{"engine/part", []string{"engine/acl", "engine/command", "engine/client"}},
	{"engine/reading", []string{"engine/command", "engine/client", "engine/data/keyspace",
		"engine/data/memory", "engine/data/value", "protocol"}},
	{"engine", []string{"engine/part", "engine/acl", "engine/diagnose", "engine/reading", "engine/command",
		"engine/client", "engine/data/", "lazyfree/", "protocol/"}},
	{"engine/catalogue", []string{"engine/diagnose", "engine/family/", "engine/command", "engine/data/keyspace"}},
	{"engine/diagnose", []string{"engine/part", "engine/command", "engine/client", "engine/data/", "protocol/"}},
	{"engine/family", []string{"engine/acl", "engine/command", "engine/client",
		"engine/part", "engine/data/", "protocol/"}},
	{"engine/acl", []string{"engine/command", "engine/client", "protocol/"}},
	{"engine/command", []string{"engine/client", "engine/data/", "protocol/"}},
	{"engine/client", []string{"protocol/"}},
	{"engine/data/keyspace", []string{"engine/data/value/", "engine/data/table", "engine/data/tree",
		"engine/data/listpack", "engine/data/intset", "engine/data/memory"}},
	{"engine/data/tracked", []string{"engine/data/value", "engine/data/table", "engine/data/memory"}},
	{"engine/data/value", []string{"engine/data/value", "engine/data/table", "engine/data/tree", "engine/data/listpack",
		"engine/data/intset", "engine/data/memory"}},
	{"engine/data/table", []string{"engine/data/memory"}},
	{"engine/data/tree", []string{"engine/data/listpack", "engine/data/memory"}},
	{"engine/data/listpack", []string{"engine/data/memory"}},
	{"engine/data/intset", []string{"engine/data/memory"}},
	{"engine/data/memory", nil},
	{"reactor", []string{"reactor/gnet", "reactor/netpoll", "reactor/uring", "reactor/parking", "protocol/"}},
	{"reactor/gnet", nil},
	{"reactor/netpoll", nil},
	{"reactor/parking", nil},
	{"reactor/uring", nil},
	{"protocol", nil},
	{"protocol/respclient", []string{"protocol"}},
	{"protocol/scan", nil},
	{"proxy/dashboard", []string{"proxy/plan", "proxy/store", "protocol/respclient"}},
	{"proxy/plan", []string{"proxy/store"}},
	{"proxy/store", nil},
	{"lazyfree", nil},
	{"internal", nil},
	{"tools/cli", []string{"aof", "bgsave/", "engine/data/", "protocol/"}},
	{"tools", []string{"tools/cli", "protocol/", "bgsave/", "engine/", "reactor/", "server/", "proxy", "proxy/dashboard"}},
	{"bench", []string{"bench/", "protocol/", "tests/testkit/authority"}},
	{"tests", []string{"tests/", "protocol/", "engine/", "bgsave/", "server/", "proxy/"}},
}

// besides lists the folders whose packages are not part of the program. The program's packages may not import them,
// except that main imports tools/cli.
var besides = []string{"tools/", "bench/", "tests/"}

// isBeside reports whether the package in dir is not part of the program.
func isBeside(dir string) bool {
	return dir != "tools/cli" && slices.ContainsFunc(besides, func(folder string) bool {
		return strings.HasPrefix(dir+"/",
			folder)
	})
}

// ruleFor returns the rule of the longest folder that contains dir.
func ruleFor(dir string) *rule {
	var best *rule
	for i := range floors {
		f := floors[i].folder
		if (dir == f || (f != "." && strings.HasPrefix(dir, f+"/"))) && (best == nil || len(f) > len(best.folder)) {
			best = &floors[i]
		}
	}
	return best
}

// allows reports whether a package of this rule may import target.
func (r *rule) allows(target string) bool {
	if strings.HasPrefix(target, "internal/") {
		return true
	}
	for _, may := range r.may {
		if target == strings.TrimSuffix(may, "/") || (strings.HasSuffix(may, "/") && strings.HasPrefix(target, may)) {
			return true
		}
	}
	return false
}

// funcName returns a declaration's name if it declares a function or method, otherwise "".
func funcName(d ast.Decl) string {
	if f, ok := d.(*ast.FuncDecl); ok {
		return f.Name.Name
	}
	return ""
}
