package introspect

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/protocol"
	"spindle/tests/testkit/commandtest"
)

func newCore(t *testing.T, d Deps) (*commandtest.Core, *client.Client) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var core *commandtest.Core
	d.Catalogue = func() *command.Catalogue { return core.Catalogue }
	if core, err = commandtest.New(keyspace.New(heap, keyspace.Options{}), 1_700_000_000_000, Family(d)); err != nil {
		t.Fatal(err)
	}
	return core, core.Client(3)
}

// TestDigest compares DEBUG DIGEST with redis-server's reply for the same data.
func TestDigest(t *testing.T) {
	core, cl := newCore(t, Deps{})
	steps := []struct {
		key, val string
		deadline int64
		want     string
	}{
		{"", "", 0, "0000000000000000000000000000000000000000"},
		{"k", "v", 0, "264ccf65edec66bccfa7cc659414ccca432057d2"},
	}
	for _, s := range steps {
		if s.key != "" {
			core.Space.DB(0).SetString([]byte(s.key), []byte(s.val), s.deadline)
		}
		if got := core.Do(cl, "DEBUG", "DIGEST"); got != "+"+s.want+"\r\n" {
			t.Errorf("with %q: %q, want %s", s.key, got, s.want)
		}
	}
	if got := core.Do(cl, "DEBUG", "DIGEST-VALUE", "k",
		"none"); got != "*2\r\n+d79ee9fe5d5ad902d7f6620efc3b07b75ddd742f\r\n+"+strings.Repeat("0", 40)+"\r\n" {
		t.Errorf("DIGEST-VALUE: %q", got)
	}
	before := core.Do(cl, "DEBUG", "DIGEST")
	core.Space.DB(0).SetDeadline([]byte("k"), core.Now()+1000)
	if core.Do(cl, "DEBUG", "DIGEST") == before {
		t.Error("a deadline does not show")
	}
	core.Space.DB(0).SetDeadline([]byte("k"), core.Now()+2000)
	marked := core.Do(cl, "DEBUG", "DIGEST")
	core.Space.DB(0).Persist([]byte("k"))
	if core.Do(cl, "DEBUG", "DIGEST") != before || marked == before {
		t.Error("the digest goes by more than whether there is a deadline")
	}
	core.Space.Swap(0, 1)
	if core.Do(cl, "DEBUG", "DIGEST") == before {
		t.Error("the database does not show")
	}
}

// TestDigestOfLongStrings: a string that is stored in pieces has the same digest as a string stored as a whole.
func TestDigestOfLongStrings(t *testing.T) {
	core, cl := newCore(t, Deps{})
	db := core.Space.DB(0)
	db.SetString([]byte("whole"), []byte(strings.Repeat("abc", 100_000)), 0)
	for range 100_000 {
		db.Append([]byte("pieces"), []byte("abc"))
	}
	got := strings.Split(core.Do(cl, "DEBUG", "DIGEST-VALUE", "whole", "pieces"), "\r\n")
	if got[1] != got[2] {
		t.Errorf("%s and %s", got[1], got[2])
	}
}

func TestReloadOptions(t *testing.T) {
	var got []ReloadOptions
	core, cl := newCore(t, Deps{Reload: func(_ *command.Context, o ReloadOptions) error {
		got = append(got, o)
		return nil
	}})
	core.Do(cl, "DEBUG", "RELOAD")
	core.Do(cl, "debug", "reload", "nosave", "NOFLUSH", "merge")
	if answer := core.Do(cl, "DEBUG", "RELOAD", "NOSAVE",
		"x"); answer != "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.\r\n" {
		t.Errorf("x: %q", answer)
	}
	if len(got) != 2 || got[0] != (ReloadOptions{}) || got[1] != (ReloadOptions{true, true, true}) {
		t.Errorf("%+v", got)
	}
}

// TestWithoutDeps: a subcommand without its function replies an error and does not crash.
func TestWithoutDeps(t *testing.T) {
	core, cl := newCore(t, Deps{})
	for _, line := range []string{"RELOAD", "LOADAOF", "SET-ACTIVE-EXPIRE 0", "PAUSE-CRON 1", "CHANGE-REPL-ID",
		"CONFIG-REWRITE-FORCE-ALL", "RESTART", "SET-SKIP-CHECKSUM-VALIDATION 1"} {
		if got := core.Do(cl, append([]string{"DEBUG"}, strings.Fields(line)...)...); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestReplicate: the command goes to the sinks as given, whatever it is, and nothing is executed.
func TestReplicate(t *testing.T) {
	core, cl := newCore(t, Deps{})
	for _, args := range [][]string{{"set", "a", "b"}, {"0", "set", "a", "b"}, {"nope"}} {
		core.Reset()
		if got := core.Do(cl, append([]string{"DEBUG", "REPLICATE"}, args...)...); got != "+OK\r\n" {
			t.Errorf("%q: %q", args, got)
		}
		if len(core.Effects) != 1 || !slices.Equal(core.Effects[0].Args, args) {
			t.Errorf("%q: effects %v", args, core.Effects)
		}
	}
	if n := core.Space.DB(0).Len(); n != 0 {
		t.Errorf("%d keys", n)
	}
}

// TestSaidErrors: DEBUG ERROR replies one line. The handler returns no error, so statistics do not count the line.
func TestSaidErrors(t *testing.T) {
	for text, want := range map[string]string{"MY err": "-MY err\r\n", "a\r\nb\n": "-a  b \r\n", "": "-\r\n"} {
		c := &command.Context{Reply: &protocol.Reply{}}
		if err := sayError(nil, c, [][]byte{[]byte(text)}); err != nil || string(c.Reply.B) != want {
			t.Errorf("%q: %q, %v", text, c.Reply.B, err)
		}
	}
}

// A doc is what a line may hold, in the order of the reply.
type doc struct {
	Summary         string      `json:"summary"`
	Since           string      `json:"since"`
	Group           string      `json:"group"`
	Complexity      string      `json:"complexity,omitempty"`
	Module          string      `json:"module,omitempty"`
	DocFlags        []string    `json:"doc_flags,omitempty"`
	DeprecatedSince string      `json:"deprecated_since,omitempty"`
	ReplacedBy      string      `json:"replaced_by,omitempty"`
	History         [][2]string `json:"history,omitempty"`
	Arguments       []argument  `json:"arguments,omitempty"`
}

type argument struct {
	Name            string     `json:"name"`
	Type            string     `json:"type"`
	DisplayText     string     `json:"display_text,omitempty"`
	KeySpecIndex    *int       `json:"key_spec_index,omitempty"`
	Token           *string    `json:"token,omitempty"`
	Summary         string     `json:"summary,omitempty"`
	Since           string     `json:"since,omitempty"`
	DeprecatedSince string     `json:"deprecated_since,omitempty"`
	Flags           []string   `json:"flags,omitempty"`
	Arguments       []argument `json:"arguments,omitempty"`
}

// TestDocsAreWellFormed decodes and encodes every line, which must not change it. So a text can be read as it stands.
// Every row of this family has a text.
func TestDocsAreWellFormed(t *testing.T) {
	core, _ := newCore(t, Deps{})
	names := map[string]bool{}
	for line := range strings.Lines(docsText) {
		name, text, _ := strings.Cut(line, "\t")
		var words doc
		if err := json.Unmarshal([]byte(text), &words); err != nil || words.Summary == "" || words.Since == "" {
			t.Errorf("%s: %v, %+v", name, err, words)
		}
		var again strings.Builder
		e := json.NewEncoder(&again)
		e.SetEscapeHTML(false)
		if err := e.Encode(words); err != nil || again.String() != text {
			t.Errorf("%s: %v\n%s%s", name, err, text, again.String())
		}
		if strings.Contains(text, `\`) || regexp.MustCompile(`:\d\d`).MatchString(text) {
			t.Errorf("%s: an escape or a long number: %s", name, text)
		}
		if names[name] {
			t.Errorf("%s stands twice", name)
		}
		names[name] = true
	}
	for _, row := range core.Catalogue.All() {
		if !names[row.Full] {
			t.Errorf("no words on %s", row.Full)
		}
	}
}

func TestDocsAreKept(t *testing.T) {
	core, cl := newCore(t, Deps{})
	first := core.Do(cl, "COMMAND", "DOCS")
	if !strings.HasPrefix(first, "%7\r\n$4\r\ninfo\r\n%6\r\n$7\r\nsummary\r\n") {
		t.Errorf("%.80q", first)
	}
	if core.Do(cl, "COMMAND", "DOCS") != first {
		t.Error("the second answer differs")
	}
	old := core.Client(2)
	if got := core.Do(old, "COMMAND", "DOCS"); !strings.HasPrefix(got, "*14\r\n$4\r\ninfo\r\n*12\r\n") {
		t.Errorf("RESP2: %.80q", got)
	}
}

// BenchmarkAllDocs measures the first full COMMAND DOCS of a server, for 370 commands. Watch ns/op: it is one turn.
func BenchmarkAllDocs(b *testing.B) {
	d := readDocs()
	var rows []*command.Spec
	for name := range d.texts {
		rows = append(rows, &command.Spec{Full: name})
	}
	for b.Loop() {
		var r protocol.Reply
		for _, row := range rows {
			d.append(&r, row)
		}
	}
}

// BenchmarkReadDocs measures how the texts are cut into lines at start.
func BenchmarkReadDocs(b *testing.B) {
	for b.Loop() {
		readDocs()
	}
}
