package differential

import (
	"fmt"
	"strings"

	"spindle/protocol/respclient"
)

// A known difference is one on purpose: what the reference of some version answers otherwise than spindle, which follows 7.4.
type known struct {
	reference string // the versions it concerns begin with this
	commands  string // parted by blanks
	reason    string
	applies   func(args []string, want, got respclient.Value) bool
	used      int
}

// knownDifferences is all of them. An entry that a long run does not use is reported: it hides nothing and should go.
var knownDifferences = []known{
	{"7.0", "scan", "7.4 reads cursors otherwise: it takes blanks before them and refuses a minus and none at all; 7.0 did the opposite", func(args []string, want, got respclient.Value) bool {
		const refused = "ERR invalid cursor"
		return len(args) > 1 && !digits(args[1]) && (want.Text == refused) != (got.Text == refused)
	}, 0},
	{"7.0", "bitcount bitpos", "7.0 answered for a missing key before it looked at the range; 7.4 reads all arguments first", func(_ []string, want, got respclient.Value) bool {
		return want.Kind == ':' && want.Int <= 0 && (got.Text == "ERR syntax error" || got.Text == "ERR value is not an integer or out of range")
	}, 0},
}

// digits says whether s is a plain number.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// excused says whether the table knows this difference.
func excused(version string, args []string, want, got respclient.Value) bool {
	for i := range knownDifferences {
		k := &knownDifferences[i]
		if strings.HasPrefix(version, k.reference) && contains(k.commands, strings.ToLower(args[0])) && k.applies(args, want, got) {
			k.used++
			return true
		}
	}
	return false
}

func contains(list, name string) bool {
	for word := range strings.FieldsSeq(list) {
		if word == name {
			return true
		}
	}
	return false
}

// unused are the entries for this version that no difference needed.
func unused(version string) (lines []string) {
	for _, k := range knownDifferences {
		if strings.HasPrefix(version, k.reference) && k.used == 0 {
			lines = append(lines, fmt.Sprintf("%s (%s): %s", k.commands, k.reference, k.reason))
		}
	}
	return lines
}
