package differential

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/protocol/respclient"
)

// groupSize is the number of clients in a plan.
const groupSize = 6

// A clientGroup is one server's clients in a plan. It does not rely on waiting times. A client that has acted either
// has all its replies, or is blocked, as CLIENT LIST shows. A client that is no longer blocked has been served, so its
// reply will come.
type clientGroup struct {
	*side
	addr    string
	members [groupSize]*member
}

// A member is one client.
type member struct {
	conn    net.Conn
	id      int64
	replies chan []byte // closed when the connection is closed
	owed    int         // replies still to come
}

// join connects a member, in RESP3 if its number is odd. It returns when the server has accepted it.
func (c *clientGroup) join(i int) error {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return err
	}
	m := &member{conn: conn, replies: make(chan []byte, 64), owed: 2}
	c.members[i] = m
	in := bufio.NewReader(conn)
	go func() {
		defer close(m.replies)
		for {
			raw, err := readReply(in, nil)
			if err != nil {
				return
			}
			m.replies <- raw
		}
	}()
	if err := m.write([]string{"HELLO", strconv.Itoa(2 + i%2)}, []string{"CLIENT", "ID"}); err != nil {
		return err
	}
	for range 2 {
		raw, err := m.receive(replyTimeout)
		if err != nil {
			return fmt.Errorf("%s: client %d joins: %w", c.name, i, err)
		}
		m.id = parse(raw).Int
	}
	return nil
}

// write sends calls as one batch. A plan's calls are short, so they never fill a socket's buffer.
func (m *member) write(calls ...[]string) error {
	var batch []byte
	for _, args := range calls {
		call := call{args: args}
		batch = call.appendTo(batch)
	}
	_, err := m.conn.Write(batch)
	return err
}

// errWaiting is the error of receive if no reply came in time.
var errWaiting = fmt.Errorf("no reply in time")

// receive returns the next reply that the member has not read yet.
func (m *member) receive(limit time.Duration) ([]byte, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case raw, open := <-m.replies:
		if !open {
			return nil, fmt.Errorf("the connection broke")
		}
		m.owed--
		return raw, nil
	case <-timer.C:
		return nil, errWaiting
	}
}

// leave closes a member's connection, from the client's end or with CLIENT KILL. It returns when the server has removed
// the client.
func (c *clientGroup) leave(i int, killed bool) error {
	m := c.members[i]
	if killed {
		if v, err := c.inspector.Do("CLIENT", "KILL", "ID", m.id); err != nil || v.Int != 1 {
			return fmt.Errorf("%s: CLIENT KILL ID: %v, %v", c.name, v, err)
		}
	} else {
		m.conn.Close()
	}
	pace := time.Tick(100 * time.Microsecond)
	for deadline := time.Now().Add(replyTimeout); ; {
		flags, err := c.flags([]*member{m})
		if err != nil || len(flags) == 0 {
			m.conn.Close()
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: client %d has hung up and is still there", c.name, i)
		}
		<-pace
	}
}

// rejoin makes a member leave and join again.
func (c *clientGroup) rejoin(i int, killed bool) error {
	if err := c.leave(i, killed); err != nil {
		return err
	}
	return c.join(i)
}

// flags returns the flags of members in CLIENT LIST, by ID. Clients that have left are missing.
func (c *clientGroup) flags(members []*member) (map[int64]string, error) {
	args := []any{"CLIENT", "LIST", "ID"}
	for _, m := range members {
		args = append(args, m.id)
	}
	list, err := c.inspector.Do(args...)
	if err == nil {
		err = list.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: CLIENT LIST: %w", c.name, err)
	}
	of := map[int64]string{}
	for line := range strings.Lines(list.Text) {
		id, flags := int64(0), ""
		for field := range strings.FieldsSeq(line) {
			if text, ok := strings.CutPrefix(field, "id="); ok {
				id, _ = strconv.ParseInt(text, 10, 64)
			} else if text, ok := strings.CutPrefix(field, "flags="); ok {
				flags = text
			}
		}
		of[id] = flags
	}
	return of, nil
}

// isBlocked reports whether a client with these flags of CLIENT LIST is blocked.
func isBlocked(flags string) bool { return strings.Contains(flags, "b") }

// answers has the replies to each member in one step.
type answers [groupSize][][]byte

// act plays one step and returns all replies that it causes. Clients that still wait get none.
func (c *clientGroup) act(s *step) (got answers, err error) {
	if s.leaves != stays {
		return got, c.rejoin(s.client, s.leaves == killed)
	}
	calls := make([][]string, len(s.calls))
	for i, args := range s.calls {
		calls[i] = slices.Clone(args)
		for j, a := range args {
			if who, ok := strings.CutPrefix(a, "@"); ok { // @2: client 2's ID
				n, err := strconv.Atoi(who)
				if err != nil || n < 0 || n >= groupSize {
					return got, fmt.Errorf("no client %s", a)
				}
				calls[i][j] = strconv.FormatInt(c.members[n].id, 10)
			}
		}
	}
	m := c.members[s.client]
	m.owed += len(calls)
	if err := m.write(calls...); err != nil {
		return got, fmt.Errorf("%s: client %d: %w", c.name, s.client, err)
	}
	if got[s.client], err = c.settle(s.client, s.mayWait()); err != nil {
		return got, err
	}
	return got, c.collect(&got)
}

// settle returns a member's replies when all have come. If mayWait is true, it also returns when the member is blocked.
func (c *clientGroup) settle(i int, mayWait bool) (replies [][]byte, err error) {
	m := c.members[i]
	patience := 200 * time.Microsecond // most replies have come by then, without asking
	for deadline := time.Now().Add(replyTimeout); m.owed > 0; {
		raw, err := m.receive(patience)
		if err == nil {
			replies = append(replies, raw)
			continue
		}
		if err != errWaiting || time.Now().After(deadline) {
			return replies, fmt.Errorf("%s: client %d: %w", c.name, i, err)
		}
		if !mayWait {
			continue
		}
		flags, err := c.flags([]*member{m})
		if err != nil || isBlocked(flags[m.id]) {
			return replies, err
		}
	}
	return replies, nil
}

// collect adds the replies of members that were blocked before the step and no longer are.
func (c *clientGroup) collect(got *answers) error {
	var owed []*member
	for _, m := range c.members {
		if m.owed > 0 {
			owed = append(owed, m)
		}
	}
	if len(owed) == 0 {
		return nil
	}
	flags, err := c.flags(owed)
	if err != nil {
		return err
	}
	for i, m := range c.members {
		if m.owed == 0 || isBlocked(flags[m.id]) {
			continue
		}
		for m.owed > 0 {
			raw, err := m.receive(replyTimeout)
			if err != nil {
				return fmt.Errorf("%s: client %d is blocked no more: %w", c.name, i, err)
			}
			got[i] = append(got[i], raw)
		}
	}
	return nil
}

// reset empties the server for another plan: no client waits, and all members are in the state of new connections.
func (c *clientGroup) reset() error {
	for i, m := range c.members {
		if m == nil {
			if err := c.join(i); err != nil {
				return err
			}
			continue
		}
		if m.owed > 0 {
			if err := c.rejoin(i, false); err != nil {
				return err
			}
			continue
		}
		stray, err := c.fence(i)
		if err == nil && stray == nil {
			m.owed++
			if err = m.write([]string{"HELLO", strconv.Itoa(2 + i%2)}); err == nil {
				_, err = m.receive(replyTimeout)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: client %d: %w", c.name, i, err)
		}
	}
	_, err := c.inspector.Do("FLUSHALL")
	return err
}

// fence sends RESET for a member that has had all its replies. If another reply comes first, the server has sent too
// many. Then fence returns that reply and replaces the member by a new client, so that later replies are not confused.
func (c *clientGroup) fence(i int) (stray []byte, err error) {
	m := c.members[i]
	m.owed++
	if err := m.write([]string{"RESET"}); err != nil {
		return nil, err
	}
	raw, err := m.receive(replyTimeout)
	if err != nil || string(raw) == "+RESET\r\n" {
		return nil, err
	}
	return raw, c.rejoin(i, false)
}

// waits reports whether a member still waits for a reply.
func (c *clientGroup) waits(i int) bool { return c.members[i].owed > 0 }

// facts returns INFO's fields about blocked clients that the server has.
func (c *clientGroup) facts() (map[string]string, error) {
	info, err := c.inspector.Do("INFO", "clients")
	if err != nil {
		return nil, err
	}
	facts := map[string]string{}
	for line := range strings.Lines(info.Text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "blocked_clients" || strings.HasPrefix(name, "total_blocking_keys") {
			facts[name] = value
		}
	}
	return facts, nil
}

// close closes all connections of the group.
func (c *clientGroup) close() {
	for _, m := range c.members {
		if m != nil {
			m.conn.Close()
		}
	}
	c.inspector.Close()
}

// newClientGroup connects the inspector. Members join when a plan begins.
func newClientGroup(name, addr string) (*clientGroup, error) {
	inspector, err := respclient.Dial(addr)
	if err != nil {
		return nil, err
	}
	inspector.SetTimeout(replyTimeout)
	return &clientGroup{side: &side{name: name, inspector: inspector}, addr: addr}, nil
}
