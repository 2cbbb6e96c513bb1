// Package acl is access control: users, their rules and rights, and the log of refusals.
//
// Owner: the core; only the holder of the turn calls methods of Users and Log. Rights never change, so any goroutine
// may read them.
// Never: knows a client, answers a request (engine/family/acl does), or blocks, except to read and write the ACL file.
// Callers: engine/access.go for each call of a restricted client, the families for AUTH and ACL.
// Start here; users.go holds the users, rule.go parses rules, check.go decides. patterns.go finds a key's patterns,
// file.go is the ACL file.
package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"spindle/engine/command"
)

// Rights are the permissions of one user at one time.
//
// acl.R1. Rights that a User has returned are never written again. A change makes new Rights and swaps the user's
// pointer.
// acl.R2. selectors[0] is the root selector: the permissions outside parentheses.
// acl.R3. verdicts[i] is the decision for the row with ID i, as far as it does not depend on arguments.
// acl.R4. full is true if every verdict is the constant always and one selector allows all commands, keys, channels and
// databases.
type Rights struct {
	name         string
	enabled      bool
	noPass       bool // any password is accepted
	skipSanitize bool
	acks         int8                // number of replicas to wait for, plus 1; 0 means that no rule sets it
	passwords    [][sha256.Size]byte // in the order of the rules
	selectors    []*selector

	catalogue *command.Catalogue
	verdicts  []verdict
	full      bool
}

// verdict is the decision of all selectors on one row.
type verdict uint8

const (
	never verdict = iota
	depends
	always
)

func (r *Rights) Name() string { return r.name }

func (r *Rights) Enabled() bool { return r.enabled }

// NoPass reports whether any password is accepted.
func (r *Rights) NoPass() bool { return r.noPass }

// SkipsSanitize reports whether RESTORE accepts the user's payloads without a check.
func (r *Rights) SkipsSanitize() bool { return r.skipSanitize }

// Acks returns the number of replicas that the user's replies wait for. It returns -1 if no rule says so.
func (r *Rights) Acks() int { return int(r.acks) - 1 }

// Full reports whether the user may run every command on every key, channel and database. Check then allows any call.
func (r *Rights) Full() bool { return r.full }

// Always reports whether the user may call the row with any arguments. Any goroutine.
func (r *Rights) Always(row *command.Spec) bool { return r.verdicts[row.ID] == always }

// newRights returns the rights of a new user: off, without a password, and without permissions. Only acl-pubsub-default
// may permit channels.
func newRights(name string, k *command.Catalogue, allChannels bool) *Rights {
	return &Rights{name: name, catalogue: k, selectors: []*selector{newSelector(k, allChannels)}}
}

// draft returns a copy that rules may change.
func (r *Rights) draft() *Rights {
	d := *r
	d.passwords = slices.Clone(r.passwords)
	d.selectors = make([]*selector, len(r.selectors))
	for i, s := range r.selectors {
		d.selectors[i] = s.clone()
	}
	d.verdicts = nil
	return &d
}

// seal completes a draft, so that it can decide (acl.R3, acl.R4). After that no rule may change it.
func (r *Rights) seal() *Rights {
	for _, s := range r.selectors {
		s.seal()
	}
	r.full = true
	r.verdicts = make([]verdict, r.catalogue.IDs())
	for id, row := range r.catalogue.All() {
		r.verdicts[id] = r.verdictFor(row)
		r.full = r.full && r.verdicts[id] == always
	}
	// If no row has keys or channels, the verdicts do not depend on patterns. But checkKey needs the patterns.
	r.full = r.full && slices.ContainsFunc(r.selectors, func(s *selector) bool {
		return s.allKeys && s.allChannels && s.allDatabases && s.commands.hasAll(r.catalogue.IDs())
	})
	return r
}

// verdictFor computes acl.R3 for one row.
func (r *Rights) verdictFor(row *command.Spec) verdict {
	best := never
	refused := false // a selector refuses the command in any database
	for _, s := range r.selectors {
		runs := s.runs(row)
		switch {
		case runs && (s.allKeys || !row.HasKeys(0)) && (s.allChannels || row.Channels == 0) && s.spares(row):
			return always
		case runs || len(s.firstArgs[row.ID]) != 0:
			best = depends
		case s.spares(row):
			refused = true
		}
	}
	if best == never && !refused {
		return depends // on the database: it is refused before the command is
	}
	return best
}

// Flags returns the flags of ACL GETUSER.
func (r *Rights) Flags() []string {
	flags := []string{"off"}
	if r.enabled {
		flags[0] = "on"
	}
	if r.noPass {
		flags = append(flags, "nopass")
	}
	if r.acks > 0 {
		flags = append(flags, "ack="+strconv.Itoa(r.Acks()))
	}
	if r.skipSanitize {
		return append(flags, "skip-sanitize-payload")
	}
	return append(flags, "sanitize-payload")
}

// Passwords returns the SHA-256 hashes of the passwords in lower-case hexadecimal, in the order of the rules.
func (r *Rights) Passwords() []string {
	all := make([]string, len(r.passwords))
	for i := range r.passwords {
		all[i] = hex.EncodeToString(r.passwords[i][:])
	}
	return all
}

// A SelectorText is one selector in ACL GETUSER: rules that make it, by kind.
type SelectorText struct{ Commands, Keys, Channels, Databases string }

// NamesDatabases reports whether a selector has a rule for databases other than alldbs.
func (r *Rights) NamesDatabases() bool {
	return slices.ContainsFunc(r.selectors, func(s *selector) bool { return !s.allDatabases })
}

// Selectors returns the texts of the root selector and of the others, in order.
func (r *Rights) Selectors() []SelectorText {
	all := make([]SelectorText, len(r.selectors))
	for i, s := range r.selectors {
		all[i] = SelectorText{Commands: s.commandText(), Keys: s.keyText(), Channels: s.channelText(),
			Databases: s.databaseText()}
	}
	return all
}

// Text returns the user's rules as in ACL LIST and the ACL file, without the name. Applied to a new user, these rules
// give the same rights.
func (r *Rights) Text() string {
	words := r.Flags()
	for _, hash := range r.Passwords() {
		words = append(words, "#"+hash)
	}
	for i, s := range r.selectors {
		if i == 0 {
			words = append(words, s.text())
		} else {
			words = append(words, "("+s.text()+")")
		}
	}
	return strings.Join(words, " ")
}

// Line returns the user's line in the ACL file and ACL LIST: user NAME TEXT.
func (r *Rights) Line() string { return "user " + r.name + " " + r.Text() }
