package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/internal/setting"
	"spindle/internal/version"
	"spindle/sentinel"
)

// Directives take what a configuration file may say beside the rows.
type Directives struct {
	Rename func(from, to string) error // rename-command; nil collects it in Config.Renames only
	Log    *logging.Logger
	// Bad hears of each line that cannot be taken, and reading goes on; nothing outside the process is touched.
	// nil: the first such line ends it.
	Bad func(*ConfigError)

	Sentinel bool // sentinel lines are collected, and not refused
}

// A Config is what Load found beside the rows.
type Config struct {
	File    string      // absolute; empty without one
	Renames [][2]string // rename-command, in order
	Users   [][]string  // user, without that word
	Modules [][]string  // loadmodule: path and arguments
	Ignored []string    // module directives (name.setting) without a module

	Sentinel []sentinel.Directive // sentinel, without that word

	renameLines []ConfigError          // where Renames stand
	userLines   []ConfigError          // where Users stand
	moduleLines []ConfigError          // where Modules stand
	sentLines   []ConfigError          // where Sentinel's stand
	lines       map[string]ConfigError // the last line of each directive, by its name and not an older one
}

// RefuseRename is the error of a rename that turned out wrong after Load, with the line it stands in.
func (c *Config) RefuseRename(i int, reason error) error {
	e := c.renameLines[i]
	e.Reason = reason.Error()
	return &e
}

// RefuseUser is the error of a user line that turned out wrong after Load.
func (c *Config) RefuseUser(i int, reason error) error {
	e := c.userLines[i]
	e.Reason = reason.Error()
	return &e
}

// RefuseSentinel is the error of a sentinel line that turned out wrong after Load.
func (c *Config) RefuseSentinel(i int, reason error) error {
	e := c.sentLines[i]
	e.Reason = reason.Error()
	return &e
}

// A ConfigError is a line that cannot be taken, or a configuration that cannot be true as a whole.
type ConfigError struct {
	order  int    // the line's place among all lines read, those of included files too; 0 as for Line
	Line   int    // counted from 1 through file, standard input and options; 0 when no line is to blame
	Place  string // file:line, where those are told apart; "" where no line is to blame
	Text   string // the line, trimmed
	Reason string
}

// Error is what goes to standard error before the process ends with 1.
func (e *ConfigError) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf("Reading the configuration file, at line %d\n>>> '%s'\n", e.Line, e.Text)
	}
	return fmt.Sprintf("\n*** FATAL CONFIG FILE ERROR (Redis %s) ***\n%s%s", version.Redis, where, e.Reason)
}

// An OpenError is a configuration file that cannot be read. Its text is a line for the log.
type OpenError struct {
	Path string
	Err  error
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("Fatal error, can't open config file '%s': %s", e.Path, reason.Of(e.Err))
}

// maxIncludes bounds how deep files may include each other: past it they include themselves.
const maxIncludes = 16

// A loader reads one configuration into a registry.
type loader struct {
	registry *setting.Registry
	to       Directives
	config   *Config
	depth    int
	read     int         // lines so far
	at       ConfigError // the line being read
	noLog    string      // the log file that Directives.Bad has heard of
}

// A source is the text of one file or more, one behind the other, and where each begins.
type source struct {
	strings.Builder
	parts []stretch
	lines int // line ends so far
}

// A stretch is the share of a source that came from one file.
type stretch struct {
	name string
	from int // lines of the source before it
}

// begin says that what is written from now on comes from there.
func (s *source) begin(name string) { s.parts = append(s.parts, stretch{name, s.lines}) }

// Write implements io.Writer.
func (s *source) Write(p []byte) (int, error) {
	s.lines += bytes.Count(p, []byte("\n"))
	return s.Builder.Write(p)
}

// place is where a line of the source, counted from 1, stands.
func (s *source) place(line int) string {
	for i := len(s.parts) - 1; i >= 0; i-- {
		if p := s.parts[i]; p.from < line {
			return fmt.Sprintf("%s:%d", p.name, line-p.from)
		}
	}
	return ""
}

// Load reads file, standard input (if asked) and options, in that order, into the rows of registry.
//
// Errors: *ConfigError, *OpenError. Rows may have changed by then: the process ends.
// stdin is read only if args say so. No hook of the registry runs.
func Load(registry *setting.Registry, args Arguments, stdin io.Reader, to Directives) (*Config, error) {
	l := &loader{registry: registry, to: to, config: &Config{File: args.ConfigFile, lines: map[string]ConfigError{}}}
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

// bad is the end of reading because of err, or nil if somebody hears of it and reading goes on.
func (l *loader) bad(err error) error {
	if err == nil || l.to.Bad == nil {
		return err
	}
	if line := (*ConfigError)(nil); errors.As(err, &line) {
		l.to.Bad(line)
		return nil
	}
	e := l.at
	e.Reason = err.Error()
	l.to.Bad(&e)
	return nil
}

// readFiles appends the files that path names. A pattern may match none; a plain path must be there.
func readFiles(path string, text *source) error {
	paths := []string{path}
	if strings.ContainsAny(path, "*?[") {
		paths, _ = filepath.Glob(path) // a malformed pattern matches nothing, as no file does
	}
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return &OpenError{p, err}
		}
		text.begin(p)
		err = readBounded(p, f, text)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// maxConfig bounds a file: what is longer is no configuration, but a device or a mistake.
const maxConfig = 64 << 20

func readBounded(path string, r io.Reader, text *source) error {
	n, err := io.Copy(text, io.LimitReader(r, maxConfig+1))
	if err == nil && n > maxConfig {
		err = fmt.Errorf("longer than %d bytes", maxConfig)
	}
	if err != nil {
		return &OpenError{path, err}
	}
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
		at := ConfigError{order: l.read, Line: number, Place: text.place(number), Text: line}
		l.at = at
		err := l.line(line)
		l.at = at
		switch err.(type) {
		case nil:
		case *ConfigError, *OpenError: // of an included file, which names its own line
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

// withdrawn are directives of older versions that say nothing any more; each takes one argument.
var withdrawn = []string{"list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"}

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
		l.config.lines[row.Name] = l.at
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
		return l.rename(args[1], args[2])
	case name == "user" && len(args) >= 2:
		return l.user(args)
	case name == "loadmodule" && len(args) >= 2:
		l.config.Modules = append(l.config.Modules, args[1:])
		l.config.moduleLines = append(l.config.moduleLines, l.at)
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
		l.config.Sentinel = append(l.config.Sentinel, args[1:])
		l.config.sentLines = append(l.config.sentLines, l.at)
		return nil
	}
	if near := l.nearest(name); near != "" {
		return fmt.Errorf("%w (did you mean %s?)", errBadDirective, near)
	}
	return errBadDirective
}

// nearest is the directive that an unknown name most probably means; "" if none is near, or if the name is known.
func (l *loader) nearest(name string) string {
	names := []string{"include", "rename-command", "user", "loadmodule", "sentinel"}
	for _, row := range l.registry.Rows() {
		names = append(names, row.Name)
	}
	return nearest(name, names)
}

// include reads other files in place of the line. Relative paths start at the current directory, as dir has set it.
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

func (l *loader) rename(from, to string) error {
	if l.to.Rename != nil {
		if err := l.to.Rename(from, to); err != nil {
			return err
		}
	}
	l.config.Renames = append(l.config.Renames, [2]string{from, to})
	l.config.renameLines = append(l.config.renameLines, l.at)
	return nil
}

func (l *loader) user(args []string) error {
	if slices.ContainsFunc(l.config.Users, func(u []string) bool { return u[0] == args[1] }) {
		return fmt.Errorf("Error in user declaration '%s': Duplicate user found. A user can only be defined once in config "+
			"files", args[1])
	}
	l.config.Users = append(l.config.Users, args[1:])
	l.config.userLines = append(l.config.userLines, l.at)
	return nil
}

// checkLogFile tries to open the log now: later there would be nobody to tell.
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
		at := l.config.lines["logfile"]
		at.Reason = "Can't open the log file: " + reason.Of(err)
		return &at
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return &ConfigError{Reason: "Can't open the log file: " + reason.Of(err)}
	}
	return f.Close()
}

// mayWrite says why path could not be opened for appending, or made, without doing either.
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
		return &ConfigError{Reason: "replicaof directive not allowed in cluster mode"} // no line by itself is to blame
	}
	if n := l.value("databases"); n != "" && n != "1" {
		l.to.Log.Warning("WARNING: Changing databases number from %s to 1 since we are in cluster mode", n)
		if err := l.registry.Lookup("databases").Set([]string{"1"}, setting.FromFile); err != nil {
			return &ConfigError{Reason: err.Error()}
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
