package store

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"
)

// errCompacted ends a stream if the store no longer has its next revision.
var errCompacted = errors.New("the store no longer has the changes since the last one seen")

// quiet is how long a stream may be silent before the watcher compares its state with a list. A connection that broke
// silently looks like a connection without events.
const quiet = 10 * time.Second

// A source is the part of a store that a watcher needs.
type source interface {
	List(ctx context.Context, prefix string) ([]Entry, int64, error)
	// stream calls told for each group of changes from revision from. It calls heard whenever the store answers. It
	// returns when the stream ends. Errors: errCompacted, also if the store's revision is lower than from - 1.
	stream(ctx context.Context, prefix string, from int64, heard func(), told func([]Entry, int64)) error
}

// A watcher turns lists and streams into one sequence of changes (store.S3).
type watcher struct {
	source source
	prefix string
	out    chan Change
	known  map[string]int64 // the revision of each reported key; nil before the first list
	seen   int64            // the last reported revision
	down   bool             // the outage has been reported
}

// watch starts a watcher. Lifetime: until ctx ends.
func watch(ctx context.Context, s source, prefix string, from int64) <-chan Change {
	w := &watcher{source: s, prefix: prefix, out: make(chan Change), seen: from}
	go w.run(ctx)
	return w.out
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.out)
	list, failures := w.seen == 0, 0
	for ctx.Err() == nil {
		if list {
			if err := w.list(ctx); err != nil {
				w.fail(ctx, err)
				pause(ctx, failures)
				failures++
				continue
			}
		}
		began := time.Now()
		err := w.stream(ctx)
		if time.Since(began) > time.Second {
			failures = 0 // the stream had worked
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errCompacted), errors.Is(err, errQuiet):
			list = true
		default:
			list = failures > 0 // the stream may be refused although lists are answered
			w.fail(ctx, err)
			pause(ctx, failures)
			failures++
		}
	}
}

var errQuiet = errors.New("the stream was silent")

// stream reads one stream to its end.
func (w *watcher) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(jitter(quiet), func() { cancel(errQuiet) })
	defer timer.Stop()
	err := w.source.stream(ctx, w.prefix, w.seen+1, func() { w.down = false }, func(entries []Entry, revision int64) {
		w.down = false
		timer.Reset(jitter(quiet))
		for _, e := range entries {
			if w.known != nil && e.Value != nil {
				w.known[e.Key] = e.Revision
			} else if w.known != nil {
				delete(w.known, e.Key)
			}
		}
		w.seen = max(w.seen, revision)
		w.tell(ctx, Change{Entries: entries, Revision: w.seen})
	})
	if cause := context.Cause(ctx); errors.Is(cause, errQuiet) {
		return errQuiet
	}
	return err
}

// list sends all entries as a Reset, unless they are the known ones. It also sends known entries if the store's
// revision is lower than before.
func (w *watcher) list(ctx context.Context) error {
	entries, revision, err := w.source.List(ctx, w.prefix)
	if err != nil {
		return err
	}
	w.down = false
	now := make(map[string]int64, len(entries))
	for _, e := range entries {
		now[e.Key] = e.Revision
	}
	same := w.known != nil && maps.Equal(w.known, now) && revision >= w.seen
	w.known, w.seen = now, revision
	if !same {
		w.tell(ctx, Change{Reset: true, Entries: entries, Revision: revision})
	}
	return nil
}

// fail reports an outage, once.
func (w *watcher) fail(ctx context.Context, err error) {
	if err == nil || w.down {
		return
	}
	w.down = true
	w.tell(ctx, Change{Err: err, Revision: w.seen})
}

func (w *watcher) tell(ctx context.Context, c Change) {
	select {
	case w.out <- c:
	case <-ctx.Done():
	}
}

// jitter returns a random time between 3/4 and 5/4 of d, so that many processes do not act at the same moment.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(rand.Int64N(int64(d)/2+1))
}
