package server

import (
	"fmt"
	"io"
	"strings"

	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/tlsconfig"
	"spindle/internal/version"
)

// This file has the tasks of a command line that serve no client.

// A Manual has the parts of --help that the server does not know: the text of spindle.conf, and more ways to start.
type Manual struct {
	Settings string
	Tools    []config.Form
}

// answer does the task of a command line. done is false if the task is to serve.
func answer(args config.Arguments, manual Manual, stdin io.Reader, stdout, stderr io.Writer) (code int, done bool) {
	switch args.Task {
	case config.TaskVersion:
		_, _ = io.WriteString(stdout, version.Text())
		return 0, true
	case config.TaskCheckSystem:
		return process.CheckSystem(stdout), true
	case config.TaskDoctor:
		return doctor(args, stdin, stdout), true
	case config.TaskTestMemory:
		_, _ = io.WriteString(stderr,
			"spindle has no memory test: start memtest86+ instead, which also sees what the system keeps for itself.\n")
		return 1, true
	case config.TaskCheckConfig:
		return checkConfig(args, stdin, stdout), true
	case config.TaskHelp:
		registry, err := Registry()
		if err != nil {
			fmt.Fprintln(stdout, err)
			return 1, true
		}
		return config.Help(registry, manual.Settings, manual.Tools, args.Rest, stdout), true
	}
	return 0, false
}

// Registry returns every setting of a server, with its default.
func Registry() (*setting.Registry, error) {
	in, err := newInstance(logging.New(io.Discard))
	if err != nil {
		return nil, err
	}
	return in.registry, nil
}

const checkConfigUsage = "Usage: spindle --check-config FILE [--directive value ...] [-]\n"

// checkConfig runs --check-config. It names each line of a configuration that a start would refuse, and changes
// nothing. It reads included files, ACL files and certificates. It opens no port and reads no data.
//
// It returns the exit code: 0 if a start would accept the configuration, or 1. The process ends after it.
func checkConfig(args config.Arguments, stdin io.Reader, out io.Writer) (code int) {
	if args.ConfigFile == "" && !args.Stdin {
		fmt.Fprint(out, checkConfigUsage)
		return 1
	}
	c := &config.Check{Out: out}
	in, err := newInstance(logging.New(&c.Log))
	if err == nil {
		in.log.SetLevel(logging.LevelWarning)
		in.checking = c
		err = in.try(args, stdin)
	}
	if err != nil {
		c.Note(c.Explain(err, config.Error{}))
	}
	name := args.ConfigFile
	if name == "" {
		name = "standard input"
	}
	if n := c.Refused(); n > 0 {
		c.Print()
		fmt.Fprintf(out, "%s: %d refused\n", name, n)
		return 1
	}
	if idle := append(in.registry.Idle(), in.config.Ignored...); len(idle) > 0 {
		fmt.Fprintf(out, "%s: without effect in this version: %s\n", name, strings.Join(idle, ", "))
	}
	fmt.Fprintf(out, "%s: OK\n", name)
	return 0
}

// doctor runs the task doctor: it checks the host for a server with this configuration. It returns 1 if a line of the
// configuration is refused or the server would fail on this host. The process ends after it.
func doctor(args config.Arguments, stdin io.Reader, out io.Writer) (code int) {
	c := &config.Check{Out: out}
	in, err := newInstance(logging.New(&c.Log))
	if err == nil {
		in.config, err = config.Load(in.registry, args, stdin,
			config.Options{Log: in.log, Bad: func(e *config.Error) { c.Note(*e) }})
	}
	if err != nil {
		c.Note(c.Explain(err, config.Error{}))
	}
	if c.Refused() > 0 {
		c.Print()
		return 1
	}
	value := func(name string) string { return in.registry.Lookup(name).Get() }
	return process.Print(out, process.Doctor(process.Plan{
		MaxMemory: uint64(in.engine.MaxMemory.Get()), MaxClients: in.network.MaxClients.Get(),
		Files: in.own.files(&in.sockets, false), Backlog: in.sockets.Backlog.Get(), Folder: value("dir"),
		Persists: value("appendonly") == "yes" || value("save") != "",
		Syncs:    value("appendonly") == "yes" && value("appendfsync") != "no",
	}))
}

// try does the part of a start that a configuration can make fail.
func (in *instance) try(args config.Arguments, stdin io.Reader) (err error) {
	c := in.checking
	in.config, err = config.Load(in.registry, args, stdin,
		config.Options{Log: in.log, Bad: func(e *config.Error) { c.Note(*e) }})
	if err != nil {
		return err
	}
	if in.own.Unsupported.Get() == refuseUnsupported {
		c.NoteUnsupported(in.registry, in.config)
	}
	if err := in.assemble(args); err != nil {
		return err
	}
	defer in.lazy.Close()
	if len(in.listening.kinds()) == 0 {
		in.log.Warning("Configured to not listen anywhere, exiting.")
		if err := in.refused(config.ErrLogged); err != nil {
			return err
		}
	}
	if in.own.Admin.Get() != "" {
		if _, _, err := in.own.adminSocket(); err != nil {
			c.Note(c.Explain(err, in.config.At("admin-address")))
		}
	}
	if in.certificates.Wanted() {
		if _, err := tlsconfig.Build(&in.tls); err != nil {
			c.Note(config.Error{Reason: "TLS: " + err.Error()})
		}
	}
	return nil
}

// refused returns err to end a start. If the configuration is only checked, it notes err with line at and returns nil.
func (in *instance) refused(err error, at ...config.Error) error {
	if in.checking == nil {
		return err
	}
	line := config.Error{}
	if len(at) > 0 {
		line = at[0]
	}
	in.checking.Note(in.checking.Explain(err, line))
	return nil
}
