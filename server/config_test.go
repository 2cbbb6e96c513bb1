package server

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spindle/internal/config"
	"spindle/internal/setting"
)

// load reads text as the configuration file of a server, in a new folder.
func load(t testing.TB, registry *setting.Registry, text string, options ...string) (*config.Config, error) {
	t.Helper()
	args := config.ParseArguments(append([]string{"spindle"}, options...))
	args.Stdin = true
	return config.Load(registry, args, strings.NewReader(text), config.Options{})
}

// TestConfigValues has configuration texts, and the values of some settings after them.
func TestConfigValues(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"one.conf": "hz 30\n", "two.conf": "HZ 31\nmaxmemory 1k",
		"sub/three.conf": "hz 33\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, text string
		options    []string
		want       map[string]string
	}{
		{"comments, blanks, case", "# hz 50\n\n \t\r\n  HZ\t20 \r\n", nil, map[string]string{"hz": "20"}},
		{"the last one counts", "hz 20\nhz 30\n", nil, map[string]string{"hz": "30"}},
		{"options come last", "hz 20\n", []string{"--hz", "40"}, map[string]string{"hz": "40"}},
		{"no line end", "hz 20", []string{"--hz", "40"}, map[string]string{"hz": "40"}},
		{"units", "maxmemory 2gb\nclient-query-buffer-limit 5MB\nmaxmemory-clients 5%\nunixsocketperm 755", nil,
			map[string]string{"maxmemory": "2147483648", "client-query-buffer-limit": "5242880", "maxmemory-clients": "5%",
				"unixsocketperm": "755"}},
		{"quotes", `masterauth "a\x41 '" ` + "\nmasteruser '\"'\nlogfile ''\n", nil,
			map[string]string{"masterauth": "aA '", "masteruser": `"`, "logfile": ""}},
		{"save rules add up", "save 1 2\nsave 3 4 5 6\n", nil, map[string]string{"save": "1 2 3 4 5 6"}},
		{"save nothing", "save \"\"\n", nil, map[string]string{"save": ""}},
		{"save nothing in the middle", "save 1 2\nsave ''\nsave 3 4\n", nil, map[string]string{"save": "3 4"}},
		{"save as one argument", "save \"1 2 3 4\"\n", nil, map[string]string{"save": "1 2 3 4"}},
		{"no save is the default", "hz 1\n", nil, map[string]string{"save": "3600 1 300 100 60 10000"}},
		{"an empty --save", "save 1 2\n", []string{"--save"}, map[string]string{"save": ""}},
		{"output limits keep other classes",
			"client-output-buffer-limit normal 1 2 3\nclient-output-buffer-limit replica 4kb 5 6\n", nil,
			map[string]string{"client-output-buffer-limit": "normal 1 2 3 slave 4096 5 6 pubsub 33554432 8388608 60"}},
		{"older names", "slave-priority 7\nhash-max-ziplist-entries 8\nlua-time-limit 9\nslaveof 10.0.0.1 5\n", nil,
			map[string]string{"replica-priority": "7", "hash-max-listpack-entries": "8", "busy-reply-threshold": "9",
				"replicaof": "10.0.0.1 5"}},
		{"withdrawn names", "list-max-ziplist-entries 5\nlua-replicate-commands yes\n", nil, nil},
		{"out of range and clamped", "hz 100000\n", nil, map[string]string{"hz": "500"}},
		{"bind", "bind 127.0.0.1 -::1\n", nil, map[string]string{"bind": "127.0.0.1 -::1"}},
		{"bind nothing", "bind ''\n", nil, map[string]string{"bind": ""}},
		{"words", "", []string{"--shutdown-on-sigterm", "nosave", "force"},
			map[string]string{"shutdown-on-sigterm": "nosave force"}},
		{"words in one", "", []string{"--shutdown-on-sigterm", "nosave force"},
			map[string]string{"shutdown-on-sigterm": "nosave force"}},
		{"include", "hz 20\ninclude one.conf\n", nil, map[string]string{"hz": "30"}},
		{"include in the middle", "include one.conf\nhz 20\n", nil, map[string]string{"hz": "20"}},
		{"include many", "include t*.conf\ninclude nosuch*\n", nil, map[string]string{"hz": "31", "maxmemory": "1000"}},
		{"cluster has one database", "cluster-enabled yes\ndatabases 9\n", nil, map[string]string{"databases": "1"}},
		// This case stays last, because it leaves the folder.
		{"dir moves relative names", "dir sub\ninclude three.conf\n", nil, map[string]string{"hz": "33"}},
	} {
		registry := newRegistry(t)
		if _, err := load(t, registry, c.text, c.options...); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for name, want := range c.want {
			if got := registry.Lookup(name).Get(); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got, want)
			}
		}
	}
}

// TestConfigErrors has configuration texts, and the process's last words for them.
func TestConfigErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"bad.conf": "\nhz x\n", "loop.conf": "include loop.conf\n"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const banner = "\n*** FATAL CONFIG FILE ERROR (Redis 7.4.1) ***\n"
	at := func(line, text, reason string) string {
		return banner + "Reading the configuration file, at line " + line + "\n>>> '" + text + "'\n" + reason
	}
	for _, c := range []struct {
		name, text string
		options    []string
		want       string
	}{
		{"unknown", "\n nosuch 1 \n", nil, at("2", "nosuch 1", "Bad directive or wrong number of arguments")},
		{"unknown option", "hz 1\n", []string{"--nosuch", "a b"},
			at("3", `nosuch "a b"`, "Bad directive or wrong number of arguments")},
		{"no value", "port\n", nil, at("1", "port", "wrong number of arguments")},
		{"two values", "port 1 2\n", nil, at("1", "port 1 2", "wrong number of arguments")},
		{"no integer", "port x\n", nil, at("1", "port x", "argument couldn't be parsed into an integer")},
		{"out of bounds", "port 65536\n", nil, at("1", "port 65536", "argument must be between 0 and 65535 inclusive")},
		{"no memory", "maxmemory 1tb\n", nil,
			at("1", "maxmemory 1tb", "argument must be a memory value, such as 512mb or 2gb")},
		{"no octal", "unixsocketperm 789\n", nil, at("1", "unixsocketperm 789",
			"argument couldn't be parsed as an octal number")},
		{"octal bounds", "unixsocketperm 1777\n", nil, at("1", "unixsocketperm 1777",
			"argument must be between 0 and 777 inclusive")},
		{"no choice", "appendfsync x\n", nil, at("1", "appendfsync x",
			"argument(s) must be one of the following: everysec, always, no")},
		{"neither yes nor no", "daemonize x\n", nil, at("1", "daemonize x", "argument must be 'yes' or 'no'")},
		{"quotes", "requirepass \"x\n", nil, at("1", `requirepass "x`, "Unbalanced quotes in configuration line")},
		{"save", "save 1\n", nil, at("1", "save 1", "Invalid save parameters")},
		{"a path for a name", "dbfilename a/b\n", nil, at("1", "dbfilename a/b",
			"dbfilename can't be a path, just a filename")},
		{"both save and nosave", "shutdown-on-sigint save nosave\n", nil,
			at("1", "shutdown-on-sigint save nosave", "shutdown options SAVE and NOSAVE can't be used simultaneously")},
		{"title", "proc-title-template {x}\n", nil, at("1", "proc-title-template {x}",
			"template format is invalid or contains unknown variables")},
		{"folder", "dir /nosuch\n", nil, at("1", "dir /nosuch", "No such file or directory")},
		{"log", "logfile /nosuch/x\n", nil, banner + "Can't open the log file: No such file or directory"},
		{"cluster and replica", "cluster-enabled yes\nreplicaof a 1\n", nil,
			banner + "replicaof directive not allowed in cluster mode"},
		{"sentinel", "sentinel monitor a\n", nil, at("1", "sentinel monitor a",
			"sentinel directive while not in sentinel mode")},
		{"module without value", "a.b\n", nil, at("1", "a.b", "Module config specified without value")},
		{"a user twice", "user a on\nuser a off\n", nil,
			at("2", "user a off", "Error in user declaration 'a': Duplicate user found. A user can only be defined once in "+
				"config files")},
		{"zero byte", "hz 1\x00 0\n", nil, at("1", "hz 1\x00 0", "A configuration line can't hold a zero byte")},
		{"in an included file", "\n\n\n\ninclude bad.conf\n", nil,
			at("2", "hz x", "argument couldn't be parsed into an integer")},
		{"included for ever", "include loop.conf\n", nil,
			at("1", "include loop.conf", "Files include each other more than 16 deep")},
		{"no such file", "include nosuch.conf\n", nil,
			"Fatal error, can't open config file 'nosuch.conf': No such file or directory"},
	} {
		_, err := load(t, newRegistry(t), c.text, c.options...)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n%v\nwant:\n%s", c.name, err, c.want)
		}
	}
}

func TestDirectives(t *testing.T) {
	const text = "rename-command get \"\"\nrename-command set put\nuser a on >p\nloadmodule /m.so 1\nx.y " +
		"2\nactive-defrag-max-scan-fields 500\nappendfsync everysec\n"
	registry := newRegistry(t)
	found, err := config.Load(registry, config.Arguments{Stdin: true}, strings.NewReader(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for what, lines := range map[string][]config.Line{
		"get , set put": found.Renames, "a on >p": found.Users, "/m.so 1": found.Modules,
	} {
		var got []string
		for _, line := range lines {
			got = append(got, strings.Join(line.Words, " "))
		}
		if strings.Join(got, ", ") != what {
			t.Errorf("%q, want %q", got, what)
		}
	}
	if len(found.Ignored) != 1 {
		t.Errorf("ignored: %v", found.Ignored)
	}
	if idle := registry.Idle(); len(idle) != 1 || idle[0] != "active-defrag-max-scan-fields" {
		t.Errorf("idle: %v", idle)
	}
	err = found.Renames[1].Refuse(errors.New("No such command in rename-command"))
	if err.Error() != "\n*** FATAL CONFIG FILE ERROR (Redis 7.4.1) ***\nReading the configuration file, at line 2\n>>> "+
		"'rename-command set put'\nNo such command in rename-command" {
		t.Error(err)
	}
}

// TestDistributionConfig reads the unchanged configuration of Debian's redis package, if this host has it.
func TestDistributionConfig(t *testing.T) {
	const path = "/etc/redis/redis.conf"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("no configuration of Debian's redis package is here: make deps installs it: %v", err)
	}
	t.Chdir(t.TempDir())
	// Two lines name folders of the package, to which this user may not write.
	text := strings.NewReplacer("\ndir /var/lib/redis", "\ndir .",
		"\nlogfile /var/log/redis/redis-server.log", "\nlogfile ./log").Replace(string(b))
	registry := newRegistry(t)
	if _, err := load(t, registry, text); err != nil {
		t.Fatal(err)
	}
	if registry.Lookup("daemonize").Get() != "yes" || registry.Lookup("bind").Get() != "127.0.0.1 -::1" {
		t.Error("read, but not taken")
	}
}

// TestOwnConfig reads spindle.conf: it sets only defaults, and names nothing that has no effect.
func TestOwnConfig(t *testing.T) {
	file, err := filepath.Abs(filepath.Join("..", "spindle.conf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	registry := newRegistry(t)
	if _, err := config.Load(registry, config.Arguments{ConfigFile: file}, nil, config.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, row := range registry.Rows() {
		if row.Name != "dir" && !row.IsDefault() {
			t.Errorf("%s: %s", row.Name, row.Get())
		}
	}
	if idle := registry.Idle(); len(idle) > 0 {
		t.Errorf("without effect, but given: %v", idle)
	}
}

// TestRewriteAfterAnInclude: an included file switches saving off, and CONFIG SET switches the default rules on again.
// REWRITE writes them, because the include would win at the next start.
func TestRewriteAfterAnInclude(t *testing.T) {
	dir := t.TempDir()
	file, included := filepath.Join(dir, "a.conf"), filepath.Join(dir, "b.conf")
	for name, text := range map[string]string{file: "include " + included + "\n", included: "save \"\"\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func() *setting.Registry {
		registry := newRegistry(t)
		if _, err := config.Load(registry, config.Arguments{ConfigFile: file}, nil, config.Options{}); err != nil {
			t.Fatal(err)
		}
		return registry
	}
	registry := load()
	rules := newRegistry(t).Lookup("save").Get()
	if err := registry.SetMany([]setting.Pair{{Name: "save", Value: rules}}, setting.Conditions{}); err != nil {
		t.Fatal(err)
	}
	if err := (&config.Rewriter{Registry: registry, File: file}).Rewrite(false); err != nil {
		t.Fatal(err)
	}
	if again := load().Lookup("save").Get(); again != rules {
		t.Errorf("save is %q after a restart, want %q", again, rules)
	}
}

func TestRewriteFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.conf")
	if err := os.WriteFile(file, []byte("# mine\nhz 20\nsave 1 1\nsave 2 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	registry := newRegistry(t)
	if _, err := config.Load(registry, config.Arguments{ConfigFile: file}, nil, config.Options{}); err != nil {
		t.Fatal(err)
	}
	err := registry.SetMany([]setting.Pair{{Name: "maxmemory", Value: "100mb"}, {Name: "save", Value: "5 5"},
		{Name: "notify-keyspace-events", Value: "KEA"}}, setting.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	w := config.Rewriter{Registry: registry, File: file}
	for range 2 { // the second changes nothing
		if err := w.Rewrite(false); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cwd, _ := os.Getwd()
	want := "# mine\nhz 20\nsave 5 5\n\n# Generated by CONFIG REWRITE\ndir " + setting.Quote(cwd) +
		"\nlatency-tracking-info-percentiles 50 99 99.9\nmaxmemory 100mb\nnotify-keyspace-events \"AKE\"\n"
	if string(got) != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if names, _ := filepath.Glob(filepath.Dir(file) + "/*"); len(names) != 1 {
		t.Errorf("still there: %v", names)
	}
	all := newRegistry(t)
	if err := w.Rewrite(true); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(all, config.Arguments{ConfigFile: file}, nil, config.Options{}); err != nil {
		t.Fatalf("a file with every setting: %v", err)
	}
	if err := (&config.Rewriter{Registry: registry}).Rewrite(false); err == nil ||
		err.Error() != "The server is running without a config file" {
		t.Error(err)
	}
	w.File = "/nosuch/a.conf"
	if err := w.Rewrite(false); err == nil || err.Error() != "Rewriting config file: No such file or directory" {
		t.Error(err)
	}
}

// FuzzConfig: any bytes are a clear error or a configuration. A rewritten configuration means the same, and a second
// rewrite does not change it.
func FuzzConfig(f *testing.F) {
	f.Add("hz 20\nsave 1 2\nsave ''\n# c\nmaxmemory 5% \"\n")
	f.Add("client-output-buffer-limit normal 1 2 3\nbind a b\nrename-command a b\nuser x on\nnotify-keyspace-events AKn")
	f.Add("oom-score-adj-values 1 2 3\nlatency-tracking-info-percentiles 1 2.5\nshutdown-on-sigint now force\nreplicaof a 1")
	f.Add("proc-title-template \"{{ {title} \\x00\"\ninclude *\ninclude nosuch\nlist-max-ziplist-entries 1\na.b c")
	f.Chdir(f.TempDir())
	f.Fuzz(func(t *testing.T, text string) {
		for _, outside := range []string{"include", "dir", "logfile"} { // would leave the test's folder
			if strings.Contains(strings.ToLower(text), outside) {
				return
			}
		}
		registry := newRegistry(t)
		if _, err := load(t, registry, text); err != nil {
			var wrong *config.Error
			if !errors.As(err, &wrong) || wrong.Reason == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		rewritten := registry.Rewrite(text, false)
		again := newRegistry(t)
		if _, err := load(t, again, rewritten); err != nil {
			t.Fatalf("%q was rewritten to %q: %v", text, rewritten, err)
		}
		before, after := registry.Get([]string{"*"}, matchNames), again.Get([]string{"*"}, matchNames)
		for i := range before {
			if before[i] != after[i] {
				t.Fatalf("%q was rewritten to %q: %v became %v", text, rewritten, before[i], after[i])
			}
		}
		if twice := again.Rewrite(rewritten, false); twice != rewritten {
			t.Fatalf("%q, rewritten again, is %q", rewritten, twice)
		}
	})
}

// TestNewerFile: a file with every directive of Redis 7.4, Redis 8.0 and Valkey 9.1 is accepted. The settings without
// an effect are known as such.
func TestNewerFile(t *testing.T) {
	rows := append(reference(t), newer(t)...)
	t.Chdir(t.TempDir())
	var file strings.Builder
	file.WriteString("events-per-io-thread 2\n") // Valkey 9 withdrew it
	for _, row := range rows {
		if name, value := row[0], row[1]; name != "dir" && name != "replicaof" && name != "slaveof" {
			file.WriteString(name + " " + setting.Quote(value) + "\n")
		}
	}
	if _, err := load(t, newRegistry(t), file.String()); err != nil {
		t.Error(err)
	}
	registry := newRegistry(t)
	idle := map[string]string{"hash-seed": "x", "mptcp": "yes", "rdma-port": "7", "import-mode": "yes",
		"repl-rdb-channel": "no", "cluster-compatibility-sample-ratio": "1", "rdma-bind": "::1 10.0.0.1"}
	var lines strings.Builder
	for name, value := range idle {
		lines.WriteString(name + " " + value + "\n")
	}
	if _, err := load(t, registry, lines.String()); err != nil {
		t.Error(err)
	}
	if got := registry.Idle(); !slices.Equal(got, slices.Sorted(maps.Keys(idle))) {
		t.Errorf("without effect: %v", got)
	}
}
