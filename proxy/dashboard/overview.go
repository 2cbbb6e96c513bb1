package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"spindle/internal/reason"
	"spindle/proxy/plan"
	"spindle/proxy/store"
)

// An overview is the whole state of a product at one moment, for the page.
type overview struct {
	At      int64         `json:"at"` // Unix time in ms
	Product store.Product `json:"product"`
	Slots   *slotsView    `json:"slots,omitempty"`
	Groups  []groupView   `json:"groups"`
	Proxies []proxySight  `json:"proxies"`
	Servers []serverSight `json:"servers"` // servers that a proxy has called
	Move    *moveView     `json:"move,omitempty"`
	Refused []string      `json:"refused"` // why entries were refused
	Problem string        `json:"problem,omitempty"`
}

// A proxySight is a registered proxy with its figures.
type proxySight struct {
	proxyView
	Clients  int64    `json:"clients"`
	Owed     int64    `json:"owed"`     // replies that clients wait for
	Failures float64  `json:"failures"` // a second: calls that no server answered
	Retries  float64  `json:"retries"`  // a second
	Traffic  *traffic `json:"traffic,omitempty"`
	Problem  string   `json:"problem,omitempty"` // why the proxy has no figures
}

// A serverSight is the sum of the figures that all proxies have measured of a server.
type serverSight struct {
	Address string `json:"address"`
	traffic
}

// sights holds a sight for each product that is open in a page: the last overview, and the last samples of the proxies.
//
// dashboard.S1. All pages of a product share one overview that is not older than sightFresh.
// dashboard.S2. A sight can be lost at any time: it only holds the previous samples, from which rates are computed.
type sights struct {
	mu sync.Mutex
	of map[string]*sight
}

type sight struct {
	asked   time.Time // under the lock of sights
	mu      sync.Mutex
	last    *overview
	made    time.Time
	samples map[string]*sample // by the proxy's ID
}

const (
	sightFresh = 400 * time.Millisecond
	sightKept  = time.Minute // how long a sight is kept without a request
	// sightTime is how long a server or a proxy may take to answer. The page must show a hanging server within 3 s.
	sightTime = 1500 * time.Millisecond
)

// get returns the sight of a product.
func (s *sights) get(product string) *sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]*sight{}
	}
	for name, other := range s.of {
		if time.Since(other.asked) > sightKept {
			delete(s.of, name)
		}
	}
	if s.of[product] == nil {
		s.of[product] = &sight{samples: map[string]*sample{}}
	}
	s.of[product].asked = time.Now()
	return s.of[product]
}

// showOverview replies with the whole state of a product. Errors of servers and proxies are part of the reply.
func (d *Dashboard) showOverview(c *call) (any, error) {
	name := c.part("product")
	if store.CheckName("product", name) != nil {
		return nil, errNoProduct
	}
	s := d.sights.get(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && time.Since(s.made) < sightFresh {
		return s.last, nil
	}
	// Other requests share this overview, so it is completed even if this client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 4*sightTime)
	defer cancel()
	v, err := d.overview(ctx, name, s)
	s.last, s.made = v, time.Now()
	return v, err
}

// overview reads the state of a product. It queries the servers and the proxies at the same time.
func (d *Dashboard) overview(ctx context.Context, name string, s *sight) (*overview, error) {
	m, err := d.load(ctx, name)
	if err != nil {
		return nil, err
	}
	v := &overview{At: time.Now().UnixMilli(), Product: m.product, Groups: []groupView{}, Proxies: []proxySight{},
		Servers: []serverSight{}, Move: d.moveView(m), Refused: m.problems()}
	looking, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	var asked sync.WaitGroup
	var noGroups, noSlots error
	asked.Go(func() { v.Groups, noGroups = d.groupViews(looking, m, "") })
	asked.Go(func() { v.Slots, noSlots = d.slotsOf(looking, m) })
	asked.Go(func() { d.sightProxies(looking, m, v, s) })
	asked.Wait()
	if v.Groups == nil {
		v.Groups = []groupView{}
	}
	for _, err := range []error{noGroups, noSlots} {
		if err != nil {
			v.Problem = err.Error()
		}
	}
	return v, nil
}

// slotsOf returns the table of slots.
func (d *Dashboard) slotsOf(ctx context.Context, m *model) (*slotsView, error) {
	if !m.isCluster() {
		if _, err := m.table(); err != nil {
			return nil, err
		}
		return &slotsView{m.slots.Slots, m.tableRevision(d), m.slots.Ranges}, nil
	}
	v, err := d.cluster(ctx, m)
	if err != nil {
		return nil, err
	}
	t := make(plan.Table, clusterSlots)
	for slot, owner := range v.owners() {
		t[slot].Group = owner
	}
	return &slotsView{clusterSlots, 0, t.Entry().Ranges}, nil
}

// sightProxies reads the figures of all proxies. Rates are those since the last overview.
func (d *Dashboard) sightProxies(ctx context.Context, m *model, v *overview, s *sight) {
	samples, problems := make([]*sample, len(m.proxies)), make([]error, len(m.proxies))
	var asked sync.WaitGroup
	for i, p := range m.proxies {
		asked.Go(func() { samples[i], problems[i] = readFigures(ctx, p.Admin, p.Host) })
	}
	asked.Wait()
	spans, kept := map[string]*span{}, map[string]*sample{}
	for i, p := range m.proxies {
		sight := proxySight{proxyView: proxyView{p, m.isPresent(p), p.Confirmed >= m.tableRevision(d)}}
		if now := samples[i]; now != nil {
			now.instance = p.Instance
			kept[p.ID] = now
			sight.fill(s.samples[p.ID], now, spans)
		} else {
			sight.Problem = problems[i].Error()
		}
		v.Proxies = append(v.Proxies, sight)
	}
	s.samples = kept
	for at, span := range spans {
		v.Servers = append(v.Servers, serverSight{at, *span.traffic()})
	}
	slices.SortFunc(v.Proxies, func(a, b proxySight) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(v.Servers, func(a, b serverSight) int { return strings.Compare(a.Address, b.Address) })
}

// fill sets the figures of a proxy, and adds its calls to those of the servers. Rates need an earlier sample.
func (p *proxySight) fill(before, now *sample, servers map[string]*span) {
	p.Clients, p.Owed = int64(now.clients), int64(now.owed)
	if before == nil || before.instance != now.instance {
		return
	}
	took := max(now.at.Sub(before.at), time.Millisecond)
	whole := &span{}
	whole.add(&before.requests, &now.requests, took)
	for at, c := range now.servers {
		if servers[at] == nil {
			servers[at] = &span{}
		}
		servers[at].add(before.servers[at], c, took)
	}
	for at, c := range now.servers {
		was := before.servers[at]
		if was == nil {
			was = &counters{}
		}
		whole.failRate += max(0, c.failed-was.failed) / took.Seconds()
	}
	p.Failures = round(max(0, now.failures-before.failures) / took.Seconds())
	p.Retries = round(max(0, now.retries-before.retries) / took.Seconds())
	whole.queue = now.owed
	p.Traffic = whole.traffic()
}

// figuresBytes limits the size of one proxy's figures.
const figuresBytes = 8 << 20

// figuresClient fetches figures from proxies. It follows no redirects, because a proxy sends none.
var figuresClient = &http.Client{
	Timeout:       sightTime,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		DialContext: (&net.Dialer{Timeout: sightTime}).DialContext},
}

// readFigures reads the figures of a proxy that runs on host. address is the proxy's admin address. If host is another
// machine, a loopback address is an error, because here it belongs to a different process.
func readFigures(ctx context.Context, address, host string) (*sample, error) {
	if address == "" {
		return nil, errors.New("it has no admin-address")
	}
	if err := store.CheckAddress(address); err != nil {
		return nil, fmt.Errorf("its admin-address: %w", err)
	}
	name, _, _ := net.SplitHostPort(address)
	own, _ := os.Hostname()
	if ip := net.ParseIP(name); (name == "localhost" || ip != nil && ip.IsLoopback()) && host != own {
		return nil, fmt.Errorf("its admin-address %s is reached from %s only", address, host)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := figuresClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", address, reason.Of(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers /metrics with status %d", address, response.StatusCode)
	}
	s, err := readSample(io.LimitReader(response.Body, figuresBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return s, nil
}
