package acl

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"spindle/engine/acl"
	"spindle/engine/command"
	"spindle/tests/testkit"
)

// TestReplies sends the same requests to both sides, in RESP2 and RESP3, and compares the bytes.
func TestReplies(t *testing.T) {
	p := newPair(t)
	if p.old {
		t.Skip("the reference is older than 7.4 and has other words: REDIS_SERVER may name a newer one")
	}
	for _, version := range []string{"2", "3"} {
		p.ref.Must("HELLO", version)
		p.ours = p.core.Client(int(version[0] - '0'))
		for _, args := range [][]string{
			{"ACL"}, {"ACL", "NOPE"}, {"ACL", "WHOAMI"}, {"ACL", "WHOAMI", "x"}, {"ACL", "CAT"}, {"ACL", "CAT", "nope"},
			{"ACL", "CAT", "a", "b"},
			{"ACL", "USERS"}, {"ACL", "LIST"}, {"ACL", "GETUSER", "default"}, {"ACL", "GETUSER", "nobody"}, {"ACL", "GETUSER"},
			{"ACL", "DELUSER", "default"}, {"ACL", "DELUSER", "nobody", "default"}, {"ACL", "DELUSER", "nobody"},
			{"ACL", "DELUSER"},
			{"ACL", "SETUSER", "a b"}, {"ACL", "SETUSER", "a\x00b"}, {"ACL", "SETUSER"}, {"ACL", "SETUSER", "empty"},
			{"ACL", "GETUSER", "empty"},
			{"ACL", "SETUSER", "alice", "on", ">pw", "~a*", "%R~r*", "&ch", "+@read", "+select|0", "(+set %W~w*)", "(", "&*",
				"allkeys", "+config|get", ")"},
			{"ACL", "GETUSER", "alice"}, {"ACL", "LIST"}, {"ACL", "USERS"},
			{"ACL", "SETUSER", "alice", "+@write", "~x", "nonsense"}, {"ACL", "GETUSER", "alice"},
			{"ACL", "DRYRUN", "nobody", "get", "x"}, {"ACL", "DRYRUN", "alice", "nope"}, {"ACL", "DRYRUN", "alice", "get"},
			{"ACL", "DRYRUN", "alice"},
			{"ACL", "DRYRUN", "alice", "get", "abc"}, {"ACL", "DRYRUN", "alice", "get", "z"},
			{"ACL", "DRYRUN", "alice", "set", "wx", "1"},
			{"ACL", "DRYRUN", "alice", "set", "wx", "1", "get"}, {"ACL", "DRYRUN", "alice", "config", "get", "x"},
			{"ACL", "DRYRUN", "alice", "config", "nope"},
			{"ACL", "DRYRUN", "alice", "select", "0"}, {"ACL", "DRYRUN", "alice", "select", "1"},
			{"ACL", "DRYRUN", "alice", "auth", "x"},
			{"ACL", "DRYRUN", "alice", "mget", "a1", "r1", "z", "a2", "zz"},
			{"ACL", "GENPASS", "0"}, {"ACL", "GENPASS", "4097"}, {"ACL", "GENPASS", "-5"}, {"ACL", "GENPASS", "x"},
			{"ACL", "GENPASS", "1", "2"},
			{"ACL", "LOG"}, {"ACL", "LOG", "x"}, {"ACL", "LOG", "-1"}, {"ACL", "LOG", "5"}, {"ACL", "LOG", "reset"},
			{"ACL", "LOG", "1", "2"},
			{"ACL", "LOAD"}, {"ACL", "SAVE"}, {"ACL", "SAVE", "x"}, {"ACL", "HELP", "x"},
			{"ACL", "DELUSER", "alice", "alice", "empty"}, {"ACL", "USERS"},
		} {
			p.same(args...)
		}
	}
	for bits, digits := range map[string]int{"1": 1, "4": 1, "5": 2, "12": 3, "256": 64, "4096": 1024} {
		ours, theirs := p.both("ACL", "GENPASS", bits)
		if len(ours) != len(theirs) || len(strings.Split(ours, "\r\n")[1]) != digits {
			t.Errorf("GENPASS %s: ours %q, theirs %q", bits, ours, theirs)
		}
	}
}

// TestRulesNameEveryCommand: rules may name each command of redis-server.
func TestRulesNameEveryCommand(t *testing.T) {
	p := newPair(t)
	ours := testkit.Start(t).Dial()
	same := func(args ...any) {
		t.Helper()
		a, _ := ours.Do(args...)
		b, _ := p.ref.Do(args...)
		if a.Err() == nil && b.Err() == nil && p.old {
			return // an older version uses other words
		}
		if a.String() != b.String() || fmt.Sprint(a.Err()) != fmt.Sprint(b.Err()) {
			t.Errorf("%s:\nours   %s %v\ntheirs %s %v", args, a, a.Err(), b, b.Err())
		}
	}
	names := p.ref.Must("COMMAND", "LIST").Strings()
	for _, name := range names {
		for _, sign := range []string{"+", "-"} {
			same("ACL", "SETUSER", "u", "reset", sign+name)
			same("ACL", "GETUSER", "u")
		}
	}
	for _, rules := range []string{
		"-cluster +cluster|info", "+cluster|info -cluster", "+cluster|nope", "-cluster|nope", "+cluster|", "+cluster|info|x",
		"+@all -migrate",
		"+migrate|a +migrate|A", "-migrate|a", "+migrate|", "+migrate|a -migrate", "+CLUSTER|Info",
		"(+cluster|info -readonly)",
	} {
		args := []any{"ACL", "SETUSER", "u", "reset"}
		for _, rule := range strings.Fields(rules) {
			args = append(args, rule)
		}
		same(args...)
		same("ACL", "GETUSER", "u")
	}
	same("ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all", "-migrate", "-cluster|info", "~*", "&*")
	for _, call := range []string{"MIGRATE h 1 k 0 0", "CLUSTER INFO", "CLUSTER MYID", "READONLY", "ASKING", "READWRITE"} {
		args := []any{"ACL", "DRYRUN", "u"}
		for _, word := range strings.Fields(call) {
			args = append(args, word)
		}
		same(args...)
	}
}

// TestRefusals runs a restricted user's calls on redis-server, and compares its errors with those of a Decision.
func TestRefusals(t *testing.T) {
	p := newPair(t)
	if p.old {
		t.Skip("the reference is older than 7.4 and has other words: REDIS_SERVER may name a newer one")
	}
	p.same("ACL", "SETUSER", "bob", "on", ">pw", "~a*", "&a*", "resetchannels", "&a*", "-@all", "+get", "+mget",
		"+publish", "+subscribe", "+psubscribe", "+multi", "+exec", "+set", "+config|get")
	p.ref.Must("ACL", "SETUSER", "bob", "+eval")
	bob := p.server.Dial()
	bob.Must("AUTH", "bob", "pw")
	for _, call := range []string{
		"del x", "get z", "mget a b", "publish b 1", "subscribe a b", "psubscribe a",
		"config set maxmemory 0", "get", "publish a 1", "acl whoami",
	} {
		words := strings.Fields(call)
		args := commandArgs(words)
		row := p.core.Catalogue.Find(args)
		if !row.AcceptsArity(len(args)) {
			continue
		}
		r := p.users.Find([]byte("bob")).Rights()
		decision := p.users.Check(r, row, args, acl.Place{Of: 16})
		v, err := bob.Do(anys(words)...)
		if err != nil {
			t.Fatal(err)
		}
		if refused := v.Err() != nil && strings.HasPrefix(v.Err().Error(), "NOPERM"); refused != decision.Refused() {
			t.Errorf("%s: refused %t, theirs %v", call, decision.Refused(), v)
		} else if refused && decision.Error(r, row).Error() != v.Err().Error() {
			t.Errorf("%s: ours %q, theirs %q", call, decision.Error(r, row), v.Err())
		}
		// Now a script makes the same call.
		if row.Flags&command.NoScript != 0 || row.Channels == command.SubscribesTo {
			continue
		}
		v, err = bob.Do(append([]any{"EVAL", "return redis.call(unpack(ARGV))", 0}, anys(words)...)...)
		if err != nil {
			t.Fatal(err)
		}
		if decision.Refused() && !strings.HasPrefix(v.Err().Error(), decision.ScriptError(r, row).Error()) {
			t.Errorf("%s in a script: ours %q, theirs %q", call, decision.ScriptError(r, row), v.Err())
		}
	}
	// These calls are queued, and refused when EXEC runs them.
	for rule, call := range map[string]string{"-set": "set ax 1", "resetkeys": "get ax", "resetchannels": "publish ax 1"} {
		p.same("ACL", "SETUSER", "bob", "resetkeys", "resetchannels", "~a*", "&a*", "+set", "+exec")
		bob.Must("MULTI")
		words := strings.Fields(call)
		bob.Must(anys(words)...)
		p.same("ACL", "SETUSER", "bob", rule)
		v := bob.Must("EXEC")
		args := commandArgs(words)
		decision := p.users.Check(p.users.Find([]byte("bob")).Rights(), p.core.Catalogue.Find(args), args, acl.Place{Of: 16})
		if !decision.Refused() || v.Elems[0].Err() == nil || v.Elems[0].Err().Error() != decision.ExecError().Error() {
			t.Errorf("%s: ours %q, theirs %v", call, decision.ExecError(), v)
		}
	}
}

// TestAnyKey: both sides let the same users run SORT with patterns, which may read keys that the call does not name.
func TestAnyKey(t *testing.T) {
	p := newPair(t)
	if p.old {
		t.Skip("the reference is older than 7.4 and has other rules: REDIS_SERVER may name a newer one")
	}
	call := []string{"sort", "a1", "by", "w*", "get", "x*"}
	args := commandArgs(call)
	row := p.core.Catalogue.Find(args)
	for rules, want := range map[string]bool{
		"+@all ~*": true, "+@all ~a*": false, "+@all %R~* ~a1": true, "+@all %W~* ~a1": false, "~* (+sort ~a*)": false,
		"+@all ~** ~a1":            false,
		"+@all %R~a1 (+sort %R~*)": true, "+@all %R~a1 (%R~*)": false,
	} {
		p.same(append([]string{"ACL", "SETUSER", "bob", "reset", "on", ">pw"}, strings.Fields(rules)...)...)
		bob := p.server.Dial()
		bob.Must("AUTH", "bob", "pw")
		v, err := bob.Do(anys(call)...)
		if err != nil {
			t.Fatal(err)
		}
		got := p.users.CheckWithAnyKey(p.users.Find([]byte("bob")).Rights(), row, args, acl.Place{Of: 16}, command.KeyAccess)
		if got != want || got != (v.Err() == nil) {
			t.Errorf("%s: ours %t, want %t, theirs %v", rules, got, want, v)
		}
	}
}

func commandArgs(words []string) (args [][]byte) {
	for _, w := range words {
		args = append(args, []byte(w))
	}
	return args
}

func anys(words []string) (args []any) {
	for _, w := range words {
		args = append(args, w)
	}
	return args
}

// TestAuth: both sides accept the same names and passwords.
func TestAuth(t *testing.T) {
	p := newPair(t)
	for user, rules := range map[string]string{
		"off": "off >pw", "on": "on >pw", "two": "on >pw >other", "none": "on", "any": "on nopass", "anyoff": "off nopass",
		"hashed": "on #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4", "empty": "on >", "default": ">pw",
	} {
		p.same(append([]string{"ACL", "SETUSER", user}, strings.Fields(rules)...)...)
	}
	other := p.server.Dial()
	for _, user := range []string{"off", "on", "two", "none", "any", "anyoff", "hashed", "empty", "nobody",
		"", "default"} {
		for _, password := range []string{"pw", "other", "", "x", "p\x00w"} {
			v, err := other.Do("AUTH", user, password)
			if err != nil {
				t.Fatal(err)
			}
			if in := p.users.Authenticate([]byte(user), []byte(password)) != nil; in != (v.Err() == nil) {
				t.Errorf("%q with %q: ours %t, theirs %v", user, password, in, v)
			}
		}
	}
}

// TestFiles gives both sides the same valid and invalid ACL files. It compares the errors, and the users after each
// load.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/users.acl"
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := newPair(t, "--aclfile", file)
	if p.old {
		t.Skip("the reference is older than 7.4 and has other words: REDIS_SERVER may name a newer one")
	}
	p.file = file
	for _, text := range []string{
		"", "\n\n", "user alice on nopass ~* +@all\n", "user alice on nopass ~* +@all\r\n\r\n  user bob off\t\n",
		"user default off ~* &* +@all\n", "user default on >pw ~* &* +@all\nuser a (+get ~x) (+set ~y)\n",
		"user a ( +get ~x ) +set (+del  ~y)\n", "user a +nope\n", "user a +@nope -nope +get\nuser b +set\n", "usr a\n",
		"user\n", "user \n", "User a\n",
		"# comment\n", "user a on\nuser a off\n", "user a nonsense more-nonsense +nope\n",
		"user a ~* ~a\nuser b &* &a\nuser c #12\nuser d <x\n",
		"user a\tb on\n", "user  on\n", "user a  on   +get\n", "user a on",
		"user \"a\" on ~\"x\"\n", "user a +config|get|x +config| +select|1\n",
		"user a allkeys\nxyz\nuser a\n", "user A on\nuser a on\nuser \xff on\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		ours, theirs := p.both("ACL", "LOAD")
		if ours != theirs {
			t.Errorf("%q\n  ours   %q\n  theirs %q", text, ours, theirs)
		}
		p.same("ACL", "LIST")
		if !strings.HasPrefix(ours, "+OK") {
			continue
		}
		// Each side can load a file that the other side has saved.
		if got := p.core.Do(p.ours, "ACL", "SAVE"); got != "+OK\r\n" {
			t.Fatal(got)
		}
		saved, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p.ref.Must("ACL", "LOAD")
		p.ref.Must("ACL", "SAVE")
		if theirs, err := os.ReadFile(file); err != nil || string(theirs) != string(saved) {
			t.Errorf("saved: ours %q, theirs %q, %v", saved, theirs, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.same("ACL", "LOAD")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// TestLog makes both sides refuse the same requests. It compares the order, grouping and numbers of the log's entries.
func TestLog(t *testing.T) {
	p := newPair(t, "--acllog-max-len", "3")
	if p.old {
		t.Skip("the reference is older than 7.4 and has fewer fields: REDIS_SERVER may name a newer one")
	}
	p.log.SetLimit(3)
	p.same("ACL", "SETUSER", "bob", "on", ">pw", "~a*", "-@all", "+get", "+set", "+multi", "+exec")
	p.ref.Must("ACL", "SETUSER", "bob", "+eval")
	bob := p.server.Dial()
	refuse := func(origin acl.Origin, words ...string) {
		if words[0] == "AUTH" {
			if v, err := bob.Do(anys(words)...); err != nil || v.Err() == nil {
				t.Fatalf("%s: %v, %v", words, v, err)
			}
			p.log.Add(acl.Entry{Reason: acl.DeniedAuth, Origin: origin, Object: "AUTH", User: words[1]}, p.core.Now())
			return
		}
		args := commandArgs(words)
		row := p.core.Catalogue.Find(args)
		d := p.users.Check(p.users.Find([]byte("bob")).Rights(), row, args, acl.Place{Of: 16})
		if !d.Refused() {
			t.Fatalf("%s is allowed", words)
		}
		p.log.Add(acl.Entry{Reason: d.Reason, Origin: origin, Object: d.Object(row, args), User: "bob"}, p.core.Now())
		switch origin {
		case acl.TopLevel:
			_, _ = bob.Do(anys(words)...)
		case acl.InLua:
			_, _ = bob.Do(append([]any{"EVAL", "return redis.call(unpack(ARGV))", 0}, anys(words)...)...)
		case acl.InMulti:
			_, _ = bob.Pipeline([]any{"MULTI"}, anys(words), []any{"EXEC"})
		}
	}
	compare := func() {
		t.Helper()
		theirs := p.ref.Must("ACL", "LOG")
		mine := p.log.Newest(10)
		if len(mine) != len(theirs.Elems) {
			t.Fatalf("ours %d, theirs %d", len(mine), len(theirs.Elems))
		}
		for i, e := range mine {
			for field, ours := range map[string]string{
				"count": fmt.Sprint(e.Count), "reason": e.Reason.String(), "context": e.Origin.String(), "object": e.Object,
				"username": e.User,
				"entry-id": fmt.Sprint(e.ID),
			} {
				if v, _ := theirs.Elems[i].Get(field); v.Word() != ours {
					t.Errorf("entry %d, %s: ours %q, theirs %q", i, field, ours, v.Word())
				}
			}
		}
	}
	refuse(acl.TopLevel, "AUTH", "bob", "x")
	refuse(acl.TopLevel, "AUTH", "nobody", "x")
	bob.Must("AUTH", "bob", "pw")
	compare()
	refuse(acl.TopLevel, "get", "z")
	refuse(acl.TopLevel, "set", "z", "1")
	compare()
	refuse(acl.InLua, "get", "z")
	refuse(acl.InMulti, "get", "z")
	refuse(acl.TopLevel, "config", "get", "x")
	compare()
	refuse(acl.InLua, "get", "z")
	refuse(acl.TopLevel, "del", "z")
	refuse(acl.TopLevel, "del", "y")
	compare()
	p.same("ACL", "LOG", "RESET")
	compare()
	refuse(acl.TopLevel, "get", "z")
	compare()
	info := p.server.Info("stats")
	for field, why := range map[string]acl.Reason{
		"acl_access_denied_auth": acl.DeniedAuth, "acl_access_denied_cmd": acl.DeniedCommand,
		"acl_access_denied_key":     acl.DeniedKey,
		"acl_access_denied_channel": acl.DeniedChannel,
	} {
		if got := fmt.Sprint(p.log.Denied(why)); got != info[field] {
			t.Errorf("%s: ours %s, theirs %s", field, got, info[field])
		}
	}
}

// TestLogNamesTheCommand: the client-info of an entry names the command that was refused, not the command before it.
func TestLogNamesTheCommand(t *testing.T) {
	s := testkit.Start(t)
	s.Do("ACL", "SETUSER", "bob", "on", "nopass", "~a*", "+get", "+multi", "+exec")
	bob := s.Dial()
	bob.Must("AUTH", "bob", "")
	for _, refused := range [][]any{{"SET", "a", "1"}, {"CONFIG", "GET", "port"}} {
		bob.Must("GET", "a")
		_, _ = bob.Do(refused...)
		e := s.Do("ACL", "LOG", "1").Elems[0]
		object, _ := e.Get("object")
		client, _ := e.Get("client-info")
		if !strings.Contains(client.Word(), " cmd="+object.Word()+" ") {
			t.Errorf("%v: object %s, client-info %s", refused, object, client)
		}
	}
	bob.Must("GET", "a")
	if list := s.Do("CLIENT", "LIST").Word(); !strings.Contains(list, " cmd=get user=bob") {
		t.Errorf("after a GET: %s", list)
	}
}
