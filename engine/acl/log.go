package acl

import "slices"

// An Origin is where a refused call came from: the outermost of EXEC, a script and a module.
type Origin uint8

const (
	TopLevel Origin = iota
	InMulti
	InLua
	InModule
)

var originNames = [...]string{"toplevel", "multi", "lua", "module"}

// String is the origin as ACL LOG's context names it.
func (o Origin) String() string { return originNames[o] }

// An Entry is one line of ACL LOG: a refusal, and how often it came again.
type Entry struct {
	ID                   int64
	Count                int64
	Reason               Reason
	Origin               Origin
	Object               string // the command, key or channel; of a refused AUTH the command that tried
	User                 string
	Client               string // as CLIENT LIST shows the last client that was refused
	CreatedMs, UpdatedMs int64  // Unix ms
}

const (
	alikeMs  = 60_000 // like refusals this far apart are one entry
	alikeFar = 10     // entries that are looked at, from the newest, for one that is alike
)

// A Log is ACL LOG, and INFO's counts of refusals.
//
// Owner: the holder of the turn.
type Log struct {
	entries []Entry // the newest last
	nextID  int64
	limit   int // acllog-max-len
	denied  [DeniedChannel + 1]int64
}

// SetLimit is acllog-max-len: how many entries are kept. What is over it goes with the next entry.
func (l *Log) SetLimit(n int) { l.limit = n }

// Denied is how many calls were refused for a reason since the start. INFO: acl_access_denied_auth, _cmd, _key,
// _channel.
func (l *Log) Denied(why Reason) int64 { return l.denied[why] }

// ResetDenied is CONFIG RESETSTAT's part.
func (l *Log) ResetDenied() { clear(l.denied[:]) }

// Reset is ACL LOG RESET. Numbers of entries go on.
func (l *Log) Reset() { l.entries = nil }

// Keeps says whether entries are kept at all; if not, Add counts only, and e.Client need not be made.
func (l *Log) Keeps() bool { return l.limit > 0 }

// Add books a refusal at nowMs. e gives Reason, Origin, Object, User and Client. One like a recent entry is added to
// that.
func (l *Log) Add(e Entry, nowMs int64) {
	e.Count, e.CreatedMs, e.UpdatedMs = 1, nowMs, nowMs
	l.Merge(e)
}

// Count counts n refusals that no entry tells of.
func (l *Log) Count(why Reason, n int64) { l.denied[why] += n }

// Merge is Add of refusals that were gathered elsewhere: e gives Count, CreatedMs and UpdatedMs, too.
func (l *Log) Merge(e Entry) {
	l.denied[e.Reason] += e.Count
	if l.limit <= 0 {
		l.entries = nil
		return
	}
	if at := FindAlike(len(l.entries), func(i int) *Entry { return &l.entries[i] }, &e, e.CreatedMs); at >= 0 {
		known := l.entries[at]
		known.Client, known.UpdatedMs = e.Client, e.UpdatedMs
		known.Count += e.Count
		l.entries = append(slices.Delete(l.entries, at, at+1), known)
		return
	}
	e.ID = l.nextID
	l.nextID++
	l.entries = append(l.entries, e)
	if over := len(l.entries) - l.limit; over > 0 {
		clear(l.entries[:over]) // what they name is not held by the array behind the slice
		l.entries = l.entries[over:]
	}
}

// FindAlike is the place of the newest of n entries that e, refused at nowMs, is counted with; -1 for none.
func FindAlike(n int, at func(i int) *Entry, e *Entry, nowMs int64) int {
	for i := n - 1; i >= max(0, n-alikeFar); i-- {
		if at(i).alike(e, nowMs) {
			return i
		}
	}
	return -1
}

func (e *Entry) alike(other *Entry, nowMs int64) bool {
	apart := nowMs - e.UpdatedMs
	return e.Reason == other.Reason && e.Origin == other.Origin && max(apart, -apart) <= alikeMs &&
		e.Object == other.Object && e.User == other.User
}

// Newest are up to n entries, the newest first; a copy.
func (l *Log) Newest(n int) []Entry {
	n = min(n, len(l.entries))
	newest := slices.Clone(l.entries[len(l.entries)-n:])
	slices.Reverse(newest)
	return newest
}

// Len counts the entries.
func (l *Log) Len() int { return len(l.entries) }
