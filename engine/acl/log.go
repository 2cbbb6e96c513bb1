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

func (o Origin) String() string { return originNames[o] }

// An Entry is one line of ACL LOG: a refusal, and its number of repetitions.
type Entry struct {
	ID                   int64
	Count                int64
	Reason               Reason
	Origin               Origin
	Object               string // the command, key, channel or database; for AUTH the command, for a certificate nothing
	User                 string
	Client               string // the last refused client, as CLIENT LIST shows it
	CreatedMs, UpdatedMs int64  // Unix ms
}

const (
	alikeMs  = 60_000 // the same refusal within this time is one entry
	alikeFar = 10     // how many entries, from the newest, are searched for the same refusal
)

type Log struct {
	entries []Entry // the newest last
	nextID  int64
	limit   int // acllog-max-len
	denied  [reasons]int64
}

// SetLimit sets acllog-max-len, the number of entries to keep. The next Add removes the entries beyond it.
func (l *Log) SetLimit(n int) { l.limit = n }

// Denied returns the number of calls refused for a reason since the start. INFO shows them as acl_access_denied_auth,
// _cmd, _key, _channel, _tls_cert and _db.
func (l *Log) Denied(why Reason) int64 { return l.denied[why] }

func (l *Log) ResetDenied() { clear(l.denied[:]) }

// Reset is ACL LOG RESET. Entry ids continue.
func (l *Log) Reset() { l.entries = nil }

// Keeps reports whether the log keeps entries. If not, Add only counts, and e.Client may be empty.
func (l *Log) Keeps() bool { return l.limit > 0 }

// Add records a refusal at nowMs. e provides Reason, Origin, Object, User and Client. If a recent entry is for the same
// refusal, Add increments that entry's count.
func (l *Log) Add(e Entry, nowMs int64) {
	e.Count, e.CreatedMs, e.UpdatedMs = 1, nowMs, nowMs
	l.Merge(e)
}

// Count adds n refusals to the statistics, without an entry.
func (l *Log) Count(why Reason, n int64) { l.denied[why] += n }

// Merge is Add for refusals that were collected elsewhere. e also provides Count, CreatedMs and UpdatedMs.
func (l *Log) Merge(e Entry) {
	l.denied[e.Reason] += e.Count
	if l.limit <= 0 {
		l.entries = nil
		return
	}
	if at := l.findAlike(&e); at >= 0 {
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
		clear(l.entries[:over]) // so that the array does not keep their strings
		l.entries = l.entries[over:]
	}
}

// findAlike returns the index of the newest entry for the same refusal as e, or -1.
func (l *Log) findAlike(e *Entry) int {
	n := len(l.entries)
	for i := n - 1; i >= max(0, n-alikeFar); i-- {
		if l.entries[i].alike(e, e.CreatedMs) {
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

// Newest returns a copy of up to n entries, the newest first.
func (l *Log) Newest(n int) []Entry {
	n = min(n, len(l.entries))
	newest := slices.Clone(l.entries[len(l.entries)-n:])
	slices.Reverse(newest)
	return newest
}

func (l *Log) Len() int { return len(l.entries) }
