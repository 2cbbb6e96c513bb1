package logging

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Format is how a line is written. Logfmt and JSON have the same fields: pid, role, timestamp, level and message.
type Format int

const (
	FormatLegacy Format = iota
	FormatLogfmt
	FormatJSON
)

// A Stamp is how a line's time is written.
type Stamp int

const (
	StampLegacy       Stamp = iota // 21 Nov 2026 08:50:01.123
	StampISO8601                   // 2026-11-21T08:50:01.123+00:00
	StampMilliseconds              // milliseconds since 1970
)

// stamps is the number of Stamps. It lets the logger keep format and stamp in one word.
const stamps = 3

// SetForm sets how lines are written.
func (l *Logger) SetForm(f Format, s Stamp) { l.form.Store(int64(f)*stamps + int64(s)) }

// Format returns how lines are written.
func (l *Logger) Format() Format { return Format(l.form.Load() / stamps) }

// Names of roles and levels in logfmt and JSON.
var (
	roleNames  = map[byte]string{'X': "sentinel", 'C': "RDB/AOF", 'S': "replica", 'M': "primary"}
	levelNames = [...]string{LevelDebug: "debug", LevelVerbose: "info", LevelNotice: "notice", LevelWarning: "warning"}
)

// appendLine appends a whole line.
func (l *Logger) appendLine(line []byte, level Level, text string) []byte {
	form, role := l.form.Load(), byte(l.role.Load())
	stamp := func() { line = appendStamp(line, Stamp(form%stamps), l.now()) }
	switch Format(form / stamps) {
	case FormatLogfmt:
		line = strconv.AppendInt(append(line, "pid="...), int64(l.pid), 10)
		line = append(append(line, " role="...), roleNames[role]...)
		line = append(line, ` timestamp="`...)
		stamp()
		line = append(append(line, `" level=`...), levelNames[level]...)
		line = append(appendPlain(append(line, ` message="`...), text), '"', '\n')
	case FormatJSON:
		line = strconv.AppendInt(append(line, `{"pid":`...), int64(l.pid), 10)
		line = append(append(line, `,"role":"`...), roleNames[role]...)
		line = append(line, `","timestamp":"`...)
		stamp()
		line = append(append(line, `","level":"`...), levelNames[level]...)
		line = append(appendJSON(append(line, `","message":"`...), text), '"', '}', '\n')
	default:
		line = strconv.AppendInt(line, int64(l.pid), 10)
		line = append(line, ':', role, ' ')
		stamp()
		line = append(line, ' ', levelMarks[level], ' ')
		line = append(append(line, text...), '\n')
	}
	return line
}

func appendStamp(line []byte, s Stamp, t time.Time) []byte {
	switch s {
	case StampISO8601:
		return t.AppendFormat(line, "2006-01-02T15:04:05.000-07:00")
	case StampMilliseconds:
		return strconv.AppendInt(line, t.UnixMilli(), 10)
	}
	return t.AppendFormat(line, "02 Jan 2006 15:04:05.000")
}

// appendPlain appends a text without the characters that would end a value of logfmt. As in Valkey, it replaces a
// double quote by a single one, and a line end by a blank.
func appendPlain(line []byte, text string) []byte {
	for i := range len(text) {
		switch c := text[i]; c {
		case '"':
			line = append(line, '\'')
		case '\n', '\r':
			line = append(line, ' ')
		default:
			line = append(line, c)
		}
	}
	return line
}

// appendJSON appends a text with JSON's escapes. Bytes that are not UTF-8 become U+FFFD.
func appendJSON(line []byte, text string) []byte {
	const escaped, letters, hex = "\\\"\n\r\t\b\f", `\"nrtbf`, "0123456789abcdef"
	for _, r := range text {
		if at := strings.IndexRune(escaped, r); at >= 0 {
			line = append(line, '\\', letters[at])
		} else if r < ' ' {
			line = append(append(line, `\u00`...), hex[r>>4], hex[r&15])
		} else {
			line = utf8.AppendRune(line, r)
		}
	}
	return line
}
