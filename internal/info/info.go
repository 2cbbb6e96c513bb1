// Package info gives INFO its vocabulary: sections of fields, each contributed by the package that knows the figure.
//
// Owner: none; a field's function runs in the turn that answers INFO, so it may read what the core may read.
// Never: fixes the order of a report; the observe family does, after the reference server's.
// Start here: a package exports Sections() []info.Section, server/wire.go joins them.
package info

import (
	"strconv"
	"strings"
)

// A Section is what one package adds to one section of INFO. Several packages may add to the same one.
type Section struct {
	Name   string // as printed: "Memory"; asked for in any case
	Fields []Field
}

// A Field is one line, or a run of lines whose number is not fixed.
//
// Exactly one of Value and Lines is set. Both extend b and return it.
type Field struct {
	Name  string                // "used_memory"; of Lines: the name whose place in the section they take
	Value func(b []byte) []byte // appends the value alone
	Lines func(w *Writer)       // writes whole lines, or none at all (fields that are there only at times)
}

// A Writer collects the lines of a report.
type Writer struct{ B []byte }

// Int writes "name:n".
func (w *Writer) Int(name string, n int64) {
	w.name(name)
	w.B = strconv.AppendInt(w.B, n, 10)
	w.end()
}

// Text writes "name:s", with line breaks in s as spaces.
func (w *Writer) Text(name, s string) {
	w.name(name)
	w.B = appendClean(w.B, s)
	w.end()
}

// Float writes "name:f" with the given number of decimals.
func (w *Writer) Float(name string, f float64, decimals int) {
	w.name(name)
	w.B = strconv.AppendFloat(w.B, f, 'f', decimals, 64)
	w.end()
}

// Human writes "name:1.50M".
func (w *Writer) Human(name string, bytes int64) {
	w.name(name)
	w.B = AppendHuman(w.B, bytes)
	w.end()
}

func (w *Writer) name(name string) {
	w.B = append(w.B, name...)
	w.B = append(w.B, ':')
}

func (w *Writer) end() { w.B = append(w.B, '\r', '\n') }

func appendClean(b []byte, s string) []byte {
	if strings.ContainsAny(s, "\r\n") {
		s = strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
	}
	return append(b, s...)
}

// Int is a field that counts.
func Int(name string, f func() int64) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return strconv.AppendInt(b, f(), 10) }}
}

// Uint is a field that counts without a sign.
func Uint(name string, f func() uint64) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return strconv.AppendUint(b, f(), 10) }}
}

// Text is a field of words.
func Text(name string, f func() string) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return appendClean(b, f()) }}
}

// Constant is a field whose value never changes while the process lives.
func Constant(name, value string) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return appendClean(b, value) }}
}

// Bool is a field of 1 or 0.
func Bool(name string, f func() bool) Field {
	return Field{Name: name, Value: func(b []byte) []byte {
		if f() {
			return append(b, '1')
		}
		return append(b, '0')
	}}
}

// Float is a field with a fixed number of decimals.
func Float(name string, decimals int, f func() float64) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return strconv.AppendFloat(b, f(), 'f', decimals, 64) }}
}

// Bytes is two fields: name, and name_human beside it.
func Bytes(name string, f func() int64) Field {
	return Field{Name: name, Lines: func(w *Writer) {
		n := f()
		w.Int(name, n)
		w.Human(name+"_human", n)
	}}
}

// Lines is a run of lines that stands where name stands in the section's order.
func Lines(name string, f func(w *Writer)) Field { return Field{Name: name, Lines: f} }

// AppendHuman writes a number of bytes for people: 512B, 1.50K, 23.54G.
func AppendHuman(b []byte, bytes int64) []byte {
	if bytes < 1024 {
		return append(strconv.AppendInt(b, bytes, 10), 'B')
	}
	f, unit := float64(bytes)/1024, 0
	for f >= 1024 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	return append(strconv.AppendFloat(b, f, 'f', 2, 64), "KMGTP"[unit])
}

// Append writes f's line or lines.
func (f *Field) Append(w *Writer) {
	if f.Lines != nil {
		f.Lines(w)
		return
	}
	w.name(f.Name)
	w.B = f.Value(w.B)
	w.end()
}
