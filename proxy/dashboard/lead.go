package dashboard

import (
	"context"
	"sync"
	"time"

	"spindle/proxy/store"
)

// A lead records whether this dashboard is the active one, and which dashboard is.
//
// dashboard.L1. Each write of a dashboard to the store is conditional on its leadership. So a dashboard that was
// suspended for a while, and still believes that it leads, writes nothing. New entries of the audit log are the
// exception: what a dashboard has done is recorded, although it leads no more.
// dashboard.L2. Servers have no such condition. So the dashboard checks its lead before each command by which a move
// changes a server (order).
type lead struct {
	mu     sync.Mutex
	held   *store.Leadership // nil unless this dashboard is active
	active store.Leader      // the last known one; without a URL if there is none
	store  error             // why the store does not answer
}

// now returns the leadership, or nil and the active dashboard.
func (l *lead) now() (held *store.Leadership, active store.Leader, problem error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil && !l.held.Holds() {
		return nil, store.Leader{}, l.store
	}
	return l.held, l.active, l.store
}

// order is ask for a command that changes the server. It sends nothing if this dashboard does not lead (dashboard.L2).
func (d *Dashboard) order(l *link, args ...any) error {
	if held, _, _ := d.lead.now(); held == nil {
		return store.ErrLost
	}
	_, err := l.ask(args...)
	return err
}

func (l *lead) set(held *store.Leadership, active store.Leader, problem error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.active, l.store = held, active, problem
}

// campaign makes this dashboard the active one whenever no other is active, until ctx ends.
func (d *Dashboard) campaign(ctx context.Context) {
	defer close(d.ended)
	ttl := time.Duration(d.s.LeaseSeconds.Get()) * time.Second
	for ctx.Err() == nil {
		d.self.Since = time.Now().UTC().Truncate(time.Millisecond)
		value, err := store.Encode(&d.self)
		if err != nil {
			d.log.Warning("%s", err)
			return
		}
		held, err := store.Campaign(ctx, d.store, d.key("leader"), value, ttl, d.noteLeader)
		if err != nil {
			return
		}
		d.lead.set(held, d.self, nil)
		d.log.Notice("This dashboard is the active one now.")
		working, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.work(working)
		}()
		select {
		case <-held.Lost():
		case <-ctx.Done():
		}
		cancel()
		<-done
		d.lead.set(nil, store.Leader{}, nil)
		quit, quitted := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		held.Resign(quit)
		quitted()
		d.log.Notice("This dashboard is no longer the active one.")
	}
}

// noteLeader records the entry of the active dashboard, or why the store does not answer.
func (d *Dashboard) noteLeader(value []byte, problem error) {
	if problem != nil {
		d.log.Warning("%s does not answer: %s", d.store, problem)
		d.lead.set(nil, store.Leader{}, problem)
		return
	}
	var active store.Leader
	if err := store.Decode(store.Entry{Key: d.key("leader"), Value: value}, &active); err != nil {
		d.log.Warning("%s", err)
		problem = err
	}
	d.lead.set(nil, active, problem)
	if problem == nil {
		d.log.Notice("The active dashboard is %s.", describe(active.URL))
	}
}
