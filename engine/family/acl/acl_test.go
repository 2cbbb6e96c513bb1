package acl

import (
	"strings"
	"testing"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/tests/testkit/commandtest"
)

// A server is a core with the family. It records what the family calls of the rest of the server.
type server struct {
	*commandtest.Core
	users  acl.Users
	log    acl.Log
	file   string
	closed []string // "kill NAME", "subscribers NAME"
	warned []string
	client *client.Client
}

func newServer(t *testing.T) *server {
	h := &server{}
	h.Core = commandtest.Start(t, Family(Deps{
		Users: &h.users, Log: func() *acl.Log { return &h.log }, Catalogue: func() *command.Catalogue { return h.Catalogue },
		File:            func() string { return h.file },
		Kill:            func(_ *command.Context, u *acl.User) { h.closed = append(h.closed, "kill "+u.Name()) },
		KillSubscribers: func(_ *command.Context, u *acl.User) { h.closed = append(h.closed, "subscribers "+u.Name()) },
		Warn:            func(text string) { h.warned = append(h.warned, text) },
	}))
	h.users.Begin(h.Catalogue)
	h.log.SetLimit(16)
	h.client = h.Client(2)
	return h
}

// do sends a line of words and fails unless the reply begins with want.
func (h *server) do(t *testing.T, line, want string) string {
	t.Helper()
	got := h.Do(h.client, strings.Fields(line)...)
	if !strings.HasPrefix(got, want) {
		t.Errorf("%s: %q, want %q", line, got, want)
	}
	return got
}

func TestClosedClients(t *testing.T) {
	h := newServer(t)
	h.do(t, "ACL SETUSER a on &*", "+OK")
	h.do(t, "ACL SETUSER a +@all ~*", "+OK")
	if len(h.closed) != 0 {
		t.Errorf("closed %v", h.closed)
	}
	h.do(t, "ACL SETUSER a resetchannels &x", "+OK")
	h.do(t, "ACL SETUSER a &y", "+OK")
	h.do(t, "ACL SETUSER b", "+OK")
	h.do(t, "ACL DELUSER a default", "-ERR The 'default' user")
	h.do(t, "ACL DELUSER b nobody a b", ":2")
	if got := strings.Join(h.closed, ", "); got != "subscribers a, kill b, kill a" {
		t.Errorf("closed %s", got)
	}
}

func TestLoadClosesClients(t *testing.T) {
	h := newServer(t)
	h.do(t, "ACL LOAD", "-ERR This Redis instance is not configured")
	h.do(t, "ACL SAVE", "-ERR This Redis instance is not configured")
	h.file = t.TempDir() + "/users.acl"
	h.do(t, "ACL LOAD", "-ERR Error loading ACLs, opening file '"+h.file+"': No such file or directory")
	h.do(t, "ACL SETUSER kept on &a", "+OK")
	h.do(t, "ACL SAVE", "+OK")
	h.do(t, "ACL SETUSER gone on", "+OK")
	h.do(t, "ACL SETUSER kept &b", "+OK")
	h.do(t, "ACL LOAD", "+OK")
	if got := strings.Join(h.closed, ", "); got != "kill gone, subscribers kept" {
		t.Errorf("closed %s", got)
	}
	h.file = t.TempDir() + "/no/folder"
	h.do(t, "ACL SAVE", "-ERR There was an error trying to save the ACLs. Please check the server logs for more "+
		"information")
	if len(h.warned) != 1 || h.warned[0] != "Opening temp ACL file for ACL SAVE: No such file or directory" {
		t.Errorf("warned %q", h.warned)
	}
}

// TestSecretsAreHidden checks the arguments that MONITOR and the slow log see of a call after it has run.
func TestSecretsAreHidden(t *testing.T) {
	h := newServer(t)
	for _, line := range []string{"ACL SETUSER a >secret", "ACL SETUSER a >secret nonsense", "ACL GETUSER secret",
		"ACL DELUSER secret"} {
		args := commandtest.Words(line)
		h.client.Out.Reset()
		h.Serve(h.client, args)
		for _, arg := range args[2:] {
			if string(arg) != "(redacted)" {
				t.Errorf("%s: %q", line, args)
			}
		}
	}
}

// TestLogReply checks the reply's form. A transcript compares its fields with Redis's.
func TestLogReply(t *testing.T) {
	h := newServer(t)
	h.log.Add(acl.Entry{Reason: acl.DeniedKey, Origin: acl.InMulti, Object: "k", User: "u", Client: "id=1"}, h.Now())
	h.SetNow(h.Now() + 1500)
	const pairs = "$5\r\ncount\r\n:1\r\n$6\r\nreason\r\n$3\r\nkey\r\n$7\r\ncontext\r\n$5\r\nmulti\r\n$6\r\nobject\r\n$1\r\nk\r\n$8\r\nusername\r\n$1\r\nu\r\n" +
		"$11\r\nage-seconds\r\nAGE\r\n$11\r\nclient-info\r\n$4\r\nid=1\r\n$8\r\nentry-id\r\n:0\r\n" +
		"$17\r\ntimestamp-created\r\n:1700000000000\r\n$22\r\ntimestamp-last-updated\r\n:1700000000000\r\n"
	h.do(t, "ACL LOG", "*1\r\n*20\r\n"+strings.Replace(pairs, "AGE", "$3\r\n1.5", 1))
	three := h.Client(3)
	if got, want := h.Do(three, "ACL", "LOG", "5"), "*1\r\n%10\r\n"+strings.Replace(pairs, "AGE", ",1.5", 1); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	h.do(t, "ACL LOG 0", "*0\r\n")
	h.do(t, "ACL LOG -3", "*0\r\n")
	h.do(t, "ACL LOG reset", "+OK")
	h.do(t, "ACL LOG", "*0\r\n")
}

func TestGenPassIsRandom(t *testing.T) {
	h := newServer(t)
	first := h.do(t, "ACL GENPASS", "$64\r\n")
	if second := h.do(t, "ACL GENPASS", "$64\r\n"); first == second {
		t.Errorf("twice %q", first)
	}
}
