package offsite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spindle/internal/objectstore"
)

// An Entry is a line in the list of backups.
type Entry struct {
	ID     string
	At     time.Time
	Backup *Backup // nil: its manifest cannot be read
	Wrong  string  // what is wrong; "": it is complete, by the list of parts
	Locked bool    // it is encrypted with another key
}

// An Underway is a push that is running, or that broke off.
type Underway struct {
	Server, Host string
	Since        time.Time
	Written      time.Time // by the store's clock
}

// List returns all backups, oldest first, and the running pushes. It reads each manifest, and the list of all parts,
// but no part.
//
// Errors: the store's. An incomplete backup is not an error.
func (r *Repository) List(ctx context.Context) (all []Entry, pushes []Underway, err error) {
	// The list of parts is read last. So it has all parts of the manifests that were read before.
	ids, err := r.ids(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		e := Entry{ID: id}
		e.At, _ = time.Parse(idTime, id[:max(0, strings.LastIndexByte(id, '-'))])
		b, err := r.load(ctx, id)
		switch {
		case errors.Is(err, objectstore.ErrMissing):
			continue // a prune has just removed it
		case errors.As(err, new(*KeyError)):
			e.Wrong, e.Locked = err.Error(), true
		case errors.As(err, new(*BrokenError)):
			e.Wrong = err.Error()
		case err != nil:
			return nil, nil, err
		default:
			e.Backup, e.At = b, b.At()
		}
		all = append(all, e)
	}
	there, err := r.parts(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range all {
		if e.Backup != nil {
			all[i].Wrong = lacks(e.Backup, there)
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return a.At.Compare(b.At) })
	err = r.Store.List(ctx, pushFolder, func(o objectstore.Object) {
		pushes = append(pushes, Underway{Host: o.Key, Written: o.Modified})
	})
	for i := range pushes {
		text := r.read(ctx, pushes[i].Host)
		pushes[i].Server, pushes[i].Host, pushes[i].Since = text.Server, text.Host, text.Since
	}
	return all, pushes, err
}

// Find returns the backup whose ID is id or begins with it. For "latest" it returns the newest complete backup of
// server. If server is "", all complete backups must be of one server.
func (r *Repository) Find(ctx context.Context, id, server string) (*Backup, error) {
	if id != "latest" {
		ids, err := r.ids(ctx)
		if err != nil {
			return nil, err
		}
		ids = slices.DeleteFunc(ids, func(has string) bool { return !strings.HasPrefix(has, id) })
		switch len(ids) {
		case 0:
			return nil, fmt.Errorf("%s has no backup %s: spindle backup list shows those that are there", r.Store, id)
		case 1:
			return r.load(ctx, ids[0])
		}
		return nil, fmt.Errorf("%s has several backups that begin so: %s", r.Store, strings.Join(ids, " "))
	}
	all, _, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	var found *Backup
	var over []Entry
	servers := map[string]bool{}
	wrong := ""
	for _, e := range all {
		switch {
		case e.Backup == nil:
			wrong = e.Wrong
		case server != "" && e.Backup.Server != server:
		case e.Wrong != "":
			wrong = fmt.Sprintf("backup %s is not whole: %s", e.ID, e.Wrong)
			over = append(over, e)
		default:
			found, over = e.Backup, nil
			servers[e.Backup.Server] = true
		}
	}
	switch {
	case len(servers) > 1:
		return nil, errors.New("the store has backups of several servers: name one by --name, or a backup by --id")
	case found == nil && wrong != "":
		return nil, fmt.Errorf("%s has no whole backup that can be read: %s", r.Store, wrong)
	case found == nil:
		return nil, fmt.Errorf("%s has no whole backup", r.Store)
	}
	for _, e := range over {
		r.tell("Backup %s is newer, and is passed over: %s.", e.ID, e.Wrong)
	}
	return found, nil
}
