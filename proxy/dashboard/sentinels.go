package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"spindle/proxy/store"
)

// A sentinelView is the current state of a Sentinel.
type sentinelView struct {
	Address string            `json:"address"`
	Problem string            `json:"problem,omitempty"`
	Watches map[string]string `json:"watches"` // the group's ID → its primary's address, according to this Sentinel
}

// A sentinelsView describes the Sentinels that watch the groups.
type sentinelsView struct {
	Quorum    int            `json:"quorum"`
	Sentinels []sentinelView `json:"sentinels"`
}

func (d *Dashboard) showSentinels(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	return d.sentinelsView(c.ctx, m), nil
}

func (d *Dashboard) sentinelsView(ctx context.Context, m *model) sentinelsView {
	v := sentinelsView{Sentinels: []sentinelView{}}
	if m.sentinels == nil {
		return v
	}
	v.Quorum = m.sentinels.Quorum
	v.Sentinels = each(m.sentinels.Addresses, func(address string) sentinelView {
		s := sentinelView{Address: address, Watches: map[string]string{}}
		l, err := d.dialer.openSentinel(ctx, address)
		if err != nil {
			s.Problem = err.Error()
			return s
		}
		defer l.close()
		for _, g := range m.sorted() {
			primary, err := l.primaryOf(g.Master)
			if err != nil {
				s.Problem = err.Error()
			} else if primary != "" {
				s.Watches[g.ID] = primary
			}
		}
		return s
	})
	return v
}

// primaryOf asks a Sentinel for the address of a primary. It returns "" if the Sentinel watches no primary of that
// name.
func (l *link) primaryOf(master string) (string, error) {
	v, err := l.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master)
	if err != nil || len(v.Elems) != 2 {
		return "", err
	}
	return net.JoinHostPort(v.Elems[0].Text, v.Elems[1].Text), nil
}

// A sentinelsOrder names the Sentinels of a product.
type sentinelsOrder struct {
	Addresses []string `json:"addresses"`
	Quorum    int      `json:"quorum"` // 0 means more than half
}

// setSentinels makes Sentinels watch every group.
func (d *Dashboard) setSentinels(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	if m.isCluster() {
		return nil, failed(http.StatusConflict, "is_cluster", "a cluster needs no Sentinels")
	}
	o := c.body.(*sentinelsOrder)
	c.detail = strings.Join(o.Addresses, " ")
	s := &store.Sentinels{Addresses: o.Addresses, Quorum: o.Quorum}
	if s.Quorum == 0 {
		s.Quorum = len(s.Addresses)/2 + 1
	}
	e := d.edit(m).put(s, "sentinels")
	if e.err != nil {
		return nil, e.err
	}
	var masters []string
	for _, g := range m.groups {
		masters = append(masters, g.Master)
	}
	if err := d.refuseMasters(c.ctx, m, s, masters...); err != nil {
		return nil, err
	}
	if _, err := e.commit(c.ctx); err != nil {
		return nil, err
	}
	var problems []error
	if m.sentinels != nil { // those that are left out could still fail over
		out := *m
		out.sentinels = &store.Sentinels{Addresses: slices.DeleteFunc(slices.Clone(m.sentinels.Addresses),
			func(a string) bool { return slices.Contains(s.Addresses, a) })}
		for _, g := range m.sorted() {
			problems = append(problems, d.forgetAt(c.ctx, &out, g.Master))
		}
	}
	m.sentinels = s
	for _, g := range m.sorted() {
		problems = append(problems, d.monitorAt(c.ctx, m, g))
	}
	return d.sentinelsView(c.ctx, m), errors.Join(problems...)
}

// removeSentinels makes the Sentinels forget the groups.
func (d *Dashboard) removeSentinels(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	if m.sentinels == nil {
		return nil, failed(http.StatusNotFound, "no_sentinels", "the product has no Sentinels")
	}
	if _, err := d.edit(m).remove("sentinels").commit(c.ctx); err != nil {
		return nil, err
	}
	var problems []error
	for _, g := range m.sorted() {
		problems = append(problems, d.forgetAt(c.ctx, m, g.Master))
	}
	return done{true}, errors.Join(problems...)
}

// monitorAt makes every Sentinel of the product watch a group. A Sentinel that watches the group already only gets the
// quorum.
func (d *Dashboard) monitorAt(ctx context.Context, m *model, g *store.Group) error {
	return d.atSentinels(ctx, m, func(l *link) error {
		now, err := l.primaryOf(g.Master)
		if err != nil {
			return err
		}
		if now != "" {
			_, err := l.ask("SENTINEL", "SET", g.Master, "quorum", m.sentinels.Quorum)
			return err
		}
		host, port, err := net.SplitHostPort(g.Primary)
		if err != nil {
			return err
		}
		if _, err := l.ask("SENTINEL", "MONITOR", g.Master, host, port, m.sentinels.Quorum); err != nil {
			return err
		}
		if d.dialer.user != "" {
			if _, err := l.ask("SENTINEL", "SET", g.Master, "auth-user", d.dialer.user); err != nil {
				return err
			}
		}
		if d.dialer.password != "" {
			_, err = l.ask("SENTINEL", "SET", g.Master, "auth-pass", d.dialer.password)
		}
		return err
	})
}

// forgetAt makes every Sentinel of the product forget a group.
func (d *Dashboard) forgetAt(ctx context.Context, m *model, master string) error {
	return d.atSentinels(ctx, m, func(l *link) error {
		now, err := l.primaryOf(master)
		if err == nil && now != "" {
			_, err = l.ask("SENTINEL", "REMOVE", master)
		}
		return err
	})
}

// forgetReplicaAt has every Sentinel of the product forget a server that has left a group. It would be made a replica
// again. While it counts as one, it may also prevent failovers of a primary whose replies wait for replicas.
//
// Sentinels then know only the replicas that the primary names. So the primary must be well, and all its other replicas
// must have their links: one that has none may have confirmed writes. The Sentinels also forget each other. They hear
// of each other within two seconds, and meanwhile none of them can be elected by less than the quorum.
func (d *Dashboard) forgetReplicaAt(ctx context.Context, m *model, g *store.Group, server string) error {
	if m.sentinels == nil {
		return nil
	}
	if d.dialer.look(ctx, g.Primary).Role != "primary" { // a failover that the store does not show
		return fmt.Errorf("%s is no primary", g.Primary)
	}
	for _, s := range g.Servers {
		if s.Address != g.Primary && d.dialer.look(ctx, s.Address).Link != "up" {
			return fmt.Errorf("replica %s has no link", s.Address)
		}
	}
	if err := d.awaitUnnamed(ctx, g.Primary, server); err != nil {
		return err
	}
	return d.atSentinels(ctx, m, func(l *link) error {
		v, err := l.ask("SENTINEL", "MASTER", g.Master)
		if err != nil {
			return err
		}
		if flags, _ := v.Get("flags"); flags.Word() != "master" {
			return fmt.Errorf("%s: the primary is %s", l.address, flags.Word())
		}
		_, err = l.ask("SENTINEL", "RESET", g.Master)
		return err
	})
}

// awaitUnnamed waits until a primary does not name a server as its replica.
func (d *Dashboard) awaitUnnamed(ctx context.Context, primary, server string) error {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return err
	}
	l, err := d.dialer.open(ctx, primary)
	if err != nil {
		return err
	}
	defer l.close()
	for end := time.Now().Add(3 * time.Second); ; {
		v, err := l.ask("INFO", "replication")
		if err != nil || !strings.Contains(v.Text, ":ip="+host+",port="+port+",") {
			return err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil || time.Now().After(end) {
			return errors.Join(err, fmt.Errorf("%s still names it as a replica", primary))
		}
	}
}

// atSentinels runs f at every Sentinel of the product, and joins the errors.
func (d *Dashboard) atSentinels(ctx context.Context, m *model, f func(l *link) error) error {
	if m.sentinels == nil {
		return nil
	}
	return errors.Join(each(m.sentinels.Addresses, func(address string) error {
		l, err := d.dialer.openSentinel(ctx, address)
		if err != nil {
			return err
		}
		defer l.close()
		return f(l)
	})...)
}

// askSentinels returns the primary on which a quorum of Sentinels agrees. It returns "" if there is no such quorum.
func (d *Dashboard) askSentinels(ctx context.Context, m *model, g *store.Group) string {
	votes := map[string]int{}
	for _, primary := range each(m.sentinels.Addresses, func(address string) string {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		l, err := d.dialer.openSentinel(ctx, address)
		if err != nil {
			return ""
		}
		defer l.close()
		primary, _ := l.primaryOf(g.Master)
		return primary
	}) {
		votes[primary]++
	}
	for primary, n := range votes {
		if primary != "" && n > len(m.sentinels.Addresses)/2 {
			return primary
		}
	}
	return ""
}

// preferred is a replica-priority that is better than the default of 100.
const preferred = 1

// failOverAt makes a Sentinel fail over to server. During the failover, server has the best priority.
func (d *Dashboard) failOverAt(ctx context.Context, m *model, g *store.Group, server string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	old, err := d.dialer.once(ctx, server, "CONFIG", "GET", "replica-priority")
	if err != nil {
		return err
	}
	priority, _ := old.Get("replica-priority")
	if _, err := d.dialer.once(ctx, server, "CONFIG", "SET", "replica-priority", preferred); err != nil {
		return err
	}
	defer func() { // on a new connection: a Sentinel closes those of a server that it promotes
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // also if the failover took too long
		defer cancel()
		if _, err := d.dialer.once(ctx, server, "CONFIG", "SET", "replica-priority", priority.Word()); err != nil {
			d.log.Warning("replica-priority of %s stays %d: %s", server, preferred, err)
		}
	}()
	// Sentinels read the priority from INFO every ten seconds, so their first choice may be another replica.
	var refused error
	for _, address := range m.sentinels.Addresses {
		s, err := d.dialer.openSentinel(ctx, address)
		if err != nil {
			refused = err
			continue
		}
		if err := awaitPriority(ctx, s, g.Master, server); err == nil {
			_, err = s.ask("SENTINEL", "FAILOVER", g.Master)
			refused = err
		} else {
			refused = err
		}
		s.close()
		if refused == nil {
			break
		}
	}
	if refused != nil {
		return refused
	}
	// While most Sentinels still name the old primary, watchPrimaries would give the group back to it.
	for {
		if d.dialer.look(ctx, server).Role == "primary" && d.askSentinels(ctx, m, g) != g.Primary {
			return nil
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return failed(http.StatusGatewayTimeout, "failed", "the Sentinels have not made %s the primary", server)
		}
	}
}

// awaitPriority waits until a Sentinel has read the priority of a replica.
func awaitPriority(ctx context.Context, s *link, master, server string) error {
	for {
		v, err := s.ask("SENTINEL", "REPLICAS", master)
		if err != nil {
			return err
		}
		for _, r := range v.Elems {
			host, _ := r.Get("ip")
			port, _ := r.Get("port")
			if p, _ := r.Get("slave-priority"); net.JoinHostPort(host.Word(), port.Word()) == server && p.Word() == "1" {
				return nil
			}
		}
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return failed(http.StatusGatewayTimeout, "failed", "the Sentinel does not see %s with its new priority", server)
		}
	}
}
