package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"spindle/proxy/plan"
	"spindle/proxy/store"
)

// A groupView is a group of a product, or a shard of a cluster, with the current state of its servers. A shard's ID is
// its primary's node ID.
type groupView struct {
	ID       string       `json:"id"`
	Label    string       `json:"label,omitempty"`
	Primary  string       `json:"primary"`
	Master   string       `json:"master,omitempty"` // its name at the Sentinels
	Draining bool         `json:"draining,omitempty"`
	Slots    int          `json:"slots"`
	Servers  []ServerView `json:"servers"`
}

func (d *Dashboard) listGroups(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	list, err := d.groupViews(c.ctx, m, "")
	return struct {
		Groups []groupView `json:"groups"`
	}{list}, err
}

func (d *Dashboard) showGroup(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	return d.groupView(c.ctx, m, c.part("group"))
}

func (d *Dashboard) groupView(ctx context.Context, m *model, id string) (any, error) {
	list, err := d.groupViews(ctx, m, id)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, failed(http.StatusNotFound, "no_group", "there is no group %.80q", id)
	}
	return list[0], nil
}

// groupViews queries all servers of one group, or of all groups.
func (d *Dashboard) groupViews(ctx context.Context, m *model, only string) ([]groupView, error) {
	list := []groupView{}
	if m.isCluster() {
		v, err := d.cluster(ctx, m)
		if err != nil {
			return nil, err
		}
		for _, s := range v.shards {
			if only != "" && s.primary.id != only {
				continue
			}
			g := groupView{ID: s.primary.id, Primary: s.primary.address}
			for _, r := range s.primary.slots {
				g.Slots += r[1] - r[0] + 1
			}
			for _, n := range append([]*clusterNode{s.primary}, s.replicas...) {
				g.Servers = append(g.Servers, ServerView{Address: n.address, Node: n.id})
			}
			list = append(list, g)
		}
	} else {
		counts := map[string]int{}
		if m.slots != nil {
			for _, owner := range plan.NewTable(m.slots).Owners() {
				counts[owner]++
			}
		}
		for _, g := range m.sorted() {
			if only != "" && g.ID != only {
				continue
			}
			v := groupView{ID: g.ID, Label: g.Label, Primary: g.Primary, Master: g.Master, Draining: g.Draining,
				Slots: counts[g.ID]}
			for _, s := range g.Servers {
				v.Servers = append(v.Servers, ServerView{Address: s.Address, Zone: s.Zone})
			}
			list = append(list, v)
		}
	}
	var addresses []string
	for _, g := range list {
		for _, s := range g.Servers {
			addresses = append(addresses, s.Address)
		}
	}
	looks, at := each(addresses, func(a string) ServerView { return d.dialer.look(ctx, a) }), 0
	for i := range list {
		for j := range list[i].Servers {
			s := &list[i].Servers[j]
			zone, node := s.Zone, s.Node
			*s = looks[at]
			s.Zone, s.Node = zone, node
			at++
		}
	}
	return list, nil
}

// A newGroup is the body of the request that creates a group.
type newGroup struct {
	ID      string         `json:"id"` // of a group; a shard's is its primary's
	Label   string         `json:"label"`
	Primary string         `json:"primary"`
	Servers []store.Server `json:"servers"` // the replicas; the primary may be among them, with its zone
	Master  string         `json:"master"`  // its name at the Sentinels; PRODUCT-ID if it is missing
	Wipe    bool           `json:"wipe"`    // replicas may lose their data
}

func (d *Dashboard) createGroup(c *call) (any, error) {
	d.joins.Lock()
	defer d.joins.Unlock()
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	o := c.body.(*newGroup)
	c.detail = strings.TrimSpace(o.ID + " " + o.Primary)
	if m.isCluster() {
		return d.createShard(c.ctx, m, o)
	}
	g := &store.Group{ID: o.ID, Label: o.Label, Primary: o.Primary, Servers: o.Servers, Master: o.Master}
	if !slices.ContainsFunc(g.Servers, func(s store.Server) bool { return s.Address == g.Primary }) {
		g.Servers = append([]store.Server{{Address: g.Primary}}, g.Servers...)
	}
	if g.Master == "" {
		g.Master = masterName(m.product.Name, g.ID)
	}
	if m.groups[g.ID] != nil {
		return nil, failed(http.StatusConflict, "exists", "group %s exists already", g.ID)
	}
	e := d.edit(m).put(g, "groups", g.ID).keepServers()
	if e.err != nil {
		return nil, e.err
	}
	if err := m.refuseMaster(g.Master); err != nil {
		return nil, err
	}
	if err := d.refuseMasters(c.ctx, m, m.sentinels, g.Master); err != nil {
		return nil, err
	}
	if err := d.checkNew(c.ctx, m, g.Servers); err != nil {
		return nil, err
	}
	if err := d.checkPrimary(c.ctx, g.Primary); err != nil {
		return nil, err
	}
	for _, s := range g.Servers {
		if s.Address != g.Primary {
			if err := d.attach(c.ctx, s.Address, g.Primary, o.Wipe); err != nil {
				return nil, err
			}
		}
	}
	if _, err := e.commit(c.ctx); err != nil {
		return nil, err
	}
	if err := d.monitorAt(c.ctx, m, g); err != nil {
		return nil, fmt.Errorf("the group is created, but not all Sentinels watch it: %w", err)
	}
	m, err = d.load(c.ctx, m.product.Name)
	if err != nil {
		return nil, err
	}
	return d.groupView(c.ctx, m, g.ID)
}

// masterName returns the name of a group at the Sentinels, which watch groups of many products.
func masterName(product, group string) string {
	name := product + "-" + group
	if len(name) > 64 {
		return group
	}
	return name
}

// checkNew refuses new servers of a group that are already there, also under another address. Then two groups would
// have one server, or a group would have one twice. A move between them would take a key at its target for a newer copy
// of the same key, and remove it. If the groups are of two products, a move in one takes the keys of the other.
func (d *Dashboard) checkNew(ctx context.Context, m *model, fresh []store.Server) error {
	of, addresses := map[string]string{}, []string{}
	names, err := d.products(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		product, in := m, ""
		if name != m.product.Name {
			if product, err = d.load(ctx, name); err != nil {
				continue // it is damaged, or was deleted
			}
			in = " of product " + name
		}
		for _, g := range product.sorted() {
			for _, s := range g.Servers {
				of[s.Address] = "a server of group " + g.ID + in
				addresses = append(addresses, s.Address)
			}
		}
	}
	for _, s := range fresh {
		if of[s.Address] != "" {
			return failed(http.StatusConflict, "in_use", "%s is %s", s.Address, of[s.Address])
		}
	}
	for _, s := range fresh {
		of[s.Address] = "new too"
		addresses = append(addresses, s.Address)
	}
	seen := map[string]string{} // addresses by the ID of the process
	for _, v := range each(addresses, func(a string) ServerView { return d.dialer.look(ctx, a) }) {
		if first := seen[v.runID]; first != "" && v.runID != "" && slices.ContainsFunc(fresh,
			func(s store.Server) bool { return s.Address == v.Address }) {
			return failed(http.StatusConflict, "in_use", "%s is the same server as %s, which is %s", v.Address, first, of[first])
		}
		seen[v.runID] = v.Address
	}
	return nil
}

// checkPrimary refuses a server that cannot be a group's primary.
func (d *Dashboard) checkPrimary(ctx context.Context, address string) error {
	l, err := d.dialer.open(ctx, address)
	if err != nil {
		return err
	}
	defer l.close()
	fields, err := l.info()
	if err != nil {
		return err
	}
	if err := unwilling(fields, address, "", true); err != nil {
		return err
	}
	if fields["role"] != "master" {
		return failed(http.StatusConflict, "wrong_server", "%s is a replica, and the group's primary must be none", address)
	}
	return nil
}

// attach makes a server a replica of a group's primary.
func (d *Dashboard) attach(ctx context.Context, address, primary string, wipe bool) error {
	l, err := d.dialer.open(ctx, address)
	if err != nil {
		return err
	}
	defer l.close()
	fields, err := l.info()
	if err != nil {
		return err
	}
	if err := unwilling(fields, address, primary, wipe); err != nil {
		return err
	}
	return l.follow(primary)
}

// A groupChange lists the fields of a group to change. Missing fields stay unchanged.
type groupChange struct {
	Label    *string `json:"label"`
	Master   *string `json:"master"`
	Draining *bool   `json:"draining"`
}

func (d *Dashboard) changeGroup(c *call) (any, error) {
	m, g, err := d.loadGroup(c)
	if err != nil {
		return nil, err
	}
	o, changed := c.body.(*groupChange), *g
	if o.Label != nil {
		changed.Label = *o.Label
	}
	if o.Master != nil {
		changed.Master = cmp.Or(*o.Master, masterName(m.product.Name, g.ID)) // Sentinels take no empty name
	}
	if o.Draining != nil {
		changed.Draining = *o.Draining
		c.detail = fmt.Sprintf("draining %t", changed.Draining)
	}
	e := d.edit(m).put(&changed, "groups", g.ID)
	if changed.Master != g.Master {
		if err := m.refuseMaster(changed.Master); err != nil {
			return nil, err
		}
		if err := d.refuseMasters(c.ctx, m, m.sentinels, changed.Master); err != nil {
			return nil, err
		}
		e.keepServers()
	}
	if _, err := e.commit(c.ctx); err != nil {
		return nil, err
	}
	m.groups[g.ID] = &changed
	if changed.Master != g.Master {
		if err := errors.Join(d.forgetAt(c.ctx, m, g.Master), d.monitorAt(c.ctx, m, &changed)); err != nil {
			return nil, fmt.Errorf("the group is changed, but not all Sentinels watch it: %w", err)
		}
	}
	return d.groupView(c.ctx, m, g.ID)
}

// refuseMaster refuses a name at the Sentinels that another group has. Sentinels would watch one of the two alone.
func (m *model) refuseMaster(name string) error {
	for _, g := range m.sorted() {
		if name != "" && g.Master == name {
			return failed(http.StatusConflict, "in_use", "group %s has the name %s at the Sentinels", g.ID, name)
		}
	}
	return nil
}

// refuseMasters refuses names at Sentinels that groups of other products have there. A Sentinel would watch one of the
// two groups alone, and name its primary for both.
func (d *Dashboard) refuseMasters(ctx context.Context, m *model, at *store.Sentinels, masters ...string) error {
	if at == nil {
		return nil
	}
	names, err := d.products(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == m.product.Name {
			continue
		}
		other, err := d.load(ctx, name)
		if err != nil || other.sentinels == nil || !slices.ContainsFunc(other.sentinels.Addresses, func(a string) bool {
			return slices.Contains(at.Addresses, a)
		}) {
			continue // it is damaged or was deleted, or it has other Sentinels
		}
		for _, g := range other.sorted() {
			if g.Master != "" && slices.Contains(masters, g.Master) {
				return failed(http.StatusConflict, "in_use", "group %s of product %s has the name %s at the Sentinels", g.ID, name,
					g.Master)
			}
		}
	}
	return nil
}

// loadGroup loads the product and the group that the path names.
func (d *Dashboard) loadGroup(c *call) (*model, *store.Group, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, nil, err
	}
	if m.isCluster() {
		return nil, nil, errShards
	}
	g, err := m.group(c.part("group"))
	return m, g, err
}

// errShards is the reply to a request for a property that shards of a cluster do not have.
var errShards = &failure{http.StatusConflict, "is_cluster",
	"the product is a cluster: its shards have no label and no mark"}

// deleteGroup removes a group that has no slots. Its servers keep running.
func (d *Dashboard) deleteGroup(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	if m.isCluster() {
		return d.deleteShard(c.ctx, m, c.part("group"))
	}
	g, err := m.group(c.part("group"))
	if err != nil {
		return nil, err
	}
	t, err := m.table()
	if err != nil {
		return nil, err
	}
	if t.Uses(g.ID) {
		return nil, failed(http.StatusConflict, "in_use", "group %s has slots: drain it first", g.ID)
	}
	if m.underway() && uses(m.move, g.ID) {
		return nil, failed(http.StatusConflict, "in_use", "group %s is part of the move that is under way", g.ID)
	}
	// A proxy with an older table may still move a key out of this group.
	if waiting := plan.Waiting(m.proxies, m.tableRevision(d)); waiting != nil {
		return nil, failed(http.StatusConflict, "in_use", "these proxies have not confirmed the table without group %s: %s",
			g.ID, strings.Join(waiting, ", "))
	}
	e := d.edit(m).remove("groups", g.ID).expect("slots").expect("move").keepServers()
	if _, err := e.commit(c.ctx); err != nil {
		return nil, err
	}
	return done{true}, d.forgetAt(c.ctx, m, g.Master)
}

// A newServer is a server that joins a group as a replica.
type newServer struct {
	Address string `json:"address"`
	Zone    string `json:"zone"`
	Wipe    bool   `json:"wipe"` // the server may lose its data
}

func (d *Dashboard) joinServer(c *call) (any, error) {
	d.joins.Lock()
	defer d.joins.Unlock()
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	o := c.body.(*newServer)
	c.detail = o.Address
	if store.CheckAddress(o.Address) != nil {
		return nil, failed(http.StatusBadRequest, "bad_request", "address %.80q is no host:port", o.Address)
	}
	if m.isCluster() {
		return d.joinShard(c.ctx, m, c.part("group"), o.Address)
	}
	g, err := m.group(c.part("group"))
	if err != nil {
		return nil, err
	}
	fresh := store.Server{Address: o.Address, Zone: o.Zone}
	if err := d.checkNew(c.ctx, m, []store.Server{fresh}); err != nil {
		return nil, err
	}
	changed := *g
	changed.Servers = append(slices.Clone(g.Servers), fresh)
	e := d.edit(m).put(&changed, "groups", g.ID).keepServers()
	if e.err != nil {
		return nil, e.err
	}
	if err := d.checkLeads(c.ctx, m, g); err != nil {
		return nil, err
	}
	if err := d.attach(c.ctx, o.Address, g.Primary, o.Wipe); err != nil {
		return nil, err
	}
	if _, err := e.commit(c.ctx); err != nil {
		return nil, err
	}
	m.groups[g.ID] = &changed
	return d.groupView(c.ctx, m, g.ID)
}

func (d *Dashboard) removeServer(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	address := c.part("server")
	c.detail = address
	if m.isCluster() {
		return d.leaveShard(c.ctx, m, c.part("group"), address)
	}
	g, err := m.group(c.part("group"))
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(g.Servers, func(s store.Server) bool { return s.Address == address })
	switch {
	case at < 0:
		return nil, failed(http.StatusNotFound, "no_server", "group %s has no server %.80q", g.ID, address)
	case address == g.Primary:
		return nil, failed(http.StatusConflict, "in_use", "%s is the primary: promote another server first", address)
	case d.dialer.look(c.ctx, address).Role == "primary" && d.dialer.look(c.ctx, g.Primary).Role != "primary":
		return nil, failed(http.StatusConflict, "in_use",
			"%s is a primary now, and %s is none: it has the group's data, so promote it first", address, g.Primary)
	}
	changed := *g
	changed.Servers = slices.Delete(slices.Clone(g.Servers), at, at+1)
	if _, err := d.edit(m).put(&changed, "groups", g.ID).commit(c.ctx); err != nil {
		return nil, err
	}
	if l, err := d.dialer.open(c.ctx, address); err == nil { // a dead server does not have to know it
		defer l.close()
		if err := l.follow(""); err != nil {
			d.log.Warning("%s left group %s, and still follows its primary: %s", address, g.ID, err)
		}
	}
	m.groups[g.ID] = &changed
	if err := d.forgetReplicaAt(c.ctx, m, &changed, address); err != nil {
		return nil, fmt.Errorf("%s is removed, but not all Sentinels have forgotten it: %w", address, err)
	}
	return d.groupView(c.ctx, m, g.ID)
}

// A serverOrder names a server of a group.
type serverOrder struct {
	Server string `json:"server"`
	Force  bool   `json:"force"` // promote although the primary does not answer: writes that it alone has are lost
}

// promote makes another server of the group its primary.
func (d *Dashboard) promote(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	o := c.body.(*serverOrder)
	c.detail = o.Server
	if m.isCluster() {
		return d.promoteShard(c.ctx, m, c.part("group"), o)
	}
	g, err := m.group(c.part("group"))
	if err != nil {
		return nil, err
	}
	if err := isReplicaOf(g, o.Server); err != nil {
		return nil, err
	}
	if m.sentinels != nil {
		err = d.failOverAt(c.ctx, m, g, o.Server)
	} else {
		err = d.handOver(c.ctx, g, o)
	}
	if err != nil {
		return nil, err
	}
	if m, err = d.writePrimary(c.ctx, m, g, o.Server); err != nil {
		return nil, err
	}
	return d.groupView(c.ctx, m, g.ID)
}

// writePrimary writes a group's new primary to the store, and returns the product with it. If the group has changed
// since it was read, writePrimary reads it again. watchPrimaries may have written the primary, or an operator another
// field.
func (d *Dashboard) writePrimary(ctx context.Context, m *model, g *store.Group, primary string) (*model, error) {
	for old := g.Primary; g.Primary == old; {
		changed := *g
		changed.Primary = primary
		_, err := d.edit(m).put(&changed, "groups", g.ID).commit(ctx)
		if err == nil {
			m.groups[g.ID] = &changed
			return m, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
		if held, _, _ := d.lead.now(); held == nil {
			return nil, store.ErrLost
		}
		if m, err = d.load(ctx, m.product.Name); err != nil {
			return nil, err
		}
		if g, err = m.group(g.ID); err != nil {
			return nil, err
		}
	}
	if g.Primary != primary {
		return nil, failed(http.StatusConflict, "changed", "%s is a primary now, and group %s has got %s meanwhile", primary,
			g.ID, g.Primary)
	}
	return m, nil
}

func isReplicaOf(g *store.Group, server string) error {
	switch {
	case server == g.Primary:
		return failed(http.StatusConflict, "conflict", "%s is the primary of group %s", server, g.ID)
	case !slices.ContainsFunc(g.Servers, func(s store.Server) bool { return s.Address == server }):
		return failed(http.StatusNotFound, "no_server", "group %s has no server %.80q", g.ID, server)
	}
	return nil
}

// handoverTime is how long a primary may pause writes until its replica has all of them.
const handoverTime = 10 * time.Second

// handOver makes a server the group's primary. If the old primary answers, it hands over without loss (FAILOVER).
func (d *Dashboard) handOver(ctx context.Context, g *store.Group, o *serverOrder) error {
	ctx, cancel := context.WithTimeout(ctx, 3*handoverTime)
	defer cancel()
	next, err := d.dialer.open(ctx, o.Server)
	if err != nil {
		return err
	}
	defer next.close()
	if old, err := d.dialer.open(ctx, g.Primary); err == nil {
		defer old.close()
		host, port, err := net.SplitHostPort(o.Server)
		if err != nil {
			return err
		}
		if _, err := old.ask("FAILOVER", "TO", host, port, "TIMEOUT", handoverTime.Milliseconds()); err != nil {
			return err
		}
	} else if !o.Force {
		return failed(http.StatusConflict, "primary_down",
			"the primary does not answer (%s): with force, writes that %s does not have are lost", err, o.Server)
	} else if err := next.follow(""); err != nil {
		return err
	}
	for {
		v, err := next.ask("ROLE")
		if err != nil {
			return err
		}
		if len(v.Elems) > 0 && v.Elems[0].Text == "master" {
			break
		}
		if old := d.dialer.look(ctx, g.Primary); old.Role == "primary" {
			fields := map[string]string{}
			if l, err := d.dialer.open(ctx, g.Primary); err == nil {
				fields, _ = l.info("replication")
				l.close()
			}
			if fields["master_failover_state"] == "no-failover" && fields["role"] == "master" {
				return failed(http.StatusConflict, "failed", "%s has not handed over to %s: is its link up?", g.Primary, o.Server)
			}
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	for _, s := range g.Servers {
		if s.Address == o.Server || s.Address == g.Primary && !o.Force {
			continue
		}
		if err := d.repoint(ctx, s.Address, o.Server); err != nil {
			d.log.Warning("%s does not follow the new primary of group %s: %s", s.Address, g.ID, err)
		}
	}
	return nil
}

// repoint makes a server follow another primary.
func (d *Dashboard) repoint(ctx context.Context, server, primary string) error {
	l, err := d.dialer.open(ctx, server)
	if err != nil {
		return err
	}
	defer l.close()
	return l.follow(primary)
}

// wait returns nil after a time, or the error of ctx.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// resync points a replica at its group's primary again.
func (d *Dashboard) resync(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	o := c.body.(*serverOrder)
	c.detail = o.Server
	if m.isCluster() {
		return d.resyncShard(c.ctx, m, c.part("group"), o.Server)
	}
	g, err := m.group(c.part("group"))
	if err != nil {
		return nil, err
	}
	if err := isReplicaOf(g, o.Server); err != nil {
		return nil, err
	}
	if err := d.checkLeads(c.ctx, m, g); err != nil {
		return nil, err
	}
	if err := d.repoint(c.ctx, o.Server, g.Primary); err != nil {
		return nil, err
	}
	return d.groupView(c.ctx, m, g.ID)
}

// checkLeads refuses to make servers follow a group's primary if it is no primary now. After a failover that the store
// does not have yet, the next primary would copy the old one, and lose its writes since.
func (d *Dashboard) checkLeads(ctx context.Context, m *model, g *store.Group) error {
	now := d.dialer.look(ctx, g.Primary)
	if now.Role != "primary" {
		return failed(http.StatusConflict, "primary_down", "%s, the primary of group %s by the store, is none now: %s %s",
			g.Primary, g.ID, now.Role, now.Problem)
	}
	if m.sentinels == nil {
		return nil
	}
	if next := d.askSentinels(ctx, m, g); next != "" && next != g.Primary {
		return failed(http.StatusConflict, "changed", "the Sentinels say that %s is the primary of group %s, and not %s",
			next, g.ID, g.Primary)
	}
	return nil
}

// watchPrimaries updates the entries of groups after failovers. Each second it checks the primaries. If a primary does
// not answer, watchPrimaries asks the Sentinels.
func (d *Dashboard) watchPrimaries(ctx context.Context) {
	for wait(ctx, time.Second) == nil {
		names, err := d.products(ctx)
		if err != nil {
			continue // the next round tries again, and the campaign reports the outage
		}
		for _, name := range names {
			m, err := d.load(ctx, name)
			if err != nil || m.isCluster() {
				continue
			}
			groups := m.sorted()
			found := each(ids(groups), func(id string) string { return d.primaryOf(ctx, m, m.groups[id]) })
			for i, g := range groups {
				if found[i] == "" || found[i] == g.Primary {
					continue
				}
				changed := *g
				changed.Primary = found[i]
				_, err := d.edit(m).put(&changed, "groups", g.ID).commit(ctx)
				d.note(store.Audit{Actor: "dashboard", Action: "primary changed", Product: name,
					Detail: fmt.Sprintf("group %s: %s instead of %s", g.ID, found[i], g.Primary)}, err)
			}
		}
	}
}

func ids(groups []*store.Group) (list []string) {
	for _, g := range groups {
		list = append(list, g.ID)
	}
	return list
}

// primaryOf returns the server that is now the primary of a group. It returns "" if that is unknown.
func (d *Dashboard) primaryOf(ctx context.Context, m *model, g *store.Group) string {
	now := d.dialer.look(ctx, g.Primary)
	next := ""
	switch {
	case now.Role == "primary" && m.sentinels == nil:
		return g.Primary
	case now.Role == "replica":
		next = now.Primary
	case m.sentinels != nil:
		next = d.askSentinels(ctx, m, g)
	}
	if next == "" || next == g.Primary || isReplicaOf(g, next) != nil {
		return ""
	}
	if d.dialer.look(ctx, next).Role != "primary" {
		return ""
	}
	return next
}
