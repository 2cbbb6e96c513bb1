package server

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"spindle/admin/live"
	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/data/memory"
	"spindle/internal/clock"
)

// What the live page sees of this server. Each look is a turn of its own.

// The longest replies that the page and its console take. The console shows 256 KB.
const (
	longestReply   = 4 << 20
	longestConsole = 1 << 20
)

func (in *instance) newPage() *live.Page {
	cpu := cpuMeter{}
	return live.New(live.Options{
		Token: in.own.AdminToken.Get(), Host: in.own.AdminHost.Get(), Console: in.own.Console.Get(),
		Source: live.Source{
			Observe: in.observeNow, Consult: in.consultAs, Clients: in.clientLines,
			Sample: func() live.Sample { return in.sample(&cpu) },
			Held:   func() time.Duration { return time.Duration(clock.Steady()-in.beatMs.Load()) * time.Millisecond },
		},
	})
}

// observeNow runs a command that the server asks itself.
func (in *instance) observeNow(words ...string) (reply []byte, err error) {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	in.core.Do(func() {
		guest := engine.NewGuest(nil)
		if err = in.core.Observe(guest, args); err == nil {
			reply, err = takeReply(guest, longestReply)
		}
	})
	return reply, err
}

// consultAs runs a command of the console's, for the user name. from is the browser's address: the logs show it, with
// the client name "console". The reply waits for the disk as any other does: it may show a write that a power cut takes
// back.
func (in *instance) consultAs(name, from string, args [][]byte) (reply []byte, err error) {
	var turn uint64
	defer func() {
		for in.gate.Holds(turn) {
			time.Sleep(time.Millisecond)
		}
	}()
	in.core.Do(func() {
		turn = in.core.TurnNumber()
		var user *acl.User
		if user = in.core.Users().Find([]byte(name)); user == nil || !user.Rights().Enabled() {
			err = fmt.Errorf("NOAUTH the user %q of admin-console-user is not there or is off", name)
			return
		}
		guest := engine.NewGuest(user)
		guest.Name, guest.From, guest.Out.Chunks = "console", from, bounded(longestConsole)
		if err = in.core.Consult(guest, args); err == nil {
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

// takeReply copies a guest's reply of at most most bytes, and gives lent memory back. Turn only.
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
func (in *instance) clientLines(n int) (lines []string) {
	in.core.Do(func() {
		for cl := range in.clients.All {
			if len(lines) == n {
				return
			}
			lines = append(lines, in.describe(cl))
		}
	})
	return lines
}

// sample is what the page's history keeps of this moment.
func (in *instance) sample(cpu *cpuMeter) (s live.Sample) {
	s.CPUPercent = cpu.percent()
	s.ResidentMemory = float64(memory.Resident())
	in.core.Do(func() {
		f := in.core.Figures()
		s.OpsPerSecond, s.InputPerSecond, s.OutputPerSecond = f.OpsPerSecond, in.inputRate.PerSecond(), in.outputRate.PerSecond()
		s.UsedMemory = float64(in.core.UsedMemory())
		s.Clients, s.Blocked = float64(f.Clients), float64(f.Blocked)
		s.TurnMicros, s.TurnsPerSecond = float64(f.TurnMean)/1e3, f.TurnsPerSecond
		for db := range in.space.Len() {
			s.Keys += float64(in.space.DB(db).Len())
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
