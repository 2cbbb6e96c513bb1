package bgsave

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A reference is a redis-server that runs for one test in its own folder.
type reference struct {
	t    *testing.T
	dir  string
	sock string // a unix socket; a free TCP port could be taken by an outgoing connection
	cmd  *exec.Cmd
	log  output
}

// output collects a process's output, which can be read while the process runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// program finds one of Redis's programs, which make test installs.
func program(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: make deps installs it", name)
	}
	return path
}

func newReference(t *testing.T, dir string, options ...string) *reference {
	t.Helper()
	server := program(t, "redis-server")
	r := &reference{t: t, dir: dir, sock: filepath.Join(dir, "s")}
	r.cmd = exec.Command(server, append([]string{"--port", "0", "--unixsocket", r.sock, "--dir", dir, "--save", "",
		"--appendonly", "no"}, options...)...)
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	if !testkit.Holds(30*time.Second, func() bool { return r.try("PING\r\n") == "+PONG" }) {
		t.Fatalf("redis-server does not answer:\n%s", r.log.String())
	}
	return r
}

// try sends raw bytes and returns the reply's first line, or "" if no server listens.
func (r *reference) try(raw string) string {
	c, err := net.Dial("unix", r.sock)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, raw)
	buf := make([]byte, 1<<16)
	n, _ := c.Read(buf)
	line, _, _ := strings.Cut(string(buf[:n]), "\r\n")
	return line
}

// logs waits until the server's output contains want.
func (r *reference) logs(want string) {
	r.t.Helper()
	if !testkit.Holds(20*time.Second, func() bool { return strings.Contains(r.log.String(), want) }) {
		r.t.Fatalf("redis-server did not log %q:\n%s", want, r.log.String())
	}
}

// run selects database 0, sends one command and returns the reply's first line.
func (r *reference) run(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return r.try(b.String())
}

// TestReferenceLoads: redis-server loads all keys of this server's files, and redis-check-rdb finds no fault.
func TestReferenceLoads(t *testing.T) {
	s := mixed(t, manyKeys)
	for _, compress := range []bool{false, true} {
		for _, checksum := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, "dump.rdb")
			h := header
			h.Replication = &ReplicationState{ID: strings.Repeat("0a", 20), Offset: 99}
			if _, err := SaveFile(t.Context(), s, FileOptions{Path: path, Sync: true},
				Options{Compress: compress, Checksum: checksum, Savers: 3, Header: h}); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(program(t, "redis-check-rdb"), path).CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("RDB looks OK")) {
				t.Fatalf("redis-check-rdb: %v\n%s", err, out)
			}
			r := newReference(t, dir)
			r.logs(fmt.Sprintf("keys loaded: %d, keys expired: 0", len(s.entries())))
			// redis-server saves the loaded keys, and the test reads that file: nothing was lost in either direction.
			if got := r.run("SAVE"); got != "+OK" {
				t.Fatalf("SAVE: %s\n%s", got, r.log.String())
			}
			got := newFakeInserter()
			if _, err := Load(t.Context(), path, got, LoadOptions{}); err != nil {
				t.Fatal(err)
			}
			got.equal(t, s.entries())
		}
	}
}

// TestReferenceWrites: redis-server's files with strings are read (tests/rdbfile has the other types).
func TestReferenceWrites(t *testing.T) {
	r := newReference(t, t.TempDir(), "--maxmemory-policy", "allkeys-lfu")
	for _, cmd := range []string{"SET a 1", "SET b -70000", "SET c hello",
		"SET d x PXAT 4000000000000", "SETRANGE e 100000 end", "SET f 12345678901"} {
		if got := r.run(strings.Split(cmd, " ")...); got[0] == '-' {
			t.Fatal(cmd, got)
		}
	}
	r.run("SET", "g", strings.Repeat("compress me ", 50))
	if got := r.run("SAVE"); got != "+OK" {
		t.Fatal(got)
	}
	path := filepath.Join(r.dir, "dump.rdb")
	got := newFakeInserter()
	if _, err := Load(t.Context(), path, got, LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	got.equal(t, map[string]string{
		"0 a": "1 @0", "0 b": "-70000 @0", "0 c": "hello @0", "0 d": "x @4000000000000",
		"0 e": string(make([]byte, 100_000)) + "end @0",
		"0 f": "12345678901 @0", "0 g": strings.Repeat("compress me ", 50) + " @0",
	})
}

// TestReferencePayloads: payloads go from DUMP here to RESTORE in redis-server, and in the other direction.
func TestReferencePayloads(t *testing.T) {
	r := newReference(t, t.TempDir())
	b := newTestServer(t)
	for _, v := range []string{"", "0", "-5", "300", "100000", "99999999999", "hello", strings.Repeat("abc", 100),
		strings.Repeat("\x00\xff", 30_000)} {
		b.space.DB(0).SetString([]byte("k"), []byte(v), 0)
		if got := r.run("RESTORE", "k", "0", b.dumped("k"), "REPLACE"); got != "+OK" {
			t.Fatalf("redis-server refuses our payload of %.20q: %s", v, got)
		}
		if want := fmt.Sprintf(":%d", len(v)); r.run("STRLEN", "k") != want {
			t.Errorf("%.20q has length %s there", v, r.run("STRLEN", "k"))
		}
		theirs, err := exec.Command(program(t, "redis-cli"), "-s", r.sock, "--raw", "DUMP", "k").Output()
		if err != nil || len(theirs) == 0 {
			t.Fatal(err)
		}
		if got := b.run("restore", "k2", "0", string(theirs[:len(theirs)-1]), "REPLACE"); got != "+OK\r\n" ||
			b.get("k") != b.get("k2") {
			t.Errorf("their payload of %.20q: %q, %.40s", v, got, b.get("k2"))
		}
	}
}

// TestKilled: a process that is killed during a save leaves the old file complete. The next save works although the
// temporary file is still there.
func TestKilled(t *testing.T) {
	if path := os.Getenv("SPINDLE_TEST_SAVE_TO"); path != "" {
		_, _ = SaveFile(t.Context(), mixed(t, 1000), FileOptions{Path: path}, Options{Delay: 100_000})
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "dump.rdb")
	s := mixed(t, 500)
	if _, err := SaveFile(t.Context(), s, FileOptions{Path: path}, Options{Checksum: true}); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), "SPINDLE_TEST_SAVE_TO="+path)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, fmt.Sprintf("temp-%d.rdb", child.Process.Pid))
	testkit.Await(t, 30*time.Second, "the child saves", func() bool {
		stat, err := os.Stat(temp)
		return err == nil && stat.Size() > 0
	})
	_ = child.Process.Kill()
	_ = child.Wait()
	got := newFakeInserter()
	if _, err := Load(t.Context(), path, got, LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	got.equal(t, s.entries())
	if _, err := Load(t.Context(), temp, newFakeInserter(), LoadOptions{}); err == nil {
		t.Error("half a file was loaded")
	}
}
