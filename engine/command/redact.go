package command

// Redact hides argument i from whatever looks at the call after its handler: the slow log, MONITOR. A handler calls it
// when it has no more use for the argument.
func (c *Context) Redact(i int) {
	if i < len(c.Args) {
		c.Args[i] = []byte("(redacted)") // its own bytes: a request's arguments are overwritten when it is over
	}
}
