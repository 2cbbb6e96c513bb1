package proxy

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spindle/protocol/respclient"
	"spindle/proxy/route"
	"spindle/proxy/topology"
)

// The libraries of FUNCTION LOAD go to all shards. A shard that joins later gets them from another one.
//
//	the map has a new primary ─▶ joining: calls of functions wait ─▶ what it lacks is loaded ─▶ they go on
//
// proxy.F1. No call of a function goes to a primary before it has the libraries of the others. After proxy-timeout it
// goes all the same, and the shard's own error tells. No library is loaded, deleted or listed meanwhile.
// proxy.F2. A library that the shard has already is left as it is.
type libraries struct {
	joining atomic.Pointer[map[string]bool] // primaries that may lack libraries; nil: there are none

	mu    sync.Mutex
	known map[string]bool // the primaries of the current map
}

// note looks for new primaries in a map. Those of the first map have what they have.
func (l *libraries) note(p *Proxy, m *topology.Map) {
	if len(m.Shards) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first, before := l.known == nil, l.known
	l.known = map[string]bool{}
	var settled []string
	for _, s := range m.Shards {
		if s.Primary != "" {
			l.known[s.Primary] = true
			if before[s.Primary] && !l.isJoining(s.Primary) {
				settled = append(settled, s.Primary)
			}
		}
	}
	for at := range l.known {
		if !first && !before[at] {
			l.set(at, true)
			go l.bring(p, at, settled)
		}
	}
}

// isJoining reports whether calls of functions wait for a primary.
func (l *libraries) isJoining(at string) bool {
	now := l.joining.Load()
	return now != nil && (*now)[at]
}

// set replaces the set of joining primaries. The caller holds mu.
func (l *libraries) set(at string, is bool) {
	next := map[string]bool{}
	if now := l.joining.Load(); now != nil {
		for other := range *now {
			next[other] = true
		}
	}
	if delete(next, at); is {
		next[at] = true
	}
	if len(next) == 0 {
		l.joining.Store(nil)
		return
	}
	l.joining.Store(&next)
}

// joinTries is how often a library is brought to a shard that does not answer, each second once.
const joinTries = 30

// bring has a primary get the libraries that it lacks from one of the others.
func (l *libraries) bring(p *Proxy, at string, others []string) {
	for try := 1; ; try++ {
		err := errors.New("no other shard answers")
		for _, from := range others {
			if err = p.copyLibraries(from, at); err == nil {
				break
			}
		}
		l.mu.Lock()
		stays := l.known[at]
		l.mu.Unlock()
		var refused respclient.ReplyError
		if err == nil || len(others) == 0 || !stays || try == joinTries || errors.As(err, &refused) {
			if err != nil && len(others) > 0 && stays {
				p.log.Warning("The shard %s may lack libraries of functions: %v", at, err)
			}
			break
		}
		time.Sleep(time.Second)
	}
	l.mu.Lock()
	l.set(at, false)
	l.mu.Unlock()
	p.release()
}

// copyLibraries loads the libraries at from that to lacks. Servers before Redis 7 have none.
func (p *Proxy) copyLibraries(from, to string) error {
	source, err := p.access.Dial(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := p.access.Dial(to)
	if err != nil {
		return err
	}
	defer target.Close()
	has, err := libraryNames(target)
	if err != nil {
		return err
	}
	all, err := do(source, "FUNCTION", "LIST", "WITHCODE")
	if err != nil {
		return unlessUnknown(err)
	}
	for _, library := range all.Elems {
		name, _ := library.Get("library_name")
		code, _ := library.Get("library_code")
		if has[name.Text] || code.Text == "" {
			continue
		}
		if _, err := do(target, "FUNCTION", "LOAD", code.Text); err != nil && !strings.Contains(err.Error(),
			"already exists") {
			return err
		}
		p.log.Notice("The shard %s has got the library %s from %s", to, name.Text, from)
	}
	return nil
}

// libraryNames asks a server for the names of its libraries.
func libraryNames(c *respclient.Client) (map[string]bool, error) {
	names := map[string]bool{}
	all, err := do(c, "FUNCTION", "LIST")
	if err != nil {
		return names, unlessUnknown(err)
	}
	for _, library := range all.Elems {
		name, _ := library.Get("library_name")
		names[name.Text] = true
	}
	return names, nil
}

func do(c *respclient.Client, args ...any) (respclient.Value, error) {
	v, err := c.Do(args...)
	if err == nil {
		err = v.Err()
	}
	return v, err
}

// unlessUnknown returns nil for the error of a server that has no functions.
func unlessUnknown(err error) error {
	if strings.Contains(strings.ToLower(err.Error()), "unknown command") {
		return nil
	}
	return err
}

// release continues the sessions that are held because of a slot's or a shard's state.
func (w *worker) release() {
	holding := w.holding
	w.holding = nil
	for _, s := range holding {
		s.goOn()
	}
}

// awaitsLibraries reports whether the current request waits for libraries that are on their way to a shard (proxy.F1).
func (s *session) awaitsLibraries(row *route.Row, slot int) bool {
	w := s.w
	joining := w.p.libraries.joining.Load()
	if joining == nil {
		s.awaits = 0
		return false
	}
	if row.Script == route.ByFunction {
		index := w.indexOf(slot, uint64(s.id))
		if index < 0 || !(*joining)[w.shard(index).Primary] {
			return false
		}
	} else if !slices.Contains(librarySpecials, row.Special) {
		return false
	}
	limit := w.p.settings.Timeout.Get()
	if s.awaits == 0 {
		s.awaits = w.now()
		w.after(limit, s.goOn)
	}
	if w.now()-s.awaits >= limit {
		s.awaits = 0
		return false
	}
	w.holding = append(w.holding, s)
	return true
}

// librarySpecials concern the libraries of all shards.
var librarySpecials = []route.Special{route.FunctionLoad, route.FunctionDelete, route.FunctionFlush,
	route.FunctionRestore, route.FunctionList, route.FunctionDump}

// awaitsLibraries reports whether a call that is sent again waits for libraries at an address.
func (w *worker) awaitsLibraries(c *call, at string) bool {
	if w.p.libraries.joining.Load() == nil || c.row == 0 {
		return false
	}
	rows := w.p.table().Rows()
	return int(c.row) <= len(rows) && rows[c.row-1].Script == route.ByFunction && w.p.libraries.isJoining(at)
}
