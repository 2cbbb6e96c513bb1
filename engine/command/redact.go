package command

// redacted stands for what nobody should read in the slow log or in MONITOR.
var redacted = []byte("(redacted)")

// Redact hides argument i from whatever looks at the call after its handler: the slow log, MONITOR, the audit of a
// refusal. A handler calls it when it has no more use for the argument.
func (c *Context) Redact(i int) {
	if i < len(c.Args) {
		c.Args[i] = redacted
	}
}
