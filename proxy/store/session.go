package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A Session is a lease that is kept alive until its context ends.
type Session struct {
	Lease Lease
	lost  chan struct{}
	limit atomic.Int64 // when the lease may lapse, in nanoseconds since begin
}

// begin is the instant from which limits are counted. The clock also runs while this process is suspended.
var begin = time.Now()

// NewSession grants a lease and keeps it alive until ctx ends or the lease lapses.
//
// store.L1. Lost is closed before the lease can lapse in the store. The limit is the begin of the last successful call
// plus five sixths of ttl.
func NewSession(ctx context.Context, s Store, ttl time.Duration) (*Session, error) {
	began := time.Now()
	lease, err := s.Grant(ctx, ttl)
	if err != nil {
		return nil, err
	}
	n := &Session{Lease: lease, lost: make(chan struct{})}
	n.extend(began, ttl)
	go n.keep(ctx, s, ttl, began)
	return n, nil
}

// Lost returns a channel that is closed when the lease may lapse, or when ctx has ended.
func (n *Session) Lost() <-chan struct{} { return n.lost }

// Holds reports whether the lease cannot have lapsed yet. The result is exact even right after this process was
// suspended, when Lost may not be closed yet.
func (n *Session) Holds() bool {
	select {
	case <-n.lost:
		return false
	default:
		return int64(time.Since(begin)) < n.limit.Load()
	}
}

// extend sets the limit after a successful call that began at began (store.L1).
func (n *Session) extend(began time.Time, ttl time.Duration) time.Time {
	limit := began.Add(ttl - ttl/6)
	n.limit.Store(int64(limit.Sub(begin)))
	return limit
}

func (n *Session) keep(ctx context.Context, s Store, ttl time.Duration, began time.Time) {
	defer close(n.lost)
	wait := ttl / 3
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		limit := n.extend(began, ttl)
		try, cancel := context.WithDeadline(ctx, limit)
		start := time.Now()
		err := s.KeepAlive(try, n.Lease)
		cancel()
		switch {
		case err == nil:
			began, wait = start, ttl/3
			n.extend(began, ttl)
		case errors.Is(err, ErrLapsed) || !time.Now().Before(limit):
			return
		default:
			wait = ttl / 20
		}
	}
}

// A Leadership lasts until Lost is closed. That happens when the lease may lapse, and when its key is no longer there.
type Leadership struct {
	*Session
	// Condition holds while this process leads. With it in each Commit, a leader that was suspended for a while writes
	// nothing.
	Condition Condition
	store     Store
	cancel    context.CancelFunc
}

// Campaign waits until no other process leads under key, and then leads with value. It calls told with the value of
// each other leader that it waits for.
//
// Errors: those of ctx. During an outage of the store, Campaign calls told with the problem and keeps waiting.
func Campaign(ctx context.Context, s Store, key string, value []byte, ttl time.Duration,
	told func(leader []byte, problem error)) (*Leadership, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	vacant, changes := false, s.Watch(watching, key, 0)
	for {
		var again <-chan time.Time
		for vacant && again == nil && ctx.Err() == nil {
			l, err := lead(ctx, s, key, value, ttl)
			if err == nil {
				return l, nil
			}
			if errors.Is(err, ErrConflict) {
				again = time.After(jitter(time.Second))
				break
			}
			told(nil, err)
			pause(ctx, 3)
		}
		select {
		case <-again: // the winner left before the watch began, so no change is reported
		case c, open := <-changes:
			if !open {
				return nil, ctx.Err()
			}
			if c.Err != nil {
				told(nil, c.Err)
				continue
			}
			vacant = vacant || c.Reset
			for _, e := range c.Entries {
				if e.Key != key {
					continue
				}
				if vacant = e.Value == nil; !vacant {
					told(e.Value, nil)
				}
			}
		}
	}
}

// lead creates the key and becomes the leader, if the key is absent.
func lead(ctx context.Context, s Store, key string, value []byte, ttl time.Duration) (*Leadership, error) {
	keeping, cancel := context.WithCancel(ctx)
	session, err := NewSession(keeping, s, ttl)
	if err != nil {
		cancel()
		return nil, err
	}
	revision, err := s.Commit(ctx, []Condition{{Key: key}}, []Write{{Key: key, Value: value, Lease: session.Lease}})
	if err != nil {
		cancel()
		quit, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		_ = s.Revoke(quit, session.Lease) // otherwise the lease lapses, with the key if it was written
		return nil, err
	}
	l := &Leadership{Session: session, Condition: Condition{key, revision}, store: s, cancel: cancel}
	go l.watch(keeping)
	return l, nil
}

// watch ends the leadership if its key was deleted or replaced, although its lease continues. Another process may lead
// then.
func (l *Leadership) watch(ctx context.Context) {
	for c := range l.store.Watch(ctx, l.Condition.Key, l.Condition.Revision) {
		ours := !c.Reset
		for _, e := range c.Entries {
			if e.Key == l.Condition.Key {
				ours = e.Value != nil && e.Revision == l.Condition.Revision
			}
		}
		if c.Err == nil && !ours {
			l.cancel()
			return
		}
	}
}

// Resign ends the leadership at once, so that the next leader does not have to wait for the lease to lapse.
func (l *Leadership) Resign(ctx context.Context) {
	l.cancel()
	_ = l.store.Revoke(ctx, l.Lease) // otherwise the lease lapses
}
