package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/clock"
	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/internal/setting"
	"spindle/sentinel"
)

// This server as a Sentinel: the same core without data, with a catalogue of its own.

// sentinelPort is where a Sentinel listens unless it is told otherwise.
const sentinelPort = "26379"

// RunSentinel is Run for a Sentinel.
func RunSentinel(argv []string, manual Manual) int { return run(argv, manual, true) }

// sentinelDefaults gives rows the values that a Sentinel begins with.
func (in *instance) sentinelDefaults() error {
	in.log.SetRole('X')
	for name, value := range map[string]string{"port": sentinelPort, "protected-mode": "no"} {
		if err := in.registry.Lookup(name).Set([]string{value}, setting.FromFile); err != nil {
			return err
		}
	}
	return nil
}

// checkSentinelFile refuses to begin where the state could not be kept.
func (in *instance) checkSentinelFile() error {
	file := in.config.File
	if file == "" {
		in.log.Warning("Sentinel needs config file on disk to save state. Exiting...")
		return config.ErrLogged
	}
	for _, path := range []string{file, filepath.Dir(file)} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			in.log.Warning("Sentinel config file %s is not writable: %s. Exiting...", path, reason.Of(err))
			return config.ErrLogged
		}
	}
	return nil
}

// joinSentinel makes the Sentinel and joins it with the core.
//
// Errors: a line of the configuration that is wrong.
func (in *instance) joinSentinel() error {
	world := sentinel.NewNet(sentinel.Parts{
		Do: in.core.Do,
		Open: func(ctx context.Context, address string) (net.Conn, error) {
			return in.dialPrimary(ctx, address, in.storage.Follow.Source.Get())
		},
		Write: func() error { return in.rewriter.Write(false) },
		Tell:  func(channel, message string) { in.hub.Publish([]byte(channel), []byte(message)) },
		Line:  func(level logging.Level, text string) { in.log.At(level, "%s", text) },
		Here:  in.replicaPort, Pass: in.engine.RequirePass.Get,
	})
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	in.watcher = sentinel.New(world, rng, time.Now().UnixMilli())
	world.Serve(in.watcher)
	in.sections = append(in.sections, in.watcher.Section())
	in.registry.OnRewriteGroup("sentinel", map[string]string{"known-slave": "known-replica"}, in.watcher.Lines)
	var err error
	lines := make([]sentinel.Directive, len(in.config.Sentinel))
	for i, line := range in.config.Sentinel {
		lines[i] = line.Words
	}
	in.core.Do(func() { err = in.watcher.Configure(lines) })
	if wrong := (*sentinel.DirectiveError)(nil); errors.As(err, &wrong) {
		return in.config.Sentinel[wrong.Index].Refuse(err)
	}
	return err
}

// sentinelFamilies are those rows of all families that a Sentinel has, and its own.
func (in *instance) sentinelFamilies(all []command.Family) []command.Family {
	own := &sentinel.Commands{
		Machine: in.watcher, Now: clock.Steady,
		LogLevel: func() string { return in.registry.Lookup("loglevel").Get() },
		SetLogLevel: func(level string) error {
			return in.registry.SetMany([]setting.Pair{{Name: "loglevel", Value: level}}, setting.Conditions{})
		},
		Wake: func(cl *client.Client) { go in.core.Do(func() { in.core.Wake(cl) }) },
	}
	family := own.Family()
	for i := range all {
		all[i].Rows = slices.DeleteFunc(slices.Clone(all[i].Rows), func(s command.Spec) bool {
			return s.Flags&(command.Sentinel|command.OnlySentinel) == 0 ||
				slices.ContainsFunc(family.Rows, func(mine command.Spec) bool { return mine.Name == s.Name })
		})
		for j := range all[i].Rows {
			row := &all[i].Rows[j]
			row.Subs = slices.DeleteFunc(slices.Clone(row.Subs), func(s command.Spec) bool {
				return s.Flags&command.Sentinel == 0
			})
		}
	}
	return append(all, family)
}

// watch begins the Sentinel's work, and has it go on until stop is closed.
func (in *instance) watch(stop <-chan struct{}) {
	in.core.Do(func() {
		in.core.SetLoading(false)
		in.tellHealth()
		in.countThreads()
		_ = in.watcher.Start(time.Now().UnixMilli()) // it has told the log
	})
	in.reactor.Serve()
	go func() {
		for {
			// The pause varies, so that Sentinels that began together do not stand for election together.
			timer := time.NewTimer(time.Second / time.Duration(10+rand.IntN(10)))
			select {
			case <-stop:
				timer.Stop()
				return
			case <-timer.C:
			}
			in.core.Do(func() { in.watcher.Tick(time.Now().UnixMilli()) })
		}
	}()
}

// sentinelSections are the sections of a Sentinel's INFO.
func (in *instance) sentinelSections() []string {
	if !in.asSentinel {
		return nil
	}
	return strings.Fields("Server Clients Stats CPU Sentinel")
}
