package engine

import (
	"fmt"
	"strings"
	"testing"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
)

// setUser runs ACL SETUSER.
func (h *testCore) setUser(name string, rules ...string) *acl.User {
	h.t.Helper()
	var words [][]byte
	for _, r := range rules {
		words = append(words, []byte(r))
	}
	var change acl.Change
	var err error
	h.Do(func() { change, err = h.users.Set([]byte(name), words) })
	if err != nil {
		h.t.Fatal(err)
	}
	return change.User
}

// denials collects the calls of Hooks.Denied, one line each.
func (h *testCore) denials() func() string {
	var all []string
	h.hooks.Denied = func(cl *client.Client, e acl.Entry) {
		all = append(all, fmt.Sprintf("client %d: %s %s %s %s", cl.ID, e.Reason, e.Origin, e.User, e.Object))
	}
	return func() string {
		text := strings.Join(all, "\n")
		all = nil
		return text
	}
}

// TestRestricted: each command of a client with limited rights is checked. A change of rights takes effect at once.
func TestRestricted(t *testing.T) {
	h := newTestCore(t)
	denied := h.denials()
	cl, _ := h.arrive()
	h.setUser("bob", "on", ">pw", "~a*", "+get", "+set", "+multi", "+exec")
	h.expect("in order", h.do(cl, "AUTH bob nope", "AUTH bob pw", "SET ab 1", "GET ab", "GET b", "DEL ab", "CLIENT ID",
		"MULTI", "GET b", "EXEC"),
		"-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n+OK\r\n$1\r\n1\r\n"+
			"-NOPERM No permissions to access a key\r\n"+
			"-NOPERM User bob has no permissions to run the 'del' command\r\n"+
			"-NOPERM User bob has no permissions to run the 'client|id' command\r\n+OK\r\n"+
			"-NOPERM No permissions to access a key\r\n-EXECABORT Transaction discarded because of previous errors.\r\n")
	h.expect("told", denied(),
		"client 1: auth toplevel bob AUTH\nclient 1: key toplevel bob b\nclient 1: command toplevel bob del\n"+
			"client 1: command toplevel bob client|id\nclient 1: key multi bob b")
	if !cl.Is(client.Restricted) {
		t.Error("engine.U1: not restricted")
	}
	h.setUser("bob", "+@all", "allkeys", "allchannels")
	if cl.Is(client.Restricted) {
		t.Error("engine.U1: restricted, with all rights")
	}
	h.setUser("bob", "-del")
	if !cl.Is(client.Restricted) {
		t.Error("engine.U1: not restricted, without DEL")
	}
	h.expect("DEL", h.do(cl, "DEL ab"), "-NOPERM User bob has no permissions to run the 'del' command\r\n")
	h.expect("RESET", h.do(cl, "RESET", "DEL ab"), "+RESET\r\n:1\r\n")
	if cl.Is(client.Restricted) || cl.UserName() != "default" {
		t.Errorf("after RESET: %s", cl.UserName())
	}
}

// TestRestrictedDefault: a client that has not authenticated has the default user's rights, if that user needs no
// password.
func TestRestrictedDefault(t *testing.T) {
	h := newTestCore(t)
	early, _ := h.arrive()
	h.setUser("default", "-get")
	late, _ := h.arrive()
	refused := "-NOPERM User default has no permissions to run the 'get' command\r\n"
	h.expect("early", h.do(early, "GET k"), refused)
	h.expect("late", h.do(late, "GET k"), refused)
	h.setUser("default", "off")
	stranger, _ := h.arrive()
	h.expect("off", h.do(stranger, "GET k", "AUTH default x"), "-NOAUTH Authentication required.\r\n"+
		"-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	h.expect("off, but in", h.do(early, "SET k v"), "+OK\r\n")
	h.setUser("default", "on")
	h.expect("on again", h.do(stranger, "GET k", "SET k v"), refused+"+OK\r\n")
}

// TestRightsInExec: the rights for queued commands are checked again when the commands run.
func TestRightsInExec(t *testing.T) {
	h := newTestCore(t)
	denied := h.denials()
	cl, _ := h.arrive()
	h.setUser("bob", "on", "nopass", "~*", "+@all")
	h.do(cl, "AUTH bob x", "MULTI", "SET a 1", "GET a", "SET b 2", "PING")
	h.setUser("bob", "-get", "resetkeys", "~b*")
	const changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. " +
		"This command is no longer allowed for the following reason: "
	h.expect("EXEC", h.do(cl, "EXEC"), "*4\r\n"+changed+"no permission to touch the specified keys\r\n"+
		changed+"no permission to execute the command or subcommand\r\n+OK\r\n+PONG\r\n")
	h.expect("told", denied(), "client 1: key multi bob a\nclient 1: command multi bob get")
	if n := h.catalogue.Lookup([]byte("get")).Stats.Calls; n != 0 {
		t.Errorf("%d GETs ran", n)
	}
}

// TestRightsOfTheParked: a blocked client's rights are checked again when it could be served. A refusal ends its wait.
func TestRightsOfTheParked(t *testing.T) {
	h := newTestCore(t)
	denied := h.denials()
	waiter, conn := h.arrive()
	other, _ := h.arrive()
	h.setUser("bob", "on", "nopass", "~*", "+@all", "-never")
	h.do(waiter, "AUTH bob x", "PARK k")
	h.do(other, "SIGNAL other")
	h.setUser("bob", "resetkeys")
	h.do(other, "SIGNAL k")
	h.expect("posted", conn.take(), "post -NOPERM No permissions to access a key\r\n; resume")
	h.expect("told", denied(), "client 1: key toplevel bob k")
	h.expect("not taken", h.do(other, "DEL k"), ":1\r\n")
	row := h.catalogue.Lookup([]byte("park"))
	if row.Stats.Calls != 0 || row.Stats.Rejected != 1 || row.Stats.Failed != 0 || waiter.Is(client.Blocked) {
		t.Errorf("%+v", row.Stats)
	}
	h.expect("goes on", h.do(waiter, "PING"), "+PONG\r\n")
}

// TestExpelUser: a deleted user's clients are closed. If a transaction deletes its own user, the rest of it runs as the
// default user.
func TestExpelUser(t *testing.T) {
	var h *testCore
	h = newTestCore(t, command.Spec{Name: "deluser", Arity: 2, Run: func(c *command.Context) error {
		h.ExpelUser(h.users.Delete(c.Args[1]), c.Client)
		c.Reply.OK()
		return nil
	}})
	h.setUser("bob", "on", "nopass", "~*", "+@all", "-never")
	a, connA := h.arrive()
	b, connB := h.arrive()
	stays, connC := h.arrive()
	h.do(a, "AUTH bob x", "MULTI", "DELUSER bob", "SET k v")
	h.do(b, "AUTH bob x")
	h.do(stays, "PING")
	connA.take()
	connB.take()
	connC.take()
	h.expect("EXEC", h.do(a, "EXEC"), "*2\r\n+OK\r\n")
	h.expect("its own", connA.take(), "close after output")
	h.expect("another", connB.take(), "close")
	h.expect("of another user", connC.take(), "")
	h.expect("what was left", h.do(stays, "GET k"), "$1\r\nv\r\n")
	h.Do(func() {
		if h.clients.Get(b.ID) != nil || b.UserName() != "default" {
			t.Errorf("still there, as %s", b.UserName())
		}
	})
}

// TestRightsOfScripts: a script may do what its caller may do, and its refusals name the caller.
func TestRightsOfScripts(t *testing.T) {
	var h *testCore
	fake := &client.Client{Flags: client.Fake | client.InScript | client.DenyBlocking, Authenticated: true, Protocol: 2}
	h = newTestCore(t, command.Spec{Name: "script", Arity: -2, Run: func(c *command.Context) error {
		fake.User, fake.Script, fake.Out = c.Client.User, &client.Script{}, c.Reply
		return h.Core.Run(fake, c.Args[1:])
	}})
	denied := h.denials()
	h.setUser("bob", "on", "nopass", "~a*", "+get", "+script")
	cl, _ := h.arrive()
	h.expect("in order", h.do(cl, "SCRIPT SET b 1", "AUTH bob x", "SCRIPT GET a", "SCRIPT GET b", "SCRIPT SET a 1"),
		"+OK\r\n+OK\r\n$-1\r\n-ERR ACL failure in script: No permissions to access a key\r\n"+
			"-ERR ACL failure in script: User bob has no permissions to run the 'set' command\r\n")
	h.expect("told", denied(), "client 1: key lua bob b\nclient 1: command lua bob set")
}
