// Package logging writes the server's log: one line an event, in the form that tools for Redis's log know.
//
// Owner: server makes the [Logger] and passes it down. Any goroutine may write to it; a nil *Logger is silent.
// Never: buffers: a line is in the file before the caller continues. Nor does it keep the file open, so that the file
// may be moved at any time.
//
//	16320:M 21 Nov 2026 08:50:01.123 * Ready to accept connections tcp
//	^pid  ^role                      ^level: . debug  - verbose  * notice  # warning
//	      M primary, S replica, X sentinel, C a process on its way to another
//
// In place of this form a line may be logfmt or JSON (form.go).
package logging

import (
	"fmt"
	"io"
	"log/syslog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Level is the importance of a line.
type Level int

const (
	LevelDebug Level = iota
	LevelVerbose
	LevelNotice
	LevelWarning
	LevelNothing
)

const levelMarks = ".-*#"

// A Logger writes lines from a level upwards to a file, a stream and syslog.
type Logger struct {
	level atomic.Int64
	role  atomic.Int64
	form  atomic.Int64 // Format and Stamp
	hides atomic.Bool  // Hide
	pid   int

	mu     sync.Mutex // keeps lines apart
	out    io.Writer  // if there is no file
	path   string
	syslog *syslog.Writer
	now    func() time.Time
}

// New returns a logger with level notice, which writes to out until ToFile.
func New(out io.Writer) *Logger {
	l := &Logger{pid: os.Getpid(), out: out, now: time.Now}
	l.SetLevel(LevelNotice)
	l.SetRole('M')
	return l
}

// Debug, Verbose, Notice and Warning write one line. The format is fmt's and needs no line end.
func (l *Logger) Debug(format string, args ...any)   { l.write(LevelDebug, format, args) }
func (l *Logger) Verbose(format string, args ...any) { l.write(LevelVerbose, format, args) }
func (l *Logger) Notice(format string, args ...any)  { l.write(LevelNotice, format, args) }
func (l *Logger) Warning(format string, args ...any) { l.write(LevelWarning, format, args) }

// At writes one line with a level chosen at run time.
func (l *Logger) At(level Level, format string, args ...any) { l.write(level, format, args) }

// Enabled reports whether a line of this level would be written. Callers use it before they make a costly line.
func (l *Logger) Enabled(level Level) bool { return l != nil && int64(level) >= l.level.Load() }

// SetLevel hides lines below level.
func (l *Logger) SetLevel(level Level) { l.level.Store(int64(level)) }

// SetRole changes the letter after the PID: M, S, X or C.
func (l *Logger) SetRole(role byte) { l.role.Store(int64(role)) }

// ToFile sends lines to the file at path, which is opened for each line. An empty path means standard output.
func (l *Logger) ToFile(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path = path
}

// ToSyslog sends lines to syslog as well. A missing syslog is not an error, because there is no place to report it.
func (l *Logger) ToSyslog(ident string, facility syslog.Priority) {
	w, err := syslog.New(facility|syslog.LOG_NOTICE, ident)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syslog = w
}

// Raw writes text unchanged at any level, for the logo or a crash report.
func (l *Logger) Raw(text string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put([]byte(text))
}

// Signal writes a line about a signal. In the legacy format that is the form of Redis's signal handler.
func (l *Logger) Signal(level Level, text string) {
	switch {
	case !l.Enabled(level):
	case l.Format() == FormatLegacy:
		l.Raw(fmt.Sprintf("%d:signal-handler (%d) %s\n", l.pid, l.now().Unix(), text))
	default:
		l.At(level, "%s", strings.TrimSpace(text))
	}
}

func (l *Logger) write(level Level, format string, args []any) {
	if !l.Enabled(level) {
		return
	}
	text := format
	if len(args) != 0 {
		if l.hides.Load() {
			args = public(args)
		}
		text = fmt.Sprintf(format, args...)
	}
	line := l.appendLine(make([]byte, 0, 128), level, text)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(line)
	if l.syslog != nil {
		l.toSyslog(level, text)
	}
}

// put writes line in one call, so that lines of other processes in the same file do not split it.
func (l *Logger) put(line []byte) {
	if l.path == "" {
		_, _ = l.out.Write(line)
		return
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return // as with syslog, there is no place to report it
	}
	_, _ = f.Write(line)
	_ = f.Close()
}

func (l *Logger) toSyslog(level Level, text string) {
	switch level {
	case LevelDebug:
		_ = l.syslog.Debug(text)
	case LevelVerbose:
		_ = l.syslog.Info(text)
	case LevelNotice:
		_ = l.syslog.Notice(text)
	default:
		_ = l.syslog.Warning(text)
	}
}
