package server

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"spindle/internal/logging"
	"spindle/internal/tlsconfig"
)

// A configCheck goes through a configuration as a start does, and notes every line that a start would refuse.
type configCheck struct {
	out io.Writer
	log bytes.Buffer // what a start would have logged since the last complaint
	bad []ConfigError
}

const checkConfigUsage = "Usage: spindle --check-config FILE [--directive value ...] [-]\n"

// CheckConfig is --check-config: it names each line of a configuration that a start would refuse, and touches nothing.
// Files that are included, ACL files and certificates are read. Ports are not tried, and no data is looked at.
//
// It answers the exit code: 0 if a start would take the configuration, or 1. The process ends after it.
func CheckConfig(args Arguments, stdin io.Reader, out io.Writer) (code int) {
	if args.ConfigFile == "" && !args.Stdin {
		fmt.Fprint(out, checkConfigUsage)
		return 1
	}
	c := &configCheck{out: out}
	in, err := newInstance(logging.New(&c.log))
	if err == nil {
		in.log.SetLevel(logging.LevelWarning)
		in.checking = c
		err = c.read(in, args, stdin)
	}
	if err != nil {
		c.note(c.explained(err, ConfigError{}))
	}
	name := args.ConfigFile
	if name == "" {
		name = "standard input"
	}
	if len(c.bad) > 0 {
		c.print()
		fmt.Fprintf(out, "%s: %d refused\n", name, len(c.bad))
		return 1
	}
	if idle := append(in.registry.Idle(), in.config.Ignored...); len(idle) > 0 {
		fmt.Fprintf(out, "%s: without effect in this version: %s\n", name, strings.Join(idle, ", "))
	}
	fmt.Fprintf(out, "%s: OK\n", name)
	return 0
}

// read is the part of a start that a configuration can end.
func (c *configCheck) read(in *instance, args Arguments, stdin io.Reader) (err error) {
	in.config, err = Load(in.registry, args, stdin, Directives{Log: in.log, Bad: func(e *ConfigError) { c.note(*e) }})
	if err != nil {
		return err
	}
	if err := in.refuseUnsupported(); err != nil {
		return err
	}
	if err := in.assemble(args); err != nil {
		return err
	}
	defer in.lazy.Close()
	if len(in.listenerKinds()) == 0 {
		in.log.Warning("Configured to not listen anywhere, exiting.")
		if err := in.refused(errLogged); err != nil {
			return err
		}
	}
	if in.own.Admin.Get() != "" {
		if _, _, err := in.adminPlace(); err != nil {
			c.note(c.explained(err, in.config.lines["admin-address"]))
		}
	}
	if in.wantsTLS() {
		if _, err := tlsconfig.Build(&in.tls); err != nil {
			c.note(ConfigError{Reason: "TLS: " + err.Error()})
		}
	}
	return nil
}

// refused is the end of a start by err, or nil if the configuration is only checked. Then err has been noted, with the
// line at, and the check goes on.
func (in *instance) refused(err error, at ...ConfigError) error {
	if in.checking == nil {
		return err
	}
	line := ConfigError{}
	if len(at) > 0 {
		line = at[0]
	}
	in.checking.note(in.checking.explained(err, line))
	return nil
}

// explained is why err would end a start: the error's own line or at, and its text or what the log would say.
func (c *configCheck) explained(err error, at ConfigError) ConfigError {
	if line := (*ConfigError)(nil); errors.As(err, &line) {
		return *line
	}
	at.Reason = err.Error()
	if errors.Is(err, errLogged) {
		var said []string
		for line := range strings.Lines(c.log.String()) {
			_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " # ")
			said = append(said, strings.TrimSuffix(text, "."))
		}
		at.Reason = strings.Join(said, ". ")
	}
	return at
}

// note keeps a complaint about a line, or about the configuration as a whole.
func (c *configCheck) note(e ConfigError) {
	c.bad = append(c.bad, e)
	c.log.Reset()
}

// print writes the complaints in the order of their lines. Those about the configuration as a whole come last.
func (c *configCheck) print() {
	slices.SortStableFunc(c.bad, func(a, b ConfigError) int { return cmp.Compare(uint(a.order-1), uint(b.order-1)) })
	for _, e := range c.bad {
		if e.Place == "" {
			fmt.Fprintf(c.out, "%s\n", e.Reason)
			continue
		}
		fmt.Fprintf(c.out, "%s: %s: %q\n", e.Place, e.Reason, e.Text)
	}
}
