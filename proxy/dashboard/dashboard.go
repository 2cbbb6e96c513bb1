// Package dashboard manages products: it keeps their groups and slots in the store, and moves slots between groups.
//
// Owner: goroutines of its HTTP server; one goroutine carries out the moves while this dashboard is the active one.
// Never: is needed for a client's request, needs state that is not in the store, or writes without leading.
// Start at Run; api.go lists the routes, lead.go decides which dashboard is active.
package dashboard

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/tlsconfig"
	"spindle/internal/version"
	"spindle/proxy/store"
)

// page is the settings with their texts.
//
//go:embed dashboard.conf
var page string

// Run runs a dashboard's process to its end and returns the exit code. argv[1] is --dashboard, unless the program has
// the name of a dashboard.
func Run(argv []string) int {
	argv = slices.Clone(argv)
	for i := range argv {
		argv[i] = strings.Clone(argv[i]) // the title overwrites the arguments
	}
	whole := argv
	if len(argv) > 1 && argv[1] == "--dashboard" {
		argv = slices.Delete(slices.Clone(argv), 1, 2)
	}
	s, log := &settings{}, logging.New(os.Stdout)
	log.SetRole('D')
	registry, err := s.registry()
	if err != nil {
		log.Warning("%s", err)
		return 1
	}
	args := config.ParseArguments(argv)
	switch args.Task {
	case config.TaskVersion:
		fmt.Print(version.Text())
		return 0
	case config.TaskHelp:
		return config.Help(registry, page, nil, args.Rest, os.Stdout)
	case config.TaskServe:
	default:
		fmt.Fprintf(os.Stderr, "A dashboard does not take %s.\n", argv[1])
		return 1
	}
	var stdin []byte
	if args.Stdin {
		if stdin, err = io.ReadAll(os.Stdin); err != nil {
			log.Warning("Can't read the configuration from standard input: %s", err)
			return 1
		}
	}
	read, err := config.Load(registry, args, bytes.NewReader(stdin), config.Options{Log: log})
	if err == nil {
		err = read.RefuseLines()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	begun, code := process.Begin(&s.process, registry, log, whole, stdin)
	if begun == nil {
		return code
	}
	config.LogIdle(log, registry, read)
	signals := process.WatchSignals(&s.process, log, nil, nil)
	defer signals.Stop()
	stopped := make(chan struct{})
	defer close(stopped)
	if err := begun.Follow(&s.process, registry, log, s.title(args.Program, read.File), stopped); err != nil {
		log.Warning("%s", err)
		return 1
	}
	d, err := start(s, log)
	if err != nil {
		log.Warning("%s", err)
		return 1
	}
	pidFile := begun.WritePidFile(&s.process, log) // the address is this process's now
	defer process.RemovePidFile(pidFile)
	begun.Supervisor.Ready()
	mode := <-signals.Shutdown
	begun.Supervisor.Stopping()
	log.Notice("The dashboard ends.")
	d.stop(s.process.ShutdownLimit(mode))
	return 0
}

// A Dashboard is one running dashboard.
type Dashboard struct {
	s      *settings
	log    *logging.Logger
	store  store.Store
	prefix string
	self   store.Leader
	lead   lead
	dialer dialer
	sights sights
	audits atomic.Int64  // entries of the audit log that this process wrote
	joins  sync.Mutex    // held while a server joins a group, so that it joins no other one meanwhile
	woken  chan struct{} // a move has changed
	http   http.Server
	end    context.CancelFunc
	ended  chan struct{} // closed when the campaign is over
}

// start opens the store, starts the HTTP server, and begins to campaign for the leadership.
func start(s *settings, log *logging.Logger) (*Dashboard, error) {
	opened, err := store.Open(&s.store)
	if err != nil {
		return nil, err
	}
	certificates := &tlsconfig.Current{Settings: &s.tls, Warn: func(err error) { log.Warning("%s", err) },
		Wanted: func() bool { return s.TLS.Get() || s.ServerTLS.Get() }}
	if _, err := certificates.Load(); err != nil {
		return nil, err
	}
	var toServers func() *tls.Config
	if s.ServerTLS.Get() {
		toServers = certificates.Client
	}
	listener, err := s.listen()
	if err != nil {
		return nil, err
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id) // it never fails
	ctx, end := context.WithCancel(context.Background())
	d := &Dashboard{s: s, log: log, store: opened, prefix: s.store.Prefix.Get(), end: end, ended: make(chan struct{}),
		self: store.Leader{ID: hex.EncodeToString(id), URL: s.url(listener.Addr())}, woken: make(chan struct{}, 1),
		dialer: dialer{user: s.ServerUser.Get(), password: s.ServerPassword.Get(), sentinel: s.SentinelPassword.Get(),
			tls: toServers, timeout: time.Duration(s.ServerTimeoutMs.Get()) * time.Millisecond}}
	if s.TLS.Get() {
		listener = tls.NewListener(listener, certificates.Admin())
	}
	d.http = http.Server{
		Handler: d.handler(), MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: time.Minute,
		ErrorLog: nil, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		if err := d.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Warning("The dashboard's address failed: %s", err)
		}
	}()
	go d.campaign(ctx)
	watch := &tlsconfig.Watch{Current: certificates, Use: func(*tls.Config) {}, Do: func(f func()) { f() },
		Log: func(text string) { log.Notice("%s", text) }}
	go watch.Run(ctx.Done())
	log.Notice("spindle %s as a dashboard on %s: %s, prefix %s", version.Spindle, d.self.URL, opened, d.prefix)
	return d, nil
}

// stop shuts down in order. Requests come first, and have until the limit. Then comes the leadership, so that the next
// dashboard takes over at once.
func (d *Dashboard) stop(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = d.http.Shutdown(ctx) // unfinished requests are aborted then
	d.end()
	<-d.ended
	d.store.Close()
}

// key returns the key of an entry that belongs to no product.
func (d *Dashboard) key(parts ...string) string {
	return store.KeyOf(d.prefix, store.Dashboard, parts...)
}

// describe shortens a text so that it fits into one line of the log. It replaces control characters, so that no text
// begins another line.
func describe(text string) string {
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
