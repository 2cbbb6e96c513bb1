package transcripts

import (
	"bufio"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/engine/catalogue"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/diagnose"
	"spindle/engine/family/bloom"
	"spindle/engine/family/tx"
	"spindle/protocol"
	"spindle/tests/testkit/commandtest"
)

// inProcess lists the transcripts of families that need only data. For these, the effects and events of an in-process
// core are compared with those of Redis, too.
var inProcess = []string{"set", "get", "counters", "edit", "lcs", "keys", "expire", "errors", "scan", "sort",
	"sort_range", "object", "multi", "hll", "bitmap", "bitcount", "bitop", "bitfield", "list", "list_encoding",
	"sets", "sets_move", "sets_combine",
	"stream", "stream_read", "stream_group", "stream_claim", "stream_refs", "stream_bounds", "stream_nack",
	"stream_message", "zset", "zset_range", "zset_combine", "zset_pop",
	"geo", "geo_search", "geo_store", "geo_polygon",
	"hash", "hash_scan", "hash_expire", "hash_lapse", "hash_several", "hash_several_lapse",
	"set_compare", "delex", "msetex", "increx", "bitop_newer", "zset_count", "sets_card",
	"list_several"}

// TestEffects plays transcripts on the families alone, without a server: the effects and events are Redis's.
func TestEffects(t *testing.T) {
	for _, name := range inProcess {
		script, err := Read(name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range []int{2, 3} {
			t.Run(name, func(t *testing.T) {
				core := newCore(t)
				clients := map[int]*client.Client{}
				for _, s := range script.Steps {
					if s.Client == 0 {
						core.SetNow(core.Now() + s.Sleep.Milliseconds())
						continue
					}
					cl := clients[s.Client]
					if cl == nil {
						cl = core.Client(version)
						clients[s.Client] = cl
					}
					core.Reset()
					answer := core.Do(cl, s.Args...)
					reply, err := ReadReply(bufio.NewReader(strings.NewReader(answer)))
					if err == nil {
						err = s.Check(version, reply)
					}
					if err != nil {
						t.Errorf("%s:%d (RESP%d): %s: %v", script.Name, s.Line, version, s.Text, err)
					}
					var effects, events []string
					for _, e := range core.Effects {
						effects = append(effects, EffectLine(e.DB, e.Args))
					}
					for _, e := range core.Events {
						events = append(events, EventLine(e.DB, e.Name, e.Key))
					}
					if !sameEffects(effects, s.Effects) {
						t.Errorf("%s:%d (RESP%d): %s: effects %q, want %q", script.Name, s.Line, version, s.Text, effects, s.Effects)
					}
					if !slices.Equal(events, s.Events) {
						t.Errorf("%s:%d (RESP%d): %s: events %q, want %q", script.Name, s.Line, version, s.Text, events, s.Events)
					}
				}
			})
		}
	}
}

// sameEffects compares two lists of effects. The case of command names does not matter.
func sameEffects(a, b []string) bool {
	return slices.EqualFunc(a, b, strings.EqualFold)
}

// session has the commands of other families that the transcripts use.
var session = command.Family{Name: "session", Rows: []command.Spec{
	{Name: "select", Arity: 2, Run: func(c *command.Context) error {
		n, err := command.Int32(c.Args[1])
		if err != nil || n < 0 || n >= c.Space.Len() {
			return &protocol.Error{Code: "ERR", Text: "DB index is out of range"}
		}
		c.Client.DB = n
		c.Reply.OK()
		return nil
	}},
	{Name: "ping", Arity: -1, Run: func(c *command.Context) error { c.Reply.Simple("PONG"); return nil }},
	// DEBUG SET-ACTIVE-EXPIRE does nothing, because no key expires by itself here.
	{Name: "debug", Arity: -2, Run: func(c *command.Context) error { c.Reply.OK(); return nil }},
}}

func newCore(t *testing.T) *commandtest.Core {
	space := newSpace(t)
	watches := tx.NewWatches(space)
	settings := &catalogue.Settings{}
	settings.Rows() // fills in the defaults
	core, err := commandtest.New(space, time.Now().UnixMilli(),
		append(catalogue.Data(settings), watches.Family(), session)...)
	if err != nil {
		t.Fatal(err)
	}
	core.Settings.Rows() // sets the defaults
	core.Abort = watches.Abort
	space.Hooks.Touched = watches.Touched
	core.Whole.Emptying, core.Whole.Swapping = watches.Emptying, watches.Swapping
	return core
}

// TestEveryRowHasATranscript: every command has a transcript of Redis's replies. Commands on Bloom filters have none:
// they belong to the module RedisBloom, which no recorded server has. The tables of engine/family/bloom replace them.
// The commands of always-on insight have none either, because Redis does not have them.
func TestEveryRowHasATranscript(t *testing.T) {
	paths, err := filepath.Glob("*.txt")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, path := range paths {
		script, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range script.Steps {
			if len(s.Args) > 0 {
				used[strings.ToLower(s.Args[0])] = true
			}
			if len(s.Args) > 1 {
				used[strings.ToLower(s.Args[0]+"|"+s.Args[1])] = true
			}
		}
	}
	for _, f := range catalogue.Rows() {
		if f.Name == bloom.Name || f.Name == diagnose.Name {
			continue
		}
		for _, row := range f.Rows {
			if !used[row.Name] {
				t.Errorf("%s has no transcript", row.Name)
			}
			for _, sub := range row.Subs {
				if !used[row.Name+"|"+sub.Name] {
					t.Errorf("%s|%s has no transcript", row.Name, sub.Name)
				}
			}
		}
	}
}
