package differential

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// effects reads the commands that a server sends to its replicas. They show the order in which the server served its
// clients. Replies show only what each client got.
type effects struct {
	conn    net.Conn
	in      *bufio.Reader
	markers int
}

// follow connects as a replica, so that the server sends its effects. It reads and drops the snapshot.
func follow(addr string) (*effects, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(replyTimeout))
	if _, err := io.WriteString(conn, "SYNC\r\n"); err != nil {
		return nil, err
	}
	e := &effects{conn: conn, in: bufio.NewReader(conn)}
	line := ""
	for line == "" { // empty lines while the server prepares the snapshot
		if line, err = e.in.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("SYNC: %w", err)
		}
		line = strings.TrimSpace(line)
	}
	if mark, ok := strings.CutPrefix(line, "$EOF:"); ok {
		err = e.skipTo([]byte(mark))
	} else if n, bad := strconv.Atoi(strings.TrimPrefix(line, "$")); bad == nil {
		_, err = e.in.Discard(n)
	} else {
		err = fmt.Errorf("%q", line)
	}
	if err != nil {
		return nil, fmt.Errorf("SYNC: %w", err)
	}
	return e, nil
}

// skipTo reads up to and including a mark.
func (e *effects) skipTo(mark []byte) error {
	var last []byte
	for !bytes.Equal(last, mark) {
		c, err := e.in.ReadByte()
		if err != nil {
			return err
		}
		if last = append(last, c); len(last) > len(mark) {
			last = last[1:]
		}
	}
	return nil
}

// markerDB is a database that no plan uses.
const markerDB = 15

// since returns the effects since the last call, as lines. The inspector sets a key in another database to mark the
// end. since leaves out effects that change no data, and the delivery times of groups.
func (e *effects) since(s *side) (lines []string, err error) {
	e.markers++
	marker := fmt.Sprintf("marker-%d", e.markers)
	for _, args := range [][]any{{"SELECT", markerDB}, {"SET", marker, ""}, {"DEL", marker}} {
		if v, err := s.inspector.Do(args...); err != nil || v.Err() != nil {
			return nil, fmt.Errorf("%s: %v: %v, %v", s.name, args, v, err)
		}
	}
	e.conn.SetDeadline(time.Now().Add(replyTimeout))
	for {
		line, err := e.line()
		if err != nil {
			return nil, fmt.Errorf("%s: effects: %w", s.name, err)
		}
		switch {
		case line == "DEL "+marker:
			return slices.DeleteFunc(lines,
				func(l string) bool { return strings.Contains(l, marker) || l == fmt.Sprintf("SELECT %d", markerDB) }), nil
		case line != "PING" && !strings.HasPrefix(line, "REPLCONF "):
			lines = append(lines, line)
		}
	}
}

// deliveryTime matches the time at which a group's consumer got an entry, in Unix ms. The clocks of the two servers
// differ.
var deliveryTime = regexp.MustCompile(` TIME \d+`)

// line returns the next effect, its words separated by spaces.
func (e *effects) line() (string, error) {
	for {
		c, err := e.in.ReadByte()
		if err != nil {
			return "", err
		}
		if c != '\n' { // the primary sends single newlines to keep the link alive
			e.in.UnreadByte()
			break
		}
	}
	raw, err := readReply(e.in, nil)
	if err != nil {
		return "", err
	}
	words := parse(raw).Strings()
	if len(words) > 0 {
		words[0] = strings.ToUpper(words[0])
	}
	return deliveryTime.ReplaceAllString(strings.Join(words, " "), " TIME"), nil
}
