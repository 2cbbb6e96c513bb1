package process

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A damage has lines that make a configuration invalid. It also has the number of the first line that a start refuses,
// counted from 1.
type damage struct {
	lines string
	at    int
}

// damages returns more than a hundred: several for one directive of each kind, and one for each other error for which a
// start is refused.
func damages(t *testing.T, dir string) []damage {
	s := testkit.Start(t)
	var all []damage
	several := map[string]bool{ // directives with several arguments
		"bind": true, "save": true, "client-output-buffer-limit": true, "oom-score-adj-values": true,
		"shutdown-on-sigint": true, "shutdown-on-sigterm": true, "latency-tracking-info-percentiles": true,
		"replicaof": true, "slaveof": true,
	}
	names := s.Do("CONFIG", "GET", "*").Strings()
	step := 8 // more of them in long runs
	if testkit.Scale() > 1 {
		step = 2
	}
	for i := 0; i < len(names); i += step {
		name := names[i]
		kinds := []string{name, name + " a b c", name + ` "a`, name + "-not 1", name + " \x00", name + ` 'a'b`}
		if several[name] {
			kinds = kinds[2:]
		}
		all = append(all, damage{kinds[i/step%len(kinds)], 1})
	}
	for _, line := range []string{
		"port 65536", "port -1", "port x", "save 1", "save x y", "maxmemory 1zz", "maxmemory-policy lru",
		"appendfsync sometimes", "databases 0",
		"hz 1e3", "appendonly maybe", "loglevel loud", "dir /no/such/folder",
		"logfile /no/such/folder/log", "logfile " + dir, "include /no/such/file.conf",
		"include " + dir, "rename-command nosuch x", "rename-command get set", "rename-command get",
		"loadmodule /tmp/search.so", "loadmodule",
		"user a on\x01 %zz", "user a (on", "user a +nosuch", "user a >x <y", "user",
		"aclfile /no/such/users.acl", "aclfile " + dir + "/bad.acl",
		"tls-dh-params-file x", "notify-keyspace-events xyzQ", "client-output-buffer-limit normal 1",
		"client-output-buffer-limit nobody 0 0 0", "oom-score-adj-values 1 2",
		"oom-score-adj-values 1 2 9999", "replicaof host", "replicaof host 99999",
		"unixsocketperm 999", "proc-title-template {nosuch}", "latency-tracking-info-percentiles 101",
		"sentinel monitor m 127.0.0.1 1 1", "a.b",
		"appendfilename a/b", "dbfilename a/b", "maxmemory-clients 101%",
		"reactor-backend magic", "admin-address 0.0.0.0:1", "admin-address :1", "admin-address 127.0.0.1",
		"shutdown-on-sigint save nosave", "list-max-ziplist-value",
	} {
		all = append(all, damage{line, 1})
	}
	for _, nested := range []string{"nested.conf", "nest*.conf"} {
		all = append(all, damage{"include " + dir + "/" + nested, 0})
	}
	return append(all,
		damage{"user a on\nuser b on\nuser a on", 3},
		damage{"aclfile " + dir + "/good.acl\nuser a on", 1},
		damage{"tls-port 7777", 0},
		damage{"tls-port 7777\ntls-cert-file /no/such\ntls-key-file /no/such\ntls-auth-clients no", 0},
		damage{"cluster-enabled yes\nreplicaof 127.0.0.1 1", 0}, damage{"port 0", 0}, damage{`bind ""`, 0})
}

// TestCheckConfig compares --check-config with a start, for invalid files. Both refuse the same files and name the same
// line. --check-config creates and changes no file. It names each of more than a hundred invalid lines of one file.
func TestCheckConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("bad.acl", "user a on\nuser b %zz\n")
	put("good.acl", "user default on nopass +@all ~*\n")
	put("nested.conf", "hz 20\n\nhz many\n")
	program := testkit.Spindle(t)
	head := fmt.Sprintf("port %d\nbind 127.0.0.1\nsave \"\"\ndir %s\nlogfile %s/server.log\n",
		testkit.FreePort(t), dir, dir)
	before := strings.Count(head, "\n")
	limit := testkit.Slowly(20 * time.Second)
	together, want, turn := head, []string{}, rand.IntN(6)
	for i, d := range damages(t, dir) {
		joins := d.at == 1 && !strings.HasPrefix(d.lines, "aclfile") && !strings.HasPrefix(d.lines, "user") &&
			!strings.HasPrefix(d.lines, "logfile") && !strings.HasPrefix(d.lines, "admin-address") // the last one counts
		if joins {
			together += d.lines + "\n"
			want = append(want, fmt.Sprintf("%d: ", strings.Count(together, "\n")))
		}
		// Each run starts another sixth of the files. Lines of the common file need no other process.
		starts := i%6 == turn || testkit.Scale() > 1
		if joins && !starts {
			continue
		}
		path := put("a.conf", head+d.lines+"\nhz 30\n")
		out, code := testkit.Run(t, limit, "", program, "--check-config", path)
		if _, err := os.Stat(filepath.Join(dir, "server.log")); err == nil {
			t.Fatalf("%q: the check has made a log", d.lines)
		}
		if now, _ := os.ReadFile(path); string(now) != head+d.lines+"\nhz 30\n" {
			t.Fatalf("%q: the check has changed the file", d.lines)
		}
		takes := false
		if starts {
			takes = testkit.Launch(t, testkit.Spec{NoWait: true, Bare: true, Dir: dir, Args: []string{path}}).Wait(limit) == 0
			os.Remove(filepath.Join(dir, "server.log"))
		}
		if takes || code != 1 {
			t.Errorf("%q: a start takes it: %t; --check-config: %d, %s", d.lines, takes, code, out)
			continue
		}
		place := fmt.Sprintf("%s:%d: ", path, before+d.at)
		if strings.Contains(d.lines, "nest") {
			place = filepath.Join(dir, "nested.conf") + ":3: "
		}
		if (d.at > 0 || strings.Contains(d.lines, "nest")) && !strings.HasPrefix(out, place) ||
			!strings.HasSuffix(out, path+": 1 refused\n") {
			t.Errorf("%q: %s", d.lines, out)
		}
	}
	if len(want) < 100 {
		t.Errorf("only %d invalid lines", len(want))
	}
	path := put("a.conf", together)
	out, _ := testkit.Run(t, limit, "", program, "--check-config", path)
	for _, place := range want {
		if !strings.Contains(out, path+":"+place) {
			t.Errorf("among many line %snot named", place)
		}
	}
}

// TestConfigWords: for a mistake in a configuration, the message suggests the word that was probably meant. Messages
// are in the order of lines. Messages about an included file appear at the line that includes it.
func TestConfigWords(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.conf": "maxmemroy 2gb\nuser a (on\ninclude " + dir + "/b.conf\nmaxmemory 2gigs\nrename-command nosuch x\n" +
			"incldue x\nnothing-like-it 1\nport\n",
		"b.conf": "\n\n\n\n\n\n\n\n\n\nhz many\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	limit := testkit.Slowly(20 * time.Second)
	out, _ := testkit.Run(t, limit, "", testkit.Spindle(t), "--check-config", dir+"/a.conf")
	lines := strings.Split(out, "\n")
	for i, want := range []string{
		"/a.conf:1: Bad directive or wrong number of arguments (did you mean maxmemory?)",
		"/a.conf:2: ", "/b.conf:11: ",
		"/a.conf:4: argument must be a memory value, such as 512mb or 2gb",
		"/a.conf:5: ",
		"/a.conf:6: Bad directive or wrong number of arguments (did you mean include?)",
		`/a.conf:7: Bad directive or wrong number of arguments: "`, "/a.conf:8: ",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], dir+want) {
			t.Errorf("line %d is not %q: %s", i, want, out)
		}
	}
	for word, want := range map[string]string{
		"clutser":  "No such file or directory (no such command or file: did you mean 'cluster'?)",
		"start":    "No such file or directory (no such command or file: see --help)",
		"a/b.conf": "/a/b.conf': No such file or directory\n",
	} {
		if out, code := testkit.Run(t, limit, "", testkit.Spindle(t), word); code != 1 || !strings.Contains(out, want) {
			t.Errorf("spindle %s: %d %s, want %q", word, code, out, want)
		}
	}
}

// TestCheckConfigTakes: --check-config accepts the files that a start accepts, and lists the settings without an
// effect.
func TestCheckConfigTakes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.conf")
	text := "rename-command get fetch\nuser a on nopass +get\nloadmodule /usr/lib/redisbloom.so\nlogfile " + dir +
		"/log\nlfu-decay-time 3\nadmin-address :1\nadmin-token x\nwatchdog-period 500\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, code := testkit.Run(t, time.Minute, "", testkit.Spindle(t), "--check-config", path, "--port", "7000")
	if code != 0 || out != path+": without effect in this version: watchdog-period\n"+path+": OK\n" {
		t.Errorf("%d %s", code, out)
	}
	if out, code := testkit.Run(t, time.Minute, "hz many\n", testkit.Spindle(t), "--check-config", "-", "--port",
		"x"); code != 1 ||
		!strings.HasPrefix(out, "standard input:1: ") || !strings.Contains(out, "the options:1: ") {
		t.Errorf("%d %s", code, out)
	}
	if _, err := os.Stat(dir + "/log"); err == nil {
		t.Error("the check has made a log")
	}
	if out, code := testkit.Run(t, time.Minute, "", testkit.Spindle(t), "--check-config", dir+"/none.conf"); code != 1 ||
		!strings.Contains(out, "can't open config file") {
		t.Errorf("%d %s", code, out)
	}
}
