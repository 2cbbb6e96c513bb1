package scripting

import (
	"bytes"
	"strings"

	"spindle/engine/command"
	"spindle/protocol"
)

// Flags are the declarations of a script or function.
type Flags uint8

// These are the flags, with their names in the first line of a script and in redis.register_function.
const (
	NoWrites Flags = 1 << iota
	AllowOOM
	AllowStale
	NoCluster
	AllowCrossSlot
	// Undeclared is set for a script without such a first line. It may do all that scripts could do before there were
	// flags.
	Undeclared
)

var flagNames = []struct {
	name string
	flag Flags
}{
	{"no-writes", NoWrites}, {"allow-oom", AllowOOM}, {"allow-stale", AllowStale}, {"no-cluster", NoCluster},
	{"allow-cross-slot-keys", AllowCrossSlot},
}

func flagNamed(name string, fold bool) (Flags, bool) {
	for _, f := range flagNames {
		if f.name == name || fold && strings.EqualFold(f.name, name) {
			return f.flag, true
		}
	}
	return 0, false
}

// names returns the names of the flags in f.
func (f Flags) names() (names []string) {
	for _, each := range flagNames {
		if f&each.flag != 0 {
			names = append(names, each.name)
		}
	}
	return names
}

// Of returns the flags of a command that runs a script which declares f. Admission uses them instead of the row's
// flags.
func (f Flags) Of(row command.Flags) command.Flags {
	if f&Undeclared != 0 {
		return row
	}
	row &^= command.Stale | command.DenyOOM | command.Write | command.MayReplicate
	if f&(AllowOOM|NoWrites) == 0 {
		row |= command.DenyOOM
	}
	if f&NoWrites == 0 {
		row |= command.Write
	}
	if f&AllowStale != 0 {
		row |= command.Stale
	}
	return row
}

// cutShebang splits a body into its first line, if that begins with "#!", and the code to compile. code begins with the
// line's end, so that lines keep their numbers. ended is false if the whole body is that line.
func cutShebang(body []byte) (line, code []byte, ended bool) {
	if !bytes.HasPrefix(body, []byte("#!")) {
		return nil, body, true
	}
	end := bytes.IndexByte(body, '\n')
	if zero := bytes.IndexByte(body, 0); zero >= 0 && zero < end {
		end = -1
	}
	if end < 0 {
		return body, nil, false
	}
	return body[:end], body[end:], true
}

// parseShebang parses the first line of a script of EVAL: "#!lua flags=no-writes,allow-oom".
//
// Errors: an engine other than lua, an option other than flags, an unknown flag.
func parseShebang(body []byte) (f Flags, code []byte, err error) {
	line, code, ended := cutShebang(body)
	if !ended {
		return 0, nil, errShebang
	}
	if line == nil {
		return Undeclared, code, nil
	}
	words, _, ok := protocol.SplitWords(line, nil, nil)
	if !ok || len(words) == 0 {
		return 0, nil, errShebangEngine
	}
	if string(words[0]) != "#!lua" {
		return 0, nil, errEngineOf(words[0])
	}
	for _, word := range words[1:] {
		list, found := strings.CutPrefix(string(word), "flags=")
		if !found {
			return 0, nil, errShebangOption(word)
		}
		if list == "" {
			continue
		}
		for _, name := range strings.Split(list, ",") {
			flag, known := flagNamed(name, false)
			if !known {
				return 0, nil, errShebangFlag([]byte(name))
			}
			f |= flag
		}
	}
	return f, code, nil
}
