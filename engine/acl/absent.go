package acl

import (
	"strings"
	"sync"

	"spindle/engine/command"
)

// absentNames are the commands of Redis 7.4 that this server does not have, with their subcommands.
//
// Rules may name them, so that an ACL file written for Redis loads. A command that comes here leaves this list.
var absentNames = map[string][]string{}

// Absent says that Redis has a command of this name, and this server does not.
func Absent(name string) bool {
	_, is := absentNames[strings.ToLower(name)]
	return is
}

// absent is a row for each of absentNames. No user calls them: they only tell which rules are well formed.
var absent = sync.OnceValue(func() *command.Catalogue {
	none := func(*command.Context) error { return errUnknown }
	var rows []command.Spec
	for name, subs := range absentNames {
		row := command.Spec{Name: name, Arity: -1, Run: none}
		for _, sub := range subs {
			row.Subs = append(row.Subs, command.Spec{Name: sub, Arity: -2, Run: none})
		}
		rows = append(rows, row)
	}
	k, err := command.NewCatalogue(command.Family{Name: "absent", Rows: rows})
	if err != nil {
		panic(err)
	}
	return k
})

// lacks says that row is one of absent: a rule that names it is kept as text, and decides nothing.
func (s *selector) lacks(row *command.Spec) bool {
	return row.ID >= s.catalogue.IDs() || s.catalogue.All()[row.ID] != row
}
