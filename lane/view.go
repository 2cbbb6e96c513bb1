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

// Tick is called ten times a second. Turn only.
func (l *Lane) Tick() {
	if l.ticks++; l.ticks%10 == 0 {
		l.publish()
	} else {
		l.copies.Renew(l.Connection.Clients, l.Connection.Subscriptions)
		l.refresh()
	}
}

// refresh publishes if the users or the role have changed. An unauthenticated client may cause a call, so it is cheap.
// Turn only.
func (l *Lane) refresh() {
	if v := l.view.Load(); !l.Connection.Users.Are(v.users) || l.Connection.Role() != v.role {
		l.publish()
	}
}

// publish makes a new view. Turn only.
func (l *Lane) publish() {
	l.copies.Renew(l.Connection.Clients, l.Connection.Subscriptions)
	deps, copied, stalls := l.Connection, l.copies.Complete, l.Core.Stalls().Copy()
	v := &view{time.Now(), l.report.Texts(), deps.Users.Copy(), deps.Role(), map[string]func(*command.Context) error{}}
	deps.Users, deps.Clients, deps.Subscriptions = v.users, copied.Registry, copied.Subscriptions
	deps.Role = func() string { return v.role }
	deps.Speaks, deps.SetUser = nil, func(cl *client.Client, user *acl.User) { cl.User = user }
	deps.Kill = func(cl *client.Client, isCaller bool) {
		if l.serving.quits = isCaller; !isCaller {
			cl.Conn.Close(false)
		}
	}
	deps.AuthFailed = func(c *command.Context, user []byte) {
		l.deny(acl.DeniedAuth, string(c.Args[0]), string(user))
	}
	figures := diagnose.Deps{Logs: l.Logs.Copy(), Stalls: func() *diagnose.Stalls { return stalls }}
	rows := slices.Concat(conn.Family(deps).Rows, diagnose.ServerRows(figures), diagnose.Family(figures).Rows)
	for _, row := range rows {
		v.run[row.Name] = row.Run
		for _, sub := range row.Subs {
			v.run[row.Name+"|"+sub.Name] = sub.Run
		}
	}
	l.view.Store(v)
}
