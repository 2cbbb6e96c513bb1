package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestClient: CLIENT works on the clients of the proxy, with the replies of one server.
func TestClient(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 2)
	for name, test := range map[string]func(t *testing.T, p *testkit.Server){
		"errors are those of one server":       sameErrors,
		"LIST and KILL filter":                 filterClients,
		"LIST has the fields of one server":    sameFields,
		"UNBLOCK ends a wait":                  unblock,
		"PAUSE holds clients, UNPAUSE ends it": pause,
	} {
		t.Run(name, func(t *testing.T) { test(t, all.proxies[1]) })
	}
}

func sameErrors(t *testing.T, p *testkit.Server) {
	one, c := testkit.Start(t).Dial(), p.Dial()
	for _, request := range []string{
		"kill", "kill nobody:1", "kill id", "kill id x", "kill id 0", "kill id 1 type", "kill type odd", "kill maxage x",
		"kill maxage 0", "kill skipme maybe", "kill odd 1", "kill id 1 addr", "list type odd", "list type", "list id",
		"list id x", "list odd 1", "list type normal more", "pause", "pause x", "pause -1", "pause 1 odd",
		"pause 1 write more", "unpause more", "pause 9223372036854775807", "unblock", "unblock x", "unblock 1 odd",
		"unblock 1 error more", "unblock 99999", "unblock 99999 timeout", "odd", "help more", "setinfo odd x",
		"setinfo lib-name", "no-evict odd", "no-touch odd", "kill id 9999",
		"kill id 9999 type pubsub skipme no maxage 99999", "kill type master", "kill type replica", "list type master",
		"list id 9999",
	} {
		args := []any{"CLIENT"}
		for word := range strings.FieldsSeq(request) {
			args = append(args, word)
		}
		if got, want := ask(t, c, args...), ask(t, one, args...); got.Kind != want.Kind || show(got) != show(want) {
			t.Errorf("CLIENT %s: %s; one server says %s", request, show(got), show(want))
		}
	}
	expect(t, c, "ERR lib-name cannot contain spaces, newlines or special characters.", "CLIENT", "SETINFO", "lib-name",
		"a b")
	if v := ask(t, c, "CLIENT", "HELP"); len(v.Elems) < 20 || v.Elems[0].Text !=
		"CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:" {
		t.Errorf("CLIENT HELP: %v", v)
	}
}

// idOf returns a client's ID.
func idOf(t *testing.T, c *respclient.Client) int64 {
	t.Helper()
	return ask(t, c, "CLIENT", "ID").Int
}

func sameFields(t *testing.T, p *testkit.Server) {
	names := func(c *respclient.Client) (names []string) {
		expect(t, c, "OK", "CLIENT", "SETINFO", "LIB-NAME", "mine")
		for field := range strings.FieldsSeq(ask(t, c, "CLIENT", "INFO").Text) {
			name, value, _ := strings.Cut(field, "=")
			if names = append(names, name); name == "lib-name" && value != "mine" || name == "cmd" && value != "client|info" {
				t.Errorf("the field %s", field)
			}
		}
		return names
	}
	if got, want := names(p.Dial()), append(names(testkit.Start(t).Dial()), "owed"); !slices.Equal(got, want) {
		t.Errorf("CLIENT INFO has %v; want %v", got, want)
	}
	c := p.Dial()
	c.Must("HELLO", 3)
	if v := ask(t, c, "CLIENT", "LIST"); v.Kind != '=' {
		t.Errorf("CLIENT LIST is of the type %q", v.Kind)
	}
}

func filterClients(t *testing.T, p *testkit.Server) {
	var clients []*respclient.Client
	var ids []int64
	for i := range 4 {
		c := p.Dial()
		ids = append(ids, idOf(t, c))
		expect(t, c, "OK", "CLIENT", "SETNAME", fmt.Sprint("filtered", i))
		clients = append(clients, c)
	}
	expect(t, clients[3], "[subscribe news 1]", "SUBSCRIBE", "news")
	c := clients[0]
	listed := func(args ...any) (names []string) {
		for line := range strings.Lines(ask(t, c, append([]any{"CLIENT", "LIST"}, args...)...).Text) {
			if _, rest, is := strings.Cut(line, " name=filtered"); is {
				names = append(names, rest[:1])
			}
		}
		return names
	}
	same := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s lists %v; want %v", what, got, want)
		}
	}
	same("all", listed(), "0", "1", "2", "3")
	same("the type normal", listed("TYPE", "normal"), "0", "1", "2")
	same("the type pubsub", listed("TYPE", "PubSub"), "3")
	same("two IDs", listed("ID", ids[2], ids[1]), "2", "1")
	last := p.Dial()
	expect(t, last, "1", "CLIENT", "KILL", "ID", last.Must("CLIENT", "ID").Int, "SKIPME", "no")
	if v, err := last.Do("PING"); err == nil {
		t.Errorf("a client has ended itself, and reads %v", v)
	}
	expect(t, c, "0", "CLIENT", "KILL", "ID", ids[1], "TYPE", "pubsub")
	expect(t, c, "0", "CLIENT", "KILL", "ID", ids[1], "MAXAGE", 10_000)
	expect(t, c, "0", "CLIENT", "KILL", "ID", ids[0])
	expect(t, c, "0", "CLIENT", "KILL", "ID", ids[1], "USER", "other")
	expect(t, c, "1", "CLIENT", "KILL", "ID", ids[1], "TYPE", "normal", "USER", "default")
	if _, err := clients[1].Do("PING"); err == nil {
		t.Error("a killed client is served")
	}
	expect(t, c, "1", "CLIENT", "KILL", "TYPE", "pubsub")
	testkit.Until(t, testkit.Slowly(10*time.Second), "the killed clients are gone", func() error {
		return testkit.Equal(strings.Join(listed(), " "), "0 2")
	})
}

func unblock(t *testing.T, p *testkit.Server) {
	c := p.Dial()
	for _, request := range [][]any{{"BLPOP", "empty", 0}, {"BRPOP", "other", 0}, {"XREAD", "BLOCK", 0, "STREAMS",
		"stream", "$"}} {
		for _, how := range []string{"", "TIMEOUT", "ERROR"} {
			blocked := p.Dial()
			id := idOf(t, blocked)
			expect(t, c, "0", "CLIENT", "UNBLOCK", id)
			send(t, blocked, request...)
			args, want := []any{"CLIENT", "UNBLOCK", id}, "null"
			if how != "" {
				args = append(args, how)
			}
			if how == "ERROR" {
				want = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
			}
			testkit.Until(t, testkit.Slowly(10*time.Second), "the client is unblocked", func() error {
				return testkit.Equal(ask(t, c, args...).Int, 1)
			})
			hears(t, blocked, want)
			expect(t, blocked, "PONG", "PING")
		}
	}
	for how, want := range map[string]string{"TIMEOUT": "0", "ERROR": "UNBLOCKED client unblocked via CLIENT UNBLOCK"} {
		blocked := p.Dial()
		id := idOf(t, blocked)
		expect(t, blocked, "OK", "SET", "waits", "x")
		send(t, blocked, "WAIT", 1, 0)
		testkit.Until(t, testkit.Slowly(10*time.Second), "the client is unblocked", func() error {
			return testkit.Equal(ask(t, c, "CLIENT", "UNBLOCK", id, how).Int, 1)
		})
		hears(t, blocked, want)
		expect(t, blocked, "x", "GET", "waits")
	}
}

func pause(t *testing.T, p *testkit.Server) {
	c, reader, writer, tx := p.Dial(), p.Dial(), p.Dial(), p.Dial()
	expect(t, tx, "OK", "MULTI")
	expect(t, tx, "QUEUED", "SET", "paused", "tx")
	expect(t, c, "OK", "CLIENT", "PAUSE", 60_000, "WRITE")
	expect(t, reader, "null", "GET", "paused")
	send(t, writer, "SET", "paused", "x")
	send(t, tx, "EXEC")
	for range 20 {
		expect(t, reader, "null", "GET", "paused")
	}
	expect(t, c, "OK", "CLIENT", "UNPAUSE")
	hears(t, writer, "OK")
	hears(t, tx, "[OK]")
	begun := time.Now()
	expect(t, c, "OK", "CLIENT", "PAUSE", 300)
	expect(t, reader, "PONG", "PING")
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("PING was answered after %v of a pause of 300 ms", took)
	}
}
