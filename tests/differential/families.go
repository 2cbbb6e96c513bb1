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
	alternate bool // only every other round has it: it makes a difference known that else would be none
	// Versions of the reference that begin with this are not sent it: they leave other states behind, on purpose.
	parts string
}

// families are all tables, by the names that -families takes.
var families = []family{
	{name: "string", templates: stringTemplates},
	{name: "keys", templates: keysTemplates},
	{name: "tx", templates: txTemplates},
	{name: "conn", templates: connTemplates},
	{name: "bitmap", templates: bitmapTemplates},
	// Which Debian has had refuse a sparse value with bytes behind its end, as later Redis does.
	{name: "hll", templates: hllTemplates, parts: "7.0"},
	{name: "set", templates: setTemplates},
	{name: "hash", templates: hashTemplates},
	{name: "list", templates: listTemplates},
	{name: "zset", templates: zsetTemplates},
	{name: "stream", templates: streamTemplates, parts: "7.0"}, // which makes no consumer of whom a call finds nothing for
	{name: "geo", templates: geoTemplates},
	{name: "types", templates: typesTemplates},
	{name: "sort", templates: sortTemplates, alternate: true}, // which changes sorted sets' encodings
}

// chosen are the families of a list parted by commas; "" is all.
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

// fitting are those of tables that this version of the reference can be sent.
func fitting(tables []family, version string) []family {
	return slices.DeleteFunc(tables, func(f family) bool { return f.parts != "" && strings.HasPrefix(version, f.parts) })
}

// ofRound are those of tables that a round has, if there are others.
func ofRound(tables []family, round uint64) []family {
	some := slices.DeleteFunc(slices.Clone(tables), func(f family) bool { return f.alternate && round%2 == 1 })
	if len(some) == 0 {
		return tables
	}
	return some
}

// needs says whether a template may be sent: both servers have its command. A name that is none of anybody's is sent on
// purpose.
func (f family) needs(name string, has func(name string) bool) bool {
	container, sub, _ := strings.Cut(name, "|")
	return container == "nosuch" || has(name) || (sub == "nosuch" && has(container))
}
