// Package config reads a server's configuration: the command line, the files, and the texts of --help and
// --check-config. It knows directives only as rows of a registry, not their features.
//
// Owner: the main goroutine; a Rewriter belongs to the turn.
// Start at Load.
package config

import (
	"errors"
	"fmt"

	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/internal/version"
)

// ErrLogged ends a start whose cause is already in the log, in its last line.
var ErrLogged = errors.New("see the lines above")

// Options are the options of Load.
type Options struct {
	Log *logging.Logger
	// Bad gets each wrong line, and reading continues without changing anything outside the process. If Bad is nil, the
	// first wrong line ends Load.
	Bad func(*Error)

	Sentinel bool // collect sentinel lines instead of refusing them
}

// A Config has the lines that belong to no row of the registry.
type Config struct {
	File     string   // absolute; empty without one
	Renames  []Line   // rename-command: the two names
	Users    []Line   // user: the name and its rules
	Modules  []Line   // loadmodule: path and arguments
	Sentinel []Line   // sentinel
	Ignored  []string // module directives (name.setting) without a module

	last map[string]Error // the last line of each directive, by its current name
}

// At returns the last line of a directive.
func (c *Config) At(directive string) Error { return c.last[directive] }

// A Line is a directive without a row.
type Line struct {
	Words []string // without the directive's name
	At    Error
}

// Refuse returns the error for a line that turned out to be wrong after Load.
func (l Line) Refuse(reason error) error {
	e := l.At
	e.Reason = reason.Error()
	return &e
}

// An Error is a wrong line, or a configuration that is wrong as a whole.
type Error struct {
	order  int    // the line's position among all lines read, including those of included files; 0 as for Line
	Line   int    // counted from 1 through file, standard input and options; 0: the whole configuration
	Place  string // file:line, if lines have places; "": the whole configuration
	Text   string // the line, trimmed
	Reason string
}

// Error returns the text for standard error before the process ends with 1.
func (e *Error) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf("Reading the configuration file, at line %d\n>>> '%s'\n", e.Line, e.Text)
	}
	return fmt.Sprintf("\n*** FATAL CONFIG FILE ERROR (Redis %s) ***\n%s%s", version.Redis, where, e.Reason)
}

// An OpenError is a configuration file that cannot be read. Error returns the line to log.
type OpenError struct {
	Path string
	Err  error
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("Fatal error, can't open config file '%s': %s", e.Path, reason.Of(e.Err))
}
