package proxy

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/slots"
	"spindle/internal/tlsconfig"
	"spindle/internal/version"
	"spindle/protocol"
	"spindle/proxy/store"
	"spindle/proxy/topology"
	"spindle/reactor"
)

// page is what --help shows.
//
//go:embed proxy.conf
var page string

// A host is the process of a proxy: its settings, and what runs by them.
type host struct {
	log      *logging.Logger
	own      Settings
	process  process.Settings
	network  reactor.Settings
	sockets  reactor.ListenSettings
	tls      tlsconfig.Settings
	backend  setting.Enum[reactor.Backend]
	store    store.Settings
	registry *setting.Registry
	config   *config.Config
}

// Run is the whole life of a proxy process; it returns the exit code.
func Run(argv []string) int {
	argv = slices.Clone(argv)
	for i := range argv {
		argv[i] = strings.Clone(argv[i])
	}
	args := config.ParseArguments(withoutRole(argv))
	log := logging.New(os.Stdout)
	h := &host{log: log}
	registry, err := setting.NewRegistry(h.rows())
	if err != nil {
		log.Warning("Fatal: %s", err)
		return 1
	}
	h.registry = registry
	switch args.Task {
	case config.TaskServe:
	case config.TaskVersion:
		fmt.Print(version.Text())
		return 0
	case config.TaskHelp:
		return config.Help(registry, page, nil, args.Rest, os.Stdout)
	default:
		fmt.Fprintf(os.Stderr, "A proxy does not take %s.\n", argv[1])
		return 1
	}
	var stdin []byte
	if args.Stdin {
		if stdin, err = io.ReadAll(os.Stdin); err != nil {
			log.Warning("Can't read the configuration from standard input: %s", err)
			return 1
		}
	}
	h.config, err = config.Load(registry, args, bytes.NewReader(stdin), config.Options{Log: log})
	if err == nil {
		err = h.config.RefuseLines()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	begun, code := process.Begin(&h.process, registry, log, argv, stdin)
	if begun == nil {
		return code
	}
	process.LogStart(log, args.Program, args.Bare)
	config.LogIdle(log, registry, h.config)
	if err := h.serve(begun, args.Program); err != nil {
		log.Warning("%s", err)
		return 1
	}
	log.Warning("spindle-proxy is now ready to exit, bye bye...")
	return 0
}

// withoutRole returns argv without --proxy.
func withoutRole(argv []string) []string {
	if i := slices.Index(argv, "--proxy"); i > 0 {
		return slices.Delete(slices.Clone(argv), i, i+1)
	}
	return argv
}

func (h *host) rows() []setting.Row {
	sockets := h.sockets.Rows()
	for i := range sockets {
		switch sockets[i].Name {
		case "bind", "port", "tls-port": // a proxy listens where it did at its start
			sockets[i].Flags |= setting.Immutable
		}
	}
	rows := slices.Concat(h.own.Rows(), h.process.Rows(), h.network.Rows(), sockets, h.tls.Rows(), h.store.Rows())
	config.OfServers(rows)
	return append(rows, setting.NewEnum("reactor-backend", &h.backend, reactor.Epoll, []setting.Choice[reactor.Backend]{
		{Name: "gnet", Value: reactor.Gnet}, {Name: "epoll", Value: reactor.Epoll},
		{Name: "io_uring", Value: reactor.IOUring},
	}, setting.Immutable))
}

var (
	errNoShards  = errors.New("the proxy needs its shards from one of proxy-cluster, proxy-sentinel and proxy-product")
	errReplaced  = errors.New("another process has this proxy's name: give each proxy its own proxy-id")
	errNoMasters = errors.New("proxy-sentinel needs proxy-masters: the names of the shards")
)

// serve serves until a signal ends the proxy. program is argv[0].
func (h *host) serve(begun *process.Begun, program string) error {
	certificates := &tlsconfig.Current{
		Settings: &h.tls, Begins: func() {}, Warn: func(err error) { h.log.Warning("%s", err) },
		Wanted: func() bool { return h.sockets.TLSPort.Get() != 0 || h.own.TLS.Get() },
	}
	front, err := certificates.Load()
	if err != nil {
		return err
	}
	backend, err := reactor.Usable(h.backend.Get())
	if err != nil {
		h.log.Warning("reactor-backend %s cannot be had: %s. %s serves instead.", h.backend.Get(), err, backend)
	}
	p, err := h.makeProxy(certificates)
	if err != nil {
		return err
	}
	defer p.finder.Close()
	n := &h.sockets
	fit, err := process.FitOpenFiles(h.network.MaxClients.Get(), h.files(p), h.log)
	if err != nil {
		return err
	}
	h.network.MaxClients.Set(fit)
	r, err := reactor.New(reactor.Options{
		Handler: p, Settings: &h.network, Backend: backend, Loops: int(n.Loops.Get()),
		Bind: n.Bind.Get(), Port: int(n.Port.Get()), TLSPort: int(n.TLSPort.Get()), Backlog: int(n.Backlog.Get()),
		UnixSocket: n.UnixSocket.Get(), UnixPerm: uint32(n.UnixSocketPerm.Get()), UnixGroup: n.UnixGroup.Get(),
		Mark: int(n.MarkID.Get()), TLS: front,
		OutputLimit: p.outputLimit,
		Logf: func(level reactor.Level, format string, args ...any) {
			h.log.At(logging.Level(level), format, args...)
		},
	})
	if err != nil {
		return err
	}
	if err := p.attach(r); err != nil {
		return err
	}
	pidFile := begun.WritePidFile(&h.process, h.log) // the addresses are this process's now
	defer process.RemovePidFile(pidFile)
	signals := process.WatchSignals(&h.process, h.log, nil, nil)
	defer signals.Stop()
	if p.product != nil {
		if err := p.product.join(p, r.Addrs()[0]); err != nil {
			return err
		}
	}
	stopped := make(chan struct{})
	defer close(stopped)
	h.registry.OnChange(signals.CrashLogChanged, "crash-log-enabled")
	h.registry.OnChange(func() error {
		return process.CheckMaxClients(h.network.MaxClients.Get(), h.files(p), h.log)
	}, "maxclients")
	if err := begun.Follow(&h.process, h.registry, h.log, h.title(program), stopped); err != nil {
		return err
	}
	h.followTLS(certificates, r, stopped)
	r.Serve()
	go p.renew(stopped)
	go p.followCommands(stopped)
	if err := p.showFigures(h.own.Admin.Get(), stopped); err != nil {
		return fmt.Errorf("admin-address: %w", err)
	}
	h.log.Notice("spindle-proxy %s on %s: %d shards", version.Spindle, strings.Join(r.Addrs(), ", "),
		len(p.finder.Current().Shards))
	begun.Supervisor.Ready()
	var replaced chan struct{}
	if p.product != nil {
		replaced = p.product.replaced
	}
	var mode process.ShutdownMode
	err = nil
	select {
	case mode = <-signals.Shutdown:
	case <-replaced: // no move waits for this proxy any more
		err = errReplaced
	}
	begun.Supervisor.Stopping()
	limit := h.process.ShutdownLimit(mode)
	p.drain(limit)
	if p.mirror != nil {
		p.mirror.finish(limit / 2)
	}
	if p.product != nil {
		p.product.leave()
	}
	r.Stop(2 * time.Second)
	return err
}

// files counts the descriptors in addition to those of clients. Each loop has its connections to each shard.
// A client that subscribes, blocks or has a transaction takes one more, which is not counted.
func (h *host) files(p *Proxy) uint64 {
	loops, shards := h.sockets.Loops.Get(), int64(len(p.finder.Current().Shards))
	return process.FilesOfLoops(loops) + uint64(loops*shards*h.own.Connections.Get())
}

// title returns the values of proc-title-template.
func (h *host) title(program string) process.Title {
	n := &h.sockets
	t := process.Title{Program: program, Port: n.Port.Get(), TLSPort: n.TLSPort.Get(), UnixSocket: n.UnixSocket.Get(),
		Mode: "[proxy]", ConfigFile: h.config.File}
	if bind := n.Bind.Get(); len(bind) > 0 && bind[0] != "*" {
		t.Bind = strings.TrimPrefix(bind[0], "-")
	}
	return t
}

// followTLS has later handshakes use the certificates of a CONFIG SET, and those of changed files. r does not serve
// yet.
func (h *host) followTLS(c *tlsconfig.Current, r *reactor.Reactor, stop <-chan struct{}) {
	var reading sync.Mutex
	watch := &tlsconfig.Watch{
		Current: c, Use: r.SetTLS, Log: func(text string) { h.log.Notice("%s", text) },
		Do: func(f func()) { reading.Lock(); defer reading.Unlock(); f() },
	}
	h.registry.OnChange(func() (err error) {
		watch.Do(func() { err = c.Renew(r.SetTLS) })
		return err
	}, tlsconfig.Reread()...)
	go watch.Run(stop)
}

// makeProxy finds the shards and reads their commands. It waits until one answers.
func (h *host) makeProxy(certificates *tlsconfig.Current) (*Proxy, error) {
	p := &Proxy{settings: &h.own, log: h.log, workers: map[protocol.Loop]*worker{},
		mapChanged: make(chan struct{}, 1), started: time.Now(), registry: h.registry, chance: rand.IntN,
		cache: newHotCache(&h.own), rewriter: &config.Rewriter{Registry: h.registry, File: h.config.File, Log: h.log}}
	h.registry.Follow(p.cache.voidAll, "proxy-cache-size")
	h.registry.Follow(p.setDetours, "proxy-rule")
	p.setDetours()
	if h.own.TLS.Get() {
		p.tls = certificates.Client
	}
	p.access = topology.Access{User: h.own.User.Get(), Password: h.own.Password.Get(), TLS: p.tls}
	if err := h.findShards(p); err != nil {
		return nil, err
	}
	p.readCommands()
	var err error
	p.mirror, err = h.startMirror(p)
	return p, err
}

// lagEvery is how often the lag of replicas is measured, if they serve reads.
const lagEvery = 200 * time.Millisecond

// lag returns the interval of such measurements; 0: there are none.
func (h *host) lag() time.Duration {
	if h.own.ReadReplicas.Get() {
		return lagEvery
	}
	return 0
}

// findShards begins to follow the shards, where the settings say that they are found.
func (h *host) findShards(p *Proxy) error {
	every, own := time.Duration(h.own.Refresh.Get())*time.Millisecond, &h.own
	sources := 0
	for _, given := range []bool{len(own.Cluster.Get()) > 0, len(own.Sentinels.Get()) > 0, own.Product.Get() != ""} {
		if given {
			sources++
		}
	}
	switch {
	case sources != 1:
		return errNoShards
	case len(own.Cluster.Get()) > 0:
		p.finder = topology.New(topology.Options{Seeds: own.Cluster.Get(), Access: p.access, Every: every, Lag: h.lag(),
			Log: h.log})
	case len(own.Sentinels.Get()) > 0:
		masters := own.Masters.Get()
		if len(masters) == 0 {
			return errNoMasters
		}
		p.finder = watched{topology.FindSentinel(topology.SentinelOptions{Sentinels: own.Sentinels.Get(), Masters: masters,
			Owners: topology.EqualRanges(slots.Count, len(masters)), Servers: p.access, Every: every, Lag: h.lag(),
			Log: h.log})}
	default:
		return h.followProduct(p)
	}
	return nil
}
