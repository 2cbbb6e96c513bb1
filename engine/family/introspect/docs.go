package introspect

import (
	_ "embed"
	"strings"

	"spindle/engine/command"
	"spindle/protocol"
)

// docsText holds the replies of COMMAND DOCS, one line per command: full name, tab, JSON object. docs.LICENSE names its
// source.
//
// Names, types, tokens and flags of arguments are interface, so they equal 7.4.1's. Summaries, complexities and
// histories come from 7.2.4. For later commands (HEXPIRE and kin) they are ours, because 7.4's texts have another
// licence.
//
//go:embed docs.jsonl
var docsText string

// docs holds the texts about all commands. A reply is written from the text itself, because decoding all lines takes
// 9 ms, at start or in a turn. The full reply is kept, because every interactive client requests it.
type docs struct {
	texts map[string]string // by full name
	whole [2][]byte         // the full reply in RESP2 and RESP3
}

func readDocs() docs {
	d := docs{texts: make(map[string]string, 512)}
	for line := range strings.Lines(docsText) {
		name, text, _ := strings.Cut(line, "\t")
		d.texts[name] = text
	}
	return d
}

// commandDocs is COMMAND DOCS [name …]. Replies: a map without unknown names.
func (f *family) commandDocs(c *command.Context) error {
	k, r := f.Catalogue(), c.Reply
	if len(c.Args) == 2 {
		kept := &f.docs.whole[0]
		if r.RESP3 {
			kept = &f.docs.whole[1]
		}
		if *kept == nil {
			answer := protocol.Reply{RESP3: r.RESP3}
			answer.Map(k.Len())
			for row := range k.Rows {
				f.docs.append(&answer, row)
			}
			*kept = answer.B
		}
		r.Raw(*kept)
		return nil
	}
	mark, n := r.Mark(), 0
	for _, name := range c.Args[2:] {
		if row := k.ByFullName(name); row != nil {
			f.docs.append(r, row)
			n++
		}
	}
	r.MapAt(mark, n)
	return nil
}

// append replies a command's name and the map of its texts, with subcommands.
func (d *docs) append(r *protocol.Reply, s *command.Spec) {
	t, known := text(d.texts[s.Full]), true
	if t == "" {
		t, known = `{}`, false // a command that Redis does not have
	}
	r.BulkString(s.Full)
	mark := r.Mark()
	n := t.fields(r)
	if !known {
		r.BulkString("group")
		r.BulkString(s.Family)
		n++
	}
	if len(s.Subs) > 0 {
		r.BulkString("subcommands")
		r.Map(len(s.Subs))
		for i := range s.Subs {
			d.append(r, &s.Subs[i])
		}
		n++
	}
	r.MapAt(mark, n)
}

// A text is the rest of a line. Its JSON has no spaces and no escapes, and its names stand in the order of the reply.
type text string

// next skips c if it comes next, and reports whether it did.
func (t *text) next(c byte) bool {
	if (*t)[0] != c {
		return false
	}
	*t = (*t)[1:]
	return true
}

// word returns the string that comes next.
func (t *text) word() string {
	s, rest, _ := strings.Cut(string((*t)[1:]), `"`)
	*t = text(rest)
	return s
}

// fields replies the names and values of the object that comes next, and returns their number.
func (t *text) fields(r *protocol.Reply) (n int) {
	t.next('{')
	for ; !t.next('}'); n++ {
		t.next(',')
		name := t.word()
		t.next(':')
		r.BulkString(name)
		t.value(r, name)
	}
	return n
}

// value replies the value that comes next, whose name is name. Flags are statuses, and lists of words and of versions
// are sets.
func (t *text) value(r *protocol.Reply, name string) {
	mark, n, flags := r.Mark(), 0, strings.HasSuffix(name, "flags")
	switch {
	case (*t)[0] == '{':
		r.MapAt(mark, t.fields(r))
	case t.next('['):
		for ; !t.next(']'); n++ {
			t.next(',')
			t.value(r, strings.TrimPrefix(name, "history"))
		}
		if flags || name == "history" {
			r.SetAt(mark, n)
		} else {
			r.ArrayAt(mark, n)
		}
	case (*t)[0] == '"' && flags:
		r.Simple(t.word())
	case (*t)[0] == '"':
		r.BulkString(t.word())
	default: // a digit
		r.Int(int64((*t)[0] - '0'))
		*t = (*t)[1:]
	}
}
