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

// An Observer records what a server sends to other connections for each command: the stream to a replica, and keyspace
// events.
//
// A published message reaches both. So a message that the Observer publishes marks where a command's effects end.
type Observer struct {
	stream, events, marks *link
	db, marker            int
}

// Observe attaches to a server as a replica and as a subscriber. It enables keyspace events and disables active expiry.
func Observe(address string) (*Observer, error) {
	o := &Observer{}
	for _, l := range []**link{&o.stream, &o.events, &o.marks} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return nil, err
		}
		*l = &link{conn, bufio.NewReader(conn)}
	}
	for _, args := range [][]string{{"CONFIG", "SET", "notify-keyspace-events", "EAmn"},
		{"DEBUG", "SET-ACTIVE-EXPIRE", "0"},
		{"CONFIG", "SET", "repl-diskless-sync-delay", "0"}, {"CONFIG", "SET", "repl-ping-replica-period", "3600"}} {
		if reply, err := o.marks.ask(args); err != nil || reply[0] != "+OK" {
			return nil, fmt.Errorf("%v: %v %v", args, reply, err)
		}
	}
	if _, err := o.events.ask([]string{"PSUBSCRIBE", "__keyevent@*__:*"}); err != nil {
		return nil, err
	}
	if _, err := o.events.ask([]string{"SUBSCRIBE", "transcript"}); err != nil {
		return nil, err
	}
	return o, o.sync()
}

// Close closes the three connections.
func (o *Observer) Close() {
	o.stream.Close()
	o.events.Close()
	o.marks.Close()
}

// sync makes the connection a replica. It sends SYNC, and skips the file that comes first.
func (o *Observer) sync() error {
	o.stream.SetDeadline(time.Now().Add(6 * replyTimeout))
	if _, err := io.WriteString(o.stream, "SYNC\r\n"); err != nil {
		return err
	}
	for {
		line, err := o.stream.in.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimSpace(line)
		if line == "" {
			continue // a newline while the server prepares the file
		}
		if size, err := strconv.Atoi(strings.TrimPrefix(line, "$")); err == nil {
			_, err = io.CopyN(io.Discard, o.stream.in, int64(size))
			return err
		}
		mark, ok := strings.CutPrefix(line, "$EOF:")
		if !ok {
			return fmt.Errorf("SYNC: %s", line)
		}
		for tail := ""; tail != mark; { // the forty bytes that end the file
			c, err := o.stream.in.ReadByte()
			if err != nil {
				return err
			}
			if tail += string([]byte{c}); len(tail) > len(mark) {
				tail = tail[1:]
			}
		}
		return nil
	}
}

func (o *Observer) Take() (effects, events []string, err error) {
	o.marker++
	text := strconv.Itoa(o.marker)
	if _, err := o.marks.ask([]string{"PUBLISH", "transcript", text}); err != nil {
		return nil, nil, err
	}
	for {
		args, err := o.stream.elements()
		if err != nil {
			return nil, nil, err
		}
		switch name := strings.ToUpper(args[0]); {
		case name == "PUBLISH" && args[2] == text:
		case name == "SELECT":
			o.db, _ = strconv.Atoi(args[1])
			continue
		case name == "MULTI" || name == "EXEC" || name == "PING" || name == "REPLCONF":
			continue
		default:
			effects = append(effects, EffectLine(o.db, args))
			continue
		}
		break
	}
	for {
		m, err := o.events.elements()
		if err != nil {
			return nil, nil, err
		}
		if m[0] == "message" && m[2] == text {
			return effects, events, nil
		}
		if m[0] == "pmessage" {
			db, event, _ := strings.Cut(strings.TrimPrefix(m[2], "__keyevent@"), "__:")
			n, _ := strconv.Atoi(db)
			events = append(events, EventLine(n, event, m[3]))
		}
	}
}

// elements reads an array of strings.
func (l *link) elements() ([]string, error) {
	l.SetDeadline(time.Now().Add(replyTimeout))
	header, err := l.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimLeft(header, "*>")))
	if err != nil {
		return nil, fmt.Errorf("stream: %q", header)
	}
	list := make([]string, n)
	for i := range list {
		size, err := l.in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if size[0] == ':' {
			list[i] = strings.TrimSpace(size[1:])
			continue
		}
		length, err := strconv.Atoi(strings.TrimSpace(size[1:]))
		if err != nil {
			return nil, err
		}
		data := make([]byte, length+2)
		if _, err := io.ReadFull(l.in, data); err != nil {
			return nil, err
		}
		list[i] = string(data[:length])
	}
	return list, nil
}
