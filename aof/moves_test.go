package aof

import (
	"fmt"
	"io"
	"strings"
	"testing"

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
