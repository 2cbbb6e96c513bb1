package acl

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// databaseSessions has sessions of the user q, each with q's rules. Each line has a request and its reply. A line with
// ! is a request of the administrator.
const databaseSessions = `
on nopass ~* &* +@all db=1
PING -> PONG
GET k -> NOPERM No permissions to access database
SELECT 0 -> NOPERM No permissions to access database
SELECT 99 -> ERR DB index is out of range
SWAPDB 1 1 -> OK
SWAPDB 0 1 -> NOPERM No permissions to access database
COPY a b DB 1 -> NOPERM No permissions to access database
SELECT 1 -> OK
SET k 1 -> OK
MOVE k 0 -> NOPERM No permissions to access database
COPY k c DB 0 -> NOPERM No permissions to access database
COPY k c REPLACE -> (int) 1
FLUSHALL -> NOPERM No permissions to access database
FLUSHDB -> OK
INFO keyspace -> # Keyspace
RESET -> RESET

on nopass ~* &* +@all db=0
MULTI -> OK
GET k -> QUEUED
SELECT 1 -> NOPERM No permissions to access database
EXEC -> EXECABORT Transaction discarded because of previous errors.
EVAL return(redis.pcall('select',1)) 0 -> ERR ACL failure in script: No permissions to access database
EVAL return(redis.pcall('flushall')) 0 -> ERR ACL failure in script: No permissions to access database
EVAL return(redis.pcall('get','k')) 0 -> (nil)
! FUNCTION LOAD REPLACE @library -> lib
FCALL choose 0 1 -> ERR ACL failure in script: No permissions to access database
FCALL choose 0 0 -> OK
! ACL DRYRUN q SELECT 1 -> User q has no permissions to access database 1
! ACL DRYRUN q flushall -> User q has no permissions to access database flushall
! ACL DRYRUN q COPY a b DB 3 -> User q has no permissions to access database 3

on nopass ~* &* +@all
MULTI -> OK
SELECT 1 -> QUEUED
GET k -> QUEUED
SELECT 0 -> QUEUED
GET k -> QUEUED
! ACL SETUSER q db=0 -> OK
EXEC -> [NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission (nil) OK (nil)]
GET k -> (nil)
! ACL SETUSER q db=1 -> OK
GET k -> NOPERM No permissions to access database
EVAL return(1) 0 -> NOPERM No permissions to access database

on nopass ~* &* +@all db=0
MULTI -> OK
! ACL SETUSER q alldbs -> OK
SELECT 1 -> QUEUED
! ACL SETUSER q db=0 -> OK
GET k -> NOPERM No permissions to access database
DISCARD -> OK

on nopass resetdbs (db=1 ~* +@all) (db=2 ~z +@all)
SELECT 1 -> OK
GET x -> (nil)
SELECT 2 -> OK
GET z -> (nil)
GET x -> NOPERM No permissions to access a key
SWAPDB 1 2 -> NOPERM No permissions to access database
SORT z BY nosort GET # -> ERR GET option of SORT denied due to insufficient ACL permissions.
SORT z BY w_* -> ERR BY option of SORT denied due to insufficient ACL permissions.

on nopass ~* &* -@all +select resetdbs
GET k -> NOPERM No permissions to access database
PING -> NOPERM User q has no permissions to run the 'ping' command
SELECT 0 -> NOPERM No permissions to access database
`

const library = "#!lua name=lib\n" +
	"redis.register_function('choose', function(keys, args) return redis.call('select', args[1]) end)"

// databaseLog is the ACL LOG after the calls above, without repetitions.
const databaseLog = `database toplevel 0
command toplevel ping
database toplevel get`

// TestDatabaseRules: db=, alldbs and resetdbs limit a user to databases, in MULTI, scripts and functions too. Valkey
// 9.1 gives the same replies and writes the same ACL LOG, if this host has one.
func TestDatabaseRules(t *testing.T) {
	for _, name := range []string{testkit.Ours, testkit.Valkey9} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Launch(t, testkit.Kind(t, name))
			admin := s.Dial()
			for session := range strings.SplitSeq(strings.TrimSpace(databaseSessions), "\n\n") {
				lines := strings.Split(session, "\n")
				admin.Must("ACL", "DELUSER", "q")
				admin.Must("ACL", "LOG", "RESET")
				admin.Must(anys(append([]string{"ACL", "SETUSER", "q"}, strings.Fields(lines[0])...))...)
				user := s.Dial()
				user.Must("AUTH", "q", "x")
				for _, line := range lines[1:] {
					request, want, _ := strings.Cut(line, " -> ")
					by := user
					if rest, isAdmin := strings.CutPrefix(request, "! "); isAdmin {
						by, request = admin, rest
					}
					words := strings.Fields(strings.Replace(request, "@library", "@", 1))
					for i := range words {
						if words[i] == "@" {
							words[i] = library
						}
					}
					v, err := by.Do(anys(words)...)
					got, _, _ := strings.Cut(scriptName.ReplaceAllString(told(v), ""), `\r\n`)
					if err != nil || got != want {
						t.Errorf("%s: %s: %s, %v, want %s", lines[0], request, got, err, want)
					}
				}
			}
			if got := refusals(admin); got != databaseLog {
				t.Errorf("ACL LOG:\n%s\nwant:\n%s", got, databaseLog)
			}
			if n := s.InfoInt("stats", "acl_access_denied_db"); n < 15 {
				t.Errorf("acl_access_denied_db:%d", n)
			}
		})
	}
}

// scriptName matches the part of an error that names its script.
var scriptName = regexp.MustCompile(` script: (\w+, )?on .*`)

// told returns a reply in one line, without quotes.
func told(v respclient.Value) string {
	return strings.NewReplacer("(error) ", "", `"`, "").Replace(v.String())
}

// refusals returns the entries of ACL LOG, the newest first: reason, context and object.
func refusals(c *respclient.Client) string {
	var lines []string
	for _, e := range c.Must("ACL", "LOG").Elems {
		lines = append(lines, told(e.Elems[3])+" "+told(e.Elems[5])+" "+told(e.Elems[7]))
	}
	return strings.Join(lines, "\n")
}

// TestDatabaseRulesAreKept: ACL SAVE, ACL LOAD, CONFIG REWRITE and a restart keep rules for databases. ACL GETUSER and
// ACL LIST show them as Valkey 9.1 does.
func TestDatabaseRulesAreKept(t *testing.T) {
	const users = "user a on nopass ~* &* db=0,2 +@all (~x resetchannels resetdbs -@all +get)"
	for _, name := range []string{testkit.Ours, testkit.Valkey9} {
		for _, inFile := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ACL file %t", name, inFile), func(t *testing.T) {
				spec, dir := testkit.Kind(t, name), t.TempDir()
				spec.Port = testkit.FreePort(t)
				conf, file := dir+"/server.conf", dir+"/users.acl"
				text := fmt.Sprintf("port %d\nbind 127.0.0.1\nsave \"\"\n", spec.Port)
				if inFile {
					text += "aclfile " + file + "\n"
				}
				for path, text := range map[string]string{conf: text, file: ""} {
					if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				spec.Bare, spec.Dir, spec.Args = true, dir, []string{conf}
				s := testkit.Launch(t, spec)
				s.Do("ACL", "SETUSER", "a", "on", "nopass", "~*", "&*", "+@all", "db=7", "db=2,0", "(~x resetdbs +get)")
				if inFile {
					s.Do("ACL", "SAVE")
					s.Do("ACL", "SETUSER", "a", "alldbs", "clearselectors")
					s.Do("ACL", "LOAD")
				} else {
					s.Do("CONFIG", "REWRITE")
				}
				s.Terminate()
				s.Restart()
				line := strings.ReplaceAll(s.Do("ACL", "LIST").Elems[0].Text, " sanitize-payload", "")
				if line != users {
					t.Errorf("%s, want %s", line, users)
				}
				const want = "[commands +@all keys ~* channels &* databases db=0,2 selectors " +
					"[[commands -@all +get keys ~x channels  databases ]]]"
				fields := s.Do("ACL", "GETUSER", "a")
				fields.Elems = fields.Elems[4:] // without flags and passwords
				if got := told(fields); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		}
	}
}

// TestDatabaseSessions lets users with random rules for databases run random calls, on spindle and on Valkey 9.1. All
// replies are equal, and so are the entries of ACL LOG.
func TestDatabaseSessions(t *testing.T) {
	theirs := testkit.Launch(t, testkit.Kind(t, testkit.Valkey9))
	seed := uint64(time.Now().UnixNano())
	s := &comparison{Rand: rand.New(rand.NewPCG(seed, 2)), t: t, ours: testkit.Start(t), theirs: theirs}
	s.admin = s.dial()
	rule := func() string {
		return s.pick("db=0", "db=1", "db=0,1", "db=1,2", "db=0,2,3", "alldbs", "resetdbs", "+@all", "+@all", "-@all",
			"-select", "~*", "~*", "~k", "resetkeys", "+@read", "-@write", "(db=1 ~* +@all)", "(+get ~k)",
			"(db=0 ~k +@all -get)", "clearselectors")
	}
	// Redis checks some states before it checks rights, so commands for transactions are always allowed here.
	setUser := func(rules ...string) {
		s.must(append(append([]string{"ACL", "SETUSER", "q"}, rules...), "+@transaction", "+reset")...)
	}
	database := func() string { return s.pick("0", "1", "2", "3", "16", "x", "-1", "01") }
	calls := []func() string{
		func() string { return s.pick("GET", "TYPE", "DEL", "INCR", "TTL", "EXISTS") + s.pick(" k", " l") },
		func() string { return "SELECT " + database() }, func() string { return "SELECT " + database() },
		func() string { return "SELECT " + s.pick("0", "1", "2") },
		func() string { return "MOVE " + s.pick("k ", "l ") + database() },
		func() string {
			return "COPY k l" + s.pick("", " REPLACE", " DB "+database(), " REPLACE DB "+database(), " DB 1 DB "+database())
		},
		func() string { return "SWAPDB " + database() + " " + database() },
		func() string { return s.pick("MULTI", "EXEC", "DISCARD", "MULTI", "EXEC", "RESET") },
		func() string {
			return s.pick("FLUSHALL", "flushdb", "DBSIZE", "PING", "KEYS *", "UNWATCH", "OBJECT ENCODING k", "SET k 5",
				"INFO nothing", "PUBLISH c m", "ACL WHOAMI", "SORT l BY nosort", "FUNCTION LIST")
		},
		func() string {
			return s.pick("EVAL", "EVAL_RO") + " return(redis.pcall('" + s.pick("get','k", "select','1", "select','0",
				"flushall") + "')) 0"
		},
	}
	const rounds, steps = 60, 40
	denied := int64(0)
	for round := range rounds * testkit.Scale() {
		s.must("FLUSHALL")
		s.must("ACL", "DELUSER", "q")
		setUser("on", "nopass", "&*", "~*", "+@all", rule(), rule(), rule())
		p := s.dial()
		if err := s.ask(p, "q", []string{"AUTH", "q", "x"}); err != nil {
			t.Fatal(err)
		}
		for range steps {
			call := calls[s.IntN(len(calls))]()
			switch {
			case s.IntN(12) == 0:
				setUser(rule())
				continue
			case s.IntN(20) == 0:
				s.must(append([]string{"ACL", "DRYRUN", "q"}, strings.Fields(call)...)...)
				continue
			case call == "MULTI" && p.multi:
				continue // here it does not abort the transaction, as in Redis
			case call == "MULTI":
				p.multi = true
			case call == "EXEC" || call == "DISCARD" || call == "RESET":
				p.multi = false
			}
			err := s.ask(p, "q", strings.Fields(call))
			if err == nil && call == "RESET" {
				err = s.ask(p, "q", []string{"AUTH", "q", "x"})
			}
			if err != nil {
				t.Fatal(err)
			}
			if t.Failed() {
				break
			}
		}
		if a, b := refusals(s.admin.ours), refusals(s.admin.theirs); a != b {
			t.Errorf("ACL LOG: ours\n%s\ntheirs\n%s", a, b)
		}
		denied = s.ours.InfoInt("stats", "acl_access_denied_db")
		if want := s.theirs.InfoInt("stats", "acl_access_denied_db"); denied != want {
			t.Errorf("acl_access_denied_db:%d, want %d", denied, want)
		}
		_, _ = p.ours.Close(), p.theirs.Close()
		if t.Failed() {
			t.Fatalf("seed %d, round %d; %s; the last ones:\n%s", seed, round, s.admin.ours.Must("ACL", "LIST"),
				strings.Join(s.told, "\n"))
		}
	}
	if t.Logf("%d refusals for databases", denied); denied < rounds {
		t.Errorf("only %d refusals for databases: too few to say something", denied)
	}
}
