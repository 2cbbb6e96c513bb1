package slotmove

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
	"spindle/protocol/respclient"
)

// CLUSTER MIGRATION, as the tools of Redis 8.4 use it: the target asks for slots. It asks their owner, as an ordinary
// client, to give them away (MIGRATESLOTS). The import that then begins belongs to the task.

// A task is one MIGRATION IMPORT. Times are Unix ms; 0: not yet.
type task struct {
	id               string
	ranges           ranges
	source           string
	job              *job   // nil: it has not come
	move             string // the name that the owner of the slots has given to the move; "": not known
	unwelcome        bool   // it was cancelled before its import came, which is refused then
	ended            string // why there will be none: a state of MIGRATION STATUS, or ""
	message          string
	created, endedMs int64
}

// The states of a task that is over.
const (
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "canceled"
)

// state is the task's in MIGRATION STATUS.
func (t *task) state() string {
	switch {
	case t.ended != "":
		return t.ended
	case t.job == nil:
		return "connecting"
	}
	return stateOf(t.job)
}

// stateOf is a job's state in MIGRATION STATUS.
func stateOf(j *job) string {
	switch j.state {
	case success:
		return taskCompleted
	case failed:
		return taskFailed
	case cancelled:
		return taskCancelled
	}
	return j.state.String()
}

func (t *task) over() bool { return t.ended != "" || t.job != nil && t.job.finished() }

// migration is MIGRATION IMPORT first last [first last …], STATUS [ID id | ALL] and CANCEL ID id | ALL.
func (m *Mover) migration(ctx *command.Context) error {
	switch args := ctx.Args[3:]; {
	case command.Is(ctx.Args[2], "IMPORT"):
		return m.bring(ctx, args)
	case command.Is(ctx.Args[2], "STATUS") && command.Is(args[0], "ALL") && len(args) == 1:
		m.showTasks(ctx, "")
		return nil
	case command.Is(ctx.Args[2], "STATUS") && command.Is(args[0], "ID") && len(args) == 2:
		m.showTasks(ctx, string(args[1]))
		return nil
	case command.Is(ctx.Args[2], "CANCEL") && command.Is(args[0], "ALL") && len(args) == 1:
		ctx.Reply.Int(m.cancel(""))
		return nil
	case command.Is(ctx.Args[2], "CANCEL") && command.Is(args[0], "ID") && len(args) == 2:
		ctx.Reply.Int(m.cancel(string(args[1])))
		return nil
	}
	return protocol.ErrSyntax
}

// bring is MIGRATION IMPORT. Replies: the task's ID, when the owner of the slots has agreed.
// Errors: errPartner if it cannot do it; what it answers otherwise.
func (m *Mover) bring(ctx *command.Context, args [][]byte) error {
	if err := m.mayBegin(); err != nil {
		return err
	}
	r, owner, rest, err := m.parseRanges(args)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return errSlot
	case owner == m.parts.Cluster.Me():
		return errMine
	}
	if _, any := m.moving(r.list(), false); any {
		return errComing
	}
	host, port, _, _ := m.parts.Cluster.Peer(owner)
	t := &task{id: newName(), ranges: r, source: owner, created: m.core.Now()}
	m.tasks = append([]*task{t}, m.tasks...)
	request := [][]byte{[]byte("CLUSTER"), []byte("MIGRATESLOTS"), []byte("SLOTSRANGE")}
	for _, s := range r {
		request = append(request, number(s.first), number(s.last))
	}
	me := m.parts.Cluster.Me()
	request = append(request, []byte("NODE"), []byte(me))
	address, patience := net.JoinHostPort(host, strconv.Itoa(port)), m.parts.Patience()
	if ctx.Client.Is(client.DenyBlocking) || ctx.Client.Conn == nil {
		go func() {
			move, err := m.request(t, me, address, request, patience)
			m.core.Do(func() { m.answered(t, move, err) })
		}()
		ctx.Reply.BulkString(t.id)
		return nil
	}
	cl, waits := ctx.Client, true
	var refused error
	ctx.Core.Block(ctx, command.Wait{Busy: true, Left: func() { waits = false },
		Retry: func(ctx *command.Context) error {
			if refused != nil {
				return refused
			}
			ctx.Reply.BulkString(t.id)
			return nil
		}})
	go func() {
		move, err := m.request(t, me, address, request, patience)
		m.core.Do(func() {
			refused = err
			m.answered(t, move, err)
			if waits {
				m.core.Wake(cl)
			}
		})
	}()
	return nil
}

// answered notes how the owner of a task's slots has answered. If it agrees, it has no earlier move of them.
func (m *Mover) answered(t *task, move string, err error) {
	t.move = move
	if err != nil {
		t.unwelcome = false
		if t.job == nil && t.ended == "" {
			t.end(taskFailed, err.Error(), m.core.Now())
		}
		return
	}
	for _, other := range m.tasks {
		if other != t && other.source == t.source && other.ranges.overlap(t.ranges) {
			other.unwelcome = false
		}
	}
}

// end ends a task whose import has not come.
func (t *task) end(state, message string, nowMs int64) {
	t.ended, t.message, t.endedMs = state, message, nowMs
}

// tickTask gives up on an import that does not come. The owner of the slots has repl-timeout to answer, and as long to
// connect.
func (m *Mover) tickTask(t *task, nowMs int64) {
	if t.job != nil || nowMs-t.created <= 2*m.parts.Patience().Milliseconds() {
		return
	}
	t.unwelcome = false
	if t.ended == "" {
		t.end(taskFailed, "The node that owns the slots has not begun to send them", nowMs)
	}
}

// refuses says why an import is not wanted: its task was cancelled before. nil: it may begin. While the move's name is
// not known, an import of the same slots is taken for it.
func (m *Mover) refuses(name, source string, r ranges) error {
	for _, t := range m.tasks {
		if t.unwelcome && t.source == source && t.ranges.String() == r.String() && (t.move == "" || t.move == name) {
			t.unwelcome = false
			m.log.Notice("The move of slots %s from %s is refused: its task was cancelled", r, source)
			return errCancelled
		}
	}
	return nil
}

// request asks another node for the move of a task to this node, me. move is the name that the other node has given to
// it, or "" if that node does not say. request has its own goroutine.
func (m *Mover) request(t *task, me, address string, request [][]byte, patience time.Duration) (move string,
	err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := m.parts.Dial(ctx, address, m.parts.Source())
	if err != nil {
		return "", errPartner(plain(err))
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", errPartner(plain(err))
	}
	c := respclient.New(conn)
	var requests [][][]byte
	if user, password := m.parts.Login(); password != "" {
		login := [][]byte{[]byte("AUTH"), []byte(user), []byte(password)}
		if user == "" {
			login = append(login[:1], login[2])
		}
		requests = append(requests, login)
	}
	for _, args := range append(requests, request) {
		c.SendRaw(protocol.AppendCommand(nil, args))
		v, err := c.Receive()
		if err != nil {
			return "", errPartner(plain(err))
		}
		if v.Err() != nil {
			code, text, _ := strings.Cut(v.Text, " ")
			if lower := strings.ToLower(text); code != "ERR" || strings.Contains(lower, "unknown subcommand") {
				return "", errPartner(code + " " + text)
			}
			return "", errOfPartner(code, text)
		}
	}
	v, err := c.Do("CLUSTER", "GETSLOTMIGRATIONS")
	if err != nil {
		return "", nil // the move has begun
	}
	return nameOf(v, t.ranges.String(), me), nil
}

// nameOf returns the name of the latest move of slots to a target, from the reply of GETSLOTMIGRATIONS.
func nameOf(moves respclient.Value, slots, target string) (name string) {
	for _, move := range moves.Elems {
		fields := map[string]string{}
		for i := 0; i+1 < len(move.Elems); i += 2 {
			fields[move.Elems[i].Text] = move.Elems[i+1].Text
		}
		if fields["operation"] == "EXPORT" && fields["slot_ranges"] == slots && fields["target_node"] == target {
			return fields["name"]
		}
	}
	return ""
}

// waiting returns the task that has asked for an import and waits for it. It is the one that knows the import's name.
// Without one it is the oldest one that knows no name yet. nil: none.
func (m *Mover) waiting(j *job) (oldest *task) {
	for _, t := range slices.Backward(m.tasks) {
		switch {
		case t.job != nil || t.ended != "" || t.source != j.source || t.ranges.String() != j.ranges.String():
		case t.move == j.name:
			return t
		case t.move == "" && oldest == nil:
			oldest = t
		}
	}
	return oldest
}

// refused ends the task that waits for an import, and returns why.
func (m *Mover) refused(j *job, why error) error {
	if t := m.waiting(j); t != nil {
		t.end(taskFailed, why.Error(), m.core.Now())
	}
	return why
}

// cancel ends the imports of the tasks, or of the one with an ID. It returns their number.
func (m *Mover) cancel(id string) (n int64) {
	for _, t := range m.tasks {
		switch {
		case t.over() || id != "" && t.id != id:
			continue
		case t.job == nil:
			t.unwelcome = true
			t.end(taskCancelled, "", m.core.Now())
		case !t.job.running() || t.job.state == importGranted: // its end is decided
			continue
		default:
			m.end(t.job, cancelled, "")
		}
		n++
	}
	return n
}

// showTasks replies with the tasks, and the moves away from here; with an ID only that one.
func (m *Mover) showTasks(ctx *command.Context, id string) {
	mark, n := ctx.Reply.Mark(), 0
	show := func(s shown) {
		if id == "" || s.id == id {
			s.reply(ctx.Reply)
			n++
		}
	}
	me := m.parts.Cluster.Me()
	for _, t := range m.tasks {
		s := shown{id: t.id, slots: t.ranges.String(), source: t.source, dest: me, operation: "import", state: t.state(),
			message: t.message, created: t.created, ended: t.endedMs}
		if j := t.job; j != nil {
			s.times(j)
		}
		show(s)
	}
	for _, j := range m.jobs {
		if j.export {
			s := shown{id: j.name, slots: j.ranges.String(), source: j.source, dest: j.target, operation: "migrate",
				state: stateOf(j), created: j.createdAt * 1000}
			s.times(j)
			show(s)
		}
	}
	ctx.Reply.ArrayAt(mark, n)
}

// A shown is one element of MIGRATION STATUS.
type shown struct {
	id, slots, source, dest, operation, state, message string
	created, started, ended, pausedMs                  int64
}

// times takes over what a job knows.
func (s *shown) times(j *job) {
	s.message, s.started, s.pausedMs = j.message, j.createdAt*1000, j.pausedMs
	if j.finished() {
		s.ended = j.updatedAt * 1000
	}
}

func (s *shown) reply(r *protocol.Reply) {
	r.Map(12)
	for _, text := range [][2]string{{"id", s.id}, {"slots", s.slots}, {"source", s.source}, {"dest", s.dest},
		{"operation", s.operation}, {"state", s.state}, {"last_error", s.message}} {
		r.BulkString(text[0])
		r.BulkString(text[1])
	}
	for _, number := range []struct {
		name  string
		value int64
	}{{"retries", 0}, {"create_time", s.created}, {"start_time", s.started}, {"end_time", s.ended},
		{"write_pause_ms", s.pausedMs}} {
		r.BulkString(number.name)
		r.Int(number.value)
	}
}
