package sentinel

import (
	"slices"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// TestReplies: a Sentinel's replies to valid and invalid calls have the texts of 7.4.1.
func TestReplies(t *testing.T) {
	t.Parallel()
	s := sentinel(t, testkit.Ours, "sentinel monitor m 127.0.0.1 1 2")
	for _, c := range []struct{ call, want string }{
		{"PING", "PONG"},
		{"ROLE", "[\"sentinel\" [\"m\"]]"},
		{"GET x", "(error) ERR unknown command 'GET', with args beginning with: 'x' "},
		{"CONFIG GET port", "(error) ERR unknown command 'CONFIG', with args beginning with: 'GET' 'port' "},
		{"PUBLISH other text", "(error) ERR Only HELLO messages are accepted by Sentinel instances."},
		{"PUBLISH __sentinel__:hello nonsense", "(int) 1"},
		{"SENTINEL NOSUCH", "(error) ERR unknown subcommand 'NOSUCH'. Try SENTINEL HELP."},
		{"SENTINEL MASTER", "(error) ERR wrong number of arguments for 'sentinel|master' command"},
		{"SENTINEL MASTER x", "(error) ERR No such master with that name"},
		{"SENTINEL GET-MASTER-ADDR-BY-NAME m", "[\"127.0.0.1\" \"1\"]"},
		{"SENTINEL GET-MASTER-ADDR-BY-NAME x", "(nil)"},
		{"SENTINEL CKQUORUM m", "(error) NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the " +
			"specified quorum for this master"},
		{"SENTINEL FAILOVER m", "(error) NOGOODSLAVE No suitable replica to promote"},
		{"SENTINEL SET m quorum x", "(error) ERR Invalid argument 'x' for SENTINEL SET 'quorum'"},
		{"SENTINEL SET m foo bar", "(error) ERR Unknown option or number of arguments for SENTINEL SET 'foo'"},
		{"SENTINEL SET m notification-script /bin/true",
			"(error) ERR Reconfiguration of scripts path is denied for security " +
				"reasons. Check the deny-scripts-reconfig configuration directive in your Sentinel configuration"},
		{"SENTINEL SET m quorum 1", "OK"},
		{"SENTINEL CKQUORUM m", "OK 1 usable Sentinels. Quorum and failover authorization can be reached"},
		{"SENTINEL MONITOR a localhost 1 1", "(error) ERR Invalid IP address or hostname specified"},
		{"SENTINEL MONITOR a 1.2.3.4 -1 1", "(error) ERR Invalid port number."},
		{"SENTINEL MONITOR a 1.2.3.4 x 1", "(error) ERR Invalid port"},
		{"SENTINEL MONITOR a 1.2.3.4 1 0", "(error) ERR Quorum must be 1 or greater."},
		{"SENTINEL MONITOR a 1.2.3.4 1 x", "(error) ERR Invalid quorum"},
		{"SENTINEL MONITOR m 1.2.3.4 1 1", "(error) ERR Duplicate master name."},
		{"SENTINEL CONFIG SET loglevel foo", "(error) ERR Invalid value 'foo' to SENTINEL CONFIG SET 'loglevel'"},
		{"SENTINEL CONFIG SET announce-port 70000",
			"(error) ERR Invalid value '70000' to SENTINEL CONFIG SET 'announce-port'"},
		{"SENTINEL CONFIG SET announce-port 1 announce-port 2", "(error) ERR Duplicate argument 'announce-port' to " +
			"SENTINEL CONFIG SET"},
		{"SENTINEL CONFIG SET loglevel notice announce-port", "(error) ERR Missing argument 'announce-port' value"},
		{"SENTINEL CONFIG SET nosuch 1", "(error) ERR Invalid argument 'nosuch' to SENTINEL CONFIG SET"},
		{"SENTINEL CONFIG SET announce-ip 10.1.1.1 announce-port 7", "OK"},
		{"SENTINEL CONFIG GET announce-* announce-ip", "[\"announce-hostnames\" \"no\" \"announce-ip\" \"10.1.1.1\" " +
			"\"announce-port\" \"7\"]"},
		{"SENTINEL CONFIG GET", "(error) ERR wrong number of arguments for 'sentinel|config' command"},
		{"SENTINEL DEBUG foo 1", "(error) ERR Unknown option or number of arguments for SENTINEL DEBUG 'foo'"},
		{"SENTINEL DEBUG ping-period x", "(error) ERR Invalid argument 'x' for SENTINEL DEBUG 'ping-period'"},
		{"SENTINEL DEBUG ping-period 500", "OK"},
		{"SENTINEL SIMULATE-FAILURE foo", "(error) ERR Unknown failure simulation specified"},
		{"SENTINEL SIMULATE-FAILURE help", "[\"crash-after-election\" \"crash-after-promotion\"]"},
		{"SENTINEL IS-MASTER-DOWN-BY-ADDR 1.2.3.4 x 1 *", "(error) ERR value is not an integer or out of range"},
		{"SENTINEL IS-MASTER-DOWN-BY-ADDR 1.2.3.4 1 1 *", "[(int) 0 \"*\" (int) 0]"},
		{"SENTINEL PENDING-SCRIPTS", "[]"},
		{"SENTINEL INFO-CACHE m x", "[\"m\" [[(int) 0 (nil)]]]"},
		{"SENTINEL RESET m*", "(int) 1"},
		{"SENTINEL REMOVE x", "(error) ERR No such master with that name"},
		{"SENTINEL FLUSHCONFIG", "OK"},
		{"SENTINEL REMOVE m", "OK"},
		{"SENTINEL MASTERS", "[]"},
	} {
		var args []any
		for word := range strings.FieldsSeq(c.call) {
			args = append(args, word)
		}
		v, err := s.Ask(args...)
		if err != nil {
			t.Fatalf("%s: %v", c.call, err)
		}
		if got := v.String(); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.call, got, c.want)
		}
	}
}

// TestCommands: a Sentinel has exactly the commands of a Sentinel of 7.4.1.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := sentinel(t, testkit.Ours)
	names := s.Do("COMMAND", "LIST").Strings()
	top := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "|") })
	slices.Sort(top)
	want := "acl auth client command hello info ping psubscribe publish punsubscribe role sentinel shutdown subscribe " +
		"unsubscribe"
	if got := strings.Join(top, " "); got != want {
		t.Errorf("commands:\n%s\nwant\n%s", got, want)
	}
	if len(names) != 73 {
		t.Errorf("%d commands and subcommands: %v", len(names), names)
	}
	sections := []string{}
	for line := range strings.Lines(s.Do("INFO").Text) {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			sections = append(sections, strings.TrimSpace(name))
		}
	}
	if got := strings.Join(sections, " "); got != "Server Clients Stats CPU Sentinel" {
		t.Errorf("INFO has %s", got)
	}
}
