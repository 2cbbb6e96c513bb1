package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"spindle/cluster/bus"
	"spindle/cluster/state"
	"spindle/internal/reason"
)

// A wire is one connection to a peer. One goroutine reads from it, another one writes to it. So a slow peer delays
// neither the state nor other peers.
type wire struct {
	of      *Cluster
	link    *state.Link
	conn    net.Conn // set before the first event
	context context.Context
	hangUp  context.CancelFunc
	queued  atomic.Int64 // bytes of queue, with its overhead

	mu     sync.Mutex
	more   sync.Cond
	queue  [][]byte
	closed bool
}

const (
	queueBytes   = 48 // an empty queue
	messageBytes = 40 // overhead of a message in a queue
	readBytes    = 16 << 10
	growBytes    = 1 << 20 // how much memory is allocated at a time for a message that has not arrived yet
)

// newWire makes a wire without a connection.
func (c *Cluster) newWire() *wire {
	w := &wire{of: c}
	w.more.L = &w.mu
	w.queued.Store(queueBytes)
	c.memory.Add(queueBytes)
	w.context, w.hangUp = context.WithCancel(context.Background())
	return w
}

// dial opens the connection of a link. The caller holds mu.
func (c *Cluster) dial(l *state.Link) {
	w := c.newWire()
	w.link = l
	l.Handle, l.Queued = w, w.queued.Load
	address := net.JoinHostPort(l.Node.IP, strconv.Itoa(l.Node.BusPort))
	go w.run(func() (net.Conn, error) {
		var d net.Dialer
		if source := c.parts.Source(); source != "" {
			ip, err := net.ResolveIPAddr("ip", source)
			if err != nil {
				return nil, err
			}
			d.LocalAddr = &net.TCPAddr{IP: ip.IP, Zone: ip.Zone}
		}
		conn, err := d.DialContext(w.context, "tcp", address)
		if err != nil {
			return nil, err
		}
		if _, config := c.parts.TLS(); config != nil {
			secure := tls.Client(conn, config)
			if err := secure.HandshakeContext(w.context); err != nil {
				_ = conn.Close()
				return nil, err
			}
			return secure, nil
		}
		return conn, nil
	})
}

// run is the loop of the reading goroutine.
func (w *wire) run(open func() (net.Conn, error)) {
	conn, err := open()
	if err != nil {
		w.post(event{wire: w, err: err})
		return
	}
	stop := context.AfterFunc(w.context, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	w.conn = conn
	if !w.link.Inbound {
		w.link.Peer, w.link.Local = hostOf(conn.RemoteAddr()), hostOf(conn.LocalAddr())
	}
	go w.write(conn)
	if !w.post(event{wire: w}) {
		return
	}
	w.post(event{wire: w, err: w.read(conn)})
}

// post sends an event to run. It returns false when the wire is no longer used.
func (w *wire) post(e event) bool {
	select {
	case w.of.events <- e:
		return true
	case <-w.context.Done():
		return false
	case <-w.of.stop:
		return false
	}
}

// read reads messages until the connection ends or the bytes are not valid messages.
func (w *wire) read(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, readBytes)
	for {
		prefix, err := in.Peek(bus.BeginBytes)
		if err == nil && !bus.Begins(prefix) {
			err = bus.ErrFrame
		}
		if err == nil {
			prefix, err = in.Peek(bus.PrefixBytes)
		}
		if err != nil {
			return w.refuse(err)
		}
		length, err := bus.Frame(prefix)
		if err != nil {
			return w.refuse(err)
		}
		p, err := readWhole(in, length)
		if err != nil {
			return err
		}
		w.of.received.add(p)
		m, err := bus.Parse(p)
		if err != nil {
			if !bus.Silent(err) {
				w.of.log.Warning("%s", err)
			}
			typ := bus.TypeOf(p)
			w.post(event{wire: w, refused: &typ})
			continue
		}
		if !w.post(event{wire: w, message: m}) {
			return net.ErrClosed
		}
	}
}

// refuse logs that a stream holds no messages, with one line for each connection.
func (w *wire) refuse(err error) error {
	if errors.Is(err, bus.ErrFrame) {
		w.of.log.Warning("%s from %s", err, w.conn.RemoteAddr())
	}
	return err
}

// readWhole reads length bytes. It allocates memory as the bytes arrive, because length may be false.
func readWhole(in io.Reader, length int) ([]byte, error) {
	p := make([]byte, 0, min(length, growBytes))
	for len(p) < length {
		if len(p) == cap(p) {
			p = append(make([]byte, 0, min(length, 2*cap(p))), p...)
		}
		n, err := io.ReadFull(in, p[len(p):min(cap(p), length)])
		p = p[:len(p)+n]
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// push queues a message. The message must not be changed any more.
func (w *wire) push(message []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.queue = append(w.queue, message)
	w.account(int64(len(message) + messageBytes))
	w.more.Signal()
}

func (w *wire) account(n int64) {
	w.queued.Add(n)
	w.of.memory.Add(n)
}

// write is the loop of the writing goroutine. A message counts as queued until the operating system has accepted it.
func (w *wire) write(conn net.Conn) {
	var batch net.Buffers
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.closed {
			w.more.Wait()
		}
		if w.closed {
			w.mu.Unlock()
			return
		}
		batch = append(batch[:0], w.queue[:min(len(w.queue), writesAtOnce)]...)
		n := len(batch)
		w.queue = append(w.queue[:0:0], w.queue[n:]...)
		w.mu.Unlock()
		bytes := int64(n * messageBytes)
		for _, p := range batch {
			bytes += int64(len(p))
			w.of.sent.add(p)
		}
		sending := batch
		_, err := sending.WriteTo(conn)
		w.mu.Lock()
		if !w.closed {
			w.account(-bytes)
		}
		w.mu.Unlock()
		if err != nil {
			_ = conn.Close() // then the reading side reports the error
			return
		}
	}
}

// writesAtOnce is how many messages one system call writes.
const writesAtOnce = 64

// close ends the wire. Any goroutine.
func (w *wire) close() {
	w.hangUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	w.queue = nil
	w.account(-w.queued.Load())
	w.more.Broadcast()
	w.of.accepted.remove(w)
}

// hostOf returns an address's IP.
func hostOf(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok {
		if four := t.IP.To4(); four != nil {
			return four.String()
		}
		return t.IP.String()
	}
	return ""
}

// acceptedLinks are the connections that peers have opened. They are counted, to limit how many strangers can open.
type acceptedLinks struct {
	mu  sync.Mutex
	all map[*wire]bool
}

// maxAccepted is the limit of accepted connections, which is more than a cluster has nodes.
const maxAccepted = 10000

func (a *acceptedLinks) add(w *wire) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[*wire]bool{}
	}
	if len(a.all) >= maxAccepted {
		return false
	}
	a.all[w] = true
	return true
}

func (a *acceptedLinks) remove(w *wire) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, w)
}

// listen opens the bus's sockets. Connections wait in the sockets until accept runs.
func (c *Cluster) listen() error {
	port := c.listenPort()
	bind := c.parts.Bind()
	if len(bind) == 0 {
		return errors.New("No bind address is configured, but it is required for the Cluster bus.")
	}
	for _, name := range bind {
		host, optional := strings.CutPrefix(name, "-")
		network := "tcp"
		switch {
		case host == "*":
			network, host = "tcp4", ""
		case host == "::*" || host == "::":
			network, host = "tcp6", ""
		}
		l, err := net.Listen(network, net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			if optional && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)) {
				continue
			}
			c.log.Warning("Could not create server TCP listening socket %s:%d: %s", name, port, reason.Of(err))
			return fmt.Errorf("Failed listening on port %d (cluster), aborting.", port)
		}
		c.listeners = append(c.listeners, l)
	}
	if len(c.listeners) == 0 {
		return fmt.Errorf("Failed listening on port %d (cluster), aborting.", port)
	}
	return nil
}

// accept accepts connections until Stop.
func (c *Cluster) accept() {
	for _, l := range c.listeners {
		listener := l.(net.Listener)
		c.stopped.Add(1)
		go func() {
			defer c.stopped.Done()
			for {
				conn, err := listener.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil { // no file descriptors, or the peer is gone
					time.Sleep(100 * time.Millisecond)
					continue
				}
				c.welcome(conn)
			}
		}()
	}
}

// handshakePatience is how long a peer may take to begin TLS.
const handshakePatience = 10 * time.Second

// welcome handles a connection that a peer has opened.
func (c *Cluster) welcome(conn net.Conn) {
	w := c.newWire()
	c.mu.Lock()
	w.link = c.state.Accept(hostOf(conn.RemoteAddr()), hostOf(conn.LocalAddr()), w, w.queued.Load)
	c.mu.Unlock()
	if !c.accepted.add(w) {
		w.close()
		_ = conn.Close()
		return
	}
	c.log.Verbose("Accepting cluster node connection from %s", conn.RemoteAddr())
	go w.run(func() (net.Conn, error) {
		if t, ok := conn.(*net.TCPConn); ok {
			_ = t.SetKeepAlivePeriod(max(time.Second, time.Duration(c.settings.NodeTimeout.Get()/1000*2)*time.Second))
		}
		config, _ := c.parts.TLS()
		if config == nil {
			return conn, nil
		}
		secure := tls.Server(conn, config)
		ctx, cancel := context.WithTimeout(w.context, handshakePatience)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			c.log.Verbose("Error accepting cluster node connection: %s", err)
			return nil, err
		}
		return secure, nil
	})
}

// closeLinks ends all connections.
func (c *Cluster) closeLinks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.state.Nodes() {
		c.state.Cut(n, true, true)
	}
	c.accepted.mu.Lock()
	var all []*wire
	for w := range c.accepted.all {
		all = append(all, w)
	}
	c.accepted.mu.Unlock()
	for _, w := range all {
		w.close()
	}
}
