package report

import (
	"maps"
	"slices"
	"strings"
)

// headlines lists the figures of BENCHMARKS.md's first table, by the beginning of their names.
var headlines = []string{
	"CPU per GET, pipeline 64, spindle gnet", "CPU per SET, pipeline 64, spindle gnet",
	"CPU per GET, pipeline 16, spindle gnet", "CPU per SET, pipeline 16, spindle gnet",
	"CPU per GET, pipeline 1, spindle gnet", "CPU per SET, pipeline 1, spindle gnet",
	"CPU per GET, pipeline 1, spindle io_uring", "CPU per SET, pipeline 1, spindle io_uring",
	"CPU per request, 100/s on 1 connection", "CPU per request, 1,000/s on 1 connection",
	"CPU per request, 5,000/s on 50 connections", "CPU per request, 20,000/s on 50 connections",
	"memory, 16 B key, 32 B value, 10,000,000 keys", "memory, the same with a TTL, 10,000,000 keys",
	"memory, 16 B key, integer value, 10,000,000 keys",
	"memory, hash of 5 fields", "memory, set of 1,000,000 elements", "memory, zset of 1,000,000 elements",
	"BGSAVE under full write load: longest turn", "BGSAVE under full write load: memory",
	"BGSAVE under full write load: wall time",
	"loading a file of redis, one core",
	"CPU per request of any command on one element, pipeline 16, spindle;",
	"CPU per call of rate limiter, pipeline 16",
	"CPU of PUBLISH to 10,000 subscribers, pipeline 16",
	"CPU per GET, tracked, pipeline 16",
	"CPU per GET over TLS, pipeline 16",
	"throughput of SET, always, 50 connections, pipeline 1",
	"CPU of an applied command at the replica",
	"full synchronisation of",
}

// headlineTable returns a table with a row for each headline that was measured beside the machine's own redis-server.
func headlineTable(sections []*Section) Table {
	t := Table{Columns: []string{"what", "target", "redis " + references(sections), "spindle", "verdict"}}
	for _, name := range headlines {
		if f := find(sections, name); f != nil {
			t.Rows = append(t.Rows, []string{f.What, f.Target, f.Reference, f.Ours, string(f.Verdict)})
		}
	}
	return t
}

// newerTable returns a table with a row for each headline and each further server beside which it was measured.
func newerTable(beside []*Section) Table {
	t := Table{Columns: []string{"what", "target", "beside", "its figure", "spindle", "verdict"}}
	others := map[string][]*Section{}
	for _, s := range beside {
		others[s.full()] = append(others[s.full()], s)
	}
	for _, name := range headlines {
		for _, server := range slices.Sorted(maps.Keys(others)) {
			if f := find(others[server], name); f != nil {
				t.Rows = append(t.Rows, []string{f.What, f.Target, server, f.Reference, f.Ours, string(f.Verdict)})
			}
		}
	}
	return t
}

func find(sections []*Section, name string) *Figure {
	for _, s := range sections {
		for i := range s.Figures {
			if strings.HasPrefix(s.Figures[i].What, name) {
				return &s.Figures[i]
			}
		}
	}
	return nil
}

// references returns the versions of Redis in sections: usually one.
func references(sections []*Section) string {
	var versions []string
	for _, s := range sections {
		if s.Reference != "" && !slices.Contains(versions, s.Reference) {
			versions = append(versions, s.Reference)
		}
	}
	return strings.Join(versions, ", ")
}
