package overview

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

// The longest replies that the live page and its console take. The console shows 256 KB.
const (
	longestReply   = 4 << 20
	longestConsole = 1 << 20
)

// A Page looks at the server for the live page. Its methods run on the goroutines of HTTP; each look takes a turn.
type Page struct {
	Core    *engine.Core
	Gate    *protocol.Gate
	Space   *keyspace.Keyspace
	Clients *client.Registry
	Log     *ClientLog
	Figures *Figures
	BeatMs  func() int64 // when the core last did its duties, by clock.Steady
	cpu     cpuMeter
}

// Source is what the page asks of the server.
func (o *Page) Source() live.Source {
	return live.Source{
		Observe: o.observe, Consult: o.Consult, Clients: o.clientLines, Sample: o.sample,
		Held: func() time.Duration { return time.Duration(clock.Steady()-o.BeatMs()) * time.Millisecond },
	}
}

// observe runs a command for the page itself, with all rights.
func (o *Page) observe(words ...string) (reply []byte, err error) {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	o.Core.Do(func() {
		guest := engine.NewGuest(nil)
		if err = o.Core.Observe(guest, args); err == nil {
			reply, err = copyReply(guest, longestReply)
		}
	})
	return reply, err
}

// Consult runs a command of the console with the rights of the user name. from is the browser's address. The logs show
// it with the client name "console".
//
// The reply waits for the disk as any other reply does, because it may show a write that a power cut would undo.
func (o *Page) Consult(name, from string, args [][]byte) (reply []byte, err error) {
	var turn uint64
	defer func() {
		for o.Gate.Holds(turn) {
			time.Sleep(time.Millisecond)
		}
	}()
	o.Core.Do(func() {
		turn = o.Core.TurnNumber()
		var user *acl.User
		if user = o.Core.Users().Find([]byte(name)); user == nil || !user.Rights().Enabled() {
			err = fmt.Errorf("NOAUTH the user %q of admin-console-user is not there or is off", name)
			return
		}
		guest := engine.NewGuest(user)
		guest.Name, guest.From, guest.Out.Chunks = "console", from, bounded(longestConsole)
		if err = o.Core.Consult(guest, args); err == nil {
			reply, err = copyReply(guest, longestConsole)
		}
	})
	return reply, err
}

// A bounded keeps a reply of at most that many bytes. It keeps only the length of a longer one.
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

// copyReply copies a guest's reply of at most most bytes, and gives lent memory back.
func copyReply(guest *client.Client, most int) (reply []byte, err error) {
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

// clientLines returns lines of the first n clients.
func (o *Page) clientLines(n int) (lines []string) {
	o.Core.Do(func() {
		for cl := range o.Clients.All {
			if len(lines) == n {
				return
			}
			lines = append(lines, o.Log.Line(cl))
		}
	})
	return lines
}

// sample returns the present figures for the page's history.
func (o *Page) sample() (s live.Sample) {
	s.CPUPercent = o.cpu.percent()
	s.ResidentMemory = float64(memory.Resident())
	o.Core.Do(func() {
		f := o.Core.Figures()
		s.OpsPerSecond = f.OpsPerSecond
		s.InputPerSecond, s.OutputPerSecond = o.Figures.inputRate.PerSecond(), o.Figures.outputRate.PerSecond()
		s.UsedMemory = float64(o.Core.UsedMemory())
		s.Clients, s.Blocked = float64(f.Clients), float64(f.Blocked)
		s.TurnMicros, s.TurnsPerSecond = float64(f.TurnMean)/1e3, f.TurnsPerSecond
		for db := range o.Space.Len() {
			s.Keys += float64(o.Space.DB(db).Len())
		}
	})
	return s
}

// A cpuMeter returns how much of one processor the process has used since the last call.
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
