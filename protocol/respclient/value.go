package respclient

import (
	"strconv"
	"strings"
)

// A Value is one reply, of RESP2 or RESP3.
type Value struct {
	Kind  byte    // the type byte: + - : $ * and RESP3's _ # , ( ! = % ~ >
	Null  bool    // $-1, *-1, _
	Text  string  // of + - $ ( ! = and the text of , (a verbatim string's format is in Format)
	Int   int64   // of : and of # (0 or 1)
	Elems []Value // of * ~ > and %, where keys and values alternate

	Format string  // of =: "txt", "mkd"
	Attrs  []Value // of a | before the reply: keys and values alternate
}

// Err returns the error reply as an error, or nil for every other reply.
func (v Value) Err() error {
	if v.Kind == '-' || v.Kind == '!' {
		return ReplyError(v.Text)
	}
	return nil
}

// A ReplyError is an error reply: "WRONGTYPE Operation against …".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Code returns the word that programs match on: "WRONGTYPE".
func (e ReplyError) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// Strings returns the elements' texts. Integers become decimal, nulls become "".
func (v Value) Strings() []string {
	texts := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		texts[i] = e.Word()
	}
	return texts
}

// Word returns a scalar as text: an integer in decimal, a boolean as "true" or "false", null as "".
func (v Value) Word() string {
	switch {
	case v.Kind == ':':
		return strconv.FormatInt(v.Int, 10)
	case v.Kind == '#':
		return strconv.FormatBool(v.Int == 1)
	}
	return v.Text
}

// Get finds the value of key in a map, or in a RESP2 array of keys and values.
func (v Value) Get(key string) (Value, bool) {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if v.Elems[i].Word() == key {
			return v.Elems[i+1], true
		}
	}
	return Value{}, false
}

// String returns the value on one line, for test failures: "OK", (int) 5, [a b], {k: v}, (nil), (error) ERR ….
func (v Value) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v Value) write(b *strings.Builder) {
	if v.Null {
		b.WriteString("(nil)")
		return
	}
	switch v.Kind {
	case '-', '!':
		b.WriteString("(error) " + v.Text)
	case ':':
		b.WriteString("(int) " + v.Word())
	case ',', '(', '#':
		b.WriteString("(" + string(v.Kind) + ") " + v.Word())
	case '+':
		b.WriteString(v.Text)
	case '*', '~', '>', '%':
		b.WriteString(map[byte]string{'*': "[", '~': "~[", '>': ">[", '%': "{"}[v.Kind])
		for i, e := range v.Elems {
			if i > 0 {
				b.WriteString(" ")
			}
			e.write(b)
		}
		b.WriteString(map[byte]string{'*': "]", '~': "]", '>': "]", '%': "}"}[v.Kind])
	default:
		b.WriteString(strconv.Quote(v.Text))
	}
}
