package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Client is a proxy's side of the store: it follows one product, registers, and confirms tables.
//
//	c := store.NewClient(s, "/spindle", "shop", log)
//	tables := c.Follow(ctx)                 // the first table may take as long as the store
//	err := c.Register(ctx, info)            // before the first request is sent to a shard
//	for t := range tables {                 // a table that was taken before Register may be too old to act on
//		// act on t: hold back the slots that are Held and finish their requests
//		c.Confirm(t.Revision)           // never waits
//	}
//	c.Unregister(ctx)                       // when no request is under way any more
//
// store.C1. A proxy registers before it sends requests, and unregisters after it has stopped sending. In between its
// registration stays, even while the proxy does not reach the store.
//
// A move that began before the registration does not wait for the proxy. So the proxy sends no request by a table that
// is older than its registration. When Register returns, the channel of Follow has a table if there is a newer one.
// store.C2. The proxy confirms a revision once it acts on that table, and no request that it sent by an older table is
// under way.
// store.C3. If the store was restored from a backup, its revisions begin again at a lower one. Older confirmations do
// not count then: see RegistrationOf.
type Client struct {
	store   Store
	prefix  string
	product string
	warn    func(err error) // reports refused entries and outages, each once

	mu       sync.Mutex
	self     Proxy
	begun    int64 // the revision at which Register wrote the registration
	revision int64 // the revision of the registration in the store; 0 means unknown
	confirm  int64 // the newest revision to confirm
	wake     chan struct{}
	follows  bool
	keepers  sync.WaitGroup
	release  context.CancelFunc // ends the keepers
	seen     int64              // the revision up to which Follow has processed changes
	sent     int64              // the revision of the newest table that Follow has sent
	news     chan struct{}      // closed and replaced when seen has grown
}

// presence is how long a proxy counts as present after its last renewal.
const presence = 10 * time.Second

// ErrReplaced means that another process has registered under this proxy's ID. Moves no longer wait for this proxy, so
// it must stop. With Follow, warn gets this error as soon as the store tells.
var ErrReplaced = errors.New("another process has registered under this proxy's ID")

// NewClient returns a client. It reports problems to warn, on any goroutine.
func NewClient(s Store, prefix, product string, warn func(err error)) *Client {
	return &Client{store: s, prefix: prefix, product: product, warn: warn, wake: make(chan struct{}, 1),
		news: make(chan struct{})}
}

// Follow returns a channel of the product's tables. A slow reader skips tables and gets the newest. The channel is
// closed when ctx ends. While the store does not answer, or has no complete and valid table, the last table stays in
// force.
func (c *Client) Follow(ctx context.Context) <-chan *Table {
	out := make(chan *Table, 1)
	c.mu.Lock()
	c.follows = true
	c.mu.Unlock()
	go func() {
		defer close(out)
		v, begun := newView(KeyOf(c.prefix, c.product)), false
		last := "" // the last reported reason why there was no table
		for change := range c.store.Watch(ctx, v.root, 0) {
			if change.Err != nil {
				if ctx.Err() != nil {
					continue // the error is that of the end
				}
				c.warn(fmt.Errorf("%s does not answer, and the last table stays in force: %w", c.store, change.Err))
				continue
			}
			if c.isReplacedIn(change) {
				c.Confirm(0) // learns that, and warns
			}
			if change.Reset && c.beginAgain(change.Revision) {
				v = newView(v.root)
				c.warn(fmt.Errorf("%s has gone back to revision %d, as after a restore from a backup", c.store, change.Revision))
			}
			relevant, problems := v.take(change)
			for _, err := range problems {
				c.warn(err)
			}
			if relevant || !begun {
				begun = true
				t, err := v.table()
				switch {
				case err == nil:
					last = ""
					c.mu.Lock()
					c.sent = max(c.sent, t.Revision)
					c.mu.Unlock()
					select {
					case <-out: // drop the table that the reader has not taken
					default:
					}
					out <- t
				case err.Error() != last:
					last = err.Error()
					c.warn(fmt.Errorf("product %s: %w", c.product, err))
				}
			}
			c.mu.Lock()
			c.seen = max(c.seen, change.Revision)
			close(c.news)
			c.news = make(chan struct{})
			c.mu.Unlock()
		}
	}()
	return out
}

// beginAgain reports whether a list of all entries is older than a change before. Then nothing is confirmed any more
// (store.C3).
func (c *Client) beginAgain(revision int64) bool {
	c.mu.Lock()
	back := revision < c.seen
	if back {
		c.seen, c.sent, c.confirm = revision, 0, 0
	}
	c.mu.Unlock()
	if back {
		c.Confirm(0) // writes that
	}
	return back
}

// isReplacedIn reports whether another process has written this proxy's registration.
func (c *Client) isReplacedIn(change Change) bool {
	c.mu.Lock()
	self := c.self
	c.mu.Unlock()
	if self.ID == "" {
		return false
	}
	for _, e := range change.Entries {
		var there Proxy
		if e.Key == KeyOf(c.prefix, c.product, "proxies", self.ID) && e.Value != nil && Decode(e, &there) == nil &&
			there.Instance != self.Instance {
			return true
		}
	}
	return false
}

// awaitSeen waits until Follow has processed all changes up to a revision. Without Follow it returns at once.
func (c *Client) awaitSeen(ctx context.Context, revision int64) error {
	for {
		c.mu.Lock()
		done, news := !c.follows || c.seen >= revision, c.news
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		}
	}
}

// Register writes the registration, and keeps the proxy's presence until ctx ends or Unregister is called. It sets
// Schema and Instance. If Follow was called, Register waits until Follow has seen the product as of the registration
// (store.C1).
//
// Errors: the store's, or that of an invalid info; then nothing is registered. Later problems, such as ErrReplaced, are
// reported to warn.
func (c *Client) Register(ctx context.Context, info Proxy) error {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // it never fails
	info.Instance, info.Confirmed = hex.EncodeToString(random), 0
	value, err := Encode(&info)
	if err != nil {
		return err
	}
	key := KeyOf(c.prefix, c.product, "proxies", info.ID)
	revision, err := c.store.Commit(ctx, nil, []Write{{Key: key, Value: value}})
	if err != nil {
		return err
	}
	kept, release := context.WithCancel(ctx)
	c.mu.Lock()
	c.self, c.begun, c.revision, c.release = info, revision, revision, release
	c.mu.Unlock()
	c.keepers.Go(func() { c.keepPresence(kept, info) })
	c.keepers.Go(func() { c.keepConfirming(kept) })
	return c.awaitSeen(ctx, revision)
}

// Confirm records that the proxy acts on the table of a revision (store.C2). It returns at once. The revision is
// written to the store soon afterwards, or after an outage.
func (c *Client) Confirm(revision int64) {
	c.mu.Lock()
	if !c.follows || revision <= c.sent { // else the table is of the time before the store went back
		c.confirm = max(c.confirm, revision)
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Unregister removes the registration that Register has written, so that no move waits for this proxy (store.C1).
func (c *Client) Unregister(ctx context.Context) error {
	c.release()
	c.keepers.Wait()
	self, revision := c.self, c.known()
	key := KeyOf(c.prefix, c.product, "proxies", self.ID)
	for {
		_, err := c.store.Commit(ctx, []Condition{{key, revision}}, []Write{{Key: key, Delete: true},
			{Key: KeyOf(c.prefix, c.product, "present", self.ID), Delete: true}})
		if !errors.Is(err, ErrConflict) {
			return err
		}
		// An earlier write without an answer has changed the revision, or the registration is no longer ours.
		e, err := c.store.Get(ctx, key)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var there Proxy
		if err := Decode(e, &there); err != nil || there.Instance != self.Instance {
			return err
		}
		revision = e.Revision
	}
}

// keepPresence keeps the leased entry that shows that this proxy reaches the store.
func (c *Client) keepPresence(ctx context.Context, info Proxy) {
	value, err := Encode(&Presence{ID: info.ID, Instance: info.Instance})
	if err != nil {
		c.warn(err)
		return
	}
	for failures := 0; ctx.Err() == nil; failures++ {
		session, err := NewSession(ctx, c.store, presence)
		if err == nil {
			write := Write{Key: KeyOf(c.prefix, c.product, "present", info.ID), Value: value, Lease: session.Lease}
			if _, err = c.store.Commit(ctx, nil, []Write{write}); err == nil {
				failures = 0
				c.Confirm(0) // the registration may have been removed meanwhile
				<-session.Lost()
				continue
			}
		}
		if failures == 0 && ctx.Err() == nil {
			c.warn(fmt.Errorf("%s does not take this proxy's presence: %w", c.store, err))
		}
		pause(ctx, failures)
	}
}

// keepConfirming writes the confirmed revisions to the store.
func (c *Client) keepConfirming(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		for failures := 0; ctx.Err() == nil; failures++ {
			err := c.writeConfirmed(ctx)
			if err == nil {
				break
			}
			if errors.Is(err, ErrReplaced) {
				c.warn(err)
				return
			}
			pause(ctx, failures)
		}
	}
}

// writeConfirmed writes the registration with the newest confirmed revision. If an operator has removed the
// registration because the proxy seemed dead, it is written again.
func (c *Client) writeConfirmed(ctx context.Context) error {
	c.mu.Lock()
	self, revision := c.self, c.revision
	self.Confirmed = c.confirm
	c.mu.Unlock()
	value, err := Encode(&self)
	if err != nil {
		return err
	}
	key := KeyOf(c.prefix, c.product, "proxies", self.ID)
	revision, err = Put(ctx, c.store, key, value, Condition{key, revision})
	if maybe := (*MaybeError)(nil); errors.Is(err, ErrConflict) || errors.As(err, &maybe) {
		revision, err = c.reconcile(ctx, key, self, err)
	}
	c.mu.Lock()
	c.revision = revision
	c.mu.Unlock()
	return err
}

// reconcile finds out which registration is in the store after a write has failed with the error because. It returns
// that registration's revision. It returns because if the write has to be tried again.
func (c *Client) reconcile(ctx context.Context, key string, self Proxy, because error) (int64, error) {
	e, err := c.store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return 0, because
	}
	if err != nil {
		return c.known(), err
	}
	var there Proxy
	if err := Decode(e, &there); err != nil {
		c.warn(err)
		return e.Revision, because // the entry will be overwritten
	}
	switch {
	case there.Instance != self.Instance && c.isEarlier(e, &there):
		return e.Revision, because // the entry will be overwritten
	case there.Instance != self.Instance:
		return 0, ErrReplaced // Unregister must not remove the other one's
	case there.Confirmed == self.Confirmed:
		return e.Revision, nil
	}
	return e.Revision, because
}

// isEarlier reports whether a registration is that of a process before this one. A restored store may have it again.
func (c *Client) isEarlier(e Entry, there *Proxy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.Revision < c.begun && there.Started.Before(c.self.Started)
}

func (c *Client) known() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}
