package acl

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"spindle/engine/command"
)

// A selector is one set of permissions. A call is allowed if one selector of its user allows all of it.
//
// acl.S1. commands and firstArgs are the result of rules, applied after +@all if future is true, else after -@all.
// acl.S2. If allKeys is true, keys is empty. The same holds for allChannels and channels, allDatabases and databases.
// acl.S3. seal makes keyIndex and channelIndex from keys and channels.
// acl.S4. databases ascends, and no two are equal.
type selector struct {
	catalogue *command.Catalogue

	commands bitmap // by Spec.ID
	// The first arguments that allow a call of a row outside commands. They are listed by Spec.ID and match in any
	// case.
	firstArgs map[int][]string
	future    bool     // rows added later are allowed, too: +@all came after -@all
	rules     []string // in order, lower case: "+get", "-@write"

	allKeys, allChannels   bool
	allDatabases           bool
	databases              []int
	keys                   []pattern
	channels               []pattern
	keyIndex, channelIndex patterns
}

func newSelector(k *command.Catalogue, allChannels bool) *selector {
	return &selector{catalogue: k, commands: newBitmap(k.IDs()), allChannels: allChannels, allDatabases: true}
}

func (s *selector) clone() *selector {
	d := *s
	d.commands, d.rules = slices.Clone(s.commands), slices.Clone(s.rules)
	d.keys, d.channels = slices.Clone(s.keys), slices.Clone(s.channels)
	d.databases = slices.Clone(s.databases)
	d.firstArgs = maps.Clone(s.firstArgs)
	for id, words := range d.firstArgs {
		d.firstArgs[id] = slices.Clone(words)
	}
	return &d
}

// seal makes the indexes (acl.S3).
func (s *selector) seal() {
	s.keyIndex, s.channelIndex = newPatterns(s.keys), newPatterns(s.channels)
}

// runs reports whether the selector allows row with any first argument. Rows with NoAuth, such as AUTH, are always
// allowed.
func (s *selector) runs(row *command.Spec) bool {
	return s.commands.has(row.ID) || row.Flags&command.NoAuth != 0
}

// hasDatabase reports whether the selector allows the database with this number.
func (s *selector) hasDatabase(db int) bool {
	_, found := slices.BinarySearch(s.databases, db)
	return s.allDatabases || found
}

// spares reports whether no call of row depends on the rules for databases.
func (s *selector) spares(row *command.Spec) bool {
	return s.allDatabases || !row.InDatabase() && row.Databases == nil && !row.Has(command.AllDatabases)
}

// permit allows or refuses a row and all of its subcommands.
func (s *selector) permit(row *command.Spec, allow bool) {
	s.commands.set(row.ID, allow)
	delete(s.firstArgs, row.ID)
	for i := range row.Subs {
		s.commands.set(row.Subs[i].ID, allow)
	}
}

// permitAll is +@all and -@all.
func (s *selector) permitAll(allow bool) {
	s.commands.fill(allow)
	s.future, s.rules, s.firstArgs = allow, nil, nil
}

// permitFirstArg allows row when its first argument is word.
func (s *selector) permitFirstArg(row *command.Spec, word string) {
	for _, known := range s.firstArgs[row.ID] {
		if equalFold(known, []byte(word)) {
			return
		}
	}
	if s.firstArgs == nil {
		s.firstArgs = map[int][]string{}
	}
	s.firstArgs[row.ID] = append(s.firstArgs[row.ID], word)
}

// keepRule adds a rule and removes those that it replaces: rules of the same name and of its subcommands.
func (s *selector) keepRule(name string, allow bool) {
	name = lowerASCII(name)
	s.rules = slices.DeleteFunc(s.rules, func(rule string) bool {
		rest, found := strings.CutPrefix(rule[1:], name)
		return found && (rest == "" || rest[0] == '|')
	})
	sign := "-"
	if allow {
		sign = "+"
	}
	s.rules = append(s.rules, sign+name)
}

// addPattern adds p, or adds its permits to the same pattern.
func addPattern(to []pattern, p pattern) []pattern {
	for i := range to {
		if to[i].text == p.text {
			to[i].permits |= p.permits
			return to
		}
	}
	return append(to, p)
}

func (s *selector) commandText() string {
	first := "-@all"
	if s.future {
		first = "+@all"
	}
	return strings.Join(append([]string{first}, s.rules...), " ")
}

func (s *selector) keyText() string {
	if s.allKeys {
		return "~*"
	}
	return joinPatterns(s.keys, pattern.keyRule)
}

func (s *selector) channelText() string {
	if s.allChannels {
		return "&*"
	}
	return joinPatterns(s.channels, pattern.channelRule)
}

// databaseText is alldbs, the rule that names the databases, or "" for none.
func (s *selector) databaseText() string {
	switch {
	case s.allDatabases:
		return "alldbs"
	case len(s.databases) == 0:
		return ""
	}
	text := []byte("db=")
	for i, db := range s.databases {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(db), 10)
	}
	return string(text)
}

// text returns the selector's rules. Applied to a new selector, they give the same permissions, whatever
// acl-pubsub-default is.
func (s *selector) text() string {
	var words []string
	if keys := s.keyText(); keys != "" {
		words = append(words, keys)
	}
	if !s.allChannels {
		words = append(words, "resetchannels")
	}
	if channels := s.channelText(); channels != "" {
		words = append(words, channels)
	}
	switch databases := s.databaseText(); {
	case databases == "":
		words = append(words, "resetdbs")
	case !s.allDatabases:
		words = append(words, databases)
	}
	return strings.Join(append(words, s.commandText()), " ")
}

func joinPatterns(all []pattern, rule func(pattern) string) string {
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = rule(p)
	}
	return strings.Join(words, " ")
}

// A bitmap is a set of rows by ID.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bitmap) set(i int, in bool) {
	if in {
		b[i/64] |= 1 << (i % 64)
	} else {
		b[i/64] &^= 1 << (i % 64)
	}
}

func (b bitmap) fill(in bool) {
	for i := range b {
		b[i] = 0
		if in {
			b[i] = ^uint64(0)
		}
	}
}

func (b bitmap) hasAll(n int) bool {
	for i := range n {
		if !b.has(i) {
			return false
		}
	}
	return true
}

// lowerASCII returns s with ASCII letters in lower case, as Redis writes rules. Other bytes stay.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}

// equalFold reports whether a and b are equal. ASCII letters match in any case.
func equalFold(a string, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range b {
		if lower(a[i]) != lower(c) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
