// Package server is the composition root: it builds the parts, joins them, starts and stops them in order.
//
// Owner: the main goroutine; wire.go's joints run wherever the parts call them.
// Never: is imported by anyone but main.
// Start at Run; wire.go says who is handed to whom, catalogue.go which commands there are.
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
	"spindle/internal/logging"
	"spindle/internal/process"
)

// outputPatience is how long a stopping server waits for clients to take what was decided for them.
const outputPatience = 2 * time.Second

// errLogged ends a start whose cause the log has already named, in its last line.
var errLogged = errors.New("see the lines above")

// A Manual is what --help shows beside what the server knows: the page of settings (spindle.conf), and further lines of
// how to start the program.
type Manual struct {
	Settings string
	Tools    []Form
}

// Run is the whole life of a server process; it returns the exit code.
func Run(argv []string, manual Manual) int { return run(argv, manual, false) }

func run(argv []string, manual Manual, asSentinel bool) int {
	argv = slices.Clone(argv)
	for i := range argv {
		argv[i] = strings.Clone(argv[i]) // SetTitle writes over the originals
	}
	args := ParseArguments(argv)
	if code, done := Answer(args, os.Stdout, os.Stderr); done {
		return code
	}
	switch args.Task {
	case TaskHelp:
		return Help(manual.Settings, manual.Tools, args.Rest, os.Stdout)
	case TaskCheckConfig:
		return CheckConfig(args, os.Stdin, os.Stdout)
	}
	log := logging.New(os.Stdout)
	in, err := newInstance(log)
	if err != nil {
		log.Warning("Fatal: %s", err)
		return 1
	}
	if in.asSentinel = asSentinel; asSentinel {
		if err := in.sentinelDefaults(); err != nil {
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
	if in.config, err = Load(in.registry, args, bytes.NewReader(stdin),
		Directives{Log: log, Sentinel: asSentinel}); err != nil {
		return refuse(log, misspelt(err, argv, manual))
	}
	if err := in.refuseUnsupported(); err != nil {
		return refuse(log, err)
	}
	own := &in.settings.Process
	process.OpenLog(log, own, in.registry)
	in.supervisor = process.Supervise(own, log)
	if own.Daemonize.Get() && !in.supervisor.Active() && !process.IsDaemon() {
		if err := process.Daemonize(argv, stdin); err != nil {
			log.Warning("Can't daemonize: %s", err)
			return 1
		}
		return 0
	}
	daemon := process.IsDaemon()
	if err := process.Detach(); err != nil {
		log.Warning("Can't detach from standard input: %s", err)
		return 1
	}
	in.program = args.Program
	process.LogStart(log, args.Program, args.Bare)
	stopWatching := make(chan struct{})
	defer close(stopWatching)
	process.KeepCrashes(own, log, stopWatching)
	pidFile := process.WritePidFile(own, daemon, log)
	defer process.RemovePidFile(pidFile)
	in.pidFile = pidFile
	if err := in.run(args); err != nil {
		if !errors.Is(err, errLogged) {
			return refuse(log, err)
		}
		return 1
	}
	if pidFile != "" {
		log.Notice("Removing the pid file.")
	}
	if asSentinel {
		log.Warning("Sentinel is now ready to exit, bye bye...")
	} else {
		log.Warning("Redis is now ready to exit, bye bye...")
	}
	return 0
}

// misspelt adds to the error of a start that its first word is no command either, if it looks like one.
func misspelt(err error, argv []string, manual Manual) error {
	open := (*OpenError)(nil)
	if !errors.As(err, &open) || !errors.Is(open.Err, os.ErrNotExist) ||
		len(argv) < 2 || open.Path != absolute(argv[1]) || strings.ContainsAny(argv[1], "./") {
		return err
	}
	var commands []string
	for _, f := range manual.Tools {
		word, _, _ := strings.Cut(f.Args, " ")
		commands = append(commands, word)
	}
	if near := nearest(argv[1], commands); near != "" {
		return fmt.Errorf("%w (no such command or file: did you mean '%s'?)", err, near)
	}
	return fmt.Errorf("%w (no such command or file: see --help)", err)
}

// refuse says why a configuration cannot be taken.
func refuse(log *logging.Logger, err error) int {
	if line := (*ConfigError)(nil); errors.As(err, &line) {
		fmt.Fprintln(os.Stderr, err)
	} else {
		log.Warning("%s", err)
	}
	return 1
}

// run serves until a shutdown is decided.
func (in *instance) run(args Arguments) error {
	log := in.log
	process.Pin(&in.settings.Process, log)
	if in.asSentinel {
		if err := in.checkSentinelFile(); err != nil {
			return err
		}
	}
	in.threads.start(in.busyThreads())
	fit, err := process.FitOpenFiles(in.network.MaxClients.Get(), in.filesBeside(), log)
	if err != nil {
		return err
	}
	in.network.MaxClients.Set(fit)
	if err := in.assemble(args); err != nil {
		return err
	}
	in.signals = process.WatchSignals(&in.settings.Process, log, in.removeTemporary, in.loading.Active.Load)
	defer in.signals.Stop()
	process.LogMode(log, &in.settings.Process, in.mode(), in.port())
	process.CheckBacklog(in.sockets.Backlog.Get(), log)
	in.core.Do(func() { // until load is done nothing here is the data set
		in.core.SetLoading(true)
		in.threads.follow(true, false)
	})
	if err := in.checkBusPort(); err != nil {
		return err
	}
	if err := in.listen(); err != nil {
		return err
	}
	if err := in.openCluster(); err != nil {
		return err
	}
	in.retitle()
	log.Notice("Server initialized")
	if err := in.startAdmin(); err != nil {
		return err
	}
	if !in.asSentinel {
		log.Notice("%s", in.summary())
	}
	process.WarnOfHost(log)
	LogIdle(log, in.registry, in.config)
	if err := in.startLane(); err != nil {
		return fmt.Errorf("admin-port: %w", err)
	}
	stopDuties := make(chan struct{})
	go in.core.RunDuties(stopDuties)
	progress := &bgsave.Reporter{
		Log: log, Loading: &in.loading, Saving: in.scheduler.Progress, Underway: in.supervisor.Underway,
	}
	go progress.Run(stopDuties)
	go in.obeySignals()
	if in.asSentinel {
		in.watch(stopDuties)
	} else {
		err = in.load()
	}
	switch {
	case errors.Is(err, context.Canceled): // a shutdown was asked for meanwhile
	case err != nil:
		return err
	default:
		for _, kind := range in.listenerKinds() {
			log.Notice("Ready to accept connections %s", kind)
		}
		in.supervisor.Ready()
	}
	<-in.shutdown.done
	in.supervisor.Stopping()
	in.stop(stopDuties)
	return nil
}

// wordOfExpiry is the command that removes expired keys at replicas.
func (in *instance) wordOfExpiry() string {
	if in.common.LazyfreeExpire.Get() {
		return "UNLINK"
	}
	return "DEL"
}

// obeySignals carries out the shutdowns that signals ask for.
func (in *instance) obeySignals() {
	for mode := range in.signals.Shutdown {
		in.core.Do(func() { in.shutdown.signalled(mode) })
	}
}

// stop ends what runs, in order: no new connections, what was decided leaves, then duties and reclaimers.
func (in *instance) stop(duties chan struct{}) {
	if l := in.lane.Load(); l != nil {
		l.reactor.Stop(outputPatience)
	}
	in.reactor.Stop(outputPatience)
	if in.cluster != nil {
		in.cluster.Stop()
	}
	close(duties)
	in.parts.stop()
	if in.admin != nil {
		in.admin.close()
	}
	in.lazy.Close()
}

// removeTemporary takes away an unfinished file when the process ends without waiting.
func (in *instance) removeTemporary() { bgsave.RemoveTemporaries() }
