package overview

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"spindle/admin/live"
	"spindle/dataset"
	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/internal/clock"
	"spindle/internal/histogram"
	"spindle/protocol"
)

var errDBIndex = errors.New("ERR DB index is out of range")

// The longest replies that the live page and its console accept. The console shows 256 KB.
const (
	longestReply   = 4 << 20
	longestConsole = 1 << 20
)

// A Page is the server as the live page sees it. Its methods run on the goroutines of HTTP; each look takes a turn.
type Page struct {
	Core    *engine.Core
	Gate    *protocol.Gate
	Space   *keyspace.Keyspace
	Clients *client.Registry
	Log     *ClientLog
	Figures *Figures
	BeatMs  func() int64 // when the core last did its duties, by clock.Steady
	Set     *dataset.Set
	// Certificates calls f for each TLS certificate in use, with its name and the seconds until it expires.
	Certificates func(f func(name string, left int64))
	Catalogue    func() *command.Catalogue
	cpu          cpuMeter
	changed      []live.Change // turn only
}

// latency yields the times of all replies since the start, by command.
func (o *Page) latency(yield func(command string, h *histogram.H) bool) {
	catalogue, reactor := o.Catalogue(), o.Figures.Reactor()
	names := make([]string, catalogue.IDs())
	for _, row := range catalogue.All() {
		names[row.ID] = row.Full
	}
	for row, h := range reactor.Timings {
		if !yield(names[row], h) {
			return
		}
	}
}

// mostChanges bounds the changes that are kept while no page fetches them.
const mostChanges = 64

// NoteChange notes that CONFIG SET has changed a setting. Turn only.
func (o *Page) NoteChange(name string) {
	if len(o.changed) < mostChanges {
		o.changed = append(o.changed, live.Change{AtMs: o.Core.Now(), Name: name})
	}
}

// takeChanges returns what NoteChange has noted since the last call.
func (o *Page) takeChanges() (list []live.Change) {
	o.Core.Do(func() { list, o.changed = o.changed, nil })
	return list
}

// Source returns the functions that the page calls.
func (o *Page) Source() live.Source {
	return live.Source{
		Observe: o.observe, Consult: o.Consult, Clients: o.clientLines, Sample: o.sample,
		Held:   o.held,
		Holder: func() live.Holder { return live.Holder(o.Core.Holder()) }, Latency: o.latency,
		Certificates: o.Certificates, Changed: o.takeChanges,
	}
}

// held returns how long ago the core last did its duties, or 0 before the first time.
func (o *Page) held() time.Duration {
	beat := o.BeatMs()
	if beat == 0 {
		return 0
	}
	return time.Duration(clock.Steady()-beat) * time.Millisecond
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

// Consult runs a command of the console on a database, with the rights of the user name. from is the browser's address.
// The logs show it with the client name "console".
//
// The reply waits for the disk as any other reply does, because it may show a write that a power cut would undo.
func (o *Page) Consult(name, from string, db int, args [][]byte) (reply []byte, err error) {
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
		if db < 0 || db >= o.Space.Len() {
			err = errDBIndex
			return
		}
		guest := engine.NewGuest(user)
		guest.DB, guest.Name, guest.From, guest.Out.Chunks = db, "console", from, bounded(longestConsole)
		if err = o.Core.Consult(guest, args); err == nil {
			reply, err = copyReply(guest, longestConsole)
		}
	})
	return reply, err
}

// A bounded keeps a reply of at most this many bytes. It keeps only the length of a longer reply.
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

// copyReply copies a guest's reply of at most `most` bytes, and frees lent memory.
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

// clientLines returns the lines of the first n clients.
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

// sample returns the present figures that INFO does not have.
func (o *Page) sample() (s live.Sample) {
	s.CPUPercent = o.cpu.percent()
	o.Core.Do(func() {
		lender, nanos := o.Core.Lender()
		s.Lender, s.Lent = live.Holder(lender), time.Duration(nanos)
		s.Fsync, s.LogFailure, s.SaveFailure = o.Set.AOF.SyncingFor(), o.Set.AOF.Failure(), o.Set.Scheduler.Failure()
	})
	if s.LogFailure+s.SaveFailure != "" {
		var fs unix.Statfs_t
		if unix.Statfs(".", &fs) == nil { // the working folder is dir
			s.DiskFree, s.DiskSize = int64(fs.Bavail)*fs.Bsize, int64(fs.Blocks)*fs.Bsize
		}
	}
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
