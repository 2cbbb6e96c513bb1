package route

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spindle/protocol/respclient"
	"spindle/proxy/route"
	"spindle/tests/testkit"
	"spindle/tests/transcripts"
)

func TestMain(m *testing.M) { testkit.Waiting(m) }

// kinds lists the servers whose COMMAND is read. Servers that this host does not have are left out, and the test logs
// it.
var kinds = []string{testkit.Ours, testkit.Redis70, testkit.Redis74, testkit.Redis8, testkit.Valkey9}

// refused lists the commands that a proxy does not serve. A new command that is refused has to be added here, so that
// it is a decision.
var refused = []string{"acl|deluser", "acl|load", "acl|log", "acl|save", "acl|setuser", "backup|abort",
	"backup|cleanup", "backup|list", "backup|seal", "backup|start", "backup|status", "bgrewriteaof", "bgsave",
	"bigkeys|get", "clusterscan", "debug", "failover", "hotkeys|get", "hotkeys|reset", "hotkeys|start", "hotkeys|stop",
	"lastsave", "memory|doctor", "memory|malloc-stats", "memory|stats", "module|list", "module|load", "module|loadex",
	"module|unload", "monitor", "pfselftest", "psync", "replconf", "replicaof", "restore-asking", "role", "save",
	"script|debug", "script|stats", "shutdown", "slaveof", "spindle|hotkeys", "stalls|get", "stalls|len", "stalls|reset",
	"swapdb", "sync"}

// all lists the commands that go to all shards.
var all = []string{"dbsize", "flushall", "flushdb", "function|delete", "function|flush", "function|kill",
	"function|list", "function|load", "function|restore", "function|stats", "keys", "memory|purge", "randomkey",
	"script|exists", "script|flush", "script|kill", "script|load", "wait", "waitaof"}

// keyless lists the commands without keys that any shard can answer.
var keyless = []string{"acl|cat", "acl|dryrun", "acl|genpass", "acl|getuser", "acl|list", "acl|users", "acl|whoami",
	"function|dump", "lolwut", "script|show"}

// tableOf reads the COMMAND of s, and checks that its RESP3 reply makes the same table.
func tableOf(t *testing.T, s *testkit.Server) *route.Table {
	t.Helper()
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	table, err := route.Read(c.Must("COMMAND"), route.Redis)
	if err != nil {
		t.Fatal(err)
	}
	c.Must("HELLO", 3)
	other, err := route.Read(c.Must("COMMAND"), route.Redis)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := listed(table), listed(other); !slices.Equal(a, b) {
		t.Errorf("RESP2 and RESP3 tell different things:\n%q\n%q", a, b)
	}
	return table
}

func listed(table *route.Table) (lines []string) {
	for _, r := range table.Rows() {
		plain := *r
		lines = append(lines, fmt.Sprint(plain.Name, plain.Arity, plain.Class, plain.Special, plain.Merge, plain.Reason,
			plain.Readonly, plain.Write, plain.Keyed()))
	}
	slices.Sort(lines)
	return lines
}

// TestEveryCommandIsDecided: the lists name exactly the commands of each server that are refused, sent to all shards,
// or sent to any shard.
func TestEveryCommandIsDecided(t *testing.T) {
	got := map[string]map[string]bool{"refused": {}, "all": {}, "keyless": {}}
	servers := 0
	for _, kind := range kinds {
		if !testkit.Has(kind) {
			t.Logf("no %s", kind)
			continue
		}
		servers++
		s := testkit.Launch(t, testkit.Kind(t, kind))
		names := map[string]bool{}
		for _, v := range s.Do("COMMAND").Elems {
			names[v.Elems[0].Text] = true
			for _, sub := range v.Elems[9].Elems {
				names[sub.Elems[0].Text] = true
			}
		}
		table := tableOf(t, s)
		for _, r := range table.Rows() {
			delete(names, r.Name)
			if r.Container() {
				continue
			}
			switch {
			case r.Class == route.Refused:
				got["refused"][r.Name] = true
			case r.Class == route.All:
				got["all"][r.Name] = true
				if r.Merge == route.NoMerge {
					t.Errorf("%s: %s has no merge", kind, r.Name)
				}
			case r.Class == route.Forward && !r.Keyed() && !strings.HasSuffix(r.Name, "|help"):
				got["keyless"][r.Name] = true
			}
			if strings.Contains(r.Reason, "names no key") || strings.Contains(r.Reason, "specifications") ||
				strings.Contains(r.Reason, "does not tell") {
				t.Errorf("%s: nothing was decided on %s: %s", kind, r.Name, r.Reason)
			}
		}
		for name := range names {
			if table.Find([]byte(name)) == nil {
				t.Errorf("%s: %s has no row", kind, name)
			}
		}
	}
	for what, want := range map[string][]string{"refused": refused, "all": all, "keyless": keyless} {
		names := slices.Sorted(maps.Keys(got[what]))
		for _, name := range names {
			if !slices.Contains(want, name) {
				t.Errorf("%s is %s, and its list does not name it", name, what)
			}
		}
		if servers == len(kinds) && len(names) < len(want) {
			t.Errorf("%s: %q, the list has %q", what, names, want)
		}
	}
}

// more has calls that are in no transcript.
var more = []string{
	"MIGRATE h 1 a 0 5", "MIGRATE h 1 '' 0 5 KEYS a b c", "MIGRATE h 1 '' 0 5 COPY REPLACE AUTH keys KEYS a b",
	"MIGRATE h 1 '' 0 5 AUTH2 keys keys KEYS a b", "SORT a BY x GET y LIMIT 0 1 STORE d", "SORT a STORE x STORE y",
	"SORT_RO a BY x GET y", "SORT a LIMIT store 1 STORE d", "SORT a GET store BY store", "EVAL x 2 a b c",
	"EVAL_RO x 1 a b", "FCALL f 2 a b c", "FCALL_RO f 1 a", "EVALSHA x 3 a b c d", "XREAD COUNT 2 STREAMS streams a 0 0",
	"XREADGROUP GROUP streams streams COUNT 1 STREAMS a b > >", "XREAD BLOCK 0 STREAMS a b c $ $ $",
	"GEORADIUS k 1 1 1 m STORE d", "GEORADIUS k 1 1 1 m COUNT 1 ASC STOREDIST d", "GEORADIUSBYMEMBER k store 1 m STORE d",
	"GEORADIUS_RO k 1 1 1 m", "BLMPOP 0 2 a b LEFT", "BZMPOP 0 2 a b MIN COUNT 1", "LMPOP 1 a LEFT", "ZMPOP 2 a b MAX",
	"ZINTERSTORE d 2 a b WEIGHTS 1 2", "ZDIFF 2 a b", "ZINTERCARD 2 a b LIMIT 1", "SINTERCARD 3 a b c",
	"ZRANGESTORE d a 0 -1", "OBJECT ENCODING a", "MEMORY USAGE a SAMPLES 0", "XINFO STREAM a FULL", "XGROUP CREATE a g 0",
	"COPY a b DB 1 REPLACE", "MOVE a 1", "BITOP NOT d a", "BITOP AND d a b c", "PFMERGE d", "PFMERGE d a b",
	"PFDEBUG GETREG a", "LCS a b LEN", "RESTORE-ASKING a 0 x", "WATCH a b", "BLMOVE a b LEFT LEFT 0", "BRPOPLPUSH a b 0",
	"SMOVE a b m", "MSETEX 2 a 1 b 2 NX", "MSETNX a 1 b 2", "GEOSEARCHSTORE d a FROMLONLAT 1 1 BYRADIUS 1 m",
	"SUNIONCARD 2 a b", "SDIFFCARD 2 a b", "BLMOVEM a b LEFT LEFT 0 COUNT 1 OBO", "DELIFEQ a b", "DELEX a", "DUMP a",
	"VADD v VALUES 1 1 e", "VSIM v ELE e",
}

// channels lists the commands whose keys are shard channels, which GETKEYS leaves out.
var channels = []string{"spublish", "ssubscribe", "sunsubscribe", "clusterscan"}

// TestKeysAreThoseOfTheServers: for the calls of all transcripts and more, a plan has the keys of COMMAND GETKEYS.
// Calls that the server calls wrong are not compared.
func TestKeysAreThoseOfTheServers(t *testing.T) {
	calls := everyCall(t)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := testkit.Launch(t, testkit.Kind(t, kind))
			table := tableOf(t, s)
			c, err := respclient.Dial(s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			compared, named := 0, map[string]bool{}
			for _, call := range slices.Sorted(maps.Keys(calls)) {
				if compare(t, c, table, calls[call], named) {
					compared++
				}
			}
			if compared < 3000 {
				t.Errorf("only %d calls had keys", compared)
			}
			for _, r := range table.Rows() {
				if r.Keyed() && !named[r.Name] && !slices.Contains(channels, r.Name) && !r.Module {
					t.Errorf("no call of %s was compared", r.Name)
				}
			}
			t.Logf("%d calls of %d commands", compared, len(named))
		})
	}
}

// TestServersBeforeSeven: with the six fields per row of an older COMMAND, calls have the same plans as with
// specifications and tips.
func TestServersBeforeSeven(t *testing.T) {
	s := testkit.Launch(t, testkit.Kind(t, testkit.Redis70))
	reply := s.Do("COMMAND")
	table, err := route.Read(reply, route.Redis)
	if err != nil {
		t.Fatal(err)
	}
	for i := range reply.Elems {
		reply.Elems[i].Elems = reply.Elems[i].Elems[:6]
	}
	old, err := route.Read(reply, route.Redis)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for name, args := range everyCall(t) {
		var call [][]byte
		for _, a := range args {
			call = append(call, []byte(a))
		}
		var p, q route.Plan
		table.Plan(call, &p)
		old.Plan(call, &q)
		if p.Err != nil || q.Err != nil {
			// FUNCTION is new in 7.0, and so are some subcommands. The other subcommands check the number of their
			// arguments less exactly.
			if p.Err == nil && !strings.EqualFold(args[0], "function") && p.Row.Merge == route.NoMerge && p.KeyCount > 0 {
				t.Errorf("%.100s: %v", name, q.Err)
			}
			continue
		}
		compared++
		if p.Class != q.Class || p.Slot != q.Slot || p.Blocks != q.Blocks || p.Row.Merge != q.Row.Merge ||
			p.KeyCount != q.KeyCount {
			t.Errorf("%.100s: %v, slot %d, %d keys; with six fields %v, slot %d, %d keys", name, p.Class, p.Slot, p.KeyCount,
				q.Class, q.Slot, q.KeyCount)
		}
	}
	if compared < 3000 {
		t.Errorf("only %d calls were compared", compared)
	}
}

// everyCall returns the calls of more and of all transcripts, by their text.
func everyCall(t *testing.T) map[string][]string {
	calls := map[string][]string{}
	for _, line := range more {
		args := strings.Split(line, " ")
		for i, a := range args {
			args[i] = strings.Trim(a, "'")
		}
		calls[fmt.Sprintf("%q", args)] = args
	}
	files, err := filepath.Glob("../transcripts/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		script, err := transcripts.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range script.Steps {
			if step.Client == 0 || len(step.Args) == 0 {
				continue
			}
			var args []string
			size := 0
			for _, a := range step.Args {
				args = append(args, string(a))
				size += len(a)
			}
			if size < 10_000 {
				calls[fmt.Sprintf("%q", args)] = args
			}
		}
	}
	return calls
}

// compare compares the keys of a call with those of COMMAND GETKEYS. It reports whether the server named keys.
func compare(t *testing.T, c *respclient.Client, table *route.Table, args []string, named map[string]bool) bool {
	request := []any{"COMMAND", "GETKEYS"}
	var call [][]byte
	for _, a := range args {
		request = append(request, a)
		call = append(call, []byte(a))
	}
	reply, err := c.Do(request...)
	if err != nil {
		t.Fatal(err)
	}
	var p route.Plan
	table.Plan(call, &p)
	if reply.Err() != nil {
		if strings.Contains(reply.Text, "no key arguments") && p.Row != nil && p.Err == nil && p.KeyCount > 0 &&
			!slices.Contains(channels, p.Row.Name) {
			t.Errorf("%.100q has %d keys; the server says %s", args, p.KeyCount, reply.Text)
		}
		return false
	}
	if p.Row == nil {
		t.Errorf("%.100q: %v, but the server has keys %q", args, p.Err, reply.Strings())
		return false
	}
	var got []string
	for _, at := range table.AppendKeys(nil, p.Row, call) {
		got = append(got, args[at])
	}
	if want := reply.Strings(); !slices.Equal(got, want) && !storesTwice(args) && !loosely(args) {
		t.Errorf("%.100q has keys %.100q; the server says %.100q", args, got, want)
	}
	named[p.Row.Name] = true
	return true
}

// storesTwice reports whether a call of GEORADIUS names several keys to write. Redis's specifications then name the
// first key of each option, but the last one is written.
func storesTwice(args []string) bool {
	count := 0
	for _, a := range args {
		if strings.HasPrefix(strings.ToLower(a), "store") {
			count++
		}
	}
	return strings.HasPrefix(strings.ToLower(args[0]), "georadius") && count > 1
}

var loose = regexp.MustCompile(`^([ +]|0)[0-9]+$|^[0-9]{12,}$`)

// loosely reports whether COMMAND GETKEYS accepts the call's number of keys although the text is not a proper number.
// The call itself gets an error.
func loosely(args []string) bool { return len(args) > 2 && loose.MatchString(args[1]) }
