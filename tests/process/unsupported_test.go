package process

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// unsupportedFeatures lists configurations that require a missing feature: a line of a file, and the words about it in
// the log.
var unsupportedFeatures = []struct{ line, directive, means string }{
	{"tls-dh-params-file redis.dh", "tls-dh-params-file", "elliptic curves"},
}

// TestUnsupported: a server whose file or command line requires a missing feature does not start. The error says how it
// would start.
func TestUnsupported(t *testing.T) {
	for _, c := range unsupportedFeatures {
		refused := func(args ...string) {
			t.Helper()
			s := testkit.Launch(t, testkit.Spec{NoWait: true, Args: args})
			if code := s.Wait(20 * time.Second); code != 1 {
				t.Errorf("%s: exit code %d", c.line, code)
			}
			log := s.Log()
			for _, want := range []string{"FATAL CONFIG FILE ERROR", ">>> '", c.directive + ": ", c.means,
				"unsupported-directives warn"} {
				if !strings.Contains(log, want) {
					t.Errorf("%s: no %q in %s", c.line, want, log)
				}
			}
		}
		refused(append([]string{}, "--"+c.line)...)
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/a.conf", []byte("hz 20\n"+c.line+"\nhz 30\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		refused("--include", dir+"/a.conf")
	}
	if s := testkit.Start(t, "--tls-port", "0", "--replicaof", "no one"); s.Ended() {
		t.Error("taken back, and refused all the same")
	}
}

// TestUnsupportedOverride: with the override the server starts without the features, and logs the effect of each.
func TestUnsupportedOverride(t *testing.T) {
	dir, port := t.TempDir(), testkit.FreePort(t)
	conf := "port " + strconv.Itoa(port) + "\nbind 127.0.0.1\ndatabases 1\n"
	for _, c := range unsupportedFeatures {
		conf += c.line + "\n"
	}
	if err := os.WriteFile(dir+"/a.conf", []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testkit.Launch(t, testkit.Spec{Bare: true, Dir: dir, Port: port,
		Args: []string{dir + "/a.conf", "--unsupported-directives", "warn"}})
	for _, c := range unsupportedFeatures {
		if want := "WARNING: " + c.directive + " has no effect in this version: "; strings.Contains(conf, c.line) &&
			!strings.Contains(s.Log(), want) {
			t.Errorf("no %q in the log", want)
		}
	}
	s.Do("CONFIG", "SET", "tls-dh-params-file", "redis.dh") // setting the current value changes nothing
	s.Do("CONFIG", "SET", "tls-port", "0", "tls-cluster", "no", "tls-replication", "no")
}

// TestSetUnsupported: CONFIG SET does not reply OK if the value has no effect.
func TestSetUnsupported(t *testing.T) {
	for _, args := range [][]string{nil, {"--unsupported-directives", "warn"}} {
		s := testkit.Start(t, args...)
		tls := "Unable to update TLS configuration. Check server logs."
		for _, c := range []struct{ name, value, kept, want string }{
			{"tls-cluster", "yes", "no", tls},
			{"tls-dh-params-file", "x", "",
				"crypto/tls has no finite-field Diffie-Hellman; keys are agreed on by elliptic curves"},
		} {
			v, err := s.Ask("CONFIG", "SET", "maxmemory", "100mb", c.name, c.value)
			if want := "ERR CONFIG SET failed (possibly related to argument '" + c.name + "') - " + c.want; err != nil ||
				v.Text != want {
				t.Errorf("%s: %q %v", c.name, v.Text, err)
			}
			if got := s.Do("CONFIG", "GET", c.name).Elems; len(got) != 2 || got[1].Text != c.kept {
				t.Errorf("%s is now %v", c.name, got)
			}
			if got := s.Do("CONFIG", "GET", "maxmemory").Elems; got[1].Text != "0" {
				t.Errorf("%s: maxmemory is now %v", c.name, got)
			}
			s.Do("CONFIG", "SET", c.name, c.kept)
		}
	}
}
