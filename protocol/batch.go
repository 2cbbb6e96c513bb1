// Package protocol is RESP and what crosses between an event loop and the core: requests, replies, batches.
//
// Owner: whoever calls; it has no goroutine, no socket and no data of its own.
// Never: blocks, reads a clock, or knows what a command means.
// Start at batch.go; request.go reads (inline.go the telnet form, stream.go what is too large for a buffer), reply.go
// writes, errors.go names what a client may see go wrong.
package protocol

// A Request is one command as the client sent it.
//
// Lifetime (R2): the arguments are views into the loop's read buffer, or into a Bulk, and hold until
// Handler.Serve returns. Who keeps bytes longer copies them.
type Request struct {
	Args [][]byte // Args[0] is the command's name, in the case the client chose; never empty
	End  int      // offset just past this request in the buffer it was cut from; 0 if it was streamed into Bulk
	Bulk *Bulk    // the last argument's memory when it was too large for the read buffer; nil nearly always
}

// A Bulk is memory outside the Go heap that a large last argument is read into as it arrives, so that a command
// may keep it as the value's final block instead of copying it.
//
// Ownership: the request's, until a handler calls Take; what was not taken is given back by Release after Serve.
type Bulk struct {
	Data    []byte      // the argument: Args[len(Args)-1]; while it arrives perhaps only room for its beginning
	Ref     uint64      // memory.Ref of Data's first byte, for the core
	Release func(*Bulk) // gives the memory back; any goroutine
	Taken   bool        // a handler kept it
}

// A Batch is what one read of one connection yielded, on its way through the core and back.
//
// The loop fills Session, Requests and Reply; the core runs requests in order, appends to Reply and says in Done how
// many it took. Fewer than all means that the client was blocked, paused or closed, or that the turn took too long. The
// loop keeps the unread bytes from Requests[Done-1].End on and submits them again after Conn.Resume, which may come
// within Serve.
type Batch struct {
	Session  any // what Handler.Open returned
	Requests []Request
	Reply    *Reply
	Unread   int   // bytes the loop holds behind the last request (CLIENT LIST's qbuf)
	Done     int   // set by the core
	Ran      []Ran // appended to by the core if Timed: what has run and been answered, in order
	Timed    bool
	Turn     uint64 // set by the core: the number of the turn that decided these replies
	Soon     bool   // set by the core: what is not done will be before long, also if the peer ends meanwhile
	NowMs    int64  // set by the core: when that turn last read the clock, Unix ms; 0: the loop reads the clock itself
}

// A Ran is some calls of one row of commands, whose number it is.
type Ran struct {
	Row   int32
	Calls int32
}

// A Verdict is what becomes of a connection that does not speak the protocol.
type Verdict uint8

const (
	Tell  Verdict = iota // the error's reply follows what came before, then the connection closes
	Leave                // it closes without a word
	Wait                 // its client waits for a reply to what came before: the bytes stay unread until Resume
)

// A Handler is what a loop delivers to: the core, a proxy or a test.
//
// Open, Serve and Closed of one connection are never called at the same time.
type Handler interface {
	// Open announces a connection. A nil session refuses it: refusal, if any, is written and the connection closed.
	Open(c Conn) (session any, refusal []byte)
	// Serve runs the batch's requests and returns when their replies are in b.Reply.
	Serve(b *Batch)
	// Malformed tells of a protocol error, and what to make of it.
	Malformed(session any, err *Error) Verdict
	// Closed says that the connection is gone; nothing of it is used by the loop afterwards.
	Closed(session any)
	// Reserve lends n bytes for a bulk argument that does not fit the read buffer, or for the beginning of one. Without
	// an error, nil asks the loop to use the Go heap. An error is told to the client, whose connection then closes.
	Reserve(session any, n int) (*Bulk, *Error)
}

// A Class says which of the three output-buffer limits holds for a connection.
type Class uint8

const (
	ClassNormal Class = iota
	ClassReplica
	ClassPubSub
)

// Usage is what a connection's buffers hold, in bytes. It may lag by one loop iteration.
type Usage struct {
	Query     int // read and not yet served (qbuf)
	QueryFree int // room left in the query buffer (qbuf-free)
	Output    int // decided and not yet accepted by the kernel (omem)
	Pieces    int // pieces Output is held in (oll)
	ReplyCap  int // size of the fixed reply buffer (rbs)
	Total     int // all memory the connection's buffers cost
	Reserved  int // what Handler.Reserve has lent: the handler's own memory. Total has of it what the client has filled
}

// An Accountant is a Session (see Handler.Open) that wants to know at once what its connection's buffers cost. The loop
// tells when that changes, outside of Serve: bytes and reserved are Usage's Total and Reserved.
type Accountant interface{ Account(bytes, reserved int) }

// A Conn is a connection as the core sees it. Every method may be called from any goroutine.
type Conn interface {
	FD() int
	LocalAddr() string  // "127.0.0.1:6379", "[::1]:6379" or the Unix socket's path with ":0"
	RemoteAddr() string // the same forms
	Unix() bool
	Loopback() bool // the peer is on this machine
	// Post sends p after everything that was decided in turns before turn, and before everything decided later.
	// p is shared with the loop from here on: nobody writes to it again.
	Post(turn uint64, p []byte)
	// PostReply is Post for a Reply that may hold lent pieces; r belongs to the loop from here on. One that is Full
	// ends the connection.
	PostReply(turn uint64, r *Reply)
	// Chunks are for a Reply that PostReply is to send. Any goroutine may write it, one at a time; nil: there are none.
	Chunks() Chunks
	// Loop is the loop that the connection is on for its whole life, for Loop.PostAll; nil if it shares none with
	// others.
	Loop() Loop
	// Resume has the loop serve what Serve left undone, and read on.
	Resume()
	// Close ends the connection: at once, or when all output decided so far has left.
	Close(afterOutput bool)
	// SetClass chooses the output limit; the default is ClassNormal. Whoever feeds a replica limits its output.
	SetClass(Class)
	Usage() Usage
	// LastActive is when bytes last arrived or left, in Unix ms: CLIENT LIST's idle and the timeout setting go by it.
	LastActive() int64
}

// A Loop is an event loop as the core sees it: a message for many of its connections is handed over once.
type Loop interface {
	// PostAll is Post of p to each connection of to, in order, but not to except, which may be nil. All are on this
	// loop.
	// Lifetime: p and the elements of to are shared with the loop from here on: nobody writes to them again.
	PostAll(turn uint64, to []Conn, except Conn, p []byte)
}

// IsLocal says whether the peer of c is on this machine, by whatever socket. A client without a connection is nobody's
// peer.
func IsLocal(c Conn) bool { return c != nil && (c.Unix() || c.Loopback()) }

// IsSecure says whether c is a TLS connection.
func IsSecure(c Conn) bool {
	s, is := c.(interface{ Secure() bool })
	return is && s.Secure()
}
