package server

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spindle/internal/logging"
	"spindle/internal/setting"
)

// newRegistry returns a registry with every row of a server.
func newRegistry(t testing.TB) *setting.Registry {
	t.Helper()
	in, err := newInstance(logging.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	return in.registry
}

// matchNames is a simple glob matcher that is good enough for names.
func matchNames(pattern, name string) bool {
	ok, _ := path.Match(strings.ToLower(pattern), name)
	return ok
}

// ownSettingNames are the settings that Redis does not have.
var ownSettingNames = []string{"ack-mode", "ack-on-timeout", "ack-timeout", "admin-address", "admin-bind",
	"admin-console-user", "admin-host", "admin-open", "admin-port", "admin-tls", "admin-token", "admin-unixsocket",
	"admin-unixsocketperm", "aof-buffer-limit", "aof-keep-history", "bf-max-size", "big-keys", "compat-version",
	"hot-keys", "kept-memory-limit", "long-read-elements", "min-replicas-to-ack", "lua-enable-deprecated-api",
	"measure-turn-cpu", "module-aux-data", "rdb-file-compression", "rdb-savers", "rdb-unsupported-keys", "rdb-version",
	"rdb-version-check", "rdb-write-version", "reactor-backend", "repl-backlog-disk-size",
	"replica-ignore-unknown-commands", "reply-latency", "script-memory-limit", "stall-log-max-len", "stall-threshold",
	// No release in the tests knows these.
	"backup-sealed-ttl", "backupdirname", "preload-file", "repl-throttling-enabled", "slowlog-entry-max-argc",
	"slowlog-entry-max-string-len", "stream-idmp-duration", "stream-idmp-maxsize",
	"unsupported-directives"}

// ownDefaults are the defaults that differ from Redis's, whose allocator leaves more to tune.
var ownDefaults = map[string]string{"activedefrag": "yes", "active-defrag-ignore-bytes": "8388608"}

// reference reads testdata/reference.tsv: name, default, flags.
func reference(t *testing.T) [][]string { return table(t, "reference.tsv") }

// newer reads testdata/newer.tsv, in the same form. It leaves out the settings that newer.txt promises for later.
func newer(t *testing.T) [][]string {
	t.Helper()
	states, err := os.ReadFile(filepath.Join("..", "tests", "conformance", "newer.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(table(t, "newer.tsv"), func(row []string) bool {
		return regexp.MustCompile(`(?m)^directive \| ` + row[0] + ` \|[^|]*\| later$`).Match(states)
	})
}

// table reads a file of testdata: rows of fields.
func table(t *testing.T, file string) [][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	return rows
}

// TestReference compares names, defaults and flags with those of redis-server, and with those of newer servers.
func TestReference(t *testing.T) {
	registry := newRegistry(t)
	shown := map[string]bool{}
	for _, p := range registry.Get([]string{"*"}, matchNames) {
		shown[p.Name] = true
	}
	known := map[string]bool{}
	for _, r := range append(reference(t), newer(t)...) {
		name, deflt, flags := r[0], r[1], r[2]
		known[name] = true
		row := registry.Lookup(name)
		if row == nil {
			t.Errorf("%s: no such setting", name)
			continue
		}
		if own, ok := ownDefaults[name]; ok && own != deflt {
			deflt = own
		}
		if name != "dir" && row.Default() != deflt {
			t.Errorf("%s: default %q, the reference has %q", name, row.Default(), deflt)
		}
		if shown[name] == strings.Contains(flags, "hidden") {
			t.Errorf("%s: shown by CONFIG GET *: %v", name, shown[name])
		}
		for flag, bit := range map[string]setting.Flags{"immutable": setting.Immutable, "protected": setting.Protected} {
			if strings.Contains(flags, flag) != (row.Flags&bit != 0) {
				t.Errorf("%s: %s is %v", name, flag, row.Flags&bit != 0)
			}
		}
	}
	for name := range shown {
		if !known[name] && !slices.Contains(ownSettingNames, name) {
			t.Errorf("%s: the reference does not know it, nor ownSettingNames", name)
		}
	}
}

// TestOwnSettingsTakeTheirValue: CONFIG SET accepts, for every setting that Redis does not have, the value that CONFIG
// GET returns. Tools set all values that they have read, and know only which settings of Redis cannot be set.
func TestOwnSettingsTakeTheirValue(t *testing.T) {
	registry := newRegistry(t)
	for _, name := range ownSettingNames {
		row := registry.Lookup(name)
		if row.Flags&setting.Hidden != 0 {
			continue // CONFIG GET * does not show it
		}
		value := row.Get()
		if err := registry.SetMany([]setting.Pair{{Name: name, Value: value}}, setting.Conditions{}); err != nil {
			t.Errorf("CONFIG SET %s %q: %v", name, value, err)
		}
	}
}

// TestReplies compares the replies of CONFIG SET, and of CONFIG GET after it, with those of redis-server. Each line of
// testdata/replies.tsv is a try from the defaults: name, value, reply, value after it.
func TestReplies(t *testing.T) { compareReplies(t, table(t, "replies.tsv"), 1000) }

// TestNewerReplies does the same with the settings that newer servers have.
func TestNewerReplies(t *testing.T) {
	here := newer(t)
	compareReplies(t, slices.DeleteFunc(table(t, "newer-replies.tsv"), func(try []string) bool {
		return !slices.ContainsFunc(here, func(row []string) bool { return row[0] == try[0] })
	}), 100)
}

// compareReplies makes these tries. There must be at least `least` of them.
func compareReplies(t *testing.T, tries [][]string, least int) {
	t.Helper()
	registry := newRegistry(t)
	for _, r := range reference(t) {
		if _, ok := ownDefaults[r[0]]; ok {
			if err := registry.SetMany([]setting.Pair{{Name: r[0], Value: r[1]}}, setting.Conditions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, f := range tries {
		name, value, want, now := f[0], f[1], f[2], f[3]
		row := registry.Lookup(name)
		before := row.Get()
		reply := ""
		if err := registry.SetMany([]setting.Pair{{Name: name, Value: value}},
			setting.Conditions{Protected: true}); err != nil {
			reply = strings.TrimPrefix(err.Error(), "CONFIG SET failed (possibly related to argument '"+name+"') - ")
		}
		if reply != want || row.Get() != now {
			t.Errorf("%s %q: %q, now %q; the reference: %q, %q", name, value, reply, row.Get(), want, now)
		}
		if err := registry.SetMany([]setting.Pair{{Name: name, Value: before}},
			setting.Conditions{Protected: true}); err != nil {
			t.Fatalf("%s back to %q: %v", name, before, err)
		}
	}
	if len(tries) < least {
		t.Errorf("only %d tries", len(tries))
	}
}

// TestSetBack sets every setting to the value that CONFIG GET returns. Nothing changes, and a setting that cannot be
// set gives the reason.
func TestSetBack(t *testing.T) {
	registry := newRegistry(t)
	t.Chdir(t.TempDir())
	before := registry.Get([]string{"*"}, matchNames)
	for _, p := range before {
		err := registry.SetMany([]setting.Pair{p}, setting.Conditions{Protected: true})
		immutable := registry.Lookup(p.Name).Flags&setting.Immutable != 0
		switch {
		case immutable && (err == nil || !strings.HasSuffix(err.Error(), "can't set immutable config")):
			t.Errorf("%s: immutable, but: %v", p.Name, err)
		case !immutable && err != nil:
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	if after := registry.Get([]string{"*"}, matchNames); !slices.Equal(before, after) {
		t.Errorf("%v\nbecame\n%v", before, after)
	}
}

// settingLine matches a line of spindle.conf that states a setting. A # without a blank marks a setting without effect.
var settingLine = regexp.MustCompile(`^(#?)([a-z][a-z0-9-]+) (.+)$`)

// TestDocumented compares spindle.conf with the rows. Every setting is there once, with its default and a reason above
// it. The file marks it as in effect or not, as its row says.
func TestDocumented(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "spindle.conf"))
	if err != nil {
		t.Fatal(err)
	}
	registry := newRegistry(t)
	stated := map[string][]string{}
	lines := strings.Split(string(b), "\n")
	for i, line := range lines {
		m := settingLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name, row := m[2], registry.Lookup(m[2])
		if row == nil || row.Name != name {
			t.Errorf("line %d: %s is no setting's name", i+1, name)
			continue
		}
		if len(stated[name]) == 0 {
			if above := lines[i-1]; !strings.HasPrefix(above, "# ") {
				t.Errorf("line %d: no reason above %s", i+1, name)
			} else if want := "# No effect in this version: " + row.Why() +
				"."; (above == want) != (row.Flags&setting.NoEffect != 0) {
				t.Errorf("line %d: above %s stands %q; its row says %q", i+1, name, above, want)
			}
		}
		if (m[1] == "#") != (row.Flags&(setting.NoEffect|setting.Chosen) != 0) {
			t.Errorf("line %d: %s is marked wrongly: without effect or chosen %v", i+1, name, m[1] == "")
		}
		stated[name] = append(stated[name], m[3])
	}
	for _, row := range registry.Rows() {
		want := row.Lines()
		if len(want) == 0 {
			want = []string{`""`}
		}
		switch row.Name {
		case "dir":
			want = []string{"./"}
		case "replicaof":
			want = []string{"no one"} // the file then has no line, and "no one" is valid in a file
		}
		if !slices.Equal(stated[row.Name], want) {
			t.Errorf("%s: spindle.conf says %q, the default is %q", row.Name, stated[row.Name], want)
		}
	}
}
