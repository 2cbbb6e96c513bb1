package command

import (
	"fmt"
	"strings"
)

// A Catalogue is the command set of a server: every row, found by name.
//
// Owner: built once at start. Afterwards the core reads it, and any goroutine may read names. Rename is called only
// before the first client.
type Catalogue struct {
	rows  []*Spec // in the order COMMAND lists them
	all   []*Spec // rows and their subcommands; all[i].ID == i
	names index   // what clients may call, after renaming
	own   index   // every row under its own name, whatever rename-command did
}

// NewCatalogue joins the families' rows into one command set.
//
// Shape: the rows are copied, so that two catalogues in one process share no statistics.
// Errors: a name given twice, a row without a handler, an arity of 0, a key spec past the arity.
func NewCatalogue(families ...Family) (*Catalogue, error) {
	k := &Catalogue{}
	n := 0
	for _, f := range families {
		n += len(f.Rows)
	}
	k.own.reserve(n)
	k.rows = make([]*Spec, 0, n)
	for _, f := range families {
		rows := append([]Spec(nil), f.Rows...)
		for i := range rows {
			row := &rows[i]
			row.Subs = append([]Spec(nil), row.Subs...)
			row.Full, row.Family, row.Parent = row.Name, f.Name, nil
			if row.Run != nil {
				row.ACL |= f.ACL
			}
			if err := k.enter(row); err != nil {
				return nil, err
			}
			if !k.own.add(row.Name, row) {
				return nil, fmt.Errorf("command %q is declared twice", row.Name)
			}
			k.rows = append(k.rows, row)
			for j := range row.Subs {
				sub := &row.Subs[j]
				sub.Full, sub.Family, sub.Parent = row.Name+"|"+sub.Name, f.Name, row
				if !sub.Apart {
					sub.ACL |= f.ACL
				}
				if err := k.enter(sub); err != nil {
					return nil, err
				}
				if !row.subs.add(sub.Name, sub) {
					return nil, fmt.Errorf("command %q is declared twice", sub.Full)
				}
			}
		}
	}
	k.names = k.own // until Rename removes a name from it (command.I4)
	return k, nil
}

// enter checks one row and completes it: its number, the categories that its flags imply, and the flags that follow
// from its key specs.
func (k *Catalogue) enter(row *Spec) error {
	switch {
	case row.Name == "" || row.Name != strings.ToLower(row.Name):
		return fmt.Errorf("command %q: a name is not empty and in lower case", row.Full)
	case row.Arity == 0:
		return fmt.Errorf("command %q: its arity is 0", row.Full)
	case row.Run == nil && len(row.Subs) == 0:
		return fmt.Errorf("command %q: nothing runs it", row.Full)
	}
	least := row.Arity
	if least < 0 {
		least = -least
	}
	for i, s := range row.Keys {
		if s.Flags&KeyNotKey != 0 || s.Unknown || s.Keyword != "" {
			continue
		}
		if i > 0 && s.LastKey < 0 && s.Index == least {
			continue // the rest of the arguments, of which there may be none: PFMERGE's sources
		}
		if s.Index <= 0 || s.Index >= least && row.Flags&NoMandatoryKeys == 0 {
			return fmt.Errorf("command %q: a key at argument %d is past its arity %d", row.Full, s.Index, row.Arity)
		}
	}
	row.legacy, row.Flags = legacyRange(row)
	row.ACL |= impliedACL(row.Flags, row.ACL)
	row.ID = len(k.all)
	k.all = append(k.all, row)
	return nil
}

// impliedACL returns own with the categories that a row's flags imply.
func impliedACL(f Flags, own ACL) (acl ACL) {
	if f&Write != 0 {
		acl |= ACLWrite
	}
	if f&ReadOnly != 0 && own&ACLScripting == 0 {
		acl |= ACLRead
	}
	if f&Admin != 0 {
		acl |= ACLAdmin | ACLDangerous
	}
	if f&PubSub != 0 {
		acl |= ACLPubSub
	}
	if f&Fast != 0 {
		acl |= ACLFast
	} else {
		acl |= ACLSlow
	}
	if f&Blocking != 0 {
		acl |= ACLBlocking
	}
	return acl
}

// Lookup finds a command by name in any case. It returns nil if there is none. It finds no subcommands.
func (k *Catalogue) Lookup(name []byte) *Spec { return k.names.find(name) }

// Original is Lookup by the name before rename-command. Propagation and ACL rules use that name.
func (k *Catalogue) Original(name []byte) *Spec { return k.own.find(name) }

// Sub finds a container's subcommand by name in any case. It returns nil if there is none.
func (s *Spec) Sub(name []byte) *Spec { return s.subs.find(name) }

// Resolve finds the row that runs args, subcommand included. row is the result of Lookup(args[0]), nil or not.
//
// Errors: the replies to an unknown command, an unknown subcommand and a wrong number of arguments. For a wrong number,
// Resolve also returns the row, so that the refusal is counted there.
func (k *Catalogue) Resolve(row *Spec, args [][]byte) (*Spec, error) {
	if row == nil {
		return nil, unknownCommand(args)
	}
	if len(row.Subs) != 0 && len(args) > 1 {
		sub := row.subs.find(args[1])
		if sub == nil {
			return nil, errUnknownSubcommand(args[0], args[1])
		}
		row = sub
	}
	if !row.AcceptsArity(len(args)) {
		return row, ErrArity(row)
	}
	return row, nil
}

// AcceptsArity reports whether the row allows calls with n arguments, the name included.
func (s *Spec) AcceptsArity(n int) bool {
	if s.Arity >= 0 {
		return n == s.Arity
	}
	return n >= -s.Arity
}

// Find is the lookup of Resolve. It returns nil if the command or subcommand does not exist. It does not check the
// arity.
func (k *Catalogue) Find(args [][]byte) *Spec {
	if len(args) == 0 {
		return nil
	}
	row := k.names.find(args[0])
	if row == nil || len(row.Subs) == 0 || len(args) == 1 {
		return row
	}
	return row.subs.find(args[1])
}

// ByFullName finds "get" or "client|list", in any case. It returns nil if there is none.
func (k *Catalogue) ByFullName(name []byte) *Spec {
	for i, c := range name {
		if c != '|' {
			continue
		}
		row := k.names.find(name[:i])
		if row == nil {
			return nil
		}
		return row.subs.find(name[i+1:])
	}
	return k.names.find(name)
}

// Rename makes a command callable only by the name to. An empty name removes it. Call it before the first client.
//
// Errors: errTaken, errNotThere.
func (k *Catalogue) Rename(from, to string) error {
	if to != "" && !strings.EqualFold(from, to) && k.names.find([]byte(to)) != nil {
		return errTaken
	}
	row := k.names.find([]byte(from))
	if row == nil {
		return errNotThere
	}
	if to == "" {
		k.names.remove(from)
		return nil
	}
	k.names.remove(from)
	k.names.add(to, row)
	return nil
}

// Rows yields the commands that clients may call, in the order of declaration, without their subcommands.
func (k *Catalogue) Rows(yield func(*Spec) bool) {
	called := map[*Spec]bool{}
	for _, s := range k.names.slots {
		if s.row != nil {
			called[s.row] = true
		}
	}
	for _, row := range k.rows {
		if called[row] && !yield(row) {
			return
		}
	}
}

// Len returns the number of commands that clients may call, without subcommands.
func (k *Catalogue) Len() int { return k.names.size }

// All returns every row and subcommand at the index ID, even if rename-command removed its name. Do not change the
// slice.
func (k *Catalogue) All() []*Spec { return k.all }

// IDs returns the number of rows and subcommands. Every Spec.ID is less than that.
func (k *Catalogue) IDs() int { return len(k.all) }
