package backup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
	"spindle/tests/testkit/s3test"
)

// A place is a store with the options by which spindle backup reaches it.
type place struct {
	store string
	args  []string
	env   []string
}

// folderPlace returns a store in a new folder.
func folderPlace(t *testing.T) place { return place{store: "file://" + t.TempDir()} }

// bucketPlace returns a store in the bucket of a test's S3 server.
func bucketPlace(s *s3test.Server) place {
	return place{store: "s3://" + s3test.Bucket + "/night", args: []string{"--endpoint", s.URL, "--region", s3test.Region},
		env: []string{"AWS_ACCESS_KEY_ID=" + s3test.ID, "AWS_SECRET_ACCESS_KEY=" + s3test.Secret}}
}

// command returns the command spindle backup WORD, with its output in out.
func (p place) command(t *testing.T, out *bytes.Buffer, word string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testkit.Spindle(t), slices.Concat([]string{"backup", word, "--store", p.store}, p.args, args)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "AWS_") || strings.HasPrefix(e, "REDISCLI_")
	}), p.env...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// call runs spindle backup WORD and returns its output and exit code.
func (p place) call(t *testing.T, word string, args ...string) (out string, code int) {
	t.Helper()
	var text bytes.Buffer
	cmd := p.command(t, &text, word, args...)
	_ = cmd.Run()
	return text.String(), cmd.ProcessState.ExitCode()
}

// must is call, but fails the test unless the exit code is 0.
func (p place) must(t *testing.T, word string, args ...string) string {
	t.Helper()
	out, code := p.call(t, word, args...)
	if code != 0 {
		t.Fatalf("backup %s %v: %d\n%s", word, args, code, out)
	}
	return out
}

// An entry is a line of the list.
type entry struct {
	ID, Server, State string
	Bytes             int64
	Whole             bool
}

// list lists the backups.
func (p place) list(t *testing.T, args ...string) (all []entry) {
	t.Helper()
	out := p.must(t, "list", append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return all
}

// digests returns the digests of all keys of a server.
func digests(s *testkit.Server) map[string]string {
	all := map[string]string{}
	for _, key := range s.Do("KEYS", "*").Strings() {
		all[key] = s.Do("DEBUG", "DIGEST-VALUE", key).Elems[0].Text
	}
	return all
}

// differences returns some keys whose digests differ.
func differences(want, got map[string]string) (names []string) {
	for key, digest := range want {
		if got[key] != digest && len(names) < 5 {
			names = append(names, fmt.Sprintf("%s: %.8s, want %.8s", key, got[key], digest))
		}
	}
	return append(names, fmt.Sprintf("%d keys, want %d", len(got), len(want)))
}

// fill writes n keys of several types.
func fill(s *testkit.Server, n int, value string) {
	c := s.Dial()
	defer c.Close()
	for i := range n {
		c.Must("SET", fmt.Sprint("string:", i), strings.Repeat(value, i%50))
		c.Must("RPUSH", fmt.Sprint("list:", i%20), value, i)
		c.Must("HSET", fmt.Sprint("hash:", i%20), i, value)
		c.Must("ZADD", fmt.Sprint("zset:", i%20), i, value)
	}
}

// pull pulls a backup and starts the server that spec names on it.
func (p place) pull(t *testing.T, spec testkit.Spec, args ...string) *testkit.Server {
	t.Helper()
	spec.Dir = filepath.Join(t.TempDir(), "into")
	out := p.must(t, "pull", append(args, "--into", spec.Dir)...)
	if !strings.Contains(out, "--dir "+spec.Dir+" --appendonly yes") {
		t.Errorf("pull does not say how to start a server: %s", out)
	}
	spec.Args = []string{"--appendonly", "yes"}
	return testkit.Launch(t, spec)
}

// keyFile writes an encryption key to a file.
func keyFile(t *testing.T, digit string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(strings.Repeat(digit, 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestThereAndBack: a server's backup is pushed while the server runs. spindle and redis-server start on the pulled
// folder with its data. Afterwards the server has no backup under way.
func TestThereAndBack(t *testing.T) {
	for name, p := range map[string]place{"folder": folderPlace(t), "bucket": bucketPlace(s3test.Start(t))} {
		for _, appendonly := range []string{"yes", "no"} {
			if (name == "folder") != (appendonly == "yes") && testkit.Scale() == 1 {
				continue // a push reads the same files of the server, wherever it puts them
			}
			t.Run(name+" appendonly "+appendonly, func(t *testing.T) {
				t.Parallel()
				p := p
				p.store += "-" + appendonly
				if dir, is := strings.CutPrefix(p.store, "file://"); is {
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				s := testkit.Start(t, "--appendonly", appendonly, "--requirepass", "hidden")
				c := s.Dial()
				c.Must("AUTH", "hidden")
				c.Must("CONFIG", "SET", "requirepass", "")
				fill(s, 400, "first")
				c.Must("CONFIG", "SET", "requirepass", "hidden")
				secret := p
				secret.env = append(slices.Clone(p.env), "REDISCLI_AUTH=hidden")
				key := keyFile(t, "4")
				if out, code := p.call(t, "push", "--from-server", s.Addr, "--pass", "other"); code != 1 ||
					!strings.Contains(out, "WRONGPASS") {
					t.Errorf("a wrong password: %d %s", code, out)
				}
				secret.must(t, "push", "--from-server", s.Addr, "--key-file", key, "--name", "shop")
				c.Must("CONFIG", "SET", "requirepass", "")
				first := digests(s)
				fill(s, 200, "second")
				second := digests(s)
				p.must(t, "push", "--from-server", s.Addr, "--key-file", key, "--name", "shop", "--verify")
				all := p.list(t, "--key-file", key)
				if len(all) != 2 || !all[0].Whole || !all[1].Whole || all[0].Server != "shop" || all[0].Bytes == 0 {
					t.Fatalf("list: %+v", all)
				}
				if v := s.Do("BACKUP", "STATUS"); v.Elems[1].Text != "idle" {
					t.Errorf("the server has a backup: %v", v)
				}
				if got := digests(p.pull(t, testkit.Spec{}, "--key-file", key)); !maps.Equal(got, second) {
					t.Errorf("the latest one: %q", differences(second, got))
				}
				old := p.pull(t, testkit.Spec{Redis: true}, "--key-file", key, "--id", all[0].ID)
				if got := digests(old); !maps.Equal(got, first) {
					t.Errorf("the first one: %q", differences(first, got))
				}
				p.must(t, "prune", "--key-file", key, "--keep-last", "1")
				if left := p.list(t, "--key-file", key); len(left) != 1 || left[0] != all[1] {
					t.Errorf("after a prune: %+v", left)
				}
				if got := digests(p.pull(t, testkit.Spec{}, "--key-file", key)); !maps.Equal(got, second) {
					t.Errorf("the one that stays: %q", differences(second, got))
				}
			})
		}
	}
}

// TestKilledPush: a push that is killed at any request leaves no incomplete backup in the list. The next push continues
// with the same files. In the end the server has no backup under way.
func TestKilledPush(t *testing.T) {
	t.Parallel()
	killedPushes(t, bucketPlace(s3test.Start(t)))
}

// killedPushes kills a push to a bucket at its first request, then one at its second, and so on until a push has fewer
// requests. Each push uses another prefix.
func killedPushes(t *testing.T, p place) {
	t.Helper()
	s := testkit.Start(t)
	fill(s, 300, "v")
	want := digests(s)
	store := p.store
	for n := 1; ; n++ {
		p.store = fmt.Sprint(store, n)
		all, err := p.killedPush(t, s, n)
		for _, e := range all {
			if !e.Whole {
				t.Fatalf("killed at request %d: %+v", n, e)
			}
		}
		if state := s.Do("BACKUP", "STATUS").Elems[1].Text; (state == "sealed") != (err != nil) {
			t.Fatalf("killed at request %d: %v, and the server's backup is %s", n, err, state)
		}
		told := p.must(t, "push", "--from-server", s.Addr)
		if again := p.list(t); len(again) == 0 || !again[len(again)-1].Whole || s.Do("BACKUP", "STATUS").Elems[1].Text !=
			"idle" {
			t.Fatalf("after the next push: %+v", again)
		}
		if err == nil {
			if n < 10 {
				t.Errorf("a push has only %d requests", n-1)
			}
			break
		}
		if !strings.Contains(told, "An earlier push has left a sealed backup") {
			t.Errorf("killed at request %d, and the next push says %s", n, told)
		}
	}
	if got := digests(p.pull(t, testkit.Spec{})); !maps.Equal(got, want) {
		t.Errorf("the latest one: %q", differences(want, got))
	}
}

// killedPush pushes through a proxy that kills the push at request n. It returns the list of backups after that, and
// how the push ended.
func (p place) killedPush(t *testing.T, s *testkit.Server, n int) (all []entry, err error) {
	t.Helper()
	direct := p
	endpoint := slices.Index(p.args, "--endpoint") + 1
	to, err := url.Parse(p.args[endpoint])
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	var run *exec.Cmd
	started := make(chan bool)
	// The signature covers the Host header, so it stays. The proxy's log would only report that the client has gone.
	pass := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Director: func(r *http.Request) {
		r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-started
		if requests.Add(1) >= int64(n) {
			_ = run.Process.Kill()
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	p.args = slices.Clone(p.args)
	p.args[endpoint] = proxy.URL
	var out bytes.Buffer
	run = p.command(t, &out, "push", "--from-server", s.Addr)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	close(started)
	err = run.Wait()
	return direct.list(t), err
}

// TestKilledBeforeSeal: a push that is killed before SEAL leaves the server's backup under way. A push that is stopped
// by SIGTERM cancels the backup. A push that finds a backup under way seals it.
func TestKilledBeforeSeal(t *testing.T) {
	t.Parallel()
	p := folderPlace(t)
	s := testkit.Start(t)
	fill(s, 2000, "v")
	state := func() string { return s.Do("BACKUP", "STATUS").Elems[1].Text }
	await := func(want string) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(60*time.Second), "the server's backup is "+want, func() error {
			return testkit.Equal(state(), want)
		})
	}
	for sig, want := range map[syscall.Signal]string{syscall.SIGKILL: "snapshotting", syscall.SIGTERM: "failed"} {
		s.Do("CONFIG", "SET", "rdb-key-save-delay", "1000000") // 2,000 seconds in all
		var out bytes.Buffer
		run := p.command(t, &out, "push", "--from-server", s.Addr)
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		await("snapshotting")
		if err := run.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = run.Wait()
		if is := state(); is != want {
			t.Errorf("after %v the server's backup is %s: %s", sig, is, out.String())
		}
		s.Do("CONFIG", "SET", "rdb-key-save-delay", "0")
		if want == "snapshotting" {
			s.Do("BACKUP", "ABORT")
		}
		p.must(t, "push", "--from-server", s.Addr)
	}
	s.Do("BACKUP", "START")
	await("incrementing")
	p.must(t, "push", "--from-server", s.Addr)
	if all := p.list(t); len(all) != 3 || !all[0].Whole || !all[1].Whole || !all[2].Whole || state() != "idle" {
		t.Errorf("list: %+v", all)
	}
}

// TestFolderOfASet: the folder of a sealed backup can be pushed, and so can the folder of a stopped server. A folder
// that a server writes to, or that lacks a file, is refused.
func TestFolderOfASet(t *testing.T) {
	t.Parallel()
	p := folderPlace(t)
	s := testkit.Start(t, "--appendonly", "yes", "--appendfilename", "other.aof")
	fill(s, 100, "v")
	want := digests(s)
	if code := s.Terminate(); code != 0 {
		t.Fatal(code)
	}
	log := s.File("appendonlydir")
	p.must(t, "push", "--set", log, "--name", "ended")
	into := filepath.Join(t.TempDir(), "into")
	out := p.must(t, "pull", "--into", into)
	if !strings.Contains(out, "--appendfilename other.aof") {
		t.Errorf("pull: %s", out)
	}
	back := testkit.Launch(t, testkit.Spec{Dir: into, Args: []string{"--appendonly", "yes", "--appendfilename",
		"other.aof"}})
	if got := digests(back); !maps.Equal(got, want) {
		t.Errorf("%q", differences(want, got))
	}
	bases, err := filepath.Glob(filepath.Join(log, "*.base.*"))
	if err != nil || len(bases) != 1 {
		t.Fatal(bases, err)
	}
	if err := os.Remove(bases[0]); err != nil {
		t.Fatal(err)
	}
	if out, code := p.call(t, "push", "--set", log); code != 1 || !strings.Contains(out, bases[0]) {
		t.Errorf("a base is missing: %d %s", code, out)
	}
	if out, code := p.call(t, "push", "--set", t.TempDir()); code != 1 ||
		!strings.Contains(out, "has no append-only file") {
		t.Errorf("an empty folder: %d %s", code, out)
	}
	if all := p.list(t); len(all) != 1 {
		t.Errorf("list: %+v", all)
	}
}

// TestRefused: each mistake gets an error that names it or says how to fix it. No output contains a secret.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	bucket, folder := bucketPlace(server), folderPlace(t)
	s := testkit.Start(t)
	fill(s, 50, "v")
	right, wrong := keyFile(t, "a"), keyFile(t, "b")
	bucket.must(t, "push", "--from-server", s.Addr, "--key-file", right)
	id := bucket.list(t, "--key-file", right)[0].ID

	open := keyFile(t, "a")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("password"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "into")
	badSecret, badID := bucket, bucket
	badSecret.env = []string{"AWS_ACCESS_KEY_ID=" + s3test.ID, "AWS_SECRET_ACCESS_KEY=wrong+secret"}
	badID.env = []string{"AWS_ACCESS_KEY_ID=UNKNOWN", "AWS_SECRET_ACCESS_KEY=" + s3test.Secret}
	for _, c := range []struct {
		p    place
		args []string
		want string
	}{
		{bucket, []string{"pull", "--into", into, "--key-file", wrong}, "wrong key"},
		{bucket, []string{"pull", "--into", into}, "--key-file"},
		{bucket, []string{"pull", "--into", into, "--key-file", right, "--id", "2001"}, "spindle backup list"},
		{bucket, []string{"pull", "--into", full, "--key-file", right}, "is not empty: it has mine"},
		{bucket, []string{"push", "--from-server", s.Addr, "--key-file", open}, "chmod 600"},
		{bucket, []string{"push", "--from-server", s.Addr, "--key-file", short}, "openssl rand -hex 32"},
		{bucket, []string{"push", "--from-server", "127.0.0.1:1"}, "Connection refused"},
		{bucket, []string{"prune", "--keep-last", "1"}, "nothing was removed"},
		{badSecret, []string{"list"}, "the secret access key is wrong"},
		{badID, []string{"list"}, `does not know the access key "UNKNOWN"`},
		{place{store: bucket.store}, []string{"list"}, "AWS_ACCESS_KEY_ID"},
		{place{store: "/nowhere/at/all"}, []string{"list"}, "does not exist"},
		{place{store: "ftp://host/x"}, []string{"list"}, "s3://BUCKET/PREFIX"},
		{place{store: "s3://"}, []string{"list"}, "names no bucket"},
		{place{store: "file://x"}, []string{"list"}, "file:///FOLDER"},
		{folder, []string{"list"}, "has no backup"},
		{folder, []string{"pull", "--into", into}, "has no whole backup"},
		{folder, []string{"push"}, "--from-server and --set"},
		{folder, []string{"push", "--keep-last", "3"}, "has no option --keep-last"},
		{folder, []string{"pull"}, "needs --into"},
		{folder, []string{"prune"}, "--keep-last or --keep-days"},
		{folder, []string{"mend"}, "push, list, pull and prune"},
	} {
		out, code := c.p.call(t, c.args[0], c.args[1:]...)
		if (code == 0) != (c.want == "has no backup") || !strings.Contains(out, c.want) {
			t.Errorf("%s %v: %d %s, want %q", c.p.store, c.args, code, out, c.want)
		}
		for _, secret := range []string{s3test.Secret, "wrong+secret", strings.Repeat("a", 64)} {
			if strings.Contains(out, secret) {
				t.Errorf("%v tells a secret: %s", c.args, out)
			}
		}
	}
	server.Skew(time.Hour)
	if out, code := bucket.call(t, "list"); code != 1 || !strings.Contains(out, "set this host's clock") {
		t.Errorf("clocks that differ: %d %s", code, out)
	}
	server.Skew(0)

	// The output names a damaged part and a missing part, with the backups that are complete.
	s.Do("SET", "more", strings.Repeat("x", 1000))
	bucket.must(t, "push", "--from-server", s.Addr, "--key-file", right)
	var latest string
	for _, e := range bucket.list(t, "--key-file", right) {
		if e.ID != id {
			latest = e.ID
		}
	}
	if latest == "" {
		t.Fatal("there is no second backup")
	}
	for _, key := range server.Keys("night/parts/") {
		server.Change(key, func(b []byte) []byte { b[0] ^= 1; return b })
	}
	out, code := bucket.call(t, "pull", "--key-file", right, "--id", latest, "--into", into)
	if code != 1 || !strings.Contains(out, "is damaged") || !strings.Contains(out, latest) || !strings.Contains(out, id) {
		t.Errorf("damaged parts: %d %s", code, out)
	}
	for _, key := range server.Keys("night/parts/") {
		server.Change(key, func([]byte) []byte { return nil })
	}
	if all := bucket.list(t, "--key-file", right); len(all) != 2 || all[0].Whole || all[1].Whole {
		t.Errorf("all parts are missing: %+v", all)
	}
	s.Do("SET", "more", "again")
	bucket.must(t, "push", "--from-server", s.Addr, "--key-file", right)
	if all := bucket.list(t, "--key-file", right); len(all) != 3 || !all[2].Whole {
		t.Errorf("after another push: %+v", all)
	}
}

// TestSettingsFile: a file has the options of all commands, and the secrets. The command line has priority over it.
// Errors name a wrong line, and a file of secrets that any user may read.
func TestSettingsFile(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	s := testkit.Start(t)
	fill(s, 20, "v")
	path := filepath.Join(t.TempDir(), "backup.conf")
	text := "# nightly\nstore s3://" + s3test.Bucket + "/x\nendpoint " + server.URL + "\nregion \"" + s3test.Region +
		"\"\n" + "access-key-id " + s3test.ID + "\nsecret-access-key " + s3test.Secret + "\nfrom-server " + s.Addr +
		"\nkey-file " + keyFile(t, "c") + "\nkeep-last 1\nverify yes\nname shop\n"
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, int) {
		t.Helper()
		return testkit.Run(t, testkit.Slowly(time.Minute), "", testkit.Spindle(t),
			append([]string{"backup", args[0], "--settings", path}, args[1:]...)...)
	}
	write(text, 0o640)
	for _, word := range []string{"push", "prune", "list"} {
		if out, code := run(word); code != 0 || word == "list" && !strings.Contains(out, "shop") {
			t.Errorf("%s: %d %s", word, code, out)
		}
	}
	if out, code := run("pull", "--into", filepath.Join(t.TempDir(), "into")); code != 0 {
		t.Errorf("pull: %d %s", code, out)
	}
	if out, code := run("list", "--store", "s3://other"); code != 1 || !strings.Contains(out, `no bucket "other"`) {
		t.Errorf("the command line: %d %s", code, out)
	}
	for line, want := range map[string]string{"mend yes": "there is no such setting",
		"keep-last many": "is not of its kind", "region": "it has no value"} {
		write(text+line+"\n", 0o640)
		if out, code := run("list"); code != 1 || !strings.Contains(out, "backup.conf:12: ") || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", line, code, out)
		}
	}
	write(text, 0o644)
	if out, code := run("list"); code != 1 || !strings.Contains(out, "chmod 640") {
		t.Errorf("a file that any user may read: %d %s", code, out)
	}
}
