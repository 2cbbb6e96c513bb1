package server

import (
	"os"

	"golang.org/x/sys/unix"

	"spindle/bgsave"
	"spindle/engine/part"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/lane"
	"spindle/protocol"
	"spindle/reactor"
)

// startLane opens the admin lane, if the configuration has one.
func (in *instance) startLane() error {
	if !in.own.hasLane(in.asSentinel) {
		return nil
	}
	l, err := lane.Open(lane.Parts{
		Core: in.core, Came: in.threads.Spare,
		Full: func() {
			in.log.Notice("A client of the admin lane is closed: it does not read what it asks for.")
		},
		Kill: in.scripts.KillBeside, End: func(asks protocol.Conn) {
			endAtOnce(in.log, asks, in.pidFile, in.sockets.UnixSocket.Get(), in.own.LaneSocket.Get())
		},
		Shutdown: func(refuse func(error)) error {
			return in.set.Shutdown.Request(process.ShutdownNoSave, refuse)
		},
		Connection: in.connDeps(), Refusals: &in.clientLog.LaneRefusals, Logs: in.figures.Logs, Catalogue: in.catalogue,
		Sections: in.sections,
	}, reactor.Options{
		Settings: &in.network, Bind: in.own.LaneBind.Get(), Port: int(in.own.LanePort.Get()),
		UnixSocket: in.own.LaneSocket.Get(), UnixPerm: uint32(in.own.LaneSocketPerm.Get()),
		Logf: func(level reactor.Level, format string, args ...any) {
			in.log.At(logging.Level(level), format, args...)
		},
		OutputLimit: func(session any, _ protocol.Class, _ int) {
			in.log.Warning("Client of the admin lane %s scheduled to be closed ASAP for overcoming of output buffer limits.",
				lane.Address(session))
		},
		QueryLimit: func(session any, begin []byte) {
			in.log.Warning("Closing client of the admin lane that reached max query buffer length: %s (qbuf initial bytes: %s)",
				lane.Address(session), setting.Quote(string(begin)))
		},
	})
	if err != nil {
		return err
	}
	for _, address := range l.Reactor.Addrs() {
		in.log.Notice("Admin lane on %s", address)
	}
	in.core.Do(func() {
		in.lane.Store(l)
		in.core.Subscribe(part.Listeners{Order: part.Later, Tick: func(int64) { l.Tick() }})
	})
	return nil
}

// endAtOnce ends the process without a turn or save, as a client asked. First it closes the client's connection. At the
// process's end the kernel takes 0.3 s for each GB of memory before it closes sockets.
func endAtOnce(log *logging.Logger, asks protocol.Conn, pidFile string, sockets ...string) {
	log.Warning("User requested shutdown on the admin lane, while the turn was held: ending without a save.")
	bgsave.RemoveTemporaries()
	process.RemovePidFile(pidFile)
	for _, path := range sockets {
		if path != "" {
			os.Remove(path)
		}
	}
	log.Warning("Redis is now ready to exit, bye bye...")
	_ = unix.Shutdown(asks.FD(), unix.SHUT_RDWR)
	os.Exit(0)
}
