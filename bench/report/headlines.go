package report

import (
	"slices"
	"strings"
)

// headlines lists the figures of BENCHMARKS.md's first table, by the beginning of their names.
var headlines = []string{
	"CPU per GET, pipeline 64, spindle gnet", "CPU per SET, pipeline 64, spindle gnet",
	"CPU per GET, pipeline 16, spindle gnet", "CPU per SET, pipeline 16, spindle gnet",
	"CPU per GET, pipeline 1, spindle gnet", "CPU per SET, pipeline 1, spindle gnet",
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

// headlineTable returns a table with a row for each measured headline, and a pair of columns for each version of Redis.
func headlineTable(sections, beside []*Section) Table {
	t := Table{Columns: []string{"what", "target", "redis " + references(sections), "spindle", "verdict"}}
	second := references(beside)
	if second != "" {
		t.Columns = append(t.Columns, "redis "+second, "spindle beside it")
	}
	for _, name := range headlines {
		f := find(sections, name)
		if f == nil {
			continue
		}
		row := []string{f.What, f.Target, f.Reference, f.Ours, string(f.Verdict)}
		if second != "" {
			reference, ours := "–", "–"
			if other := find(beside, name); other != nil {
				reference, ours = other.Reference, other.Ours
			}
			row = append(row, reference, ours)
		}
		t.Rows = append(t.Rows, row)
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
