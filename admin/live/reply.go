package live

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"spindle/protocol/respclient"
)

// This file has replies in the form that the page shows. Every string is made printable, because names may hold any
// bytes.

// A recording is a reply from which respclient reads as from a connection.
type recording struct {
	net.Conn
	r bytes.Reader
}

func (r *recording) Read(p []byte) (int, error) { return r.r.Read(p) }

func parse(reply []byte) (respclient.Value, error) {
	from := &recording{}
	from.r.Reset(reply)
	return respclient.New(from).Receive()
}

// readReply turns a reply into values that JSON can express: maps with string keys, lists, numbers, strings. An error
// becomes nil.
func readReply(reply []byte) any {
	v, err := parse(reply)
	if err != nil {
		return nil
	}
	return plain(v)
}

func plain(v respclient.Value) any {
	switch {
	case v.Null, v.Kind == '-', v.Kind == '!':
		return nil
	case v.Kind == ':':
		return v.Int
	case v.Kind == '#':
		return v.Int == 1
	case v.Kind == ',':
		f, err := strconv.ParseFloat(v.Text, 64)
		if err != nil || f-f != 0 { // JSON has no infinity
			return v.Text
		}
		return f
	case v.Kind == '%':
		m := map[string]any{}
		for i := 0; i+1 < len(v.Elems); i += 2 {
			m[printable(v.Elems[i].Text)] = plain(v.Elems[i+1])
		}
		return m
	case v.Kind == '*' || v.Kind == '~' || v.Kind == '>':
		list := make([]any, 0, len(v.Elems))
		for _, e := range v.Elems {
			list = append(list, plain(e))
		}
		return list
	}
	return printable(v.Text)
}

// printable returns s with unprintable bytes as \xHH. Line breaks stay, because INFO and CLUSTER NODES consist of
// lines.
func printable(s string) string {
	clean := true
	for _, c := range s {
		clean = clean && shows(c)
	}
	if clean && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		if c == utf8.RuneError && n == 1 || !shows(c) {
			for _, raw := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, `\x%02x`, raw)
			}
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// shows reports whether a character is harmless on a page. Control characters and characters that change the direction
// of writing are not.
func shows(c rune) bool { return c == '\n' || c == '\r' || unicode.IsGraphic(c) }

const shownError = "(error) "

// show writes a reply as redis-cli does: one line for each element, numbered, and nested ones indented.
func show(b *strings.Builder, v respclient.Value, indent string) {
	switch {
	case v.Null:
		b.WriteString("(nil)\n")
	case v.Kind == ':':
		fmt.Fprintf(b, "(integer) %d\n", v.Int)
	case v.Kind == '#':
		fmt.Fprintf(b, "(%t)\n", v.Int == 1)
	case v.Kind == ',':
		fmt.Fprintf(b, "(double) %s\n", v.Text)
	case v.Kind == '-' || v.Kind == '!':
		b.WriteString(shownError + printable(v.Text) + "\n")
	case v.Kind == '%':
		showPairs(b, v, indent)
	case v.Kind == '*' || v.Kind == '~' || v.Kind == '>':
		showList(b, v, indent)
	case v.Kind == '+' || v.Kind == '=':
		b.WriteString(strings.TrimRight(printable(v.Text), "\r\n") + "\n")
	default:
		b.WriteString(strconv.Quote(v.Text) + "\n")
	}
}

func showList(b *strings.Builder, v respclient.Value, indent string) {
	if len(v.Elems) == 0 {
		b.WriteString("(empty)\n")
	}
	width := len(strconv.Itoa(len(v.Elems)))
	for i, e := range v.Elems {
		if i > 0 {
			b.WriteString(indent)
		}
		fmt.Fprintf(b, "%*d) ", width, i+1)
		show(b, e, indent+strings.Repeat(" ", width+2))
	}
}

func showPairs(b *strings.Builder, v respclient.Value, indent string) {
	if len(v.Elems) == 0 {
		b.WriteString("(empty)\n")
	}
	width := len(strconv.Itoa(len(v.Elems) / 2))
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if i > 0 {
			b.WriteString(indent)
		}
		fmt.Fprintf(b, "%*d# %s => ", width, i/2+1, strconv.Quote(v.Elems[i].Text))
		show(b, v.Elems[i+1], indent+strings.Repeat(" ", width+2))
	}
}
