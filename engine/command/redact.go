package command

// Redact hides argument i from the slow log and MONITOR, which see the call after its handler. The handler calls it
// when it does not need the argument any more.
func (c *Context) Redact(i int) {
	if i < len(c.Args) {
		c.Args[i] = []byte("(redacted)") // its own bytes: a request's arguments are overwritten when it is over
	}
}
