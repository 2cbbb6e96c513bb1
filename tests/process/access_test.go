package process

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// launchWith starts a server with a configuration file of these lines, so that CONFIG REWRITE has a file.
func launchWith(t *testing.T, lines string) (s *testkit.Server, conf string) {
	t.Helper()
	dir, port := t.TempDir(), testkit.FreePort(t)
	conf = dir + "/a.conf"
	text := "port " + strconv.Itoa(port) + "\nbind 127.0.0.1\nsave \"\"\n" + lines
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return testkit.Launch(t, testkit.Spec{Bare: true, Dir: dir, Port: port, Args: []string{conf}}), conf
}

// says fails the test unless the reply to args is want, or an error that begins with want.
func says(t *testing.T, c *respclient.Client, want string, args ...any) {
	t.Helper()
	v, err := c.Do(args...)
	if err != nil || !strings.HasPrefix(v.Text, want) {
		t.Errorf("%v: %q, %v; want %q", args, v.Text, err, want)
	}
}

// TestUsersOfTheConfiguration: user lines create users. CONFIG REWRITE writes their current rules, and the next start
// reads them.
func TestUsersOfTheConfiguration(t *testing.T) {
	t.Parallel()
	s, conf := launchWith(t,
		"user alice on >pw ~app:* resetchannels -@all +get +set\nuser gone on nopass\nuser bad nopass\n")
	if !strings.Contains(s.Log(), "The user 'bad' is disabled") {
		t.Error("nothing of the disabled user in the log")
	}
	alice := s.Dial()
	says(t, alice, "OK", "AUTH", "alice", "pw")
	says(t, alice, "OK", "SET", "app:1", "v")
	says(t, alice, "NOPERM No permissions to access a key", "SET", "other", "v")
	s.Do("ACL", "DELUSER", "gone")
	s.Do("ACL", "SETUSER", "bob", "on", "nopass", "+ping")
	s.Do("CONFIG", "SET", "acllog-max-len", "7")
	s.Do("CONFIG", "REWRITE")
	written, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nuser alice on sanitize-payload #", "\nuser bob on nopass",
		"\nuser default on nopass", "\nacllog-max-len 7"} {
		if !strings.Contains(string(written), want) {
			t.Errorf("no %q in %s", want, written)
		}
	}
	if strings.Contains(string(written), "user gone") || strings.Contains(string(written), ">pw") {
		t.Errorf("still there: %s", written)
	}
	before := s.Do("ACL", "LIST").Strings()
	s.Terminate()
	s.Restart()
	if after := s.Do("ACL", "LIST").Strings(); strings.Join(after, "\n") != strings.Join(before, "\n") || len(after) != 4 {
		t.Errorf("before %q, after %q", before, after)
	}
}

// TestFilesKeepTheirMode: CONFIG REWRITE and ACL SAVE keep the file's mode.
func TestFilesKeepTheirMode(t *testing.T) {
	users := t.TempDir() + "/users.acl"
	if err := os.WriteFile(users, []byte("user default on nopass ~* &* +@all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, conf := launchWith(t, "aclfile "+users+"\n")
	if err := os.Chmod(conf, 0o640); err != nil {
		t.Fatal(err)
	}
	group := 12345
	if os.Geteuid() == 0 {
		if err := os.Chown(conf, -1, group); err != nil {
			t.Fatal(err)
		}
	} else {
		group = os.Getegid()
	}
	s.Do("CONFIG", "SET", "acllog-max-len", "7")
	s.Do("ACL", "SETUSER", "bob", "on", ">pw", "+ping")
	for _, c := range []struct {
		command []any
		file    string
		mode    os.FileMode
		text    string
	}{{[]any{"CONFIG", "REWRITE"}, conf, 0o640, "acllog-max-len 7"}, {[]any{"ACL", "SAVE"}, users, 0o600, "user bob"}} {
		if got := s.Do(c.command...).Text; got != "OK" {
			t.Fatalf("%v: %s", c.command, got)
		}
		info, err := os.Stat(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(c.file); info.Mode() != c.mode || !strings.Contains(string(text), c.text) {
			t.Errorf("%v: mode %v, want %v; %s", c.command, info.Mode(), c.mode, text)
		}
		if owner := info.Sys().(*syscall.Stat_t); c.file == conf && int(owner.Gid) != group {
			t.Errorf("%v: group %d", c.command, owner.Gid)
		}
	}
}

// TestNoLinesFromClients: no text from a client or replica can begin a line of the configuration file or of INFO. No
// such text can leave a line that cannot be read again.
func TestNoLinesFromClients(t *testing.T) {
	s, conf := launchWith(t, "")
	c := s.Dial()
	for _, host := range []string{"127.0.0.1 1\nenable-debug-command yes\n#", "a b", "a\rb", "a\tb", "\n",
		`"abc`, `'abc`, `a"b`} {
		says(t, c, "ERR Invalid master host", "REPLICAOF", host, "1")
		says(t, c, "ERR REPLCONF ip-address provided by replica instance is invalid", "REPLCONF", "ip-address", host)
	}
	for _, name := range []string{"bind-source-addr", "replica-announce-ip", "masteruser", "masterauth", "requirepass"} {
		says(t, c, "OK", "CONFIG", "SET", name, "a\nenable-debug-command yes\n#")
	}
	says(t, c, "OK", "CONFIG", "REWRITE")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\nenable-debug-command") {
		t.Errorf("a line of a client's: %s", text)
	}
	for line := range strings.Lines(c.Must("INFO", "everything").Text) {
		if strings.HasPrefix(line, "enable-debug") {
			t.Errorf("a line of a client's in INFO: %s", line)
		}
	}
}

// TestScriptStatsIsForAdministrators: a user that may run scripts does not see the scripts of others.
func TestScriptStatsIsForAdministrators(t *testing.T) {
	s := testkit.Start(t)
	s.Do("EVAL", "return 1", "0")
	s.Do("ACL", "SETUSER", "u", "reset", "on", ">x", "+@scripting")
	s.Do("ACL", "SETUSER", "admin", "reset", "on", ">x", "+@admin")
	c := s.Dial()
	c.Must("AUTH", "u", "x")
	says(t, c, "NOPERM User u has no permissions to run the 'script|stats' command", "SCRIPT", "STATS")
	c.Must("AUTH", "admin", "x")
	if got := c.Must("SCRIPT", "STATS"); len(got.Elems) != 1 {
		t.Errorf("to an administrator: %v", got)
	}
}

// TestUsersOfAFile: the ACL file is read at start and by ACL LOAD. ACL LOAD closes the clients of deleted users.
func TestUsersOfAFile(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/users.acl"
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("user alice on nopass ~* +@all -flushall\nuser bob on nopass ~* +@all\n")
	s, conf := launchWith(t, "aclfile "+file+"\nrequirepass unused\n")
	alice, bob := s.Dial(), s.Dial()
	says(t, alice, "OK", "AUTH", "alice", "x") // the file does not name the default user, which gets its defaults
	says(t, bob, "OK", "AUTH", "bob", "x")
	write("user alice on nopass ~* +@all -flushall -get\n")
	s.Do("ACL", "LOAD")
	says(t, alice, "NOPERM User alice has no permissions to run the 'get' command", "GET", "k")
	if v, err := bob.Do("PING"); err == nil {
		t.Errorf("a deleted user hears %q", v.Text)
	}
	s.Do("CONFIG", "REWRITE")
	if written, _ := os.ReadFile(conf); strings.Contains(string(written), "\nuser ") {
		t.Errorf("users in %s", written)
	}
	s.Do("ACL", "SETUSER", "carol", "on")
	s.Do("ACL", "SAVE")
	if saved, _ := os.ReadFile(file); !strings.Contains(string(saved), "user carol on") ||
		!strings.Contains(string(saved), "user default on nopass") {
		t.Errorf("saved %s", saved)
	}
}

// TestUsersRefused: a server whose configured users have an error does not start. It logs the line or the reason.
func TestUsersRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/bad.acl", []byte("user a on\nuser a on\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ lines, want string }{
		{"user a on\nuser b on ~a %zz\nhz 10\n", "at line 5\n>>> 'user b on ~a %zz'\nError in user declaration '%zz': "},
		{"user a on\nuser a on\n", "at line 5\n>>> 'user a on'\nError in user declaration 'a': Duplicate user found."},
		{"user a on +nosuch\n", "Error loading ACL rule '+nosuch' for the user named 'a'"},
		{"aclfile " + dir + "/none.acl\n", "Aborting Redis startup because of ACL errors: Error loading ACLs, opening file"},
		{"aclfile " + dir + "/bad.acl\n",
			"Aborting Redis startup because of ACL errors: WARNING: Duplicate user 'a' found on line 2"},
		{"aclfile " + dir + "/bad.acl\nuser a on\n",
			"Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is invalid."},
	} {
		conf := dir + "/a.conf"
		text := "port " + strconv.Itoa(testkit.FreePort(t)) + "\nbind 127.0.0.1\nsave \"\"\n" + c.lines
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s := testkit.Launch(t, testkit.Spec{NoWait: true, Bare: true, Dir: dir, Args: []string{conf}})
		if code := s.Wait(20 * time.Second); code != 1 || !strings.Contains(s.Log(), c.want) {
			t.Errorf("%q: code %d, log %s", c.lines, code, s.Log())
		}
	}
}

// TestRequirePass: requirepass is the default user's password. ACL SETUSER on that user does not change the
// setting.
func TestRequirePass(t *testing.T) {
	s := testkit.Start(t)
	c := s.Dial()
	says(t, c, "ERR AUTH <password> called without any password configured", "AUTH", "x")
	says(t, c, "OK", "CONFIG", "SET", "requirepass", "one")
	says(t, s.Dial(), "NOAUTH", "PING")
	says(t, c, "PONG", "PING")
	says(t, c, "OK", "ACL", "SETUSER", "default", ">two")
	for _, password := range []string{"one", "two"} {
		says(t, s.Dial(), "OK", "AUTH", password)
	}
	says(t, s.Dial(), "WRONGPASS", "AUTH", "three")
	says(t, c, "OK", "ACL", "SETUSER", "default", "nopass")
	says(t, s.Dial(), "PONG", "PING")
	if v, _ := c.Do("CONFIG", "GET", "requirepass"); strings.Join(v.Strings(), " ") != "requirepass one" {
		t.Errorf("%v", v)
	}
	says(t, c, "OK", "CONFIG", "SET", "requirepass", "")
	says(t, s.Dial(), "PONG", "PING")
}

// TestRefusalsAreLogged: ACL LOG shows the user, the object and the context of each refusal, and INFO counts the
// refusals. CONFIG RESETSTAT resets the counts.
func TestRefusalsAreLogged(t *testing.T) {
	s := testkit.Start(t)
	c := s.Dial()
	s.Do("ACL", "SETUSER", "bob", "on", ">pw", "~a*", "+get", "+sort", "+multi", "+exec", "+client|setname", "&none")
	says(t, c, "WRONGPASS", "AUTH", "bob", "wrong")
	says(t, c, "OK", "AUTH", "bob", "pw")
	says(t, c, "OK", "CLIENT", "SETNAME", "me")
	says(t, c, "NOPERM", "GET", "b")
	says(t, c, "NOPERM", "SET", "a", "1")
	says(t, c, "ERR BY option of SORT denied due to insufficient ACL permissions.", "SORT", "a", "BY", "w_*")
	says(t, c, "ERR GET option of SORT denied due to insufficient ACL permissions.", "SORT", "a", "GET", "#")
	says(t, c, "OK", "MULTI")
	says(t, c, "NOPERM", "SET", "a", "1")
	for field, want := range map[string]int64{"auth": 1, "cmd": 2, "key": 1, "channel": 0} {
		if n := s.InfoInt("stats", "acl_access_denied_"+field); n != want {
			t.Errorf("%s: %d, want %d", field, n, want)
		}
	}
	var all []string
	for _, entry := range s.Do("ACL", "LOG").Elems {
		field := map[string]string{}
		for i := 0; i+1 < len(entry.Elems); i += 2 {
			field[entry.Elems[i].Text] = entry.Elems[i+1].Word()
		}
		all = append(all, field["reason"]+" "+field["context"]+" "+field["object"]+" "+field["username"])
		if !strings.HasPrefix(field["client-info"], "id=") ||
			field["reason"] != "auth" && !strings.Contains(field["client-info"], "name=me ") {
			t.Errorf("client %q", field["client-info"])
		}
	}
	if got, want := strings.Join(all,
		", "), "command multi set bob, command toplevel set bob, key toplevel b bob, auth toplevel AUTH bob"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.Do("CONFIG", "RESETSTAT")
	if n := s.InfoInt("stats", "acl_access_denied_cmd"); n != 0 {
		t.Errorf("%d after RESETSTAT", n)
	}
}

// TestDeletedUser: a deleted user's clients are closed on every loop. If the client that deletes the user is one of
// them, it is closed after its reply.
func TestDeletedUser(t *testing.T) {
	s := testkit.Start(t, "--io-threads", "2")
	s.Do("ACL", "SETUSER", "bob", "on", "nopass", "~*", "+@all")
	clients := make([]*respclient.Client, 8)
	for i := range clients {
		clients[i] = s.Dial()
		says(t, clients[i], "OK", "AUTH", "bob", "x")
	}
	says(t, clients[0], "", "ACL", "DELUSER", "bob")
	for i, c := range clients {
		if v, err := c.Do("PING"); err == nil {
			t.Errorf("client %d hears %q", i, v.Text)
		}
	}
	if line := s.Do("CLIENT", "LIST").Text; strings.Contains(line, "user=bob") {
		t.Error(line)
	}
}
