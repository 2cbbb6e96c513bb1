package transcripts

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// replyTimeout is the time limit of a reply, after which the connection counts as broken.
const replyTimeout = 10 * time.Second

// Play runs t against the server at address in one protocol. It passes each reply to got. An error of got ends the run.
//
// Play opens new connections, and empties the server first.
func Play(t *Transcript, address string, protocol int, got func(s *Step, reply []string) error) error {
	p := &player{address: address, protocol: protocol}
	defer p.close()
	if reply, err := p.ask(0, []string{"FLUSHALL"}); err != nil || reply[0] != "+OK" {
		return fmt.Errorf("%s: FLUSHALL answers %v, %v", t.Name, reply, err)
	}
	for _, s := range t.Steps {
		if s.Client == 0 {
			time.Sleep(s.Sleep)
			continue
		}
		reply, err := p.ask(s.Client, s.Args)
		if err == nil {
			err = got(s, reply)
		}
		if err != nil {
			return fmt.Errorf("%s:%d (RESP%d): %s: %w", t.Name, s.Line, protocol, s.Text, err)
		}
	}
	return nil
}

// A player has the connections of one run.
type player struct {
	address  string
	protocol int
	clients  [10]*link
}

type link struct {
	net.Conn
	in *bufio.Reader
}

func (p *player) close() {
	for _, c := range p.clients {
		if c != nil {
			c.Close()
		}
	}
}

func (p *player) ask(client int, args []string) ([]string, error) {
	if p.clients[client] == nil {
		conn, err := net.Dial("tcp", p.address)
		if err != nil {
			return nil, err
		}
		p.clients[client] = &link{conn, bufio.NewReader(conn)}
		if p.protocol == 3 {
			if reply, err := p.ask(client, []string{"HELLO", "3"}); err != nil || reply[0][0] != '%' {
				return nil, fmt.Errorf("HELLO 3 answers %v, %v", reply, err)
			}
		}
	}
	if args[0] == nextPush {
		p.clients[client].SetDeadline(time.Now().Add(replyTimeout))
		return readReply(p.clients[client].in, nil)
	}
	return p.clients[client].ask(args)
}

// nextPush takes the place of a command: nothing is sent, and the next message or confirmation is read as a reply.
const nextPush = "(next)"

// ask sends one command and reads its reply.
func (c *link) ask(args []string) ([]string, error) {
	c.SetDeadline(time.Now().Add(replyTimeout))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return nil, err
	}
	return readReply(c.in, nil)
}

// ReadReply reads one reply as lines, including those of its elements.
func ReadReply(in *bufio.Reader) ([]string, error) { return readReply(in, nil) }

// readReply appends the lines of one reply, including those of its elements.
func readReply(in *bufio.Reader, lines []string) ([]string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(line, "\r\n") || len(line) < 3 {
		return nil, fmt.Errorf("reply line %q", line)
	}
	line = line[:len(line)-2]
	lines = append(lines, printable(line))
	n, elements := 0, 0
	switch line[0] {
	case '$', '=', '!':
		if n, err = strconv.Atoi(line[1:]); err != nil || n < 0 {
			return lines, err
		}
		data := make([]byte, n+2)
		if _, err := io.ReadFull(in, data); err != nil {
			return nil, err
		}
		if string(data[n:]) != "\r\n" {
			return nil, fmt.Errorf("a bulk string ends in %q", data[n:])
		}
		return append(lines, printable(string(data[:n]))), nil
	case '*', '~', '>':
		elements, err = strconv.Atoi(line[1:])
	case '%', '|':
		elements, err = strconv.Atoi(line[1:])
		elements *= 2
	case '+', '-', ':', '_', '#', ',', '(':
	default:
		err = fmt.Errorf("reply type %q", line)
	}
	for ; elements > 0 && err == nil; elements-- {
		lines, err = readReply(in, lines)
	}
	if err == nil && line[0] == '|' {
		return readReply(in, lines)
	}
	return lines, err
}

// printable returns s, in quotes if it would not fit on one line or would be read back differently.
func printable(s string) string {
	if strings.HasPrefix(s, `"`) {
		return strconv.QuoteToASCII(s)
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return quoteBytes(s)
		}
	}
	return s
}

// quoteBytes quotes byte by byte, so that invalid UTF-8 is read back the same.
func quoteBytes(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\n':
			b = append(b, '\\', 'n')
		case c < 0x20 || c > 0x7e:
			b = fmt.Appendf(b, `\x%02x`, c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
