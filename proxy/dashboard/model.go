package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"spindle/proxy/plan"
	"spindle/proxy/store"
)

// A model holds the entries of one product, as they are in the store at one revision.
type model struct {
	product   store.Product
	groups    map[string]*store.Group
	sentinels *store.Sentinels
	slots     *store.Slots
	proxies   []store.Proxy
	present   map[string]string // proxies' IDs and instances
	move      *store.Move
	progress  *store.Progress

	revisions map[string]int64 // of every entry, by its key
	refused   []error          // the errors of refused entries
}

// errNoProduct is the reply to a request for a product that does not exist.
var errNoProduct = &failure{http.StatusNotFound, "no_product", "there is no such product"}

// load reads a product. Errors: errNoProduct; a damaged entry of the product itself; errors of the store.
func (d *Dashboard) load(ctx context.Context, name string) (*model, error) {
	if store.CheckName("product", name) != nil {
		return nil, errNoProduct
	}
	root := store.KeyOf(d.prefix, name)
	entries, _, err := d.store.List(ctx, root)
	if err != nil {
		return nil, err
	}
	m := &model{groups: map[string]*store.Group{}, present: map[string]string{}, revisions: map[string]int64{}}
	for _, e := range entries {
		m.revisions[e.Key] = e.Revision
		if err := m.take(e, strings.TrimPrefix(e.Key, root)); err != nil {
			m.refused = append(m.refused, err)
		}
	}
	switch {
	case m.product.Name == name:
		return m, nil
	case m.revisions[root+"product"] == 0:
		return nil, errNoProduct
	}
	return nil, errors.Join(append(m.refused, errors.New("the product's entry is about another one"))...)
}

// take decodes one entry by its name below the product.
func (m *model) take(e store.Entry, name string) error {
	kind, id, _ := strings.Cut(name, "/")
	switch kind {
	case "product":
		return store.Decode(e, &m.product)
	case "groups":
		g := &store.Group{}
		err := store.Decode(e, g)
		if err == nil && g.ID != id {
			err = &store.EntryError{Key: e.Key, Reason: "it is about another group"}
		}
		if err == nil {
			m.groups[id] = g
		}
		return err
	case "sentinels":
		return decodeInto(e, &m.sentinels)
	case "slots":
		return decodeInto(e, &m.slots)
	case "move":
		return decodeInto(e, &m.move)
	case "progress":
		return decodeInto(e, &m.progress)
	case "proxies":
		p, err := store.RegistrationOf(e)
		if err != nil {
			p = store.Proxy{ID: id} // it holds moves, because its confirmed revision is unknown
		}
		m.proxies = append(m.proxies, p)
		return err
	case "present":
		var p store.Presence
		err := store.Decode(e, &p)
		if err == nil {
			m.present[p.ID] = p.Instance
		}
		return err
	}
	return &store.EntryError{Key: e.Key, Reason: "no such entry is known"}
}

// decodeInto decodes an entry of a kind that a product has once. It leaves *into nil after an error.
func decodeInto[T any, P interface {
	*T
	store.Checked
}](e store.Entry, into **T) error {
	v := new(T)
	err := store.Decode(e, P(v))
	if err == nil {
		*into = v
	}
	return err
}

// isCluster reports whether the product is a cluster.
func (m *model) isCluster() bool { return m.product.Kind == store.KindCluster }

// table returns the slots of a product over groups. Errors: the entry of the slots is damaged or missing.
func (m *model) table() (plan.Table, error) {
	if m.slots == nil || m.slots.Slots != m.product.Slots {
		return nil,
			errors.Join(append(slices.Clone(m.refused), errors.New("the product's table of slots is missing or damaged"))...)
	}
	t := plan.NewTable(m.slots)
	for slot, c := range t {
		for _, id := range []string{c.Group, c.Target} {
			if id != "" && m.groups[id] == nil {
				return nil, errors.Join(append(slices.Clone(m.refused),
					failed(http.StatusConflict, "damaged", "slot %d names group %s, which is missing or damaged", slot, id))...)
			}
		}
	}
	return t, nil
}

// group finds a group.
func (m *model) group(id string) (*store.Group, error) {
	if g := m.groups[id]; g != nil {
		return g, nil
	}
	return nil, failed(http.StatusNotFound, "no_group", "there is no group %.80q", id)
}

// sorted returns the groups by ID.
func (m *model) sorted() []*store.Group {
	list := make([]*store.Group, 0, len(m.groups))
	for _, g := range m.groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *store.Group) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// An edit is the set of writes of one commit to a product's entries. The commit fails if one of these entries has
// changed since the model was read.
type edit struct {
	d          *Dashboard
	m          *model
	conditions []store.Condition
	writes     []store.Write
	err        error
}

func (d *Dashboard) edit(m *model) *edit { return &edit{d: d, m: m} }

func (e *edit) key(parts ...string) string {
	return store.KeyOf(e.d.prefix, e.m.product.Name, parts...)
}

// put writes an entry.
func (e *edit) put(v store.Checked, parts ...string) *edit {
	value, err := store.Encode(v)
	if err != nil && e.err == nil {
		e.err = failed(http.StatusBadRequest, "bad_request", "%s", err)
	}
	return e.expect(parts...).write(store.Write{Key: e.key(parts...), Value: value})
}

// remove deletes an entry.
func (e *edit) remove(parts ...string) *edit {
	return e.expect(parts...).write(store.Write{Key: e.key(parts...), Delete: true})
}

// expect makes the edit fail if an entry has changed since the model was read.
func (e *edit) expect(parts ...string) *edit {
	key := e.key(parts...)
	e.conditions = append(e.conditions, store.Condition{Key: key, Revision: e.m.revisions[key]})
	return e
}

// keepServers is part of each edit that adds or removes groups or servers. It writes the product's entry again. So no
// two such edits of one model succeed, and no edit that expects that entry unchanged. Conditions on every group instead
// would be too many for etcd, which allows 128.
func (e *edit) keepServers() *edit { return e.put(&e.m.product, "product") }

func (e *edit) write(w store.Write) *edit {
	e.writes = append(e.writes, w)
	return e
}

// commit commits the edit if this dashboard leads (dashboard.L1).
func (e *edit) commit(ctx context.Context) (revision int64, err error) {
	if e.err != nil {
		return 0, e.err
	}
	held, _, _ := e.d.lead.now()
	if held == nil {
		return 0, store.ErrLost
	}
	return e.d.store.Commit(ctx, append(e.conditions, held.Condition), e.writes)
}
