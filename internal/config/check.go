package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Check collects every line of a configuration that a start would refuse, for --check-config.
type Check struct {
	Out io.Writer
	Log bytes.Buffer // the trial start's log since the last complaint
	bad []Error
}

// Refused returns the number of complaints.
func (c *Check) Refused() int { return len(c.bad) }

// Explain returns why err would end a start, with the line of err, or with at. The reason is the text of err, or for
// ErrLogged the lines of the log.
func (c *Check) Explain(err error, at Error) Error {
	if line := (*Error)(nil); errors.As(err, &line) {
		return *line
	}
	at.Reason = err.Error()
	if errors.Is(err, ErrLogged) {
		var logged []string
		for line := range strings.Lines(c.Log.String()) {
			_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " # ")
			logged = append(logged, strings.TrimSuffix(text, "."))
		}
		at.Reason = strings.Join(logged, ". ")
	}
	return at
}

// Note adds a complaint about a line, or about the whole configuration.
func (c *Check) Note(e Error) {
	c.bad = append(c.bad, e)
	c.Log.Reset()
}

// Print writes the complaints in the order of their lines. Complaints about the whole configuration come last.
func (c *Check) Print() {
	slices.SortStableFunc(c.bad, func(a, b Error) int { return cmp.Compare(uint(a.order-1), uint(b.order-1)) })
	for _, e := range c.bad {
		if e.Place == "" {
			fmt.Fprintf(c.Out, "%s\n", e.Reason)
			continue
		}
		fmt.Fprintf(c.Out, "%s: %s: %q\n", e.Place, e.Reason, e.Text)
	}
}
