// Package info has the building blocks of INFO: sections of fields. Each package contributes the fields that it knows.
//
// Owner: none. A field's function runs in the turn that replies to INFO, so it may read what the core may read.
// Never: sets the order of a report; the observe family does, after Redis's order.
// Start here: a package exports Sections() []info.Section, server/wire.go joins them.
package info

import (
	"strconv"
	"strings"
)

// A Section holds one package's fields for a section of INFO. Several packages may add to the same section.
type Section struct {
	Name   string // as printed: "Memory"; clients may use any case
	Fields []Field
}

// A Field is one line, or a varying number of lines.
//
// Exactly one of Value and Lines is set. Value extends b and returns it.
type Field struct {
	Name  string                // "used_memory"; with Lines: the name whose place in the section they take
	Value func(b []byte) []byte // appends only the value
	Lines func(w *Writer)       // writes whole lines, or none (fields that only exist at times)
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

// Int returns a field with an integer.
func Int(name string, f func() int64) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return strconv.AppendInt(b, f(), 10) }}
}

// Uint returns a field with an unsigned integer.
func Uint(name string, f func() uint64) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return strconv.AppendUint(b, f(), 10) }}
}

// Text returns a field with text.
func Text(name string, f func() string) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return appendClean(b, f()) }}
}

// Constant returns a field whose value never changes while the process lives.
func Constant(name, value string) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return appendClean(b, value) }}
}

// Bool returns a field with 1 or 0.
func Bool(name string, f func() bool) Field {
	return Field{Name: name, Value: func(b []byte) []byte {
		if f() {
			return append(b, '1')
		}
		return append(b, '0')
	}}
}

// Float returns a field with a fixed number of decimals.
func Float(name string, decimals int, f func() float64) Field {
	return Field{Name: name, Value: func(b []byte) []byte { return strconv.AppendFloat(b, f(), 'f', decimals, 64) }}
}

// Bytes returns two fields: name and name_human.
func Bytes(name string, f func() int64) Field {
	return Field{Name: name, Lines: func(w *Writer) {
		n := f()
		w.Int(name, n)
		w.Human(name+"_human", n)
	}}
}

// Lines returns a varying number of lines, in the place of name in the section's order.
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
