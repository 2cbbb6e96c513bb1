package sentinel

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"spindle/tests/testkit"
)

// TestFailover: Sentinels of several kinds watch servers of several kinds. When the primary is killed, they agree on
// another primary. The other replica follows it, and so does the old primary when it comes back. More rounds repeat
// this.
func TestFailover(t *testing.T) {
	t.Parallel()
	const ours, redis, eight, nine = testkit.Ours, testkit.Redis70, testkit.Redis8, testkit.Valkey9
	for name, c := range map[string]struct{ servers, sentinels []string }{
		"ours":                {[]string{ours, ours, ours}, []string{ours, ours, ours}},
		"ours over redis":     {[]string{redis, redis, redis}, []string{ours, ours, ours}},
		"mixed over mixed":    {[]string{ours, redis, redis}, []string{redis, ours, ours}},
		"redis's over a pair": {[]string{redis, ours, ours}, []string{redis, redis, ours}},
		"ours over Redis 8":   {[]string{eight, eight, ours}, []string{ours, ours, ours}},
		"ours over Valkey 9":  {[]string{nine, nine, ours}, []string{ours, ours, ours}},
		"Redis 8's over ours": {[]string{ours, ours, ours}, []string{eight, eight, ours}},
		"Valkey's over ours":  {[]string{ours, ours, ours}, []string{nine, nine, ours}},
		"all over both":       {[]string{ours, nine, ours}, []string{eight, nine, ours}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, c.servers, c.sentinels)
			old := g.servers[0]
			for round := range testkit.Scale() {
				old = g.failOver(t, old, fmt.Sprint(round))
			}
		})
	}
}

// failOver kills a primary, and starts it again when another server has become the primary. It returns that server, and
// checks that it has value, which all replicas had.
func (g group) failOver(t *testing.T, old *testkit.Server, value string) (promoted *testkit.Server) {
	t.Helper()
	for _, s := range g.sentinels {
		testkit.Until(t, patience, "a Sentinel to see all well", func() error {
			return s.whyNotWell(len(g.servers)-1, len(g.sentinels)-1)
		})
	}
	old.Do("SET", "k", value)
	if v := old.Do("WAIT", 2, 60_000); v.Int != 2 {
		t.Fatalf("WAIT: %v", v)
	}
	g.downAfter(alertMs)
	old.Kill()
	promoted = g.awaitSwitch(t, old.Addr)
	await(t, promoted, "role", "master")
	testkit.Until(t, patience, "the new primary to have the key", func() error {
		v, err := promoted.Ask("GET", "k")
		if err != nil {
			return err
		}
		return testkit.Equal(v.Text, value)
	})
	for _, s := range g.servers {
		if s != promoted && s != old {
			await(t, s, "master_port", promoted.Addr[len("127.0.0.1:"):])
			await(t, s, "master_link_status", "up")
		}
	}
	old.Restart()
	await(t, old, "role", "slave")
	await(t, old, "master_link_status", "up")
	return promoted
}

// TestFailoverOverTLS: Sentinels of both kinds use only TLS to servers and to each other, and fail over.
func TestFailoverOverTLS(t *testing.T) {
	t.Parallel()
	certificates := testkit.NewCertificates(t)
	primary := testkit.FreePort(t)
	replica := testkit.FreePort(t)
	old := testkit.Launch(t, testkit.Spec{Args: certificates.Following(primary)})
	next := testkit.Launch(t, testkit.Spec{Redis: true, Args: append(certificates.Following(replica),
		"--replicaof", "127.0.0.1 "+strconv.Itoa(primary))})
	await(t, next, "master_link_status", "up")
	var sentinels []watched
	for _, kind := range []string{testkit.Ours, testkit.Ours, testkit.Redis70} {
		lines := []string{fmt.Sprintf("sentinel monitor m 127.0.0.1 %d 2", primary),
			fmt.Sprint("sentinel down-after-milliseconds m ", calmMs), "sentinel failover-timeout m 10000"}
		words := certificates.Following(testkit.FreePort(t))
		for i := 0; i < len(words); i += 2 {
			lines = append(lines, strings.TrimPrefix(words[i], "--")+" "+words[i+1])
		}
		sentinels = append(sentinels, sentinel(t, kind, lines...))
	}
	for _, s := range sentinels {
		testkit.Until(t, patience, "a Sentinel to see all well", func() error { return s.whyNotWell(1, 2) })
	}
	group{sentinels: sentinels}.downAfter(alertMs)
	old.Kill()
	for _, s := range sentinels {
		testkit.Until(t, patience, "all to name the replica", func() error {
			return testkit.Equal(s.address(), "127.0.0.1:"+strconv.Itoa(replica))
		})
	}
	await(t, next, "role", "master")
}

// TestScripts: for an event, a Sentinel runs the operator's script with the event's name and text as a separate
// process. The Sentinel still replies meanwhile.
func TestScripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, out := dir+"/notify.sh", dir+"/out"
	text := "#!/bin/sh\necho \"$@\" >> " + out + "\ncase \"$1\" in +sdown) while [ ! -f " + dir +
		"/go ]; do sleep 0.1; done;; esac\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	s := sentinel(t, testkit.Ours, "sentinel monitor m 127.0.0.1 1 1", "sentinel down-after-milliseconds m 500",
		"sentinel notification-script m "+script)
	testkit.Until(t, patience, "the script to run", func() error {
		got, err := os.ReadFile(out)
		if err == nil && !strings.Contains(string(got), "+sdown master m 127.0.0.1 1\n") {
			err = fmt.Errorf("%s", got)
		}
		return err
	})
	testkit.Until(t, patience, "the script that waits to be shown", func() error { // it runs before its PID is known
		v := s.Do("SENTINEL", "PENDING-SCRIPTS")
		if len(v.Elems) == 0 {
			return errors.New("no script is shown while one waits")
		}
		job := fields(v.Elems[0])
		if job["flags"] != "running" || job["pid"] == "0" || job["retry-num"] != "1" {
			return fmt.Errorf("it is %v", job)
		}
		return nil
	})
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, patience, "all scripts to end", func() error {
		return testkit.Equal(len(s.Do("SENTINEL", "PENDING-SCRIPTS").Elems), 0)
	})
}

// TestStoppedPrimary: when the primary is suspended, a failover happens. The old primary becomes a replica when it
// resumes.
func TestStoppedPrimary(t *testing.T) {
	t.Parallel()
	g := newGroup(t, []string{testkit.Ours, testkit.Redis70}, []string{testkit.Ours, testkit.Redis70, testkit.Ours})
	old := g.servers[0]
	g.downAfter(alertMs)
	old.Signal(syscall.SIGSTOP)
	promoted := g.awaitSwitch(t, old.Addr)
	await(t, promoted, "role", "master")
	old.Signal(syscall.SIGCONT)
	await(t, old, "role", "slave")
	await(t, old, "master_link_status", "up")
}

// TestMinorityCannotPromote: if only one Sentinel of three sees a primary down, it is not elected.
func TestMinorityCannotPromote(t *testing.T) {
	t.Parallel()
	g := newGroup(t, []string{testkit.Ours, testkit.Ours}, []string{testkit.Ours, testkit.Ours, testkit.Redis70})
	last := g.sentinels[0]
	last.Do("SENTINEL", "SET", "m", "quorum", 1, "failover-timeout", 2000)
	for _, s := range g.sentinels[1:] {
		s.Kill()
	}
	g.downAfter(alertMs)
	g.servers[0].Kill()
	last.AwaitLog(patience, "+odown master m")
	last.AwaitLog(patience, "-failover-abort-not-elected master m")
	if at := last.address(); at != g.servers[0].Addr {
		t.Errorf("a minority has moved the primary to %s", at)
	}
	if role := g.servers[1].Info("replication")["role"]; role != "slave" {
		t.Errorf("the replica is a %s", role)
	}
}
