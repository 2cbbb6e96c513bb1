package backup

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// gateway starts versitygw, an independent S3 server, with one bucket in a new folder. It skips the test if the program
// is not installed.
func gateway(t *testing.T) place {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		t.Skip("versitygw is not on PATH: make conformance installs it in bin")
	}
	const id, secret = "spindle-test", "a+secret/of=the test"
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "backups"), 0o755); err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Launch(t, testkit.Spec{Program: program, Bare: true, NoWait: true,
		Shell: "export ROOT_ACCESS_KEY='" + id + "' ROOT_SECRET_KEY='" + secret + "'",
		Args:  []string{"--port", addr, "posix", dir}})
	s.Crashes() // a signal ends it
	testkit.Until(t, testkit.Slowly(60*time.Second), "versitygw listens", func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return place{store: "s3://backups/night", args: []string{"--endpoint", "http://" + addr},
		env: []string{"AWS_ACCESS_KEY_ID=" + id, "AWS_SECRET_ACCESS_KEY=" + secret}}
}

// TestGateway: an independent S3 server accepts our requests and signatures. Backups are pushed and pulled, with an
// encryption key and without. Errors name their cause, and a prune removes the backups that it should.
func TestGateway(t *testing.T) {
	t.Parallel()
	p := gateway(t)
	s := testkit.Start(t)
	fill(s, 400, "first")
	s.Do("SET", "large", strings.Repeat("0123456789abcdef", 40<<16)) // 40 MB: three parts, if it is not compressed
	s.Do("CONFIG", "SET", "rdbcompression", "no")
	key := keyFile(t, "5")
	p.must(t, "push", "--from-server", s.Addr, "--name", "shop")
	first := digests(s)
	s.Do("SET", "more", "data")
	second := digests(s)
	p.must(t, "push", "--from-server", s.Addr, "--name", "shop", "--verify", "--key-file", key)
	all := p.list(t, "--key-file", key)
	if len(all) != 2 || !all[0].Whole || !all[1].Whole || all[0].Bytes < 40<<20 {
		t.Fatalf("list: %+v", all)
	}
	if got := digests(p.pull(t, testkit.Spec{}, "--id", all[0].ID)); !maps.Equal(got, first) {
		t.Errorf("the first one: %q", differences(first, got))
	}
	if got := digests(p.pull(t, testkit.Spec{}, "--key-file", key)); !maps.Equal(got, second) {
		t.Errorf("the latest one: %q", differences(second, got))
	}
	p.must(t, "prune", "--key-file", key, "--keep-last", "1")
	if left := p.list(t, "--key-file", key); len(left) != 1 || left[0] != all[1] {
		t.Errorf("after a prune: %+v", left)
	}
	if got := digests(p.pull(t, testkit.Spec{}, "--key-file", key)); !maps.Equal(got, second) {
		t.Errorf("after a prune: %q", differences(second, got))
	}

	wrong := p
	wrong.env = append(wrong.env, "AWS_SECRET_ACCESS_KEY=other")
	if out, code := wrong.call(t, "list"); code != 1 || !strings.Contains(out, "the secret access key is wrong") {
		t.Errorf("a wrong secret: %d %s", code, out)
	}
	wrong = p
	wrong.store = "s3://other"
	if out, code := wrong.call(t, "list"); code != 1 || !strings.Contains(out, `there is no bucket "other"`) {
		t.Errorf("a bucket that is not there: %d %s", code, out)
	}
}

// TestGatewayKilledPush is TestKilledPush with an independent S3 server.
func TestGatewayKilledPush(t *testing.T) {
	t.Parallel()
	killedPushes(t, gateway(t))
}
