package offsite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"spindle/internal/objectstore"
)

// A Policy says which backups are kept. A backup is kept if either of the two rules keeps it.
type Policy struct {
	Last  int           // keep this many backups of each server; 0: no such rule
	Since time.Duration // keep all younger backups; 0: no such rule
	Now   time.Time
	Dry   bool // nothing is removed
}

// orphanAge is how long a part stays that no backup needs. A push that broke off may still continue with it.
const orphanAge = 24 * time.Hour

// Pruned describes what a prune has done, or would do.
type Pruned struct {
	Backups []Entry
	Kept    int
	Parts   int
	Bytes   int64 // bytes in the store
}

// A BusyError means that a push is running, so that nothing can be removed.
type BusyError struct{ Server, Host, Since string }

func (e *BusyError) Error() string {
	return fmt.Sprintf(
		"a push of %s is under way, on %s since %s: nothing was removed. A push that died is passed over an "+
			"hour after its last sign of life.", e.Server, e.Host, e.Since)
}

// Prune removes the backups that policy does not keep, and the parts that no backup needs any more. The newest complete
// backup of each server is always kept. An incomplete backup counts for no rule. It is removed once it is older than
// all kept backups, and a complete one of its server is kept. Otherwise it stays, because a push can still send the
// parts that it lacks.
//
// A prune that breaks off leaves complete backups, and parts for the next prune.
//
// Errors: *BusyError; *KeyError: the parts of an unreadable backup are not known, so no part can be removed.
func (r *Repository) Prune(ctx context.Context, policy Policy) (*Pruned, error) {
	l, err := r.lock(ctx, pruneFolder, "")
	if err != nil {
		return nil, err
	}
	defer l.end()
	live, stale, err := l.others(ctx, pushFolder)
	if err != nil {
		return nil, err
	}
	if !policy.Dry && len(live) == 0 {
		_, dead, err := l.others(ctx, pruneFolder)
		if err != nil {
			return nil, err
		}
		for _, o := range append(stale, dead...) {
			if err := r.Store.Delete(ctx, o.Key); err != nil {
				return nil, err
			}
		}
		// A push that was only asleep has written its lock again.
		if live, _, err = l.others(ctx, pushFolder); err != nil {
			return nil, err
		}
	}
	if len(live) > 0 {
		at := r.read(ctx, live[0].Key)
		return nil, &BusyError{at.Server, at.Host, at.Since.Format(time.DateTime)}
	}
	all, _, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Locked {
			return nil, fmt.Errorf("%s. Its parts are not known without it, so nothing was removed", e.Wrong)
		}
	}
	done := &Pruned{Backups: policy.doomed(all)}
	done.Kept = len(all) - len(done.Backups)
	needed, freed := map[string]bool{}, map[string]bool{}
	for _, e := range all {
		goes := slices.ContainsFunc(done.Backups, func(d Entry) bool { return d.ID == e.ID })
		if goes && !policy.Dry {
			if err := r.Store.Delete(ctx, backupFolder+e.ID); err != nil {
				return nil, err
			}
		}
		if e.Backup == nil {
			continue
		}
		e.Backup.each(func(_ *File, p Part) {
			if goes {
				freed[p.Name] = true
			} else {
				needed[p.Name] = true
			}
		})
	}
	return done, r.removeParts(ctx, l, policy, done, needed, freed)
}

// doomed returns the backups that the policy does not keep.
func (policy *Policy) doomed(all []Entry) (goes []Entry) {
	count := map[string]int{}
	oldest := policy.Now // of the kept backups
	for _, e := range slices.Backward(all) {
		if e.Wrong != "" {
			continue
		}
		server := e.Backup.Server
		count[server]++
		young := policy.Since > 0 && policy.Now.Sub(e.At) < policy.Since
		if count[server] == 1 || count[server] <= policy.Last || young {
			if e.At.Before(oldest) {
				oldest = e.At
			}
			continue
		}
		goes = append(goes, e)
	}
	for _, e := range all {
		replaced := len(count) > 0
		if e.Backup != nil {
			replaced = count[e.Backup.Server] > 0
		}
		if e.Wrong != "" && replaced && e.At.Before(oldest) {
			goes = append(goes, e)
		}
	}
	return goes
}

// removeParts removes the parts that were freed just now, and older parts that no backup needs.
func (r *Repository) removeParts(ctx context.Context, l *lock, policy Policy, done *Pruned, needed,
	freed map[string]bool) error {
	there, err := r.parts(ctx)
	if err != nil {
		return err
	}
	// The age of a part is measured by the store's clock, which the lock shows.
	now := time.Time{}
	err = r.Store.List(ctx, l.key, func(o objectstore.Object) { now = o.Modified })
	if err != nil {
		return err
	}
	if now.IsZero() {
		return errors.New("the prune was taken for dead: it stops. The next one continues")
	}
	var names []string
	for name, o := range there {
		if !needed[name] && (freed[name] || now.Sub(o.Modified) >= orphanAge) {
			names = append(names, name)
			done.Bytes += o.Size
		}
	}
	done.Parts = len(names)
	if policy.Dry {
		return nil
	}
	return r.deleteAll(ctx, l, names)
}

// deleteAll removes parts, some at a time, as long as the lock holds.
func (r *Repository) deleteAll(ctx context.Context, l *lock, names []string) error {
	for some := range slices.Chunk(names, 256) {
		held, err := l.holds(ctx)
		if err != nil {
			return err
		}
		if !held {
			return errors.New("the prune was taken for dead: it stops. The next one continues")
		}
		failures := make(chan error, atOnce)
		var group sync.WaitGroup
		for i := range atOnce {
			group.Go(func() {
				for at := i; at < len(some); at += atOnce {
					if err := r.Store.Delete(ctx, partKey(some[at])); err != nil {
						failures <- err
						return
					}
				}
			})
		}
		group.Wait()
		close(failures)
		if err := <-failures; err != nil {
			return err
		}
	}
	return nil
}
