package protocol

// A Reply collects the bytes that answer a batch: a buffer that handlers append to, and between its bytes lent pieces
// that leave without being copied.
//
//	B:     +OK\r\n $5\r\nhello\r\n $536870912\r\n | \r\n :1\r\n
//	lent:                                         ^ At = 35: Data (off the heap), Release when it has left
//
// Lifetime: the loop owns it; a handler may append while Serve runs and keeps nothing of it.
type Reply struct {
	B     []byte
	RESP3 bool // the client said HELLO 3: maps, sets, doubles, nulls and pushes have their own types
	Lent  []Lent
}

// Lent is a piece of a reply that stays where it is until the kernel has taken it.
type Lent struct {
	At      int // it goes before B[At]
	Data    []byte
	Release func() // called once, on any goroutine, when Data is no longer needed
}
