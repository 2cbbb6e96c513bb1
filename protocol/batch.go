// Package protocol is RESP, and the data that pass between an event loop and the core: requests, replies, batches.
//
// Owner: the caller. The package has no goroutine, no socket and no state.
// Never: blocks, reads a clock, or knows what a command means.
// Start at batch.go; request.go reads requests (inline.go the telnet form, stream.go large arguments), reply.go writes
// replies, errors.go has the errors that clients see.
package protocol

import (
	"crypto/x509"
	"sync/atomic"
)

// A Request is one command as the client sent it.
//
// Lifetime (R2): the arguments are views into the loop's read buffer, or into a Bulk. They are valid until
// Handler.Serve returns, or the batch comes back (Outbox). Code that keeps the bytes longer must copy them.
type Request struct {
	Args [][]byte // Args[0] is the command's name as the client wrote it; never empty
	End  int      // offset after this request in its buffer; 0 if it was streamed into Bulk
	Bulk *Bulk    // the last argument's memory if it was too large for the read buffer; usually nil
}

// A Bulk is memory outside the Go heap. A large last argument is read into it as it arrives. A command may then store
// the Bulk as the value's block without copying.
//
// Ownership: the request's, until a handler sets Taken. Otherwise Release frees the memory after Serve.
type Bulk struct {
	Data    []byte      // the argument, Args[len(Args)-1]; while it arrives, perhaps only a part of its memory
	Ref     uint64      // memory.Ref of Data's first byte, for the core
	Release func(*Bulk) // frees the memory; any goroutine
	Taken   bool        // a handler has stored the memory
}

// A Batch holds the requests of one read of one connection, on their way through the core and back.
//
// The loop sets Session, Requests and Reply. The core runs the requests in order, appends to Reply and sets Done to the
// number of requests that it has run. If it has not run all, the client was blocked, paused or closed, or the turn took
// too long. The loop keeps the bytes after Requests[Done-1].End. It submits them again after Conn.Resume, which may
// come within Serve.
type Batch struct {
	Session  any // the session from Handler.Open
	Requests []Request
	Bytes    []byte // the buffer that From and End count in (R2); nil if the request was streamed
	From     int    // offset of the first request
	Reply    *Reply
	Unread   int   // bytes after the last request that the loop holds (CLIENT LIST's qbuf)
	Done     int   // set by the core
	Ran      []Ran // appended by the core if Timed: the commands that have run and were answered, in order
	Timed    bool
	Turn     uint64 // set by the core: the number of the turn that decided these replies
	Level    uint8  // set by the core: the replicas that these replies wait for
	Soon     bool   // set by the core: the rest will run soon, or the last reply will come soon; Resume follows either
	NowMs    int64  // set by the core: the turn's last clock reading, Unix ms; 0: the loop reads the clock

	next *Batch // in an Outbox.s list
	back atomic.Bool
}

// A Ran counts calls of one command. Row is the number of the command's row.
type Ran struct {
	Row   int32
	Calls int32
}

// A Verdict says how to handle a connection that breaks the protocol.
type Verdict uint8

const (
	Tell  Verdict = iota // send the error after the replies before it, then close
	Leave                // close without a reply
	Wait                 // its client waits for an earlier reply: keep the bytes unread until Resume
)

// A Handler serves a loop's connections. It is the core, a proxy or a test.
//
// Open, Serve and Closed of one connection are never called concurrently.
type Handler interface {
	// Open announces a connection. A nil session refuses it: the loop writes refusal, if any, and closes the
	// connection.
	Open(c Conn) (session any, refusal []byte)
	// Serve runs the batch's requests and returns when their replies are in b.Reply.
	Serve(b *Batch)
	// Malformed reports a protocol error and returns how to handle it.
	Malformed(session any, err *Error) Verdict
	// Closed reports that the connection is closed. The loop does not use session afterwards.
	Closed(session any)
	// Reserve lends n bytes for a bulk argument that does not fit the read buffer, or for the argument's beginning. If
	// both results are nil, the loop uses the Go heap. An error is sent to the client, and the connection is closed.
	Reserve(session any, n int) (*Bulk, *Error)
}

// A Class selects one of the three output-buffer limits.
type Class uint8

const (
	ClassNormal Class = iota
	ClassReplica
	ClassPubSub
)

// Usage is the memory of a connection's buffers, in bytes. It may lag by one loop iteration.
type Usage struct {
	Query     int // bytes read and not served yet (qbuf)
	QueryFree int // free room in the query buffer (qbuf-free)
	Output    int // bytes decided but not yet accepted by the kernel (omem)
	Pieces    int // pieces of Output (oll)
	ReplyCap  int // size of the fixed reply buffer (rbs)
	Total     int // all memory of the connection's buffers
	Reserved  int // memory lent by Handler.Reserve; Total includes the part that the client has filled
}

// An Accountant is a Session (see Handler.Open) that wants to know at once when its connection's memory changes. The
// loop calls Account outside Serve. bytes and reserved are Usage's Total and Reserved.
type Accountant interface{ Account(bytes, reserved int) }

// A Conn is the core's view of a connection. Any goroutine may call every method.
type Conn interface {
	FD() int
	LocalAddr() string  // "127.0.0.1:6379", "[::1]:6379" or the Unix socket's path with ":0"
	RemoteAddr() string // in the same forms
	Unix() bool
	Loopback() bool // the peer is on this machine
	// Post sends p in the order of turns: after all output of turns before turn, and before all output of later turns.
	// Afterwards the loop shares p, so it must not be changed.
	Post(turn uint64, p []byte)
	// PostReply is Post for a Reply that may hold lent pieces. The loop then owns r. A Full reply ends the connection.
	PostReply(turn uint64, r *Reply)
	// Chunks returns the chunks for a Reply that PostReply will send, or nil if there are none. Any goroutine may write
	// such a reply, one at a time.
	Chunks() Chunks
	// Loop returns the connection's loop for Loop.PostAll. nil means that no other connection has this loop. The loop
	// changes only if the handler is a Mover, and only while Mover.Still runs its function.
	Loop() Loop
	// Resume makes the loop serve the requests that Serve has left, and read again.
	Resume()
	// Close closes the connection, at once or after all output so far was sent.
	Close(afterOutput bool)
	// SetClass selects the output limit; the default is ClassNormal. The feed of a replica limits its own output.
	SetClass(Class)
	Usage() Usage
	// LastActive returns when bytes last arrived or left, Unix ms. CLIENT LIST's idle and the setting timeout use it.
	LastActive() int64
}

// A Loop is the core's view of an event loop. It takes one message for many of its connections.
type Loop interface {
	// PostAll calls Post(turn, p) for each connection in to, in order, but not for except, which may be nil. All
	// connections are on this loop.
	// Lifetime: afterwards the loop shares p and the elements of to, so they must not be changed.
	PostAll(turn uint64, to []Conn, except Conn, p []byte)
}

// A Mover is a Handler whose connections may change their loops.
type Mover interface {
	Handler
	// Still runs f while no batch runs and nothing is posted by one. f gives connections other loops, if may allows it for
	// their sessions.
	Still(f func(may func(session any) bool))
	// TurnTime returns how long batches and other work have used the data so far, in nanoseconds. Only one goroutine uses
	// them at a time. It may begin at 0 again.
	TurnTime() int64
}

// IsLocal reports whether the peer of c is on this machine. It is false for a client without a connection.
func IsLocal(c Conn) bool { return c != nil && (c.Unix() || c.Loopback()) }

// PeerCertificate returns the certificate that c's client has shown, signed by one of the server's authorities. It
// returns nil if there is none. Only the goroutine that serves c may call it.
func PeerCertificate(c Conn) *x509.Certificate {
	if s, is := c.(interface{ PeerCertificate() *x509.Certificate }); is {
		return s.PeerCertificate()
	}
	return nil
}

// IsSecure reports whether c is a TLS connection.
func IsSecure(c Conn) bool {
	s, is := c.(interface{ Secure() bool })
	return is && s.Secure()
}
