package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"slices"
	"sync/atomic"

	"spindle/engine/command"
)

// DefaultName is the name of the user that every connection begins as.
const DefaultName = "default"

// A User exists until it is deleted. Clients keep the pointer and see each change of the user's rights at once.
type User struct {
	name   string
	rights atomic.Pointer[Rights]
}

func (u *User) Name() string { return u.name }

// Rights returns the user's present permissions. A deleted user has none.
func (u *User) Rights() *Rights { return u.rights.Load() }

// Users holds all users of a server.
//
// Owner: the holder of the turn. Call Begin first.
type Users struct {
	Checker
	catalogue   *command.Catalogue
	byName      map[string]*User
	fallback    *User
	allChannels bool
	changed     func(*User)
}

// A Change is the change of one user.
type Change struct {
	User    *User
	Old     *Rights // nil for a new user
	Deleted bool    // its clients must be closed
}

// Begin makes the default user, which may do everything without a password. After Begin no row may be added to k.
func (u *Users) Begin(k *command.Catalogue) {
	u.catalogue = k
	u.byName = map[string]*User{}
	u.fallback = u.enter(u.newDefault())
}

// OnChange sets f. It is called in the turn when a user's rights become full or stop being full. It is also called when
// the number of replicas that the user's replies wait for changes. Call OnChange before Begin.
func (u *Users) OnChange(f func(*User)) { u.changed = f }

// swap replaces a user's rights (acl.R1).
func (u *Users) swap(user *User, next *Rights) {
	old := user.rights.Swap(next)
	if u.changed != nil && (old.full != next.full || old.acks != next.acks) {
		u.changed(user)
	}
}

func (u *Users) newDefault() *Rights {
	r := newRights(DefaultName, u.catalogue, true)
	r.enabled, r.noPass = true, true
	r.selectors[0].allKeys = true
	r.selectors[0].permitAll(true)
	return r.seal()
}

// SetPubSubDefault sets acl-pubsub-default: whether new users and selectors may use all channels.
func (u *Users) SetPubSubDefault(allChannels bool) { u.allChannels = allChannels }

// Default returns the user that every connection begins as. It is never deleted.
func (u *Users) Default() *User { return u.fallback }

// DefaultIsOpen reports whether a new connection needs no AUTH.
func (u *Users) DefaultIsOpen() bool {
	r := u.fallback.Rights()
	return r.enabled && r.noPass
}

// SetDefaultPassword sets requirepass, the default user's only password. If it is empty, no password is needed.
func (u *Users) SetDefaultPassword(password string) {
	d := u.fallback.Rights().draft()
	d.noPass, d.passwords = password == "", nil
	if password != "" {
		d.passwords = append(d.passwords, sha256.Sum256([]byte(password)))
	}
	u.swap(u.fallback, d.seal())
}

func (u *Users) Find(name []byte) *User { return u.byName[string(name)] }

// Names returns the users' names in byte order.
func (u *Users) Names() []string { return slices.Sorted(maps.Keys(u.byName)) }

// Lines returns one line per user, sorted by name, in the format of the ACL file and redis.conf.
func (u *Users) Lines() []string {
	lines := u.Names()
	for i, name := range lines {
		lines[i] = u.byName[name].Rights().Line()
	}
	return lines
}

// Authenticate returns the user with this name and password. It returns nil for a wrong password, an unknown user and a
// disabled user.
//
// The comparison of hashes takes the same time wherever they differ.
func (u *Users) Authenticate(name, password []byte) *User {
	user := u.Find(name)
	if user == nil || !user.admits(password) {
		return nil
	}
	return user
}

// admits reports whether the user is enabled and has this password. Any goroutine.
func (u *User) admits(password []byte) bool {
	r := u.Rights()
	switch {
	case !r.enabled:
		return false
	case r.noPass:
		return true
	}
	given := sha256.Sum256(password)
	found := 0
	for i := range r.passwords {
		found |= subtle.ConstantTimeCompare(given[:], r.passwords[i][:])
	}
	return found == 1
}

// Are reports whether copied still has the same users as u.
func (u *Users) Are(copied *Users) bool { return maps.Equal(u.byName, copied.byName) }

// Copy returns the present users, for one goroutine outside the turn. Their rights stay up to date.
func (u *Users) Copy() *Users {
	return &Users{catalogue: u.catalogue, byName: maps.Clone(u.byName), fallback: u.fallback}
}

// Set is ACL SETUSER: it changes the user called name, or makes it. It applies all rules or none.
//
// Errors: those of ACL SETUSER, with the wrong rule.
func (u *Users) Set(name []byte, rules [][]byte) (Change, error) {
	if hasSpaces(name) {
		return Change{}, errUserName
	}
	merged, unclosed := mergeSelectors(rules)
	if unclosed >= 0 {
		return Change{}, errParenthesis(rules[unclosed])
	}
	change := Change{User: u.Find(name)}
	var d *Rights
	if change.User != nil {
		change.Old = change.User.Rights()
		d = change.Old.draft()
	} else {
		d = newRights(string(name), u.catalogue, u.allChannels)
	}
	for _, rule := range merged {
		if err := d.apply(rule, u.allChannels); err != nil {
			return Change{}, errModifier(rule, err)
		}
	}
	if change.User == nil {
		change.User = u.enter(d.seal())
	} else {
		u.swap(change.User, d.seal())
	}
	return change, nil
}

// Delete removes the user called name and its rights. It returns nil for an unknown user and for the default user.
func (u *Users) Delete(name []byte) *User {
	user := u.Find(name)
	if user == nil || user == u.fallback {
		return nil
	}
	delete(u.byName, user.name)
	u.strip(user)
	return user
}

// strip removes all rights of a deleted user, because clients may still have a pointer to it.
func (u *Users) strip(user *User) { u.swap(user, newRights(user.name, u.catalogue, false).seal()) }

// enter adds a user with sealed rights.
func (u *Users) enter(r *Rights) *User {
	user := &User{name: r.name}
	user.rights.Store(r)
	u.byName[r.name] = user
	return user
}
