// Package proxy is one address in front of many shards. It has sessions of clients, and connections to the servers of a
// Redis Cluster.
//
//	clients ─▶ reactor loop ─▶ session ─▶ route: what to do ─▶ upstream ─▶ shard
//	                              ▲                                │
//	                              └──────── owed replies ◀─────────┘
//
// Owner: the reactor's loops. A session and all its connections are on one loop, so neither a request nor its reply
// changes the goroutine.
// Never: has data, imports the engine, or sends a request again that may have run (proxy.P3).
// Start at serve.go, where a request comes in, and upstream.go, where its reply does. redirect.go sends calls again,
// tx.go has transactions and blocking commands, identity.go whose requests run, process.go the process.
package proxy

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol"
	"spindle/proxy/route"
	"spindle/proxy/topology"
	"spindle/reactor"
)

// A Proxy serves clients from the shards that a finder knows.
type Proxy struct {
	settings *Settings
	log      *logging.Logger
	finder   finder
	access   topology.Access // of the proxy itself to servers
	hasher   route.Hasher
	product  *product                   // of the store; nil: the shards come from elsewhere
	states   atomic.Pointer[slotStates] // of a product whose slots may move; nil: none do
	reactor  *reactor.Reactor
	workers  map[protocol.Loop]*worker
	tls      func() *tls.Config // for connections to shards; nil: bare
	commands atomic.Pointer[route.Table]
	detours  atomic.Pointer[detours] // nil: no rule has sent keys elsewhere yet
	marked   map[string]string       // of the shards whose commands were read; of the goroutine that reads them

	mapChanged chan struct{} // holds one token after a change of the map
	nextID     atomic.Int64
	started    time.Time
	count      counters
	scripts    scriptCache
	moves      slotMoves

	libraries libraries
	slow      slowLog
	paused    atomic.Pointer[pausing] // CLIENT PAUSE; nil: no client is held back
	mirror    *mirror                 // nil: writes go to no second cluster
	cache     *hotCache
	hub       *hub
	draining  atomic.Bool
	registry  *setting.Registry
	rewriter  *config.Rewriter // of the configuration file
	chance    func(n int) int  // a random number below n
}

// counters are what the proxy has done since its start. Any goroutine.
type counters struct {
	requests, redirects, retries, failed, cut, splits atomic.Int64

	slow atomic.Int64 // clients that were closed because they did not read

	blocked atomic.Int64 // clients whose blocking command runs, now
}

// reset is CONFIG RESETSTAT's share.
func (c *counters) reset() {
	for _, n := range []*atomic.Int64{&c.requests, &c.redirects, &c.retries, &c.failed, &c.cut, &c.splits, &c.slow} {
		n.Store(0)
	}
}

// table returns what is done with commands now.
func (p *Proxy) table() *route.Table { return p.commands.Load() }

// guest is the identity of a client that has given no user.
func (p *Proxy) guest() identity { return identity{} }

func (p *Proxy) shardTLS() *tls.Config {
	if p.tls == nil {
		return nil
	}
	return p.tls()
}

// attach gives the proxy its reactor, whose loops do not run yet.
func (p *Proxy) attach(r *reactor.Reactor) error {
	p.reactor = r
	for _, loop := range r.Loops() {
		w := newWorker(p, loop)
		w.use(p.finder.Current())
		p.workers[loop] = w
	}
	if loops := r.Loops(); len(loops) > 0 {
		_, isCluster := p.finder.(*topology.Finder)
		h := newHub(p.workers[loops[0]], isCluster)
		p.hub = h
		// Before a worker sees a new shard, calls of functions wait for it (proxy.F1).
		p.finder.BeforeChange(func(m *topology.Map) { p.libraries.note(p, m) })
		p.finder.OnChange(func(m *topology.Map) {
			p.moves.note(m)
			select {
			case p.mapChanged <- struct{}{}:
			default:
			}
			h.run(func() { h.follow(m) })
		})
	}
	if len(p.workers) == 0 {
		return fmt.Errorf("reactor-backend netpoll has no loops that connections share: the proxy needs another one")
	}
	return nil
}

// renew has connections renewed at intervals, until stop is closed.
func (p *Proxy) renew(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(p.settings.Refresh.Get()) * time.Millisecond):
		}
		for loop, w := range p.workers {
			reactor.Run(loop, w.renewGuests)
		}
	}
}

// drain waits until no reply is owed, and takes no new request meanwhile.
func (p *Proxy) drain(limit time.Duration) {
	p.draining.Store(true)
	for until := time.Now().Add(limit); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		var owing atomic.Int64
		var asked sync.WaitGroup
		for _, w := range p.workers {
			asked.Add(1)
			reactor.Run(w.loop, func() {
				defer asked.Done()
				for s := range w.sessions {
					if s.owed.n > 0 && !s.isBlocked {
						owing.Add(1)
					}
				}
			})
		}
		if asked.Wait(); owing.Load() == 0 {
			return
		}
	}
}

// encode makes a request.
func encode(words ...string) []byte {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	return protocol.AppendCommand(nil, args)
}

func itoa(n int) string { return strconv.Itoa(n) }

func nowUnixMs() int64 { return time.Now().UnixMilli() }

// cutAddress splits "host:port" and "host:port@bus". An IPv6 host has no brackets in the result.
func cutAddress(address string) (host, port string, ok bool) {
	address, _, _ = strings.Cut(address, "@")
	i := strings.LastIndexByte(address, ':')
	if i < 0 {
		return "", "", false
	}
	host, port = address[:i], address[i+1:]
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", "", false
	}
	return strings.Trim(host, "[]"), port, true
}

func joinAddress(host, port string) string { return net.JoinHostPort(host, port) }
