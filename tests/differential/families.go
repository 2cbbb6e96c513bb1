package differential

import (
	"fmt"
	"slices"
	"strings"
)

// A family is one table of templates.
type family struct {
	name      string
	templates []template
	alternate bool // only in every other round, because it makes a known difference possible
	// If the version of the server to compare with begins with one of these, the family is left out. Its calls would
	// leave other states there, which is intended.
	parts string
}

// families lists all tables, by the names that -families takes.
var families = []family{
	{name: "string", templates: stringTemplates},
	{name: "keys", templates: keysTemplates},
	{name: "tx", templates: txTemplates, parts: "valkey"}, // a nested MULTI or WATCH spoils a transaction of Valkey's
	{name: "conn", templates: connTemplates},
	{name: "bitmap", templates: bitmapTemplates},
	// Debian's 7.0 refuses a sparse value with bytes after its end, as later Redis does.
	{name: "hll", templates: hllTemplates, parts: "7.0"},
	{name: "set", templates: setTemplates},
	{name: "hash", templates: hashTemplates},
	{name: "list", templates: listTemplates},
	{name: "zset", templates: zsetTemplates},
	{name: "stream", templates: streamTemplates, parts: "7.0"}, // 7.0 creates no consumer if a call finds no entry
	{name: "geo", templates: geoTemplates},
	{name: "types", templates: typesTemplates},
	{name: "sort", templates: sortTemplates, alternate: true}, // SORT changes sorted sets' encodings
}

// chosen returns the families of a comma-separated list. An empty list means all.
func chosen(list string) ([]family, error) {
	if list == "" {
		return slices.Clone(families), nil
	}
	var got []family
next:
	for name := range strings.SplitSeq(list, ",") {
		for _, f := range families {
			if f.name == name {
				got = append(got, f)
				continue next
			}
		}
		return nil, fmt.Errorf("no family %q", name)
	}
	return got, nil
}

// fitting returns the tables that can be sent to this version of the server to compare with.
func fitting(tables []family, version string) []family {
	return slices.DeleteFunc(tables, func(f family) bool { return f.parts != "" && begins(version, f.parts) })
}

// ofRound returns the tables that a round uses.
func ofRound(tables []family, round uint64) []family {
	some := slices.DeleteFunc(slices.Clone(tables), func(f family) bool { return f.alternate && round%2 == 1 })
	if len(some) == 0 {
		return tables
	}
	return some
}

// needs reports whether a template may be sent, that is, whether both servers have its command. Unknown names are sent
// on purpose.
func (f family) needs(name string, has func(name string) bool) bool {
	container, sub, _ := strings.Cut(name, "|")
	return container == "nosuch" || has(name) || (sub == "nosuch" && has(container))
}
