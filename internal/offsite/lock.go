package offsite

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"spindle/internal/objectstore"
)

// A lock is an object that announces a running push or prune. Its process writes it again each Times.Beat.
//
// A push and a prune each write their lock first and then look for the other's. A list shows objects that were written
// before it, so at least one of the two sees the other. The prune then gives up, and the push waits for the prune's
// end. A lock that was not written for Times.Stale belongs to a process that died. Ages are measured by the store's
// clock alone.
type lock struct {
	r      *Repository
	key    string
	body   []byte
	ending context.CancelFunc
	beats  sync.WaitGroup
}

// lockText is the content of a lock, for people and for List.
type lockText struct {
	Server string    `json:"server,omitempty"` // whose backup is pushed
	Host   string    `json:"host"`
	PID    int       `json:"pid"`
	Since  time.Time `json:"since"`
}

// lock writes a lock in a folder.
func (r *Repository) lock(ctx context.Context, folder, server string) (*lock, error) {
	host, _ := os.Hostname()
	body, err := json.Marshal(lockText{Server: server, Host: host, PID: os.Getpid(), Since: time.Now().Round(time.Second)})
	if err != nil {
		return nil, err
	}
	l := &lock{r: r, key: folder + strings.ToLower(rand.Text()), body: body}
	if err := l.write(ctx); err != nil {
		l.end()
		return nil, err
	}
	if r.Times.Beat > 0 {
		beating, stop := context.WithCancel(ctx)
		l.ending = stop
		l.beats.Go(func() { l.beat(beating) })
	}
	return l, nil
}

func (l *lock) write(ctx context.Context) error {
	_, err := l.r.Store.Put(ctx, l.key, l.body)
	return err
}

// beat writes the lock again and again. It ignores errors, because holds notices their consequences.
func (l *lock) beat(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.r.Times.Beat):
		}
		if held, err := l.holds(ctx); err == nil && held {
			_ = l.write(ctx)
		}
	}
}

// holds reports whether the lock is still there. A prune removes a stale lock.
func (l *lock) holds(ctx context.Context) (bool, error) {
	_, err := l.r.Store.Get(ctx, l.key)
	if errors.Is(err, objectstore.ErrMissing) {
		return false, nil
	}
	return err == nil, err
}

// end removes the lock, even if the context of the call has ended.
func (l *lock) end() {
	if l.ending != nil {
		l.ending()
		l.beats.Wait()
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	_ = l.r.Store.Delete(ctx, l.key) // a lock that stays becomes stale some time later
}

// others lists the locks of a folder. Locks that are not live are stale.
func (l *lock) others(ctx context.Context, folder string) (live, stale []objectstore.Object, err error) {
	var all []objectstore.Object
	now := time.Time{}
	for _, from := range slices.Compact([]string{folder, l.key}) {
		err := l.r.Store.List(ctx, from, func(o objectstore.Object) {
			if o.Key == l.key {
				now = o.Modified
			} else if strings.HasPrefix(o.Key, folder) {
				all = append(all, o)
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if now.IsZero() {
		return nil, nil, fmt.Errorf("%s does not list %s, which was just written", l.r.Store, l.key)
	}
	for _, o := range all {
		if now.Sub(o.Modified) >= l.r.Times.Stale {
			stale = append(stale, o)
		} else {
			live = append(live, o)
		}
	}
	return live, stale, nil
}

// read returns the content of a lock. The content of a missing or damaged lock is empty.
func (r *Repository) read(ctx context.Context, key string) (text lockText) {
	if body, err := r.Store.Get(ctx, key); err == nil {
		_ = json.Unmarshal(body, &text)
	}
	return text
}
