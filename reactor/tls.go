package reactor

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// A tlsLink is the second kind of link: crypto/tls over a nonblocking socket.
//
//	           the handshake, on its own goroutine             the loop
//	accepted ─────────────────────────────────────▶ shaking ───────────▶ open ⇄ readable ───▶ closed: a last close_notify
//	                                                   │ refused, too slow, or the reactor stops
//	                                                   └──────────────────────────────▶ closed
//
// The memory of crypto/tls is bounded: some 7 KB when idle, and the largest record (TestIdleTLSConnectionCost). As in
// Redis it does not count as the client's memory.
//
// The tlsLink is also the net.Conn from which crypto/tls reads records and to which it writes them. During the
// handshake its Read and Write wait in file. Afterwards Read returns errNothing where a socket would wait; crypto/tls
// then keeps a half-read record for later.
//
// reactor.S1. One goroutine at a time uses a tlsLink: that of the handshake, then the loop.
// reactor.S2. unsent is sent before anything else. Output is encrypted only while unsent is empty.
// reactor.S3. No event reports the input that crypto/tls holds. read continues until nothing is left, or returns full.
type tlsLink struct {
	conn *tls.Conn
	of   *link

	shaking *handshake // nil: the handshake is over
	drained bool       // since its last event, the socket has brought less than was asked for
	unsent  []byte     // encrypted, and not taken by the socket
}

const (
	// recordSize is how many bytes are encrypted at a time, as one record. The cipher may add to it.
	recordSize = 16 << 10
	// ownRecord is the size from which a piece is encrypted in place. Shorter pieces share a record.
	ownRecord = 4 << 10
	// unsentMost bounds the encrypted bytes that wait: a record of output, and crypto/tls's own messages.
	unsentMost = 4 * recordSize
)

// nothingYet is the error of a Read with nothing to read. crypto/tls treats a temporary net.Error as a pause.
type nothingYet struct{}

func (nothingYet) Error() string   { return "nothing to read yet" }
func (nothingYet) Timeout() bool   { return true }
func (nothingYet) Temporary() bool { return true }

var errNothing net.Error = nothingYet{}

// read fills p with received data, record by record.
func (t *tlsLink) read(p []byte) (n int, full bool, errno unix.Errno) {
	for n < len(p) {
		m, err := t.conn.Read(p[n:])
		n += m
		switch {
		case err == nil:
		case err == errNothing && n == 0:
			return 0, false, unix.EAGAIN
		case err == errNothing:
			return n, false, 0
		default:
			return n, n > 0, 0 // the next read finds the end again
		}
	}
	return n, true, 0
}

// Read implements net.Conn for crypto/tls.
func (t *tlsLink) Read(p []byte) (int, error) {
	if t.shaking != nil {
		return t.shaking.read(p)
	}
	for !t.drained {
		n, errno := receive(t.of.fd, p)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			t.drained = true
		case errno != 0:
			return 0, os.NewSyscallError("recv", errno)
		case n == 0:
			return 0, io.EOF
		default:
			t.drained = n < len(p) && !t.of.hungUp // no event announces the bytes of a peer that is gone
			return n, nil
		}
	}
	return 0, errNothing
}

// Write implements net.Conn for crypto/tls. It accepts all of p, and keeps the bytes that the socket does not take.
func (t *tlsLink) Write(p []byte) (int, error) {
	if t.shaking != nil {
		return t.shaking.write(p)
	}
	whole := len(p)
	if len(t.unsent) == 0 {
		n, errno := t.send(p)
		if errno != 0 {
			return 0, os.NewSyscallError("send", errno)
		}
		p = p[n:]
	}
	if len(t.unsent)+len(p) > unsentMost {
		return 0, io.ErrShortWrite // the peer demands replies and does not read them
	}
	t.unsent = append(t.unsent, p...)
	return whole, nil
}

// send is send(2). For a full socket it returns 0 bytes.
func (t *tlsLink) send(p []byte) (int, unix.Errno) {
	for {
		n, errno := send(t.of.fd, p)
		switch errno {
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, 0
		default:
			return max(n, 0), errno
		}
	}
}

// sendUnsent sends the encrypted bytes. It returns flushedAll when none is left.
func (t *tlsLink) sendUnsent() flushed {
	if len(t.unsent) == 0 {
		return flushedAll
	}
	n, errno := t.send(t.unsent)
	if errno != 0 {
		return flushedDead
	}
	if t.unsent = t.unsent[n:]; len(t.unsent) > 0 {
		return flushedFull
	}
	t.unsent = nil
	return flushedAll
}

// encrypt makes one record of p and sends as much of it as the socket takes.
func (t *tlsLink) encrypt(p []byte) error {
	invariant.That(len(t.unsent) == 0 && len(p) <= recordSize, "reactor.S2: %d bytes while %d wait", len(p), len(t.unsent))
	_, err := t.conn.Write(p)
	return err
}

// end sends close_notify to the peer, if the socket takes it at once.
func (t *tlsLink) end() {
	if len(t.unsent) == 0 {
		_ = t.conn.CloseWrite() // the connection is closed either way
	}
}

// Close, the addresses and the deadlines implement net.Conn. The conn handles them.
func (t *tlsLink) Close() error                     { return nil }
func (t *tlsLink) LocalAddr() net.Addr              { return nil }
func (t *tlsLink) RemoteAddr() net.Addr             { return nil }
func (t *tlsLink) SetDeadline(time.Time) error      { return nil }
func (t *tlsLink) SetReadDeadline(time.Time) error  { return nil }
func (t *tlsLink) SetWriteDeadline(time.Time) error { return nil }

// flushTLS is flush for a link under TLS.
func (o *output) flushTLS(t *tlsLink, pool *bufferPool) (total int, result flushed) {
	for {
		if result = t.sendUnsent(); result != flushedAll {
			return total, result
		}
		if o.bytes == 0 {
			o.dropTail(pool)
			return total, flushedAll
		}
		if total >= flushBound {
			return total, flushedSome
		}
		n, err := o.encryptNext(t, pool)
		if err != nil {
			return total, flushedDead
		}
		total += n
	}
}

// encryptNext makes a record of the output's first bytes and removes them from the output.
func (o *output) encryptNext(t *tlsLink, pool *bufferPool) (n int, err error) {
	if len(o.queue) == 0 && len(o.tail.Lent) == 0 && len(o.tail.B) <= recordSize { // the usual case
		n = len(o.tail.B)
		if err = t.encrypt(o.tail.B); err == nil {
			o.bytes -= n
			o.dropTail(pool)
		}
		return n, err
	}
	o.seal(pool)
	first := o.queue[o.head].b
	if n = min(len(first), recordSize); n >= ownRecord || o.head == len(o.queue)-1 {
		err = t.encrypt(first[:n])
	} else {
		gathered := pool.lease()
		for i := o.head; i < len(o.queue) && len(gathered) < recordSize; i++ {
			b := o.queue[i].b
			gathered = append(gathered, b[:min(len(b), recordSize-len(gathered))]...)
		}
		n = len(gathered)
		err = t.encrypt(gathered)
		pool.giveBack(gathered)
	}
	if err == nil {
		o.advance(pool, n)
	}
	return n, err
}
