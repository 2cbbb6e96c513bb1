package introspect

import (
	_ "embed"
	"encoding/json"
	"strings"

	"spindle/engine/command"
	"spindle/internal/invariant"
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

// docs holds the texts about all commands. They are parsed at start, because parsing takes longer than a turn may. The
// full reply is kept, because every interactive client requests it.
type docs struct {
	words map[string]doc // by full name
	whole [2][]byte      // the full reply in RESP2 and RESP3
}

func readDocs() docs {
	d := docs{words: make(map[string]doc, strings.Count(docsText, "\n"))}
	for line := range strings.Lines(docsText) {
		name, text, _ := strings.Cut(line, "\t")
		var words doc
		err := json.Unmarshal([]byte(text), &words)
		invariant.That(err == nil, "the words on %s are no JSON: %v", name, err)
		d.words[name] = words
	}
	return d
}

// A doc is one decoded line.
type doc struct {
	Summary         string      `json:"summary"`
	Since           string      `json:"since"`
	Group           string      `json:"group"`
	Complexity      string      `json:"complexity"`
	DocFlags        []string    `json:"doc_flags"`
	DeprecatedSince string      `json:"deprecated_since"`
	ReplacedBy      string      `json:"replaced_by"`
	History         [][2]string `json:"history"`
	Arguments       []argument  `json:"arguments"`
}

// An argument is one of a command's arguments, or a choice or block of several.
type argument struct {
	Name            string     `json:"name"`
	Type            string     `json:"type"`
	DisplayText     string     `json:"display_text"`
	KeySpecIndex    *int       `json:"key_spec_index"`
	Token           *string    `json:"token"`
	Summary         string     `json:"summary"`
	Since           string     `json:"since"`
	DeprecatedSince string     `json:"deprecated_since"`
	Flags           []string   `json:"flags"`
	Arguments       []argument `json:"arguments"`
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
	words, known := d.words[s.Full]
	if !known {
		words.Group = s.Family // a command that Redis does not have
	}
	module := ""
	if s.Flags&command.Module != 0 {
		words.Group, module = "module", s.Family
	}
	r.BulkString(s.Full)
	m := newFields(r)
	m.text("summary", words.Summary)
	m.text("since", words.Since)
	m.text("group", words.Group)
	m.text("complexity", words.Complexity)
	m.text("module", module)
	m.set("doc_flags", words.DocFlags)
	m.text("deprecated_since", words.DeprecatedSince)
	m.text("replaced_by", words.ReplacedBy)
	if len(words.History) > 0 {
		m.name("history")
		r.Set(len(words.History))
		for _, h := range words.History {
			r.Array(2)
			r.BulkString(h[0])
			r.BulkString(h[1])
		}
	}
	m.arguments(words.Arguments)
	if len(s.Subs) > 0 {
		m.name("subcommands")
		r.Map(len(s.Subs))
		for i := range s.Subs {
			d.append(r, &s.Subs[i])
		}
	}
	m.end()
}

// fields is a map reply under construction. Its number of entries is only known at its end.
type fields struct {
	r    *protocol.Reply
	mark protocol.Mark
	n    int
}

func newFields(r *protocol.Reply) fields { return fields{r: r, mark: r.Mark()} }

func (m *fields) end() { m.r.MapAt(m.mark, m.n) }

// name begins an entry. The caller adds its value.
func (m *fields) name(name string) {
	m.r.BulkString(name)
	m.n++
}

// text adds an entry unless value is empty.
func (m *fields) text(name, value string) {
	if value != "" {
		m.name(name)
		m.r.BulkString(value)
	}
}

// set adds an entry with several words, unless there are none.
func (m *fields) set(name string, words []string) {
	if len(words) == 0 {
		return
	}
	m.name(name)
	m.r.Set(len(words))
	for _, w := range words {
		m.r.Simple(w)
	}
}

// arguments adds the entry "arguments", with the arguments of blocks and choices inside it.
func (m *fields) arguments(list []argument) {
	if len(list) == 0 {
		return
	}
	m.name("arguments")
	m.r.Array(len(list))
	for i := range list {
		list[i].append(m.r)
	}
}

func (a *argument) append(r *protocol.Reply) {
	m := newFields(r)
	m.text("name", a.Name)
	m.text("type", a.Type)
	m.text("display_text", a.DisplayText)
	if a.KeySpecIndex != nil {
		m.name("key_spec_index")
		r.Int(int64(*a.KeySpecIndex))
	}
	if a.Token != nil {
		m.name("token")
		r.BulkString(*a.Token)
	}
	m.text("summary", a.Summary)
	m.text("since", a.Since)
	m.text("deprecated_since", a.DeprecatedSince)
	m.set("flags", a.Flags)
	m.arguments(a.Arguments)
	m.end()
}
