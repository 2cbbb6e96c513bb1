package slotmove

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"spindle/aof"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A wire is the connection of a move to its target. One goroutine writes: the keys of the slots from views, and the
// changes that the turn hands it. Another one reads the target's messages.
//
// The slots go in groups. For each, a view is frozen that lives until the group is written. Changes of slots whose
// group has not begun are dropped, because its view will have them. So a view is short, and few changes wait:
//
//	turn     freeze group 1        freeze group 2                       EOF
//	sender      └─ keys of 1, then ──┘ └─ keys of 2, then changes of 1, 2 ─┘ changes …
//	                  changes of 1
//
// slotmove.W1. A key's change is written after the key itself was.
// slotmove.W2. A message of say comes after all changes of earlier turns.
type wire struct {
	m    *Mover
	j    *job
	ctx  context.Context
	stop context.CancelFunc
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer

	// Turn only:
	listens bool              // it is a sink of the core
	sent    [slots.Count]bool // slots whose group has begun
	found   []command.KeyPosition
	args    [][]byte

	mu      sync.Mutex
	more    sync.Cond
	changes pieces // encoded, for the target
	db      int    // that the last of them is for; -1: the next needs a SELECT
	writing int    // bytes that were taken from changes and are not written yet
	closed  bool
}

// pieces are bytes in blocks of pieceBytes. One long block would be copied in a turn each time it grows, which took
// 10 ms for 20 MB.
type pieces struct {
	list  [][]byte
	size  int
	spare [][]byte // empty blocks for later bytes, so that a turn seldom allocates one
}

const (
	pieceBytes = 64 << 10
	spareLeast = 2  // blocks that the sender makes, if there are fewer
	spareMost  = 16 // written blocks that are kept
)

// add appends a copy of p.
func (s *pieces) add(p []byte) {
	s.size += len(p)
	if last := len(s.list) - 1; last >= 0 && cap(s.list[last])-len(s.list[last]) >= len(p) {
		s.list[last] = append(s.list[last], p...)
		return
	}
	s.list = append(s.list, append(s.block(len(p)), p...))
}

// block returns an empty block for at least n bytes.
func (s *pieces) block(n int) (b []byte) {
	last := len(s.spare) - 1
	if n > pieceBytes || last < 0 {
		return make([]byte, 0, max(pieceBytes, n))
	}
	b, s.spare[last] = s.spare[last], nil
	s.spare = s.spare[:last]
	return b
}

// take removes all bytes and returns their blocks.
func (s *pieces) take() (list [][]byte) {
	list, s.list, s.size = s.list, nil, 0
	return list
}

// keep makes blocks of usual size spare ones. Their bytes are not needed any more.
func (s *pieces) keep(list ...[]byte) {
	for _, b := range list {
		if cap(b) == pieceBytes && len(s.spare) < spareMost {
			s.spare = append(s.spare, b[:0])
		}
	}
}

func newWire(m *Mover, j *job) *wire {
	w := &wire{m: m, j: j, db: -1}
	w.more.L = &w.mu
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// close ends the connection. Any goroutine; it does not wait.
func (w *wire) close() {
	w.stop()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.more.Broadcast()
}

// leave ends the sink. Between only.
func (w *wire) leave() {
	if w.listens {
		w.listens = false
		w.m.core.RemoveSink(w)
	}
}

// waiting is the number of bytes that the target has not been sent yet. Any goroutine.
func (w *wire) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes.size + w.writing
}

// say sends a message of the protocol.
func (w *wire) say(message string) {
	w.mu.Lock()
	w.changes.add(appendMessage(nil, message))
	w.mu.Unlock()
	w.more.Signal()
}

// Append implements engine.Sink.
func (w *wire) Append(unit []engine.Effect) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range unit {
		if e.DB == engine.AnyDB || !w.wants(e.Command) {
			continue
		}
		if e.DB != w.db {
			w.db = e.DB
			w.changes.add(protocol.AppendCommand(nil, [][]byte{[]byte("SELECT"), number(uint16(e.DB))}))
		}
		w.changes.add(e.Command)
	}
}

// TurnDone implements engine.Sink.
func (w *wire) TurnDone() {
	w.mu.Lock()
	any := w.changes.size > 0
	w.mu.Unlock()
	if any {
		w.more.Signal()
	}
}

// wants reports whether an effect changes a key of a slot whose group has begun.
func (w *wire) wants(effect []byte) bool {
	w.args = splitCommand(w.args[:0], effect)
	spec, err := w.m.core.Row(w.args)
	if err != nil || !spec.HasKeys(command.IncludeNotKeys) || spec.Channels != 0 {
		return false
	}
	if w.found, err = spec.AppendKeys(w.found[:0], w.args, 0); err != nil || len(w.found) == 0 {
		return false
	}
	return w.sent[slots.Of(w.args[w.found[0].Index])]
}

// splitCommand appends the arguments of a command that the core has encoded.
func splitCommand(dst [][]byte, p []byte) [][]byte {
	line := func() int {
		end := 1
		n := 0
		for ; p[end] != '\r'; end++ {
			n = n*10 + int(p[end]-'0')
		}
		p = p[end+2:]
		return n
	}
	for n := line(); n > 0; n-- {
		size := line()
		dst = append(dst, p[:size:size])
		p = p[size+2:]
	}
	return dst
}

func number(n uint16) []byte { return strconv.AppendUint(nil, uint64(n), 10) }

// do runs f in a turn. It reports whether the job is still running.
func (w *wire) do(f func()) (runs bool) {
	w.m.core.Do(func() {
		if runs = w.j.running() && !w.m.stopped; runs {
			f()
			runs = w.j.running()
		}
	})
	return runs
}

// between is do while no unit is open.
func (w *wire) between(f func()) (runs bool) {
	w.m.core.DoBetween(func() {
		if runs = w.j.running() && !w.m.stopped; runs {
			f()
		}
	})
	return runs
}

func (w *wire) enter(s state) bool { return w.do(func() { w.m.enter(w.j, s) }) }

// fail ends the job.
func (w *wire) fail(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	w.do(func() { w.m.end(w.j, failed, message) })
}

// send is the writing goroutine.
func (w *wire) send() {
	defer w.stop()
	if !w.connect() {
		return
	}
	defer w.conn.Close()
	go func() {
		<-w.ctx.Done()
		w.conn.Close()
	}()
	if !w.greet() {
		return
	}
	go w.read()
	if err := w.copyAll(); err != nil {
		w.do(func() { w.m.lost(w.j) })
		return
	}
	if err := w.stream(); err != nil {
		w.do(func() { w.m.lost(w.j) })
	}
}

// connect dials the target.
func (w *wire) connect() bool {
	host, port, known := "", 0, false
	patience := time.Duration(0)
	if !w.do(func() {
		host, port, _, known = w.m.parts.Cluster.Peer(w.j.target)
		patience = w.m.parts.Patience()
		w.m.log.Notice("Connecting slot migration %s (ip: %s, port %d)", w.j.what, host, port)
	}) {
		return false
	}
	if !known {
		w.fail("Unable to connect to target node: target node not found")
		return false
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	conn, err := w.m.parts.Dial(ctx, net.JoinHostPort(host, strconv.Itoa(port)), w.m.parts.Source())
	if err != nil {
		w.fail("Unable to connect to target node: %s", plain(err))
		return false
	}
	w.conn, w.in, w.out = conn, bufio.NewReaderSize(conn, 4<<10), bufio.NewWriterSize(patient{w}, 64<<10)
	w.m.log.Notice("Slot migration %s connection established.", w.j.what)
	return true
}

// plain is an error without the addresses that package net adds.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// patient writes to the connection, each piece within repl-timeout.
type patient struct{ w *wire }

func (p patient) Write(b []byte) (n int, err error) {
	if err := p.w.conn.SetWriteDeadline(time.Now().Add(p.w.m.parts.Patience())); err != nil {
		return 0, err
	}
	n, err = p.w.conn.Write(b)
	p.w.m.exported.Add(uint64(n))
	return n, err
}

// ask writes a command and reads its reply of one line.
func (w *wire) ask(request []byte) (line string, err error) {
	if _, err := w.out.Write(request); err != nil {
		return "", err
	}
	if err := w.out.Flush(); err != nil {
		return "", err
	}
	if err := w.conn.SetReadDeadline(time.Now().Add(w.m.parts.Patience())); err != nil {
		return "", err
	}
	b, err := w.in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), "\r\n"), w.conn.SetReadDeadline(time.Time{})
}

// greet logs in and sends ESTABLISH.
func (w *wire) greet() bool {
	if user, password := w.m.parts.Login(); password != "" {
		args := [][]byte{[]byte("AUTH"), []byte(user), []byte(password)}
		if user == "" {
			args = append(args[:1], args[2])
		}
		if !w.enter(exportSendAuth) || !w.enter(exportReadAuth) {
			return false
		}
		switch line, err := w.ask(protocol.AppendCommand(nil, args)); {
		case err != nil:
			w.fail("Target node did not respond to AUTH command")
			return false
		case strings.HasPrefix(line, "-"):
			w.fail("Failed to AUTH to target node: %s", line)
			return false
		}
		w.m.log.Notice("Successfully authenticated slot migration %s", w.j.what)
	}
	if !w.tellAcks() || !w.enter(exportSendEstablish) || !w.enter(exportReadEstablish) {
		return false
	}
	line, err := w.ask(w.j.establishment())
	switch {
	case err != nil:
		w.do(func() { w.m.lost(w.j) })
		return false
	case !strings.HasPrefix(line, "+"):
		w.fail("Received error during handshake to target: %s", line)
		return false
	}
	return w.do(func() {
		w.j.heardMs = w.m.core.SteadyMs()
		w.m.enter(w.j, exportWaitSnapshot)
		w.say("ACK") // the target begins with it
	})
}

// tellAcks tells the target how many replicas the clients here wait for (slotmove.T6). A Valkey does not know CLIENT
// ACK. tellAcks reports whether the job is still running.
func (w *wire) tellAcks() bool {
	level := 0
	if !w.do(func() { level = w.m.ackLevel(); w.j.acks = level }) {
		return false
	}
	if level == 0 {
		return true
	}
	line, err := w.ask(protocol.AppendCommand(nil, [][]byte{[]byte("CLIENT"), []byte("ACK"), number(uint16(level))}))
	switch {
	case err != nil:
		w.do(func() { w.m.lost(w.j) })
		return false
	case strings.HasPrefix(line, "-"):
		w.m.log.Notice("The target of slot migration %s will not wait for replicas before it takes the slots: %s", w.j.what,
			line)
		return w.do(func() { w.j.acks = protocol.AckLevels })
	}
	return true
}

// ackLevel returns the greatest number of replicas that a client waits for. Turn only.
func (m *Mover) ackLevel() int {
	for level := protocol.AckLevels; level > 0; level-- {
		if m.core.AckClients(level) > 0 {
			return level
		}
	}
	return 0
}

// groupKeys is how many keys go from one view: some tens of ms of work, or one slot.
const groupKeys = 20_000

// copyAll writes all keys of the slots, and the changes meanwhile.
func (w *wire) copyAll() error {
	if !w.between(func() {
		w.m.log.Notice("Beginning snapshot of slot migration %s.", w.j.what)
		w.m.enter(w.j, exportSnapshotting)
		w.listens = true
		w.m.core.AddSink(w, client.ToReplicas)
	}) {
		return nil
	}
	keys := aof.NewEncoder(w.out, int(w.m.parts.Newest()))
	for left := w.j.list; len(left) > 0; {
		if err := w.drain(); err != nil {
			return err
		}
		var view *keyspace.View
		n, nowMs := 0, int64(0)
		if !w.between(func() {
			for keys := 0; n < len(left) && (n == 0 || keys < groupKeys); n++ {
				w.sent[left[n]] = true
				keys += w.m.parts.Space.InSlot(left[n])
			}
			view, nowMs = w.m.core.Freeze(), w.m.core.Now()
			view.Keep()
		}) {
			return nil
		}
		err := w.copyGroup(keys, view, left[:n], nowMs)
		view.Close()
		if err != nil {
			return err
		}
		left = left[n:]
	}
	runs := w.do(func() {
		w.m.enter(w.j, exportStreaming)
		w.m.log.Notice("Slot migration %s snapshot finished, starting streaming.", w.j.what)
		w.say("SNAPSHOT-EOF")
	})
	if !runs {
		return nil
	}
	return w.drain()
}

// copyGroup writes the keys of slots from a view of nowMs. A key whose deadline comes later may yet get another one, so
// the time of this goroutine does not count.
func (w *wire) copyGroup(keys *aof.Encoder, view *keyspace.View, list []uint16, nowMs int64) error {
	p := pace{began: time.Now()}
	for _, db := range view.DBs() {
		selected := false
		for _, slot := range list {
			view.WalkSlot(db, slot, func(v value.Value) bool {
				if v.Volatile() && v.Deadline() < nowMs {
					return true // it goes before the slot does
				}
				if !selected {
					selected = true
					keys.Select(db)
				}
				keys.Key(v)
				p.rest()
				return keys.Err() == nil && w.ctx.Err() == nil
			})
		}
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	w.db = -1 // the encoder has chosen another one
	w.mu.Unlock()
	return keys.Flush()
}

// A pace has the copying goroutine rest for as long as it has worked.
type pace struct{ began time.Time }

// worksFor is how long it works between two rests.
const worksFor = time.Millisecond

func (p *pace) rest() {
	took := time.Since(p.began)
	if took < worksFor {
		return
	}
	time.Sleep(min(took, 5*worksFor))
	p.began = time.Now()
}

// stock makes spare blocks, if there are few. Not in a turn.
func (w *wire) stock() {
	w.mu.Lock()
	n := spareLeast - len(w.changes.spare)
	w.mu.Unlock()
	for range n {
		b := make([]byte, 0, pieceBytes)
		w.mu.Lock()
		w.changes.keep(b)
		w.mu.Unlock()
	}
}

// drain writes the changes that wait.
func (w *wire) drain() error {
	for {
		w.stock()
		w.mu.Lock()
		w.writing, w.db = w.changes.size, -1
		list := w.changes.take()
		w.mu.Unlock()
		if len(list) == 0 {
			return w.out.Flush()
		}
		for _, p := range list {
			if _, err := w.out.Write(p); err != nil {
				return err
			}
		}
		if err := w.out.Flush(); err != nil {
			return err
		}
		w.mu.Lock()
		w.changes.keep(list...)
		w.writing = 0
		few := w.changes.size < lagFloor
		w.mu.Unlock()
		if few {
			return nil
		}
	}
}

// stream writes changes and messages as they come.
func (w *wire) stream() error {
	for {
		w.mu.Lock()
		for w.changes.size == 0 && !w.closed {
			w.more.Wait()
		}
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return nil
		}
		if err := w.drain(); err != nil {
			return err
		}
		if !w.do(func() { w.m.tryPause(w.j) }) {
			return nil
		}
	}
}

// read is the reading goroutine: it hands the target's messages to the turn.
func (w *wire) read() {
	for {
		words, err := readMessage(w.in)
		if err != nil {
			w.do(func() { w.m.lost(w.j) })
			w.stop()
			return
		}
		word := "?"
		if len(words) > 2 && strings.EqualFold(words[0], "CLUSTER") && strings.EqualFold(words[1], "SYNCSLOTS") {
			word = strings.ToUpper(words[2])
		}
		if !w.do(func() { w.m.hear(w.j, word) }) {
			return
		}
	}
}

// The limits of a message of the target.
const (
	wordsMost = 16
	wordMost  = 256
)

var errMessage = errors.New("what the target says is no message")

// readMessage reads one message.
func readMessage(in *bufio.Reader) (words []string, err error) {
	n, err := readNumber(in, '*', wordsMost)
	if err != nil {
		return nil, err
	}
	for range n {
		size, err := readNumber(in, '$', wordMost)
		if err != nil {
			return nil, err
		}
		p := make([]byte, size+2)
		if _, err := io.ReadFull(in, p); err != nil {
			return nil, err
		}
		words = append(words, string(p[:size]))
	}
	return words, nil
}

// readNumber reads a line that is a sign and a number up to most.
func readNumber(in *bufio.Reader, sign byte, most int) (int, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimRight(string(line[1:]), "\r\n"))
	if err != nil || line[0] != sign || n < 0 || n > most {
		return 0, errMessage
	}
	return n, nil
}
