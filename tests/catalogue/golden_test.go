package catalogue

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/engine/catalogue"
	"spindle/engine/command"
	"spindle/engine/diagnose"
	"spindle/engine/family/bloom"
	"spindle/protocol"
)

// A row is one line of testdata: a command as COMMAND INFO shows it, without its subcommands.
type row struct {
	Name  string
	Arity int
	Flags []string
	Range []int
	ACL   []string
	Tips  []string
	Keys  []any
}

// golden reads the rows of 7.4.1, and the rows of newer servers that 7.4.1 does not have.
func golden(t *testing.T) map[string]row {
	rows := map[string]row{}
	readRows(t, "testdata/command-newer.jsonl", rows)
	readRows(t, "testdata/command-7.4.1.jsonl", rows)
	return rows
}

// readRows adds the rows of a file. A field "from" names the server from which a newer row was recorded.
func readRows(t *testing.T, path string, rows map[string]row) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows[r.Name] = r
	}
}

// unrecorded lists rows of servers that no test machine has. They follow the public documentation.
var unrecorded = map[string]string{
	"client|ack":  "spindle",
	"blmovem":     "Redis 8.10",
	"delex":       "Redis 8.4",
	"digest":      "Redis 8.4",
	"increx":      "Redis 8.8",
	"lmovem":      "Redis 8.10",
	"sdiffcard":   "Redis 8.10",
	"sunioncard":  "Redis 8.10",
	"xackdel":     "Redis 8.2",
	"xcfgset":     "Redis 8.6",
	"xdelex":      "Redis 8.2",
	"xidmprecord": "Redis 8.8",
	"xnack":       "Redis 8.8",
}

// decode reads one RESP3 value: strings, float64 for integers as in JSON, []any, and map[string]any.
func decode(t *testing.T, in *bufio.Reader) any {
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	if kind == '+' {
		return text
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%q", line)
	}
	switch kind {
	case ':':
		return float64(n)
	case '$':
		b := make([]byte, n+2)
		for at := 0; at < len(b); {
			m, err := in.Read(b[at:])
			if err != nil {
				t.Fatal(err)
			}
			at += m
		}
		return string(b[:n])
	case '*', '~':
		list := []any{}
		for range n {
			list = append(list, decode(t, in))
		}
		return list
	case '%':
		pairs := map[string]any{}
		for range n {
			key := decode(t, in).(string)
			pairs[key] = decode(t, in)
		}
		return pairs
	}
	t.Fatalf("%q", line)
	return nil
}

func words(v any) []string {
	list := []string{}
	for _, w := range v.([]any) {
		list = append(list, w.(string))
	}
	return list
}

// TestRowsEqualTheReference: every row equals Redis's row, and no subcommand is missing.
func TestRowsEqualTheReference(t *testing.T) {
	// These are the commands of a module, and spindle's own commands.
	families := slices.DeleteFunc(catalogue.Rows(),
		func(f command.Family) bool { return f.Name == bloom.Name || f.Name == diagnose.Name })
	k, err := command.NewCatalogue(families...)
	if err != nil {
		t.Fatal(err)
	}
	want := golden(t)
	for _, s := range k.All() {
		ref, known := want[s.Full]
		if unrecorded[s.Full] != "" {
			if known {
				t.Errorf("%s is recorded, and listed as unrecorded", s.Full)
			}
			continue
		}
		if !known {
			t.Errorf("%s: the reference has no such command", s.Full)
			continue
		}
		answer := protocol.Reply{RESP3: true}
		command.AppendCommandInfo(&answer, s)
		got := decode(t, bufio.NewReader(strings.NewReader(string(answer.B)))).([]any)
		for _, c := range []struct {
			what      string
			got, want any
		}{
			{"arity", got[1], float64(ref.Arity)},
			{"flags", words(got[2]), ref.Flags},
			{"first key", got[3], float64(ref.Range[0])},
			{"last key", got[4], float64(ref.Range[1])},
			{"step", got[5], float64(ref.Range[2])},
			{"categories", words(got[6]), ref.ACL},
			{"tips", words(got[7]), ref.Tips},
			{"key specs", got[8], ref.Keys},
		} {
			if !reflect.DeepEqual(c.got, c.want) {
				t.Errorf("%s: %s %v, want %v", s.Full, c.what, c.got, c.want)
			}
		}
	}
	for name := range want {
		container, _, isSub := strings.Cut(name, "|")
		if isSub && k.Lookup([]byte(container)) != nil && k.ByFullName([]byte(name)) == nil {
			t.Errorf("%s is missing", name)
		}
	}
}
