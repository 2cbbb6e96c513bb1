package server

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"spindle/admin/live"
	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/internal/clock"
	"spindle/protocol"
)

// What the live page sees of this server. Each look is a turn of its own.

// The longest replies that the page and its console take. The console shows 256 KB.
const (
	longestReply   = 4 << 20
	longestConsole = 1 << 20
)

// An onlooker looks at the server for the live page.
type onlooker struct {
	core     *engine.Core
	gate     *protocol.Gate
	space    *keyspace.Keyspace
	clients  *client.Registry
	witness  *witness
	observed *observation
	beatMs   func() int64
	cpu      cpuMeter
}

// source is what the page asks of the server.
func (o *onlooker) source() live.Source {
	return live.Source{
		Observe: o.observe, Consult: o.consult, Clients: o.clientLines, Sample: o.sample,
		Held: func() time.Duration { return time.Duration(clock.Steady()-o.beatMs()) * time.Millisecond },
	}
}

// observe runs a command that the server asks itself.
func (o *onlooker) observe(words ...string) (reply []byte, err error) {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	o.core.Do(func() {
		guest := engine.NewGuest(nil)
		if err = o.core.Observe(guest, args); err == nil {
			reply, err = takeReply(guest, longestReply)
		}
	})
	return reply, err
}

// consult runs a command of the console's, for the user name. from is the browser's address: the logs show it, with
// the client name "console". The reply waits for the disk as any other does: it may show a write that a power cut takes
// back.
func (o *onlooker) consult(name, from string, args [][]byte) (reply []byte, err error) {
	var turn uint64
	defer func() {
		for o.gate.Holds(turn) {
			time.Sleep(time.Millisecond)
		}
	}()
	o.core.Do(func() {
		turn = o.core.TurnNumber()
		var user *acl.User
		if user = o.core.Users().Find([]byte(name)); user == nil || !user.Rights().Enabled() {
			err = fmt.Errorf("NOAUTH the user %q of admin-console-user is not there or is off", name)
			return
		}
		guest := engine.NewGuest(user)
		guest.Name, guest.From, guest.Out.Chunks = "console", from, bounded(longestConsole)
		if err = o.core.Consult(guest, args); err == nil {
			reply, err = takeReply(guest, longestConsole)
		}
	})
	return reply, err
}

// A bounded keeps a reply of at most so many bytes. Of a longer one it keeps only the length.
type bounded int

// Chunk implements protocol.Chunks.
func (b bounded) Chunk(n, held int) (chunk []byte, release func()) {
	if held > int(b) {
		return nil, nil
	}
	return make([]byte, 0, n), func() {}
}

// Outgrown implements protocol.Chunks.
func (bounded) Outgrown([]byte) {}

// takeReply copies a guest's reply of at most most bytes, and gives lent memory back. It runs in a turn.
func takeReply(guest *client.Client, most int) (reply []byte, err error) {
	defer guest.Out.Reset()
	n := guest.Out.Len()
	if n > most {
		return nil, fmt.Errorf("ERR the reply has %d bytes, and at most %d are shown here: use SCAN, HSCAN, SSCAN, "+
			"ZSCAN or a shorter range", n, most)
	}
	reply = make([]byte, 0, n)
	for piece := range guest.Out.Pieces {
		reply = append(reply, piece...)
	}
	return reply, nil
}

// clientLines are the first n clients.
func (o *onlooker) clientLines(n int) (lines []string) {
	o.core.Do(func() {
		for cl := range o.clients.All {
			if len(lines) == n {
				return
			}
			lines = append(lines, o.witness.line(cl))
		}
	})
	return lines
}

// sample is what the page's history keeps of this moment.
func (o *onlooker) sample() (s live.Sample) {
	s.CPUPercent = o.cpu.percent()
	s.ResidentMemory = float64(memory.Resident())
	o.core.Do(func() {
		f := o.core.Figures()
		s.OpsPerSecond, s.InputPerSecond, s.OutputPerSecond = f.OpsPerSecond, o.observed.inputRate.PerSecond(), o.observed.outputRate.PerSecond()
		s.UsedMemory = float64(o.core.UsedMemory())
		s.Clients, s.Blocked = float64(f.Clients), float64(f.Blocked)
		s.TurnMicros, s.TurnsPerSecond = float64(f.TurnMean)/1e3, f.TurnsPerSecond
		for db := range o.space.Len() {
			s.Keys += float64(o.space.DB(db).Len())
		}
	})
	return s
}

// A cpuMeter tells how much of one core the process has used since it was asked last.
type cpuMeter struct {
	at   time.Time
	used time.Duration
}

func (m *cpuMeter) percent() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	was := *m
	m.at, m.used = time.Now(), time.Duration(u.Utime.Nano()+u.Stime.Nano())
	if was.at.IsZero() {
		return 0
	}
	return 100 * float64(m.used-was.used) / float64(m.at.Sub(was.at))
}
