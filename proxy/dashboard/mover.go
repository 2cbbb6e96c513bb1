package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"spindle/proxy/plan"
	"spindle/proxy/store"
)

// A mover carries out the move of one product. It keeps no state that it needs: after a crash another mover reads the
// state from the store and from the cluster.
//
// dashboard.M1. A step may be repeated: each step begins by reading the state that the last one has left.
// dashboard.M2. Over groups, keys are moved only while their slot migrates. No proxy sends requests to the source then,
// and the target had no key of the slot before. So if both have a key, the target's copy is right, and the source's
// copy is old.
type mover struct {
	d       *Dashboard
	product string
	move    *store.Move
	done    store.Progress // written to the store from time to time
	written time.Time
	read    time.Time       // when move was read
	clean   map[string]bool // marks of targets that had no keys of the slots to receive

	open   map[int]bool // slots of a cluster that may be open
	closed bool         // there are no open slots
}

// batch is the number of slots that change their state together over groups. Requests for these slots wait while the
// proxies confirm, and then for their keys. With evenly spread requests that is less than one in a hundred, so the 99th
// percentile of all requests stays. A smaller batch would cost more, because each batch scans the keys of the source.
const batch = 128

// step carries out the next step of the move. more is false if there is nothing to do.
func (w *mover) step(ctx context.Context) (more bool, err error) {
	m, err := w.d.load(ctx, w.product)
	if errors.Is(err, error(errNoProduct)) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	w.begin(m)
	if m.isCluster() {
		return w.stepCluster(ctx, m)
	}
	if m.move == nil && m.slots != nil && len(m.slots.Ranges) == 0 {
		return false, nil
	}
	t, err := m.table()
	if err != nil {
		if !m.underway() {
			return false, nil // the product's view shows the error
		}
		return true, err
	}
	a := plan.Next(t, w.running(m), batch)
	if a.Deed == plan.Finished {
		return false, w.finish(ctx, m, t, "")
	}
	w.count(t)
	w.done.Slot = a.Slots[0]
	next := plan.NewTable(m.slots)
	switch a.Deed {
	case plan.Begin:
		if err := w.refuseOne(ctx, m, &a); err != nil {
			return true, err
		}
		if err := w.targetHasNone(ctx, m, t, a.Target); err != nil {
			return true, err
		}
		// A proxy that does not keep up would make all others hold requests back.
		if ready, err := w.awaitProxies(ctx, m, true); err != nil || !ready {
			return true, err
		}
		if err = next.Prepare(a.Slots, a.Target); err == nil {
			err = w.write(ctx, m, next, &a)
		}
	case plan.Switch:
		if !w.clean[w.mark(m, a.Target)] {
			// Another dashboard has prepared these slots. A search for leftover keys takes time, and requests must not
			// wait for it.
			if err = next.Abandon(a.Slots); err == nil {
				err = w.write(ctx, m, next, &a)
			}
			return true, err
		}
		confirmed, err := w.awaitProxies(ctx, m, false)
		if err != nil {
			return true, err
		}
		if confirmed {
			err = next.Migrate(a.Slots)
		} else {
			err = next.Abandon(a.Slots) // proxies hold requests for these slots back, which must not last
		}
		if err == nil {
			err = w.commitTable(ctx, m, next, &a)
		}
		return true, err
	case plan.Carry:
		if err := w.carry(ctx, m, &a); err != nil {
			return true, err
		}
		if err = next.Finish(a.Slots); err == nil {
			err = w.write(ctx, m, next, &a)
		}
	case plan.Return:
		if err = next.Abandon(a.Slots); err == nil {
			err = w.write(ctx, m, next, &a)
		}
	}
	return true, err
}

// begin takes over the move in the store, with the progress that the store has of it.
func (w *mover) begin(m *model) {
	if m.move == nil {
		return
	}
	if w.move == nil || w.move.ID != m.move.ID {
		w.done, w.written = store.Progress{Move: m.move.ID, Slot: -1}, time.Time{}
		if m.progress != nil && m.progress.Move == m.move.ID {
			w.done = *m.progress
		}
	}
	w.move, w.read = m.move, time.Now()
}

// refreshTime is how often a move is read again while keys are carried.
const refreshTime = time.Second

// refresh reads the move again, at most once per refreshTime. The slots under way can have keys for hours, and the move
// may get another pace meanwhile. Errors do not matter: the last state of the move stays.
func (w *mover) refresh(ctx context.Context) {
	if w.move == nil || time.Since(w.read) < refreshTime {
		return
	}
	w.read = time.Now()
	var now store.Move
	e, err := w.d.store.Get(ctx, store.KeyOf(w.d.prefix, w.product, "move"))
	if err == nil && store.Decode(e, &now) == nil && now.ID == w.move.ID {
		w.move = &now
	}
}

// running returns the product's move, or nil if it is over.
func (w *mover) running(m *model) *store.Move {
	if !m.underway() {
		return nil
	}
	return m.move
}

// write commits a new table, and clears the problem.
func (w *mover) write(ctx context.Context, m *model, t plan.Table, a *plan.Action) error {
	err := w.commitTable(ctx, m, t, a)
	if err == nil {
		w.report(ctx, "", nil)
	}
	return err
}

// commitTable commits a new table, on condition that the groups of the action are unchanged.
func (w *mover) commitTable(ctx context.Context, m *model, t plan.Table, a *plan.Action) error {
	e := w.d.edit(m).put(t.Entry(), "slots").expect("move").expect("groups", a.Source).expect("groups", a.Target)
	if _, err := e.commit(ctx); err != nil {
		return err
	}
	w.count(t)
	return nil
}

// count updates the number of slots that are done.
func (w *mover) count(t plan.Table) {
	if w.move != nil {
		w.done.Done, w.done.Slots, _ = plan.Done(t, w.move)
	}
}

// reportTime is how often progress is written.
const reportTime = 500 * time.Millisecond

// report writes the progress, at most once per reportTime. It writes at once if the problem or the list of waiting
// proxies has changed. The progress is only for display, so errors do not matter.
func (w *mover) report(ctx context.Context, problem string, waiting []string) {
	same := problem == w.done.Problem && strings.Join(waiting, " ") == strings.Join(w.done.Waiting, " ")
	w.done.Problem, w.done.Waiting = problem, waiting
	if w.move == nil || same && time.Since(w.written) < reportTime {
		return
	}
	if !same && problem != "" {
		w.d.log.Warning("The move of %s waits: %s", w.product, problem)
	}
	w.written = time.Now()
	w.done.Updated = now()
	if value, err := store.Encode(&w.done); err == nil {
		_, _ = w.d.commit(ctx, nil, []store.Write{{Key: store.KeyOf(w.d.prefix, w.product, "progress"), Value: value}})
	}
}

// finish ends a move that has no slots left to move, unless it is paused. problem is shown with the move, unless it is
// empty.
func (w *mover) finish(ctx context.Context, m *model, t plan.Table, problem string) error {
	if !m.underway() || m.move.State == store.MovePaused {
		return nil
	}
	w.done.Slot = -1
	w.count(t)
	if _, _, left := plan.Done(t, m.move); left > 0 && m.move.State == store.MoveRunning {
		problem = fmt.Sprintf("%d slots belong to other groups than the plan says", left)
	}
	return w.end(ctx, m, problem)
}

// end writes to the store that the move is over.
func (w *mover) end(ctx context.Context, m *model, problem string) error {
	over := *m.move
	over.Ended = now()
	if over.State == store.MoveRunning {
		over.State = store.MoveDone
	}
	w.written = time.Time{}
	w.report(ctx, problem, nil)
	if _, err := w.d.edit(m).put(&over, "move").expect("slots").commit(ctx); err != nil {
		return err
	}
	w.d.note(store.Audit{Actor: "dashboard", Action: "move " + over.State, Product: w.product,
		Detail: fmt.Sprintf("%s: %d of %d slots, %d keys", over.ID, w.done.Done, w.done.Slots, w.done.Keys)}, nil)
	return nil
}

// confirmTime is how long proxies may take to confirm a table. Requests for slots in the state "prepare" may wait that
// long.
const confirmTime = 2 * time.Second

// awaitProxies waits until every registered proxy has confirmed the table (plan.T2). If present is true, they must also
// reach the store. It returns false after confirmTime. Then the move's progress names the missing proxies.
func (w *mover) awaitProxies(ctx context.Context, m *model, present bool) (bool, error) {
	revision, root := m.tableRevision(w.d), store.KeyOf(w.d.prefix, w.product, "proxies", "")
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	known, listed := map[string]store.Proxy{}, false
	for c := range w.d.store.Watch(ctx, root, 0) {
		if c.Err != nil {
			return false, c.Err
		}
		if c.Reset {
			clear(known)
		}
		for _, e := range c.Entries {
			id := strings.TrimPrefix(e.Key, root)
			if e.Value == nil {
				delete(known, id)
				continue
			}
			p, err := store.RegistrationOf(e)
			if err != nil {
				p = store.Proxy{ID: id} // it holds the move: it may act on any table
			}
			known[id] = p
		}
		listed = true
		if waitingIn(known, m, revision, present) == nil {
			if !present {
				w.report(ctx, "", nil)
			}
			return true, nil
		}
	}
	again := context.WithoutCancel(ctx)
	waiting := waitingIn(known, m, revision, present)
	if !listed || waiting == nil {
		return false, nil
	}
	w.report(again, "proxies have not confirmed the table: "+strings.Join(waiting, ", "), waiting)
	for _, id := range waiting {
		w.dismiss(again, m, known[id])
	}
	return false, nil
}

// waitingIn returns the sorted IDs of the proxies that have not confirmed a revision. If present is true, it includes
// proxies that do not reach the store.
func waitingIn(known map[string]store.Proxy, m *model, revision int64, present bool) []string {
	list := make([]store.Proxy, 0, len(known))
	for _, p := range known {
		if present && !m.isPresent(p) {
			p.Confirmed = 0
		}
		list = append(list, p)
	}
	ids := plan.Waiting(list, revision)
	slices.Sort(ids)
	return ids
}

// dismiss removes the registration of a proxy whose process is gone: it does not reach the store, and its address
// refuses connections. If it has an admin address that leads to it from here, that refuses them too. The address for
// clients may be a balancer's, and a proxy that ends closes it before its last requests are answered. A proxy that does
// not answer at all may be cut off and still serve clients, so it keeps holding the move. A proxy whose address leads
// to another machine from here holds the move too.
func (w *mover) dismiss(ctx context.Context, m *model, p store.Proxy) {
	if m.isPresent(p) || !isOwnAddress(p.Address, p.Host) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if !refuses(ctx, p.Address) || isOwnAddress(p.Admin, p.Host) && !refuses(ctx, p.Admin) {
		return
	}
	_, err := w.d.edit(m).remove("proxies", p.ID).expect("present", p.ID).commit(ctx)
	w.d.note(store.Audit{Actor: "dashboard", Action: "proxy gone", Product: w.product,
		Detail: p.ID + " refuses connections and does not reach the store"}, err)
}

// refuses reports whether an address refuses connections.
func refuses(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// isOwnAddress reports whether an address of a proxy leads from here to that proxy, which runs on machine. A loopback
// address does so only on the proxy's machine, and an unspecified address never does.
func isOwnAddress(address, machine string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	ip := net.ParseIP(host)
	switch {
	case ip != nil && ip.IsUnspecified():
		return false
	case host == "localhost" || ip != nil && ip.IsLoopback():
		own, err := os.Hostname()
		return err == nil && own == machine
	}
	return true
}

// addresses returns the addresses of the primaries of an action's source and target.
func (w *mover) addresses(m *model, a *plan.Action) (source, target string, err error) {
	from, err := m.group(a.Source)
	if err != nil {
		return "", "", err
	}
	to, err := m.group(a.Target)
	if err != nil {
		return "", "", err
	}
	return from.Primary, to.Primary, nil
}

// mark returns the key of a target in the map clean.
func (w *mover) mark(m *model, target string) string {
	id := ""
	if m.move != nil {
		id = m.move.ID
	}
	if g := m.groups[target]; g != nil {
		target = g.Primary
	}
	return id + " " + target
}

// targetHasNone returns an error if the target holds keys of slots that it is to receive. No proxy asks the target for
// such keys: they are left over from before. MIGRATE could not tell them from keys that it has moved (dashboard.M2).
//
// Once a target was found to have none, it is not checked again, because no proxy writes such keys to it.
func (w *mover) targetHasNone(ctx context.Context, m *model, t plan.Table, target string) error {
	mark := w.mark(m, target)
	if w.clean[mark] {
		return nil
	}
	g, err := m.group(target)
	if err != nil {
		return err
	}
	var slots []int
	for _, s := range m.move.Steps {
		for slot := s.From; s.Target == target && slot <= s.To && slot < len(t); slot++ {
			if t[slot].Group == s.Source && t[slot].State != store.Migrating {
				slots = append(slots, slot)
			}
		}
	}
	l, err := w.d.openPrimary(ctx, g.Primary)
	if err != nil {
		return err
	}
	defer l.close()
	err = l.scan(ctx, inSlots(&m.product, slots), func(db int, keys []string) error {
		slot := m.product.SlotOf([]byte(keys[0]))
		return failed(http.StatusConflict, "left_over",
			"%s holds key %.80q in database %d, which is in slot %d and belongs to group %s: delete it there first",
			g.Primary, keys[0], db, slot, t[slot].Group)
	})
	if err == nil {
		w.clean[mark] = true
	}
	return err
}

// refuseOne returns an error if an action's source and target are one server under two addresses.
func (w *mover) refuseOne(ctx context.Context, m *model, a *plan.Action) error {
	source, target, err := w.addresses(m, a)
	if err != nil {
		return err
	}
	from, err := w.d.openPrimary(ctx, source)
	if err != nil {
		return err
	}
	defer from.close()
	to, err := w.d.openPrimary(ctx, target)
	if err != nil {
		return err
	}
	defer to.close()
	one, err := isOne(from, to)
	if err == nil && one {
		err = failed(http.StatusConflict, "conflict", "%s, the primary of %s, and %s, that of %s, are the same server",
			source, a.Source, target, a.Target)
	}
	return err
}

// isOne reports whether two links lead to the same process.
func isOne(a, b *link) (bool, error) {
	first, err := a.info("server")
	if err != nil {
		return false, err
	}
	second, err := b.info("server")
	return err == nil && first["run_id"] != "" && first["run_id"] == second["run_id"], err
}

// carry moves all keys of the migrating slots from the source to the target.
func (w *mover) carry(ctx context.Context, m *model, a *plan.Action) error {
	source, target, err := w.addresses(m, a)
	if err != nil {
		return err
	}
	l, err := w.d.openPrimary(ctx, source)
	if err != nil {
		return err
	}
	defer l.close()
	to, err := w.d.openPrimary(ctx, target)
	if err != nil {
		return err
	}
	defer to.close()
	if one, err := isOne(l, to); err != nil || one {
		return err // the keys are there already, and there is no older copy
	}
	c := &carrier{w: w, from: l, target: target, old: true}
	if err := l.scan(ctx, inSlots(&m.product, a.Slots), func(db int, keys []string) error {
		return c.move(ctx, db, keys)
	}); err != nil {
		return err
	}
	// If the primary was replaced during the scan, the keys of its successor were not seen.
	if err := to.isPrimary(); err != nil {
		return err
	}
	return l.isPrimary()
}

// inSlots returns a function that reports whether a key is in one of the slots.
func inSlots(p *store.Product, slots []int) func(key string) bool {
	in := make([]bool, p.Slots)
	for _, slot := range slots {
		in[slot] = true
	}
	return func(key string) bool { return in[p.SlotOf([]byte(key))] }
}
