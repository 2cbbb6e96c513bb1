package server

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"spindle/engine/client"
	"spindle/engine/part"
	"spindle/internal/clock"
	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/sentinel"
)

// RunSentinel is Run for a Sentinel: the same core without data, with a Sentinel's catalogue.
func RunSentinel(argv []string, manual Manual) int { return run(argv, manual, true) }

// sentinelPart makes the Sentinel and connects it with the core. In a server this part is empty.
func (in *instance) sentinelPart() *part.Part {
	return &part.Part{Name: "Sentinel", Join: func(p *part.Part) error {
		if !in.asSentinel {
			return nil
		}
		in.world = sentinel.NewNet(sentinel.Parts{
			Do: in.core.Do,
			Open: func(ctx context.Context, address string) (net.Conn, error) {
				return in.dialPrimary(ctx, address, in.storage.Follow.Source.Get())
			},
			Write: func() error { return in.rewriter.Write(false) },
			Push:  func(channel, message string) { in.hub.Publish([]byte(channel), []byte(message)) },
			Line:  func(level logging.Level, text string) { in.log.At(level, "%s", text) },
			Here:  func() int { return in.listening.replicaPort(in.tls.Replication.Get()) }, Pass: in.engine.RequirePass.Get,
		})
		rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		in.watcher = sentinel.New(in.world, rng, time.Now().UnixMilli())
		in.world.Serve(in.watcher)
		in.registry.OnRewriteGroup("sentinel", map[string]string{"known-slave": "known-replica"}, in.watcher.Lines)
		in.watching = &sentinel.Commands{
			Machine: in.watcher, Now: clock.Steady,
			LogLevel: func() string { return in.registry.Lookup("loglevel").Get() },
			SetLogLevel: func(level string) error {
				return in.registry.SetMany([]setting.Pair{{Name: "loglevel", Value: level}}, setting.Conditions{})
			},
			Wake: func(cl *client.Client) { go in.core.Do(func() { in.core.Continue(cl) }) },
		}
		p.Sections = []info.Section{in.watcher.Section()}
		p.Threads = func() part.Need { return part.Laden } // goroutines wait in the kernel for the links
		return in.world.ReadLines(in.config.Sentinel)
	}}
}

// watch runs the Sentinel until stop is closed.
func (in *instance) watch(stop <-chan struct{}) {
	in.core.Do(func() {
		in.core.SetLoading(false)
		in.health.Publish()
		in.threads.Count()
		_ = in.watcher.Start(time.Now().UnixMilli()) // errors are already logged
	})
	in.listening.reactor.Serve()
	go in.world.Run(stop)
}
