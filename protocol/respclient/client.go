// Package respclient is a small blocking client: one connection, requests out, replies in.
//
// Owner: one goroutine; only Close may be called from another.
// Never: reconnects, retries or pools. It serves Sentinel, the proxy, the console, tools, the bench and tests.
// Proof: the program does not call some of the functions here. Tests and the bench do.
// Start here; read.go reads replies, value.go has the values.
package respclient

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"spindle/internal/number"
)

// A Client is one connection.
//
//	c, err := respclient.Dial("127.0.0.1:6379")
//	v, err := c.Do("SET", "k", 1)        // one request
//	c.Send("GET", "a"); c.Send("GET", "b")
//	a, err := c.Receive()                // pipelined: Receive flushes what is unsent
type Client struct {
	// OnPush gets RESP3 pushes as they arrive; then Receive and Do never return one. If it is nil, Receive returns
	// pushes in their order among the replies, and Do, which waits for a reply, appends them to Pushes.
	OnPush func(Value)
	Pushes []Value

	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	timeout time.Duration
	record  []byte // the bytes of the current reply, while recording
	records bool
}

// Dial connects to "host:port", or to the Unix socket of "unix:/path" or "/path".
func Dial(addr string) (*Client, error) { return DialTimeout(addr, 5*time.Second) }

// DialTimeout is Dial with a timeout.
func DialTimeout(addr string, timeout time.Duration) (*Client, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok || strings.HasPrefix(addr, "/") {
		network, addr = "unix", path
	}
	conn, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return nil, err
	}
	return New(conn), nil
}

// New makes a client for an existing connection, such as TLS.
func New(conn net.Conn) *Client { return &Client{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)} }

// SetTimeout bounds each later Flush and Receive. 0 means no bound.
func (c *Client) SetTimeout(d time.Duration) {
	c.timeout = d
	if d == 0 {
		_ = c.conn.SetDeadline(time.Time{}) // fails only on a closed connection, which the next use reports
	}
}

// Close closes the connection. Unsent requests are dropped.
func (c *Client) Close() error { return c.conn.Close() }

// Conn returns the connection, for its addresses and to close one direction.
func (c *Client) Conn() net.Conn { return c.conn }

// Do sends one request and waits for its reply. An error reply is a Value (see Err); err is only an error of the
// connection.
func (c *Client) Do(args ...any) (Value, error) {
	c.Send(args...)
	return c.reply()
}

// reply is Receive without pushes, which it puts aside.
func (c *Client) reply() (Value, error) {
	for {
		v, err := c.Receive()
		if err != nil || v.Kind != '>' {
			return v, err
		}
		c.Pushes = append(c.Pushes, v)
	}
}

// Must is Do for tests and tools. It panics on any error, also on an error reply.
func (c *Client) Must(args ...any) Value {
	v, err := c.Do(args...)
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		panic(fmt.Sprintf("%v: %v", args, err))
	}
	return v
}

// Pipeline sends all requests at once and returns their replies.
func (c *Client) Pipeline(requests ...[]any) ([]Value, error) {
	for _, args := range requests {
		c.Send(args...)
	}
	replies := make([]Value, 0, len(requests))
	for range requests {
		v, err := c.reply()
		if err != nil {
			return replies, err
		}
		replies = append(replies, v)
	}
	return replies, nil
}

// Send appends one request to the output buffer: strings, byte slices, integers, floats, and other values as fmt prints
// them.
func (c *Client) Send(args ...any) {
	c.out = appendCount(c.out, '*', len(args))
	for _, arg := range args {
		var text [32]byte
		switch arg := arg.(type) {
		case string:
			c.out = append(append(appendCount(c.out, '$', len(arg)), arg...), '\r', '\n')
		case []byte:
			c.bulk(arg)
		case int:
			c.bulk(number.AppendInt(text[:0], int64(arg)))
		case int64:
			c.bulk(number.AppendInt(text[:0], arg))
		case uint64:
			c.bulk(number.AppendUint(text[:0], arg))
		case float64:
			c.bulk(strconv.AppendFloat(text[:0], arg, 'g', -1, 64))
		default:
			c.bulk(fmt.Append(text[:0], arg))
		}
	}
}

// SendRaw appends bytes to the output buffer, for inline or broken requests.
func (c *Client) SendRaw(p []byte) { c.out = append(c.out, p...) }

func (c *Client) bulk(p []byte) {
	c.out = append(append(appendCount(c.out, '$', len(p)), p...), '\r', '\n')
}

func appendCount(dst []byte, kind byte, n int) []byte {
	return append(number.AppendInt(append(dst, kind), int64(n)), '\r', '\n')
}

// Flush writes the output buffer to the connection.
func (c *Client) Flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if err := c.arm(c.conn.SetWriteDeadline); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > 1<<20 {
		c.out = nil
	}
	return err
}

func (c *Client) arm(set func(time.Time) error) error {
	if c.timeout == 0 {
		return nil
	}
	return set(time.Now().Add(c.timeout))
}
