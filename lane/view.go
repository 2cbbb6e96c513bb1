package lane

import (
	"slices"
	"time"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/diagnose"
	"spindle/engine/family/conn"
	"spindle/engine/family/introspect"
)

// A view is the state that a turn has published. It never changes.
type view struct {
	at    time.Time
	info  []introspect.SectionText
	users *acl.Users
	role  string
	run   map[string]func(*command.Context) error // the families' commands on this state, by full name
}

// clients are copies of the core's clients, with the counts of their subscriptions.
type clients struct {
	*client.Registry
	counts map[int64][3]int
}

func noClients() clients { return clients{client.NewRegistry(), map[int64][3]int{}} }

// visits is the number of clients that are copied in a turn, or a twentieth of all. It is at most most, so that a turn
// stays short.
const visits, most = 128, 1000

// inTurn runs f in a turn. It returns false if no turn is free within patience; f then runs later. While it waits, it
// takes no other f.
func (l *Lane) inTurn(f func()) bool {
	if !l.waits.CompareAndSwap(false, true) {
		return false
	}
	done := make(chan struct{})
	go l.Do(func() {
		f()
		l.waits.Store(false)
		close(done)
	})
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// Tick is called ten times a second. Turn only.
func (l *Lane) Tick() {
	if l.ticks++; l.ticks%10 == 0 {
		l.publish()
	} else {
		l.renew()
		l.refresh()
	}
}

// refresh publishes if the users or the role have changed. A client without a password may ask for it, so it is cheap.
// Turn only.
func (l *Lane) refresh() {
	if v := l.view.Load(); !l.Connection.Users.Are(v.users) || l.Role() != v.role {
		l.publish()
	}
}

// publish makes a new view. Turn only.
func (l *Lane) publish() {
	l.renew()
	v := &view{time.Now(), l.report.Texts(), l.Connection.Users.Copy(), l.Role(), map[string]func(*command.Context) error{}}
	deps, shown, stalls := l.Connection, l.shown, l.Stalls().Copy()
	deps.Users, deps.Clients, deps.Role = v.users, shown.Registry, func() string { return v.role }
	deps.Subscriptions = func(cl *client.Client) (channels, patterns, shards int) {
		n := shown.counts[cl.ID]
		return n[0], n[1], n[2]
	}
	deps.Speaks, deps.SetUser = nil, func(cl *client.Client, user *acl.User) { cl.User = user }
	deps.Kill = func(cl *client.Client, isCaller bool) {
		if l.serving.quits = isCaller; !isCaller {
			cl.Conn.Close(false)
		}
	}
	deps.AuthFailed = func(c *command.Context, user []byte) {
		l.deny(acl.Entry{Reason: acl.DeniedAuth, Object: string(c.Args[0]), User: string(user)}, errWrongPass)
	}
	figures := diagnose.Deps{Logs: l.Logs.Copy(), Stalls: func() *diagnose.Stalls { return stalls }}
	for _, row := range slices.Concat(conn.Family(deps).Rows, diagnose.ServerRows(figures), diagnose.Family(figures).Rows) {
		v.run[row.Name] = row.Run
		for _, sub := range row.Subs {
			v.run[row.Name+"|"+sub.Name] = sub.Run
		}
	}
	l.view.Store(v)
}

// renew books refused calls, and copies the next clients. The copies are shown when all are complete. Turn only.
func (l *Lane) renew() {
	l.Book()
	left := min(max(visits, l.Connection.Clients.Len()/20), most)
	for cl := range l.Connection.Clients.From(l.visit) {
		if left--; left < 0 {
			l.visit = cl.ID
			return
		}
		if cl.Conn != nil {
			l.next.Add(cl.Shown())
			a, b, c := l.Connection.Subscriptions(cl)
			l.next.counts[cl.ID] = [3]int{a, b, c}
		}
	}
	l.visit, l.shown, l.next = 0, l.next, noClients()
}
