package aof

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"spindle/engine/catalogue"
	"spindle/engine/command"
	"spindle/internal/slots"
	"spindle/protocol"
	"spindle/tests/testkit/faulty"
)

// logOf writes a log of one increment with these commands. A line that begins with # is an annotation.
func logOf(t *testing.T, d *faulty.Disk, lines ...string) {
	t.Helper()
	text := []byte(nil)
	for _, line := range lines {
		if strings.HasPrefix(line, "#") {
			text = append(text, line+"\r\n"...)
			continue
		}
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		text = protocol.AppendCommand(text, args)
	}
	if err := d.Mkdir("appendonlydir", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"appendonly.aof.1.incr.aof": string(text),
		"appendonly.aof.manifest": "file appendonly.aof.1.incr.aof seq 1 type i\n"} {
		if err := (&folder{disk: d, dir: "appendonlydir"}).writeFile(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"appendonlydir", "."} {
		if err := d.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// The slot of "key" moves. That of "other" does not.
var (
	begins = fmt.Sprintf("CLUSTER SYNCSLOTS ESTABLISH SOURCE s NAME n SLOTSRANGE 1 2 %d %[1]d", slots.Of([]byte("key")))
	ends   = "CLUSTER SYNCSLOTS FINISH NAME n STATE "
)

// TestLoadWithinAMove: a server outside cluster mode loads a log with moves of slots. It has the keys of the moves that
// have succeeded, and none of the others. The keys that it gets later stay.
func TestLoadWithinAMove(t *testing.T) {
	for _, c := range []struct {
		name string
		log  []string
		want string
	}{
		{"the log ends within the move", []string{begins, "SET key moved"}, ""},
		{"the move has failed", []string{begins, "SET key moved", ends + "FAILED"}, ""},
		{"the move has succeeded", []string{begins, "SET key moved", ends + "SUCCESS"}, "moved"},
		{"another move has failed", []string{begins, "SET key moved", ends + "SUCCESS", ends + "FAILED"}, "moved"},
		{"another node has taken the slot", []string{"SET key moved",
			fmt.Sprintf("CLUSTER SYNCSLOTS DROP SLOTSRANGE %d %[1]d", slots.Of([]byte("key")))}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := faulty.New(1)
			logOf(t, d, append([]string{"SET other kept"}, c.log...)...)
			begin := func() *server {
				s := newServer(t, d)
				s.set.Fsync.Set(Always)
				s.set.Percentage.Set(0)
				if err := s.start(); err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := begin()
			if key, other := s.text("key"), s.text("other"); key != c.want || other != "kept" {
				t.Errorf("key is %q, want %q; the other is %q", key, c.want, other)
			}
			_, turn := s.do("SET", "key", "new")
			s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) })
			d = d.Crash()
			s.close()
			s = begin()
			if key := s.text("key"); key != "new" {
				t.Errorf("after the next start: key is %q", key)
			}
			s.close()
		})
	}
}

// TestCheckCutsWithinAMove: check-aof cuts a log to a second within a move. A node that loads the log sees that the
// move has failed.
func TestCheckCutsWithinAMove(t *testing.T) {
	d := faulty.New(1)
	logOf(t, d, "#TS:100", "SET other kept", begins, "SET key moved", "#TS:200", "SET key again", ends+"SUCCESS")
	if err := (&Check{Disk: d, Until: 150, Out: io.Discard}).Run("appendonlydir/appendonly.aof.manifest"); err != nil {
		t.Fatal(err)
	}
	text, _ := d.Content("appendonlydir/appendonly.aof.1.incr.aof")
	if !strings.Contains(string(text), "FAILED") || strings.Contains(string(text), "again") {
		t.Errorf("the log is %q", text)
	}
}

// TestCutWhenAllKeysHaveCome: restore and check-aof cut a log within a move. If all keys of the move had come, the cut
// does not end the move, and a node asks nodes.conf. Otherwise the move has failed.
func TestCutWhenAllKeysHaveCome(t *testing.T) {
	const first, second = "file appendonly.aof.1.base.aof seq 1 type b\n", "file appendonly.aof.1.incr.aof seq 1 type i\n"
	for _, c := range []struct {
		name   string
		later  []string
		failed bool
	}{
		{"the node then takes the slots", []string{ends + "SUCCESS"}, false},
		{"keys of other slots change, and one of the move expires",
			[]string{"SELECT 0", "SET other x", "DEL key", ends + "SUCCESS", "SET key x"}, false},
		{"a key of the move changes", []string{"SET key x", ends + "SUCCESS"}, true},
		{"a stream of the move gets a group", []string{"XGROUP CREATE key g $ MKSTREAM", ends + "SUCCESS"}, true},
		{"all keys go", []string{"FLUSHALL", ends + "SUCCESS"}, true},
		{"the move fails", []string{ends + "FAILED"}, true},
		{"another move succeeds", []string{"CLUSTER SYNCSLOTS FINISH NAME m STATE SUCCESS", ends + "FAILED"}, true},
		{"the log ends", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := faulty.New(1)
			logOf(t, d, append([]string{"#TS:100", "SET other kept", begins, "SET key moved", "#TS:200"}, c.later...)...)
			f := &folder{disk: d, dir: "appendonlydir", root: ".", name: "appendonly.aof"}
			m, err := parseManifest([]byte(first + second))
			if err == nil {
				err = errors.Join(f.writeFile(m.base.name, []byte("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n")), f.write(m))
			}
			if err != nil {
				t.Fatal(err)
			}
			whole, _ := d.Content("appendonlydir/appendonly.aof.1.incr.aof")
			at := int64(strings.Index(string(whole), "#TS:200"))
			cut := func(by, path string) {
				text, _ := d.Content(path)
				if has := strings.Contains(string(text), "FAILED"); has != c.failed ||
					!strings.HasPrefix(string(text), string(whole[:at])) {
					t.Errorf("%s: the log is %q", by, text)
				}
			}
			for into, moment := range map[string]Moment{"second": {Second: 150}, "offset": {ByOffset: true, Offset: at},
				"within": {ByOffset: true, Offset: at + 3}} {
				past, err := OpenPast(d, "appendonlydir/appendonly.aof.manifest")
				if err != nil {
					t.Fatal(err)
				}
				r, err := past.Route(t.Context(), moment)
				if err == nil {
					err = past.Write(t.Context(), r, into)
				}
				if err != nil {
					t.Fatal(err)
				}
				cut("restore by "+into, into+"/appendonlydir/appendonly.aof.1.incr.aof")
			}
			if err := (&Check{Disk: d, Until: 150, Out: io.Discard}).Run("appendonlydir/appendonly.aof.manifest"); err != nil {
				t.Fatal(err)
			}
			cut("check-aof", "appendonlydir/appendonly.aof.1.incr.aof")
		})
	}
}

// TestMayGetKnowsTheRows: mayGet finds the keys of each row that writes some. A row whose first key is not its first
// argument must be in its list.
func TestMayGetKnowsTheRows(t *testing.T) {
	one, asked := slotRuns{int(slots.Of([]byte("key"))), int(slots.Of([]byte("key")))}, 0
	var ask func(name string, rows []command.Spec)
	ask = func(name string, rows []command.Spec) {
		for i := range rows {
			row := &rows[i]
			if ask(cmp.Or(name, row.Name), row.Subs); row.Flags&command.Write == 0 || len(row.Keys) == 0 {
				continue
			}
			args := [][]byte{[]byte(cmp.Or(name, row.Name))}
			switch k := row.Keys[0]; {
			case k.Unknown, row.Name == "del", row.Name == "unlink":
				continue
			case k.Keyword != "":
				args = append(args, []byte(k.Keyword))
			default:
				for range k.Index + k.FirstKey - 1 {
					args = append(args, []byte("1"))
				}
			}
			asked++
			if !one.mayGet(append(args, []byte("key"))) {
				t.Errorf("mayGet finds no key in %q of %s", args, row.Name)
			}
		}
	}
	for _, f := range catalogue.Data(&catalogue.Settings{}) {
		ask("", f.Rows)
	}
	if asked < 100 {
		t.Errorf("only %d rows", asked)
	}
}
