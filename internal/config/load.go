package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/internal/reason"
	"spindle/internal/setting"
)

// maxIncludes bounds the depth of includes. Deeper files probably include themselves.
const maxIncludes = 16

// A loader reads one configuration into a registry.
type loader struct {
	registry *setting.Registry
	to       Options
	config   *Config
	depth    int
	read     int    // the number of lines so far
	at       Error  // the line being read
	noLog    string // the log file that Options.Bad has already received
}

// Load reads the file, standard input (if args ask for it) and the options, in that order, into the rows of registry.
//
// Errors: *Error, *OpenError. Rows may have changed by then, so the process must end. No hook of the registry runs.
func Load(registry *setting.Registry, args Arguments, stdin io.Reader, to Options) (*Config, error) {
	l := &loader{registry: registry, to: to, config: &Config{File: args.ConfigFile, last: map[string]Error{}}}
	var text source
	if args.ConfigFile != "" {
		if err := readFiles(args.ConfigFile, &text); err != nil {
			return nil, err
		}
	}
	if args.Stdin {
		to.Log.Notice("Reading config from stdin")
		text.begin("standard input")
		if err := readBounded("-", stdin, &text); err != nil {
			return nil, err
		}
	}
	_, _ = text.Write([]byte{'\n'})
	text.begin("the options")
	_, _ = text.Write([]byte(args.Options))
	if err := l.lines(&text); err != nil {
		return nil, err
	}
	return l.config, l.bad(l.checkWhole())
}

// bad returns err, which ends the reading, or nil if Options.Bad accepts err.
func (l *loader) bad(err error) error {
	if err == nil || l.to.Bad == nil {
		return err
	}
	if line := (*Error)(nil); errors.As(err, &line) {
		l.to.Bad(line)
		return nil
	}
	e := l.at
	e.Reason = err.Error()
	l.to.Bad(&e)
	return nil
}

func (l *loader) lines(text *source) error {
	number := 0
	for line := range strings.SplitSeq(text.String(), "\n") {
		number++
		l.read++
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		at := Error{order: l.read, Line: number, Place: text.place(number), Text: line}
		l.at = at
		err := l.line(line)
		l.at = at
		switch err.(type) {
		case nil:
		case *Error, *OpenError: // an included file has named its own line
		default:
			at.Reason = err.Error()
			err = &at
		}
		if err := l.bad(err); err != nil {
			return err
		}
	}
	return l.bad(l.checkLogFile())
}

var errBadDirective = errors.New("Bad directive or wrong number of arguments")

// withdrawn are directives of older versions that have no meaning today. Each has one argument.
var withdrawn = []string{"list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands",
	"events-per-io-thread"}

func (l *loader) line(line string) error {
	if strings.IndexByte(line, 0) >= 0 {
		return errors.New("A configuration line can't hold a zero byte")
	}
	args, err := setting.SplitArgs(line)
	if err != nil || len(args) == 0 {
		return err
	}
	name := strings.ToLower(args[0])
	if row := l.registry.Lookup(name); row != nil {
		l.config.last[row.Name] = l.at
	}
	if known, err := l.registry.Load(name, args[1:]); known {
		if example := setting.Example(err); example != "" {
			return fmt.Errorf("%w%s", err, example)
		}
		return err
	}
	switch {
	case slices.Contains(withdrawn, name) && len(args) == 2:
		return nil
	case name == "include" && len(args) == 2:
		return l.include(args[1])
	case name == "rename-command" && len(args) == 3:
		l.config.Renames = append(l.config.Renames, Line{args[1:], l.at})
		return nil
	case name == "user" && len(args) >= 2:
		return l.user(args)
	case name == "loadmodule" && len(args) >= 2:
		l.config.Modules = append(l.config.Modules, Line{args[1:], l.at})
		return nil
	case strings.Contains(name, "."):
		if len(args) < 2 {
			return errors.New("Module config specified without value")
		}
		l.config.Ignored = append(l.config.Ignored, name)
		return nil
	case name == "sentinel":
		if len(args) == 1 {
			return nil
		}
		if !l.to.Sentinel {
			return errors.New("sentinel directive while not in sentinel mode")
		}
		l.config.Sentinel = append(l.config.Sentinel, Line{args[1:], l.at})
		return nil
	}
	if near := l.nearest(name); near != "" {
		return fmt.Errorf("%w (did you mean %s?)", errBadDirective, near)
	}
	return errBadDirective
}

// nearest returns the directive that an unknown name probably means. It returns "" if none is near, or if the name is
// known.
func (l *loader) nearest(name string) string {
	names := []string{"include", "rename-command", "user", "loadmodule", "sentinel"}
	for _, row := range l.registry.Rows() {
		names = append(names, row.Name)
	}
	return nearest(name, names)
}

// include reads other files in place of the line. Relative paths start at the current directory, which dir may set.
func (l *loader) include(path string) error {
	if l.depth == maxIncludes {
		return fmt.Errorf("Files include each other more than %d deep", maxIncludes)
	}
	var text source
	if err := readFiles(path, &text); err != nil {
		return err
	}
	l.depth++
	defer func() { l.depth-- }()
	return l.lines(&text)
}

func (l *loader) user(args []string) error {
	if slices.ContainsFunc(l.config.Users, func(u Line) bool { return u.Words[0] == args[1] }) {
		return fmt.Errorf("Error in user declaration '%s': Duplicate user found. A user can only be defined once in config "+
			"files", args[1])
	}
	l.config.Users = append(l.config.Users, Line{args[1:], l.at})
	return nil
}

// checkLogFile opens the log as a test, because a later error could not be reported.
func (l *loader) checkLogFile() error {
	path := l.value("logfile")
	if path == "" {
		return nil
	}
	if l.to.Bad != nil {
		err := mayWrite(path)
		if err == nil || l.noLog == path {
			return nil
		}
		l.noLog = path
		at := l.config.last["logfile"]
		at.Reason = "Can't open the log file: " + reason.Of(err)
		return &at
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return &Error{Reason: "Can't open the log file: " + reason.Of(err)}
	}
	return f.Close()
}

// mayWrite returns why path can be neither opened for appending nor created. It does not open or create the file.
func mayWrite(path string) error {
	stat, err := os.Stat(path)
	switch {
	case err == nil && stat.IsDir():
		return unix.EISDIR
	case err == nil:
		return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
	case errors.Is(err, os.ErrNotExist):
		return unix.Faccessat(unix.AT_FDCWD, filepath.Dir(path), unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	return err
}

// checkWhole refuses settings that exclude each other.
func (l *loader) checkWhole() error {
	if l.value("cluster-enabled") != "yes" {
		return nil
	}
	if l.value("replicaof") != "" {
		return &Error{Reason: "replicaof directive not allowed in cluster mode"} // no single line is wrong
	}
	if n, want := l.value("databases"), l.value("cluster-databases"); n != "" && n != want {
		l.to.Log.Warning("WARNING: Changing databases number from %s to %s since we are in cluster mode", n, want)
		if err := l.registry.Lookup("databases").Set([]string{want}, setting.FromFile); err != nil {
			return &Error{Reason: err.Error()}
		}
	}
	return nil
}

func (l *loader) value(name string) string {
	if row := l.registry.Lookup(name); row != nil {
		return row.Get()
	}
	return ""
}
