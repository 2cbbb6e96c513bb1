package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"spindle/proxy/plan"
	"spindle/proxy/store"
)

// products returns the names of all products, in order.
func (d *Dashboard) products(ctx context.Context) ([]string, error) {
	entries, _, err := d.store.List(ctx, d.prefix+"/")
	names := []string{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(e.Key, d.prefix+"/"), "/product"); ok &&
			store.CheckName("product", name) == nil {
			names = append(names, name)
		}
	}
	return names, err
}

func (d *Dashboard) listProducts(c *call) (any, error) {
	names, err := d.products(c.ctx)
	return struct {
		Products []string `json:"products"`
	}{names}, err
}

// A newProduct is the body of the request that creates a product.
type newProduct struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`  // "groups" or "cluster"
	Hash  string   `json:"hash"`  // "crc16" (the default) or "crc32"
	Seeds []string `json:"seeds"` // of a cluster
	Label string   `json:"label"`
}

func (d *Dashboard) createProduct(c *call) (any, error) {
	o := c.body.(*newProduct)
	c.product = o.Name
	p := &store.Product{Name: o.Name, Kind: o.Kind, Hash: o.Hash, Seeds: o.Seeds, Label: o.Label, Slots: clusterSlots,
		Created: now()}
	if p.Hash == "" {
		p.Hash = store.HashCRC16
	}
	if p.Hash == store.HashCRC32 {
		p.Slots = 1024
	}
	m := &model{product: *p}
	e := d.edit(m).put(p, "product")
	if p.Kind == store.KindGroups {
		e.put(&store.Slots{Slots: p.Slots, Ranges: []store.Range{}}, "slots")
	}
	if e.err != nil {
		return nil, e.err
	}
	if p.Kind == store.KindCluster {
		if _, err := d.cluster(c.ctx, m); err != nil {
			return nil, failed(http.StatusBadGateway, "failed", "%s", err)
		}
	}
	if _, err := e.commit(c.ctx); err != nil {
		if errors.Is(err, store.ErrConflict) {
			return nil, failed(http.StatusConflict, "exists", "product %s exists already", p.Name)
		}
		return nil, err
	}
	return d.view(c.ctx, p.Name)
}

// now returns the current time for entries, to the millisecond.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// A productView is a product according to its entries, without the state of its servers.
type productView struct {
	Product   store.Product    `json:"product"`
	Groups    []*store.Group   `json:"groups"` // of a product over groups
	Sentinels *store.Sentinels `json:"sentinels,omitempty"`
	Assigned  int              `json:"assigned"` // slots that belong to a group
	Proxies   int              `json:"proxies"`
	Move      *moveView        `json:"move,omitempty"`
	Refused   []string         `json:"refused"` // why entries were refused
}

func (d *Dashboard) view(ctx context.Context, name string) (*productView, error) {
	m, err := d.load(ctx, name)
	if err != nil {
		return nil, err
	}
	v := &productView{Product: m.product, Groups: m.sorted(), Sentinels: m.sentinels, Proxies: len(m.proxies),
		Move: d.moveView(m), Refused: m.problems()}
	if m.slots != nil {
		for _, r := range m.slots.Ranges {
			v.Assigned += r.To - r.From + 1
		}
	}
	return v, nil
}

// problems lists the entries that were refused.
func (m *model) problems() []string {
	list := []string{}
	for _, err := range m.refused {
		list = append(list, err.Error())
	}
	return list
}

func (d *Dashboard) showProduct(c *call) (any, error) { return d.view(c.ctx, c.part("product")) }

// A productChange lists the fields of a product to change. Missing fields stay unchanged.
type productChange struct {
	Label *string   `json:"label"`
	Seeds *[]string `json:"seeds"`
}

func (d *Dashboard) changeProduct(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	o, p := c.body.(*productChange), m.product
	if o.Label != nil {
		p.Label = *o.Label
	}
	if o.Seeds != nil {
		p.Seeds = *o.Seeds
	}
	if _, err := d.edit(m).put(&p, "product").commit(c.ctx); err != nil {
		return nil, err
	}
	return d.view(c.ctx, p.Name)
}

// deleteProduct removes the entries of a product that nothing uses. It touches no server.
func (d *Dashboard) deleteProduct(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	switch {
	case len(m.proxies) > 0:
		return nil, failed(http.StatusConflict, "in_use", "%d proxies are registered", len(m.proxies))
	case len(m.groups) > 0:
		return nil, failed(http.StatusConflict, "in_use", "the product has %d groups: delete them first", len(m.groups))
	case m.underway():
		return nil, failed(http.StatusConflict, "in_use", "a move is under way")
	}
	e := d.edit(m).expect("product").expect("slots").expect("move")
	e.write(store.Write{Key: store.KeyOf(d.prefix, m.product.Name), Delete: true, Prefix: true})
	_, err = e.commit(c.ctx)
	return done{true}, err
}

// done is the reply of requests that have nothing else to show.
type done struct {
	Done bool `json:"done"`
}

// A slotsView is the table of slots.
type slotsView struct {
	Slots    int           `json:"slots"`
	Revision int64         `json:"revision"` // the revision of the table that proxies confirm; 0 for a cluster
	Ranges   []store.Range `json:"ranges"`
}

func (d *Dashboard) showSlots(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	return d.slotsOf(c.ctx, m)
}

// tableRevision returns the revision of the table of slots.
func (m *model) tableRevision(d *Dashboard) int64 {
	return m.revisions[store.KeyOf(d.prefix, m.product.Name, "slots")]
}

// An assignment assigns free slots to groups.
type assignment struct {
	Ranges []struct {
		From  int    `json:"from"`
		To    int    `json:"to"`
		Group string `json:"group"`
	} `json:"ranges"`
	Even bool `json:"even"` // instead: all slots without a group, in equal parts to the groups that do not drain
}

func (d *Dashboard) assignSlots(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	if m.isCluster() {
		return nil, errCluster
	}
	t, err := m.table()
	if err != nil {
		return nil, err
	}
	o := c.body.(*assignment)
	if o.Even == (len(o.Ranges) > 0) {
		return nil, failed(http.StatusBadRequest, "bad_request", "ranges or even are needed, and not both")
	}
	if o.Even {
		err = assignEvenly(t, m)
	}
	for _, r := range o.Ranges {
		if _, missing := m.group(r.Group); missing != nil {
			return nil, missing
		}
		if err = t.Assign(r.From, r.To, r.Group); err != nil {
			break
		}
	}
	if err != nil {
		return nil, failed(http.StatusConflict, "conflict", "%s", err)
	}
	revision, err := d.edit(m).put(t.Entry(), "slots").expect("product").commit(c.ctx)
	return slotsView{len(t), revision, t.Entry().Ranges}, err
}

// errCluster is the reply to a request that only products over groups support.
var errCluster = &failure{http.StatusConflict, "is_cluster",
	"the product is a cluster, which has its own table of slots"}

// assignEvenly assigns the free slots to the groups, in contiguous runs.
func assignEvenly(t plan.Table, m *model) error {
	var takers []string
	for _, g := range m.sorted() {
		if !g.Draining {
			takers = append(takers, g.ID)
		}
	}
	if len(takers) == 0 {
		return errors.New("no group takes slots")
	}
	var free []int
	for slot, c := range t {
		if c.Group == "" {
			free = append(free, slot)
		}
	}
	for i, slot := range free {
		t[slot].Group = takers[i*len(takers)/len(free)]
	}
	return nil
}

// A proxyView is a registered proxy.
type proxyView struct {
	store.Proxy
	Present bool `json:"present"` // the proxy reaches the store
	Current bool `json:"current"` // the proxy has confirmed the newest table of slots
}

func (d *Dashboard) listProxies(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	list := []proxyView{}
	for _, p := range m.proxies {
		list = append(list, proxyView{p, m.isPresent(p), p.Confirmed >= m.tableRevision(d)})
	}
	slices.SortFunc(list, func(a, b proxyView) int { return strings.Compare(a.ID, b.ID) })
	return struct {
		Proxies []proxyView `json:"proxies"`
	}{list}, nil
}

func (m *model) isPresent(p store.Proxy) bool {
	instance, ok := m.present[p.ID]
	return ok && instance == p.Instance
}

// forgetProxy removes the registration of a proxy that is gone. That proxy must not send requests any more, because
// moves no longer wait for it.
func (d *Dashboard) forgetProxy(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	id := c.part("proxy")
	c.detail = id
	for _, p := range m.proxies {
		if p.ID != id {
			continue
		}
		if m.present[id] != "" { // also if the registration is damaged, or of a newer version
			return nil, failed(http.StatusConflict, "in_use", "proxy %s runs: stop it first", id)
		}
		_, err := d.edit(m).remove("proxies", id).commit(c.ctx)
		return done{true}, err
	}
	return nil, failed(http.StatusNotFound, "no_proxy", "there is no proxy %.80q", id)
}
