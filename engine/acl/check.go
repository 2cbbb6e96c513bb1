package acl

import (
	"slices"

	"spindle/engine/command"
	"spindle/internal/invariant"
)

// A Reason says what was refused. If several selectors refuse, the greatest Reason is reported.
type Reason uint8

const (
	Allowed Reason = iota
	DeniedDatabase
	DeniedCommand
	DeniedKey
	DeniedAuth // in the log only: AUTH and HELLO
	DeniedChannel
	DeniedCertificate // in the log only: a certificate names no user that is enabled
	reasons
)

var reasonNames = [...]string{"", "database", "command", "key", "auth", "channel", "tls-cert"}

// String returns the reason as ACL LOG names it.
func (r Reason) String() string { return reasonNames[r] }

// A Decision says whether a user may make a call.
type Decision struct {
	Reason Reason
	Arg    int // index of the refused database, key or channel; 0 for a command, and for the client's database
}

func (d Decision) Refused() bool { return d.Reason != Allowed }

// A Place says where a call looks for its keys: in database number DB. Of is the number of databases.
type Place struct{ DB, Of int }

// Object returns the name of what was refused, for ACL LOG: the full name of the command, a key, a channel or a
// database. It is a copy. A command that is refused in the client's database is named itself.
func (d Decision) Object(row *command.Spec, args [][]byte) string {
	if d.Arg == 0 {
		return row.Full
	}
	return string(args[d.Arg])
}

// Verbose is ACL DRYRUN's reply to a refused call. It names the database, key or channel.
func (d Decision) Verbose(r *Rights, row *command.Spec, args [][]byte) string {
	switch d.Reason {
	case DeniedDatabase:
		return "User " + r.name + " has no permissions to access database " + string(args[d.Arg])
	case DeniedKey:
		return "User " + r.name + " has no permissions to access the '" + string(args[d.Arg]) + "' key"
	case DeniedChannel:
		return "User " + r.name + " has no permissions to access the '" + string(args[d.Arg]) + "' channel"
	}
	return d.text(r, row)
}

// A Checker checks calls. It reuses its buffers, so it allocates nothing in steady state.
//
// Owner: one goroutine at a time. The core's Checker is part of Users.
type Checker struct {
	keys      []command.KeyPosition
	databases []int
}

// Check decides whether the user may call row with args in place. args[0] is the name.
//
// If several selectors refuse, Check reports the refusal that got furthest: a channel, else a key, else the command,
// else a database. Of two equal reasons, it reports the later argument. If not all keys of a call can be found, Check
// uses the keys at fixed places, because the handler will refuse the call.
// Cost: one byte for a row that is always or never allowed; no allocation once the buffer has grown.
func (k *Checker) Check(r *Rights, row *command.Spec, args [][]byte, place Place) Decision {
	switch r.verdict(row) {
	case always:
		return Decision{}
	case never:
		return Decision{Reason: DeniedCommand}
	}
	k.find(row, args, place)
	worst := Decision{Reason: DeniedDatabase}
	for _, s := range r.selectors {
		d := s.check(row, args, k, place)
		if d.Reason == Allowed {
			return d
		}
		if d.Reason > worst.Reason || d.Reason == worst.Reason && d.Arg > worst.Arg {
			worst = d
		}
	}
	return worst
}

// CheckWithAnyKey is Check for a call that may also read keys that it does not name: SORT BY and GET. One selector must
// allow both the call and any key.
func (k *Checker) CheckWithAnyKey(
	r *Rights, row *command.Spec, args [][]byte, place Place, use command.KeyFlags,
) bool {
	if r.full {
		return true
	}
	k.find(row, args, place)
	want := wanted(use)
	for _, s := range r.selectors {
		if (s.allKeys || hasText(s.keys, anyKey, want)) && s.check(row, args, k, place).Reason == Allowed {
			return true
		}
	}
	return false
}

var anyKey = []byte("*")

// find stores the places of the call's keys in k.keys. If not all can be found, it stores those at fixed places. In
// k.databases it stores the places of the databases that the call names. k.databases is empty if the handler will
// refuse one of them.
func (k *Checker) find(row *command.Spec, args [][]byte, place Place) {
	k.keys = k.keys[:0]
	if row.HasKeys(0) {
		k.keys, _ = row.AppendKeys(k.keys, args, 0)
	}
	k.databases = k.databases[:0]
	if row.Databases != nil {
		k.databases = row.Databases(k.databases, args)
		if slices.ContainsFunc(k.databases, func(at int) bool { return command.Database(args[at], place.Of) < 0 }) {
			k.databases = k.databases[:0]
		}
	}
}

func (r *Rights) verdict(row *command.Spec) verdict {
	if invariant.Enabled && r.catalogue.All()[row.ID] != row {
		invariant.That(false, "acl: row %s is of another catalogue than user %s", row.Full, r.name)
	}
	return r.verdicts[row.ID]
}

// checkKey reports whether a selector lets the user access key in the ways of use. It ignores the command.
//
// Proof: only TestCheckKeyAndChannel calls it, to check one key at a time.
func (r *Rights) checkKey(key []byte, use command.KeyFlags) bool {
	for _, s := range r.selectors {
		if s.allKeys || s.keyIndex.allow(key, wanted(use)) {
			return true
		}
	}
	return false
}

// CheckChannel reports whether the user may publish and subscribe to channel. If isPattern is true, channel must be
// equal to one of the user's patterns.
func (r *Rights) CheckChannel(channel []byte, isPattern bool) bool {
	for _, s := range r.selectors {
		if s.allChannels || s.allowsChannel(channel, isPattern) {
			return true
		}
	}
	return false
}

// LosesChannels reports whether next may forbid a subscription that r allows.
//
// It compares only the rules. false is certain. After true, check each subscription with next.CheckChannel.
func (r *Rights) LosesChannels(next *Rights) bool {
	for _, s := range next.selectors {
		if s.allChannels {
			return false
		}
	}
	for _, s := range r.selectors {
		if s.allChannels {
			return true
		}
		for _, p := range s.channels {
			if !next.CheckChannel([]byte(p.text), true) {
				return true
			}
		}
	}
	return false
}

// check decides for one selector whether it allows a call with k's keys and databases.
func (s *selector) check(row *command.Spec, args [][]byte, k *Checker, place Place) Decision {
	if !s.allDatabases {
		if row.Has(command.AllDatabases) {
			return Decision{Reason: DeniedDatabase}
		}
		for _, at := range k.databases {
			if !s.hasDatabase(command.Database(args[at], place.Of)) {
				return Decision{DeniedDatabase, at}
			}
		}
		if row.InDatabase() && !s.hasDatabase(place.DB) {
			return Decision{Reason: DeniedDatabase}
		}
	}
	if !s.runs(row) && !s.hasFirstArg(row, args) {
		return Decision{Reason: DeniedCommand}
	}
	if !s.allKeys {
		for _, key := range k.keys {
			if !s.keyIndex.allow(args[key.Index], wanted(key.Flags)) {
				return Decision{DeniedKey, key.Index}
			}
		}
	}
	if !s.allChannels && row.Channels != 0 {
		for i := 1; i < len(args); i++ {
			if !s.allowsChannel(args[i], row.Channels == command.SubscribesToPatterns) {
				return Decision{DeniedChannel, i}
			}
			if row.Channels == command.PublishesTo {
				break // the rest is the message
			}
		}
	}
	return Decision{}
}

func (s *selector) hasFirstArg(row *command.Spec, args [][]byte) bool {
	if len(args) < 2 {
		return false
	}
	for _, word := range s.firstArgs[row.ID] {
		if equalFold(word, args[1]) {
			return true
		}
	}
	return false
}

func (s *selector) allowsChannel(channel []byte, isPattern bool) bool {
	if isPattern {
		return hasText(s.channels, channel, 0)
	}
	return s.channelIndex.allow(channel, 0)
}

// wanted returns the permission that a use of a key needs. A use that neither reads nor writes the value (EXISTS) needs
// any pattern.
func wanted(use command.KeyFlags) (want permits) {
	if use&command.KeyAccess != 0 {
		want |= read
	}
	if use&(command.KeyInsert|command.KeyDelete|command.KeyUpdate) != 0 {
		want |= write
	}
	return want
}
