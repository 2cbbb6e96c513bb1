// Package acl is access control: users, the rules that describe them, what they may run, and the log of refusals.
//
// Owner: the core; only the holder of the turn calls anything of Users and Log. Rights never change: any goroutine may
// read them.
// Never: knows a client, answers a request (engine/family/acl does), or blocks, but for reading and writing the ACL
// file.
// Who asks: engine/access.go for each call of a restricted client, the families for AUTH and ACL.
// Start here; users.go holds the users, rule.go reads rules, check.go decides, patterns.go finds a key's patterns,
// file.go is the ACL file.
package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"spindle/engine/command"
)

// Rights are what one user may do, at one time.
//
// acl.R1. Rights that a User gives out are never written again: a change makes new ones and swaps the user's pointer.
// acl.R2. selectors[0] is the root selector: what the user may do outside parentheses.
// acl.R3. verdicts[i] is what can be said of the row with ID i without looking at arguments.
// acl.R4. full says that every verdict is always.
type Rights struct {
	name         string
	enabled      bool
	noPass       bool // any password does
	skipSanitize bool
	passwords    [][sha256.Size]byte // in the order they were given
	selectors    []*selector

	catalogue *command.Catalogue
	verdicts  []verdict
	full      bool
}

// verdict is what the selectors together say of one row.
type verdict uint8

const (
	never verdict = iota
	depends
	always
)

// Name is the user's name.
func (r *Rights) Name() string { return r.name }

// Enabled says whether the user may authenticate.
func (r *Rights) Enabled() bool { return r.enabled }

// NoPass says whether any password lets the user in.
func (r *Rights) NoPass() bool { return r.noPass }

// SkipsSanitize says whether RESTORE takes the user's payloads without looking through them.
func (r *Rights) SkipsSanitize() bool { return r.skipSanitize }

// Full says that the user may run everything on every key and channel: Check would answer Allowed to any call.
func (r *Rights) Full() bool { return r.full }

// Always says that the user may make any call of the row, whatever its arguments. Any goroutine.
func (r *Rights) Always(row *command.Spec) bool { return r.verdicts[row.ID] == always }

// newRights is a user as it is made: off, without a password, allowed nothing but the channels of acl-pubsub-default.
func newRights(name string, k *command.Catalogue, allChannels bool) *Rights {
	return &Rights{name: name, catalogue: k, selectors: []*selector{newSelector(k, allChannels)}}
}

// draft is a copy that rules may change.
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

// seal makes a draft ready to decide (acl.R3, acl.R4); no rule may change it from here on.
func (r *Rights) seal() *Rights {
	for _, s := range r.selectors {
		s.seal()
	}
	r.full = true
	r.verdicts = make([]verdict, r.catalogue.IDs())
	for id, row := range r.catalogue.All() {
		r.verdicts[id] = r.judge(row)
		r.full = r.full && r.verdicts[id] == always
	}
	// A command set without keys or channels says nothing about patterns that a later check of a key alone asks for.
	r.full = r.full && slices.ContainsFunc(r.selectors, func(s *selector) bool {
		return s.allKeys && s.allChannels && s.commands.hasAll(r.catalogue.IDs())
	})
	return r
}

// judge is acl.R3 for one row.
func (r *Rights) judge(row *command.Spec) verdict {
	best := never
	for _, s := range r.selectors {
		runs := s.runs(row)
		switch {
		case runs && (s.allKeys || !row.HasKeys(0)) && (s.allChannels || row.Channels == 0):
			return always
		case runs || len(s.firstArgs[row.ID]) != 0:
			best = depends
		}
	}
	return best
}

// Flags yields the words of ACL GETUSER's flags.
func (r *Rights) Flags() []string {
	flags := []string{"off"}
	if r.enabled {
		flags[0] = "on"
	}
	if r.noPass {
		flags = append(flags, "nopass")
	}
	if r.skipSanitize {
		return append(flags, "skip-sanitize-payload")
	}
	return append(flags, "sanitize-payload")
}

// Passwords are the SHA-256 hashes of the passwords, in lower-case hexadecimal, in the order they were given.
func (r *Rights) Passwords() []string {
	all := make([]string, len(r.passwords))
	for i := range r.passwords {
		all[i] = hex.EncodeToString(r.passwords[i][:])
	}
	return all
}

// A SelectorText is one selector as ACL GETUSER shows it: rules that would make it, by kind.
type SelectorText struct{ Commands, Keys, Channels string }

// Selectors are the texts of the root selector and of those in parentheses, in their order.
func (r *Rights) Selectors() []SelectorText {
	all := make([]SelectorText, len(r.selectors))
	for i, s := range r.selectors {
		all[i] = SelectorText{Commands: s.commandText(), Keys: s.keyText(), Channels: s.channelText()}
	}
	return all
}

// Text is the user in the words of ACL LIST and of the ACL file, behind its name: rules that make it from a new user.
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

// Line is the user as a line of the ACL file and of ACL LIST: user NAME TEXT.
func (r *Rights) Line() string { return "user " + r.name + " " + r.Text() }
