package respclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"spindle/internal/number"
)

// ErrProtocol means that the peer did not send RESP. The connection cannot be used any more.
var ErrProtocol = errors.New("respclient: not RESP")

const (
	maxLine  = 64 << 10  // a status, an error or a number
	maxBulk  = 1 << 30   // a string
	maxDepth = 64        // nested aggregates
	atOnce   = 256 << 10 // the most memory that an announced length may allocate before bytes arrive
)

// Receive flushes, then reads one reply. See OnPush for pushes.
func (c *Client) Receive() (Value, error) {
	if err := c.Flush(); err != nil {
		return Value{}, err
	}
	for {
		if err := c.arm(c.conn.SetReadDeadline); err != nil {
			return Value{}, err
		}
		v, err := c.read(0)
		if err != nil || v.Kind != '>' || c.OnPush == nil {
			return v, err
		}
		c.OnPush(v)
	}
}

// ReceiveRaw is like Receive and also returns the raw bytes, for transcripts.
func (c *Client) ReceiveRaw() (Value, []byte, error) {
	c.record, c.records = nil, true
	v, err := c.Receive()
	c.records = false
	return v, c.record, err
}

// Reader returns the input after the replies read so far, for data that is not RESP, such as a snapshot for a replica.
func (c *Client) Reader() *bufio.Reader { return c.in }

// Pending reports whether bytes were read from the connection that no Receive has returned yet.
func (c *Client) Pending() bool { return c.in.Buffered() > 0 }

// line reads up to CRLF and returns the line without it. The line is valid until the next read.
func (c *Client) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxLine)
		}
		return nil, err
	}
	c.note(line)
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(text) == 0 {
		return nil, fmt.Errorf("%w: line %.40q", ErrProtocol, line)
	}
	return text, nil
}

func (c *Client) note(p []byte) {
	if c.records {
		c.record = append(c.record, p...)
	}
}

func (c *Client) read(depth int) (Value, error) {
	line, err := c.line()
	if err != nil {
		return Value{}, err
	}
	v, rest := Value{Kind: line[0]}, line[1:]
	switch v.Kind {
	case '+', '-', '(', ',':
		v.Text = string(rest)
		return v, nil
	case '_':
		v.Null = true
		return v, nil
	case '#':
		if len(rest) != 1 || rest[0] != 't' && rest[0] != 'f' {
			return v, fmt.Errorf("%w: boolean %.40q", ErrProtocol, line)
		}
		if rest[0] == 't' {
			v.Int = 1
		}
		return v, nil
	}
	n, ok := number.ParseInt(rest)
	if !ok {
		return v, fmt.Errorf("%w: number in %.40q", ErrProtocol, line)
	}
	switch v.Kind {
	case ':':
		v.Int = n
		return v, nil
	case '$', '!', '=':
		return c.readBulk(v, n)
	case '*', '~', '>':
		return c.readElems(v, n, depth)
	case '%':
		return c.readElems(v, n*2, depth)
	case '|':
		if depth >= maxDepth { // attributes of attributes of …
			return v, fmt.Errorf("%w: too deep", ErrProtocol)
		}
		attrs, err := c.readElems(v, n*2, depth)
		if err != nil {
			return v, err
		}
		v, err = c.read(depth + 1)
		v.Attrs = attrs.Elems
		return v, err
	}
	return v, fmt.Errorf("%w: type %q", ErrProtocol, v.Kind)
}

// readBulk reads n bytes and CRLF.
func (c *Client) readBulk(v Value, n int64) (Value, error) {
	if n == -1 && v.Kind == '$' {
		v.Null = true
		return v, nil
	}
	if n < 0 || n > maxBulk {
		return v, fmt.Errorf("%w: a string of %d bytes", ErrProtocol, n)
	}
	p := make([]byte, 0, min(n+2, atOnce))
	for missing := n + 2; missing > 0; missing = n + 2 - int64(len(p)) {
		if len(p) == cap(p) { // allocate as much again as has arrived
			p = append(make([]byte, 0, min(n+2, 2*int64(cap(p)))), p...)
		}
		more, err := io.ReadFull(c.in, p[len(p):min(cap(p), len(p)+int(missing))])
		p = p[:len(p)+more]
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return v, err
		}
	}
	c.note(p)
	if p[n] != '\r' || p[n+1] != '\n' {
		return v, fmt.Errorf("%w: a string of %d bytes without its end", ErrProtocol, n)
	}
	if p = p[:n]; v.Kind == '=' {
		if n < 4 || p[3] != ':' {
			return v, fmt.Errorf("%w: verbatim string %.40q", ErrProtocol, p)
		}
		v.Format, p = string(p[:3]), p[4:]
	}
	v.Text = string(p)
	return v, nil
}

// readElems reads n values.
func (c *Client) readElems(v Value, n int64, depth int) (Value, error) {
	if n == -1 && v.Kind == '*' {
		v.Null = true
		return v, nil
	}
	if n < 0 || n > maxBulk || depth >= maxDepth {
		return v, fmt.Errorf("%w: %d elements at depth %d", ErrProtocol, n, depth)
	}
	v.Elems = make([]Value, 0, min(n, 1024))
	for range n {
		if len(v.Elems) == cap(v.Elems) { // allocate as much again as has arrived
			v.Elems = append(make([]Value, 0, min(n, 2*int64(cap(v.Elems)))), v.Elems...)
		}
		e, err := c.read(depth + 1)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return v, err
		}
		v.Elems = append(v.Elems, e)
	}
	return v, nil
}
