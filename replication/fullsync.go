package replication

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spindle/engine/client"
	"spindle/engine/data/keyspace"
)

// A Saver writes a view as an RDB stream. bgsave's encoder is one; it may use several goroutines.
type Saver interface {
	// Prepare is called in the turn that freezes; what it returns writes the whole view to w, on any goroutine, the
	// same number of bytes for the same view each time it is called.
	// It ends early when ctx does.
	Prepare(ctx context.Context, replID string, offset int64, only Filter) func(w io.Writer, view *keyspace.View) error
	// Holds says which forms that only some servers read may be among the data. Turn only.
	Holds() Forms
	// Find looks for a key of the view that holds one of forms. It is called on any goroutine.
	Find(view *keyspace.View, forms Forms) (x Find, found bool)
}

// A Filter says what a replica asked to be left out of its RDB stream; the zero value is nothing.
type Filter struct{ NoKeys, NoFunctions bool }

// unsentMax is how far the sender may run ahead of the replica's socket. R5: past it, it is the sender that waits.
const unsentMax = 4 << 20

// pieceBytes is what the sender hands to the loop at a time.
const pieceBytes = 256 << 10

// sign is how often a replica hears that its stream is being made, before the first byte of it.
const sign = time.Second

var (
	errReplicaGone  = errors.New("the replica is gone")
	errReplicaStuck = errors.New("the replica has not read for repl-timeout")
)

// A group is the replicas of one full synchronisation. They have one view and one encoding, at the pace of the slowest.
type group struct {
	members []*replica
	eof     bool   // the form of the stream
	giveUp  func() // ends the encoding
	began   time.Time
}

// deserted says whether all members have left.
func (g *group) deserted() bool {
	for _, r := range g.members {
		if _, still := r.cl.ReplicaState.(*replica); still {
			return false
		}
	}
	return true
}

// form is what replicas have in common that can share a full synchronisation.
type form struct {
	eof, rdbOnly bool
	filter       Filter
}

func (r *replica) form() form { return form{r.eof, r.rdbOnly, r.filter} }

// request has r wait for a full synchronisation, which begins at once if nothing is to be waited for.
func (f *Feed) request(r *replica) {
	f.enlist(r)
	r.state, r.askedMs, r.ackMs = waiting, f.core.SteadyMs(), f.core.SteadyMs()
	f.fullSyncs++
	f.startWaiting()
	switch {
	case r.state != waiting:
	case f.groups[r.place()] != nil:
		f.settings.Log.Notice("A full synchronization is under way. Replica %s waits for the next one", r.name())
	default:
		f.settings.Log.Notice("Delay next BGSAVE for diskless SYNC")
	}
}

// place is where in Feed.groups a synchronisation of r's form stands.
func (r *replica) place() int {
	if r.eof {
		return 1
	}
	return 0
}

// startWaiting begins the full synchronisations that are due, once no unit is open: a replica would apply the effects
// of an open unit a second time. There is one of each form at a time. Other replicas wait, and share the next one.
func (f *Feed) startWaiting() {
	f.core.Between(func() {
		if f.core.Loading() {
			return // half a data set is not for replicas
		}
		for place := range f.groups {
			if f.groups[place] == nil {
				f.startNext(place)
			}
		}
	})
}

func (f *Feed) startNext(place int) {
	var first *replica
	n := int64(0)
	for _, r := range f.replicas {
		if r.place() == place && f.ready(r) {
			if n++; first == nil || r.askedMs < first.askedMs {
				first = r
			}
		}
	}
	if first == nil || !f.due(first, n) {
		return
	}
	g := &group{eof: first.eof}
	for _, r := range f.replicas {
		if r.form() == first.form() && f.ready(r) {
			g.members = append(g.members, r)
		}
	}
	f.groups[place] = g
	f.start(g, first.filter)
}

// ready says whether r waits for a view, and can read one.
func (f *Feed) ready(r *replica) bool { return r.awaitsView() && f.canRead(r) }

func (r *replica) awaitsView() bool { return r.state == waiting && !r.cl.Is(client.CloseASAP) }

// Sending says whether a full synchronisation is under way.
func (f *Feed) Sending() bool { return f.groups[0] != nil || f.groups[1] != nil }

// due says whether first, who has waited longest of n, has waited long enough for others. Who needs the form with a
// length does not wait.
func (f *Feed) due(first *replica, n int64) bool {
	s := f.settings
	if !s.Diskless.Get() || !first.eof || s.SyncReplicas.Get() > 0 && n >= s.SyncReplicas.Get() {
		return true
	}
	return f.core.SteadyMs()-first.askedMs >= s.SyncDelay.Get()*1000
}

// Began is when the longest of the full synchronisations under way began; the zero time without one.
func (f *Feed) Began() (at time.Time) {
	if g := f.longest(); g != nil {
		at = g.began
	}
	return at
}

// CutOff ends that one, and closes its replicas' connections: its view keeps too much memory alive.
func (f *Feed) CutOff(why string) {
	g := f.longest()
	f.settings.Log.Warning("Full synchronization called off: %s", why)
	g.giveUp()
	for _, r := range g.members {
		if _, still := r.cl.ReplicaState.(*replica); still {
			f.core.Kill(r.cl, false)
		}
	}
}

func (f *Feed) longest() (found *group) {
	for _, g := range f.groups {
		if g != nil && (found == nil || g.began.Before(found.began)) {
			found = g
		}
	}
	return found
}

// signWaiting has those who wait read an empty line each second, which keeps them from giving up.
func (f *Feed) signWaiting(nowMs int64) {
	for _, r := range f.replicas {
		if r.awaitsView() && nowMs-r.ackMs >= 1000 {
			r.ackMs = nowMs
			r.cl.Conn.Post(f.core.TurnNumber(), []byte{'\n'})
		}
	}
}

// start begins a full synchronisation: what is in the view is sent, what comes after stays in the backlog.
func (f *Feed) start(g *group, only Filter) {
	f.core.AssertWhole("a replica is told an offset")
	f.flush() // what was decided before belongs to the others alone
	f.selected = -1
	answer := "FULLRESYNC " + f.ID + " " + strconv.FormatInt(f.offset, 10)
	for _, r := range g.members {
		switch {
		case r.psync && r.answer != nil:
			r.answer.Simple(answer)
		case r.psync:
			r.cl.Conn.Post(f.core.TurnNumber(), []byte("+"+answer+"\r\n"))
		}
		if r.state, r.loaded = sending, false; !r.rdbOnly {
			f.fallBehind(r, f.offset)
		}
		delete(f.tooOld, r.address())
		f.settings.Log.Notice("Starting full synchronization of replica %s from a view: no file, no fork", r.name())
	}
	view := f.core.Freeze()
	if !g.eof {
		view.Keep() // it is walked twice
	}
	out := f.sender(g.members)
	out.turn = f.core.TurnNumber()
	ctx, cancel := context.WithCancel(context.Background())
	g.giveUp, g.began = cancel, time.Now()
	go f.send(g, out, view, f.saver.Prepare(ctx, f.ID, f.offset, only))
}

// send streams view to the group and closes it. It runs on a goroutine of its own.
//
// Wire: "$EOF:" and forty characters, the RDB stream, the same forty characters, for replicas that know the EOF form;
// else the length and the stream, for which the view is encoded twice: once to count, once to send, and nothing is
// kept.
func (f *Feed) send(g *group, out *sender, view *keyspace.View, stream func(io.Writer, *keyspace.View) error) {
	defer view.Close()
	defer g.giveUp()
	began := time.Now()
	err := sendView(out, g.eof, view, stream)
	f.core.Do(func() {
		f.groups[g.members[0].place()] = nil
		out.drop() // who has left since the last write
		f.logEnd(len(out.to), err)
		for _, r := range g.members {
			f.ended(r, out, err, time.Since(began))
		}
		f.startWaiting()
	})
}

// logEnd says how many replicas have got the whole of a full synchronisation, in the words that operators' tools wait
// for.
func (f *Feed) logEnd(left int, err error) {
	switch {
	case left == 0:
		f.settings.Log.Notice("Diskless rdb transfer, last replica dropped, killing fork child. Here: the stream is given up")
	case err == nil:
		f.settings.Log.Notice("Diskless rdb transfer, done reading from pipe, %d replicas still up.", left)
	}
}

// ended goes on with r, whose share of a full synchronisation is over.
func (f *Feed) ended(r *replica, out *sender, err error, took time.Duration) {
	if _, still := r.cl.ReplicaState.(*replica); !still {
		f.settings.Log.Warning("Full synchronization with replica %s failed: %v", r.name(), errReplicaGone)
		return
	}
	if left := out.left[r]; left != nil {
		err = left
	}
	switch {
	case err == errReplicaStuck:
		f.settings.Log.Warning("Disconnecting timedout replica (full sync): %s", r.name())
		f.core.Kill(r.cl, false)
	case err != nil:
		f.settings.Log.Warning("Full synchronization with replica %s failed: %v", r.name(), err)
		f.core.Kill(r.cl, false)
	case r.rdbOnly:
		f.settings.Log.Notice("Streamed %d bytes of RDB to %s in %.3f seconds", out.total, r.name(), took.Seconds())
		f.core.Kill(r.cl, true)
	case r.eof:
		f.settings.Log.Notice("Streamed replica transfer with %s succeeded (socket), %d bytes in %.3f seconds. Waiting for "+
			"REPLCONF ACK from replica to enable streaming",
			r.name(), out.total, took.Seconds())
		r.state, r.ackMs = awaitAck, f.core.SteadyMs()
		if r.loaded {
			f.goOnline(r)
		}
	default:
		f.goOnline(r)
	}
}

func sendView(out *sender, eof bool, view *keyspace.View, stream func(io.Writer, *keyspace.View) error) error {
	if eof {
		var raw [20]byte
		rand.Read(raw[:])
		mark := hex.EncodeToString(raw[:])
		if _, err := io.WriteString(out, "$EOF:"+mark+"\r\n"); err != nil {
			return err
		}
		if err := stream(out, view); err != nil {
			return err
		}
		if _, err := io.WriteString(out, mark); err != nil {
			return err
		}
		return out.flush()
	}
	size := counter{to: out, signed: time.Now()}
	if err := stream(&size, view); err != nil {
		return err
	}
	if _, err := io.WriteString(out, "$"+strconv.FormatInt(size.n, 10)+"\r\n"); err != nil {
		return err
	}
	before := out.written()
	if err := stream(out, view); err != nil {
		return err
	}
	if n := out.written() - before; n != size.n { // the replica would take effects for data, or the other way round
		return fmt.Errorf("a stream announced with %d bytes has %d", size.n, n)
	}
	return out.flush()
}

// counter counts what is written to it. Meanwhile the replicas read an empty line now and then, which keeps them from
// giving up.
type counter struct {
	to     *sender
	n      int64
	signed time.Time
}

func (c *counter) Write(p []byte) (int, error) {
	if c.to.drop(); len(c.to.to) == 0 {
		return 0, errReplicaGone
	}
	if now := time.Now(); now.Sub(c.signed) >= sign {
		c.signed = now
		for _, r := range c.to.to {
			r.cl.Conn.Post(c.to.turn, []byte{'\n'})
		}
	}
	c.n += int64(len(p))
	return len(p), nil
}

// sender is the connections of some replicas as a writer that waits while too much is unsent.
type sender struct {
	to       []*replica // those that are still there
	left     map[*replica]error
	turn     uint64
	patience func() time.Duration // how long a replica may read nothing
	posted   *atomic.Int64        // Feed.posted
	piece    []byte
	total    int64
}

func (f *Feed) sender(to []*replica) *sender {
	return &sender{to: slices.Clone(to), left: map[*replica]error{}, posted: &f.posted,
		patience: func() time.Duration { return time.Duration(f.settings.Timeout.Get()) * time.Second }}
}

// drop takes out the replicas whose connections have closed.
func (s *sender) drop() {
	s.to = slices.DeleteFunc(s.to, func(r *replica) bool {
		select {
		case <-r.gone:
			s.left[r] = errReplicaGone
			return true
		default:
			return false
		}
	})
}

// written counts what it was given.
func (s *sender) written() int64 { return s.total + int64(len(s.piece)) }

func (s *sender) Write(p []byte) (int, error) {
	s.piece = append(s.piece, p...)
	if len(s.piece) >= pieceBytes {
		return len(p), s.flush()
	}
	return len(p), nil
}

// flush posts the piece, once the sockets have taken enough of the earlier ones.
func (s *sender) flush() error {
	s.await()
	if len(s.to) == 0 {
		return errReplicaGone
	}
	for _, r := range s.to {
		r.cl.Conn.Post(s.turn, s.piece)
		s.posted.Add(int64(len(s.piece)))
	}
	s.total += int64(len(s.piece))
	s.piece = make([]byte, 0, pieceBytes+4096)
	return nil
}

// await waits until each socket has taken enough. Who takes nothing for too long is left behind.
func (s *sender) await() {
	s.drop()
	s.to = slices.DeleteFunc(s.to, func(r *replica) bool {
		err := s.awaitOne(r)
		if err != nil {
			s.left[r] = err
		}
		return err != nil
	})
}

func (s *sender) awaitOne(r *replica) error {
	least, since := math.MaxInt, time.Now()
	for {
		unsent := r.cl.Conn.Usage().Output
		select {
		case <-r.gone:
			return errReplicaGone
		default:
		}
		if unsent <= unsentMax {
			return nil
		}
		if unsent < least {
			least, since = unsent, time.Now()
		} else if time.Since(since) > s.patience() {
			return errReplicaStuck
		}
		time.Sleep(min(time.Millisecond+time.Since(since)/16, 20*time.Millisecond))
	}
}

func (r *replica) host() string {
	if r.addr != "" {
		return r.addr
	}
	if r.cl.Conn == nil {
		return ""
	}
	return hostOf(r.cl)
}

// hostOf is the address of a client's peer, without the port and IPv6's brackets.
func hostOf(cl *client.Client) string {
	addr := cl.Conn.RemoteAddr()
	at := strings.LastIndexByte(addr, ':')
	if at < 0 {
		return addr
	}
	return strings.Trim(addr[:at], "[]")
}
