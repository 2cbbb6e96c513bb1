// Package server is the composition root: it builds the parts, connects them, and starts and stops them in order.
//
// Owner: the main goroutine. The parts call the functions that they are given on their own goroutines.
// Never: is imported by another package than main.
// Start at Run; wire.go connects the parts, features.go lists them.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"spindle/bgsave"
	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/overview"
	"spindle/reactor"
	"spindle/sentinel"
)

// outputPatience is how long a stopping server waits for clients to read their replies.
const outputPatience = 2 * time.Second

// Run is the whole life of a server process. It returns the exit code.
func Run(argv []string, manual Manual) int { return run(argv, manual, false) }

func run(argv []string, manual Manual, asSentinel bool) int {
	argv = slices.Clone(argv)
	for i := range argv {
		argv[i] = strings.Clone(argv[i]) // SetTitle writes over the originals
	}
	args := config.ParseArguments(argv)
	if code, done := answer(args, manual, os.Stdin, os.Stdout, os.Stderr); done {
		return code
	}
	log := logging.New(os.Stdout)
	in, err := newInstance(log)
	if err != nil {
		log.Warning("Fatal: %s", err)
		return 1
	}
	if in.asSentinel = asSentinel; asSentinel {
		log.SetRole('X')
		if err := sentinel.Defaults(in.registry); err != nil {
			return refuse(log, err)
		}
	}
	var stdin []byte
	if args.Stdin {
		if stdin, err = io.ReadAll(os.Stdin); err != nil {
			log.Warning("Can't read the configuration from standard input: %s", err)
			return 1
		}
	}
	if in.config, err = config.Load(in.registry, args, bytes.NewReader(stdin),
		config.Options{Log: log, Sentinel: asSentinel}); err != nil {
		return refuse(log, config.Misspelt(err, argv, manual.Tools))
	}
	if in.own.Unsupported.Get() == refuseUnsupported {
		if err := config.RefuseUnsupported(in.registry, in.config); err != nil {
			return refuse(log, err)
		}
	}
	own := &in.settings.Process
	begun, code := process.Begin(own, in.registry, log, argv, stdin)
	if begun == nil {
		return code
	}
	in.supervisor = begun.Supervisor
	in.titles.program = args.Program
	process.LogStart(log, args.Program, args.Bare)
	stopWatching := make(chan struct{})
	defer close(stopWatching)
	process.KeepCrashes(own, log, stopWatching)
	defer func() { process.RemovePidFile(in.pidFile) }()
	if err := in.run(args, begun); err != nil {
		if !errors.Is(err, config.ErrLogged) {
			return refuse(log, err)
		}
		return 1
	}
	if in.pidFile != "" {
		log.Notice("Removing the pid file.")
	}
	if asSentinel {
		log.Warning("Sentinel is now ready to exit, bye bye...")
	} else {
		log.Warning("Redis is now ready to exit, bye bye...")
	}
	return 0
}

// refuse logs why a configuration cannot be used.
func refuse(log *logging.Logger, err error) int {
	if line := (*config.Error)(nil); errors.As(err, &line) {
		fmt.Fprintln(os.Stderr, err)
	} else {
		log.Warning("%s", err)
	}
	return 1
}

// run serves until a shutdown is decided. The pid file comes after the listeners: a server whose addresses are another
// one's must leave that one's file alone.
func (in *instance) run(args config.Arguments, begun *process.Begun) error {
	log := in.log
	if in.asSentinel {
		if err := sentinel.CheckFile(in.config.File, log); err != nil {
			return err
		}
	}
	var err error
	if in.backend, err = reactor.Usable(in.own.Backend.Get()); err != nil {
		log.Warning("reactor-backend %s cannot be had: %s. %s serves instead.", in.own.Backend.Get(), err, in.backend)
	}
	in.threads.Start(overview.BusyThreads(int(in.sockets.Loops.Get()), in.backend))
	fit, err := process.FitOpenFiles(in.network.MaxClients.Get(), in.own.files(&in.sockets, in.asSentinel), log)
	if err != nil {
		return err
	}
	in.network.MaxClients.Set(fit)
	if err := in.assemble(args); err != nil {
		return err
	}
	in.signals = process.WatchSignals(&in.settings.Process, log, bgsave.RemoveTemporaries, in.set.Loading.Active.Load)
	defer in.signals.Stop()
	process.LogMode(log, &in.settings.Process, in.mode, in.listening.port())
	process.CheckBacklog(in.sockets.Backlog.Get(), log)
	in.core.Do(func() { // until load is done nothing here is the data set
		in.core.SetLoading(true)
		in.threads.Follow(true, false)
	})
	if err := in.parts.Check(); err != nil {
		return err
	}
	if err := in.listen(); err != nil {
		return err
	}
	in.pidFile = begun.WritePidFile(&in.settings.Process, log)
	if err := in.parts.Open(); err != nil {
		return err
	}
	in.titles.show()
	log.Notice("Server initialized")
	if err := in.startAdmin(); err != nil {
		return err
	}
	if !in.asSentinel {
		addresses := in.listening.reactor.Addrs()
		if in.admin != nil {
			addresses = append(addresses, in.adminAt.String()+" (admin)")
		}
		log.Notice("%s", summary(addresses, in.config.File, int64(in.engine.MaxMemory.Get()),
			func(name string) string { return in.registry.Lookup(name).Get() }))
	}
	process.WarnOfHost(log)
	config.LogIdle(log, in.registry, in.config)
	if err := in.startLane(); err != nil {
		return fmt.Errorf("admin-port: %w", err)
	}
	stopDuties := make(chan struct{})
	go in.core.RunDuties(stopDuties)
	progress := &bgsave.Reporter{
		Log: log, Loading: &in.set.Loading, Saving: in.set.Scheduler.Progress, Underway: in.supervisor.Underway,
	}
	go progress.Run(stopDuties)
	go func() {
		for mode := range in.signals.Shutdown {
			in.core.Do(func() { in.set.Shutdown.Signalled(mode) })
		}
	}()
	if in.asSentinel {
		in.watch(stopDuties)
	} else {
		err = in.set.Load()
	}
	switch {
	case errors.Is(err, context.Canceled): // a shutdown was asked for meanwhile
	case err != nil:
		return err
	default:
		for _, kind := range in.listening.kinds() {
			log.Notice("Ready to accept connections %s", kind)
		}
		in.supervisor.Ready()
	}
	<-in.set.Shutdown.Done
	in.supervisor.Stopping()
	in.stop(stopDuties)
	return nil
}

// stop ends the running parts in order: no new connections, the rest of the output, then duties and reclaimers.
func (in *instance) stop(duties chan struct{}) {
	if l := in.lane.Load(); l != nil {
		l.Reactor.Stop(outputPatience)
	}
	in.listening.reactor.Stop(outputPatience)
	in.parts.Stop()
	close(duties)
	if in.admin != nil {
		in.admin.Close()
	}
	in.lazy.Close()
}
