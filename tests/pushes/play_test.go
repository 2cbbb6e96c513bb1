package pushes

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"spindle/tests/testkit"
	"spindle/tests/transcripts"
)

// A link is one connection. It reads replies and pushes alike, each as a line of text.
type link struct {
	net.Conn
	in    *bufio.Reader
	fault func(next func() (string, error)) (string, error) // changes what read returns; nil changes nothing
}

func dial(addr string) (*link, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(10 * time.Minute))
	return &link{Conn: conn, in: bufio.NewReader(conn)}, nil
}

// send writes commands as one pipeline.
func (l *link) send(commands ...[]string) error {
	text := strings.Builder{}
	for _, words := range commands {
		fmt.Fprintf(&text, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	_, err := io.WriteString(l, text.String())
	return err
}

// read returns the next reply or push, without the lengths of strings: "*2 a b".
func (l *link) read() (string, error) {
	if l.fault != nil {
		return l.fault(l.next)
	}
	return l.next()
}

func (l *link) next() (string, error) {
	l.SetReadDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
	lines, err := transcripts.ReadReply(l.in)
	return words(strings.Join(slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, "$") }), " ")),
		err
}

// words returns s with one space between two words.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// A play is a server, its model, and the connections of the clients.
type play struct {
	model   *model
	addr    string
	control *link // a client that the model does not know
	links   map[*client]*link
	rng     *rand.Rand
	version int

	pipelines bool // no client is in BCAST mode, so it does not matter how turns divide a pipeline
	fault     func(l *link)
}

func (p *play) ask(words ...string) (string, error) {
	if err := p.control.send(words); err != nil {
		return "", err
	}
	return p.control.read()
}

func (p *play) arrive() error {
	l, err := dial(p.addr)
	if err != nil {
		return err
	}
	l.send([]string{"CLIENT", "ID"})
	reply, err := l.next()
	var id int64
	if _, scan := fmt.Sscanf(reply, ":%d", &id); scan != nil {
		return fmt.Errorf("CLIENT ID: %s, %v", reply, err)
	}
	if p.fault != nil {
		p.fault(l)
	}
	p.links[p.model.arrive(id)] = l
	return nil
}

func (p *play) leave(c *client) error {
	p.links[c].Close()
	delete(p.links, c)
	p.model.leave(c)
	return testkit.Poll(time.Minute, func() error {
		reply, err := p.ask("CLIENT", "LIST", "ID", fmt.Sprint(c.id))
		if err == nil && strings.Contains(reply, "addr=") {
			err = fmt.Errorf("client %d is still there", c.id)
		}
		return err
	})
}

// receive reads everything that c must get, and compares it with the model.
func (p *play) receive(c *client) error {
	for _, g := range c.due {
		want := slices.Clone(g.pushes)
		if g.isReply {
			want = []string{g.reply}
		}
		for range len(want) {
			got, err := p.links[c].read()
			if err != nil {
				return fmt.Errorf("client %d: %w in the place of %q", c.id, err, want)
			}
			at := slices.IndexFunc(want, func(w string) bool { return fits(got, w) })
			if at < 0 {
				return fmt.Errorf("client %d: got %q, want %q", c.id, got, want)
			}
			want = slices.Delete(want, at, at+1)
		}
	}
	c.due = nil
	return nil
}

// fits reports whether got equals want, or begins like want if want ends in "…".
func fits(got, want string) bool {
	if head, is := strings.CutSuffix(want, "…"); is {
		return strings.HasPrefix(got, head)
	}
	return got == words(want)
}

// do makes c run commands as one pipeline.
func (p *play) do(c *client, commands ...[]string) error {
	for _, words := range commands {
		p.model.run(c, words)
	}
	p.model.turn()
	if err := p.links[c].send(commands...); err != nil {
		return err
	}
	if err := p.receive(c); err != nil {
		return fmt.Errorf("%q: %w", commands, err)
	}
	return nil
}

func (p *play) key() string {
	return []string{"a", "ab", "abc", "b", "ba", "c"}[p.rng.IntN(6)]
}

func (p *play) text() string {
	p.version++
	return fmt.Sprint("v", p.version)
}

func (p *play) client() *client {
	var all []*client
	for c := range p.links {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *client) int { return int(a.id - b.id) })
	return all[p.rng.IntN(len(all))]
}

// data returns a command that reads or writes.
func (p *play) data() []string {
	switch p.rng.IntN(10) {
	case 0, 1, 2:
		return []string{"GET", p.key()}
	case 3:
		return []string{"MGET", p.key(), p.key()}
	case 4, 5:
		return []string{"SET", p.key(), p.text()}
	case 6:
		return []string{"MSET", p.key(), p.text(), p.key(), p.text()}
	case 7:
		return []string{"DEL", p.key()}
	case 8:
		return []string{"EVAL", "redis.call('get',KEYS[1])redis.call('set',KEYS[2],ARGV[1])", "2", p.key(), p.key(), p.text()}
	default:
		return []string{"PUBLISH", "ch", p.text()}
	}
}

// trackingOn returns CLIENT TRACKING ON with random options, valid or not.
func (p *play) trackingOn() []string {
	words := []string{"CLIENT", "TRACKING", "ON"}
	for _, option := range []string{"OPTIN", "OPTOUT"} {
		if p.rng.IntN(5) == 0 {
			words = append(words, option)
		}
	}
	if p.rng.IntN(3) == 0 {
		words = append(words, "NOLOOP")
	}
	if !p.pipelines && p.rng.IntN(3) == 0 {
		words = append(words, "BCAST")
	}
	if p.rng.IntN(3) == 0 {
		words = append(words, "REDIRECT", fmt.Sprint(p.client().id+int64(max(0, p.rng.IntN(20)-18)*1000)))
	}
	for !p.pipelines && p.rng.IntN(3) == 0 {
		words = append(words, "PREFIX", p.key()[:1])
	}
	return words
}

// subscription returns a command that begins or ends a subscription.
func (p *play) subscription() []string {
	names := [][2]string{{"SUBSCRIBE", "__redis__:invalidate"}, {"SUBSCRIBE", "ch"}, {"PSUBSCRIBE", "c*"},
		{"PSUBSCRIBE", events}, {"SSUBSCRIBE", "sh"}}
	pair := names[p.rng.IntN(len(names))]
	if p.rng.IntN(3) == 0 {
		pair[0] = map[string]string{"SUBSCRIBE": "UNSUBSCRIBE", "PSUBSCRIBE": "PUNSUBSCRIBE",
			"SSUBSCRIBE": "SUNSUBSCRIBE"}[pair[0]]
	}
	return pair[:]
}

// step plays one random event.
func (p *play) step() error {
	if len(p.links) < 4 || len(p.links) < 9 && p.rng.IntN(60) == 0 {
		return p.arrive()
	}
	c := p.client()
	r := p.rng.IntN(100)
	if c.protocol == 2 && c.subscriptions() > 0 { // few commands are allowed
		switch {
		case r < 3:
			return p.leave(c)
		case r < 30:
			return p.do(c, p.subscription())
		case r < 35:
			return p.do(c, []string{"RESET"})
		}
		return p.do(c, []string{"PING", "x"})
	}
	switch {
	case r < 2:
		return p.leave(c)
	case r < 3:
		return p.do(c, []string{"RESET"})
	case r < 6:
		return p.do(c, []string{"HELLO", []string{"2", "3", "3"}[p.rng.IntN(3)]})
	case r < 16:
		return p.do(c, p.trackingOn())
	case r < 18:
		return p.do(c, []string{"CLIENT", "TRACKING", "OFF"})
	case r < 24:
		return p.do(c, []string{"CLIENT", "CACHING", []string{"YES", "NO"}[p.rng.IntN(2)]})
	case r < 27:
		return p.do(c, p.subscription())
	case r < 29:
		return p.do(c, []string{"SELECT", fmt.Sprint(p.rng.IntN(2))})
	case r < 30:
		return p.do(c, [][]string{{"FLUSHDB"}, {"FLUSHALL"}, {"SWAPDB", "0", "1"}}[p.rng.IntN(3)])
	case r < 31:
		return p.do(c, []string{"SPUBLISH", "sh", p.text()})
	case r < 36: // a key that has expired before the next look
		key := p.key()
		if err := p.do(c, []string{"SET", key, p.text(), "PX", "1"}); err != nil {
			return err
		}
		testkit.Lapse(time.Millisecond)
		p.model.lapse(c.db, key)
		return nil
	case r < 46:
		commands := [][]string{{"MULTI"}}
		for range p.rng.IntN(4) {
			commands = append(commands, p.data())
		}
		if p.rng.IntN(4) == 0 {
			commands = append(commands, []string{"CLIENT", "CACHING", "YES"}, p.data())
		}
		for _, words := range append(commands, []string{"EXEC"}) {
			if err := p.do(c, words); err != nil {
				return err
			}
		}
		return nil
	case r < 60 && p.pipelines:
		var commands [][]string
		for range 1 + p.rng.IntN(8) {
			commands = append(commands, p.data())
		}
		return p.do(c, commands...)
	}
	return p.do(c, p.data())
}

// run plays steps. Now and then it checks that every client has received everything that it must get, and nothing more.
func (p *play) run(steps int) error {
	for step := range steps {
		if err := p.step(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if step%100 != 99 {
			continue
		}
		for c := range p.links {
			if err := p.do(c, []string{"PING", "end"}); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
	}
	return nil
}
