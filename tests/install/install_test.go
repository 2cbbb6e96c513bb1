package install

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A root is the folder of an installation.
type root struct{ dir string }

// places returns variables of make that put all files below the root.
func (r root) places() []string {
	return []string{
		"PREFIX=" + r.at("usr"), "SYSCONFDIR=" + r.at("etc"), "STATEDIR=" + r.at("state"), "LOGDIR=" + r.at("log"),
		"RUNDIR=" + r.at("run"),
		"BIN=" + r.at("built"), "SHARE=" + r.at("share"), "GOFLAGS=-pgo=off",
	}
}

func (r root) at(path string) string { return filepath.Join(r.dir, path) }

// install runs make install.
func (r root) install(t *testing.T) { t.Helper(); r.make(t, "install") }

// make runs make with a goal.
func (r root) make(t *testing.T, goal string) {
	t.Helper()
	run := exec.Command("make", append([]string{"-C", "../..", goal}, r.places()...)...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v\n%s", goal, err, out)
	}
}

// installed returns a root, with the folders that systemd would create for the unit. The program is the one that the
// tests have built, so that make builds none.
func installed(t *testing.T) root {
	t.Helper()
	r := root{t.TempDir()}
	for _, dir := range []string{"state", "state-sentinel", "state-dashboard", "log", "run"} {
		if err := os.Mkdir(r.at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(testkit.Spindle(t), r.at("built")); err != nil {
		t.Fatal(err)
	}
	r.install(t)
	return r
}

// read returns a file's text.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// execStart returns the command line in a unit.
func execStart(t *testing.T, unit string) []string {
	t.Helper()
	for line := range strings.Lines(read(t, unit)) {
		if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
			return strings.Fields(command)
		}
	}
	t.Fatalf("%s has no ExecStart", unit)
	return nil
}

// TestInstalled: every file is in its place, and a server starts with the configuration. The unit's command serves
// clients and notifies systemd. After a rotation the log continues in a new file. A second installation keeps the
// configuration.
func TestInstalled(t *testing.T) {
	r := installed(t)
	for path, mode := range map[string]fs.FileMode{
		"usr/bin/spindle": 0o755, "usr/lib/systemd/system/spindle.service": 0o644,
		"etc/spindle/spindle.conf": 0o640, "etc/logrotate.d/spindle": 0o644,
		"usr/lib/systemd/system/spindle-sentinel.service": 0o644, "etc/spindle/sentinel.conf": 0o640,
		"usr/share/man/man1/spindle-sentinel.1":         0o644,
		"usr/lib/systemd/system/spindle-backup.service": 0o644, "usr/lib/systemd/system/spindle-backup.timer": 0o644,
		"etc/spindle/backup.conf":                       0o640,
		"usr/lib/systemd/system/spindle-proxy@.service": 0o644, "etc/spindle/proxy.conf": 0o640,
		"usr/lib/systemd/system/spindle-dashboard.service": 0o644, "etc/spindle/dashboard.conf": 0o640,
		"usr/share/man/man1/spindle-proxy.1": 0o644, "usr/share/man/man5/spindle-proxy.conf.5": 0o644,
		"usr/share/man/man1/spindle-dashboard.1": 0o644, "usr/share/man/man5/spindle-dashboard.conf.5": 0o644,
		"usr/share/man/man1/spindle.1": 0o644, "usr/share/man/man5/spindle.conf.5": 0o644,
		"usr/share/bash-completion/completions/spindle": 0o644, "usr/share/zsh/site-functions/_spindle": 0o644,
		"usr/share/spindle/user.sh": 0o644,
	} {
		stat, err := os.Lstat(r.at(path))
		if err != nil || stat.Mode() != mode {
			t.Errorf("%s: %v, %v; want the mode %v", path, stat, err, mode)
		}
	}
	for _, tool := range []string{"check-rdb", "check-aof"} {
		if to, err := os.Readlink(r.at("usr/bin/spindle-" + tool)); err != nil || to != "spindle" {
			t.Errorf("spindle-%s leads to %q, %v", tool, to, err)
		}
		if out, code := testkit.Run(t, time.Minute, "", r.at("usr/bin/spindle-"+tool)); code != 1 ||
			!strings.Contains(out, "Usage: spindle "+tool) {
			t.Errorf("spindle-%s: %d %s", tool, code, out)
		}
	}
	conf := r.at("etc/spindle/spindle.conf")
	for _, line := range []string{"bind 127.0.0.1 -::1", "dir " + r.at("state"), "logfile " + r.at("log/spindle.log"),
		"pidfile " + r.at("run/spindle.pid")} {
		if !strings.Contains(read(t, conf), "\n"+line+"\n") {
			t.Errorf("the configuration lacks %q", line)
		}
	}
	if out, code := testkit.Run(t, time.Minute, "", r.at("usr/bin/spindle"), "--check-config", conf); code != 0 {
		t.Errorf("--check-config: %s", out)
	}

	command := execStart(t, r.at("usr/lib/systemd/system/spindle.service"))
	if want := []string{r.at("usr/bin/spindle"), conf, "--supervised", "systemd", "--daemonize",
		"no"}; !slices.Equal(command, want) {
		t.Errorf("ExecStart is %q, want %q", command, want)
	}
	heard, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: r.at("notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	port := testkit.FreePort(t)
	s := testkit.Launch(t, testkit.Spec{
		Program: command[0], Bare: true, Port: port, Args: append(command[1:], "--port", strconv.Itoa(port)),
		Shell: "export NOTIFY_SOCKET=" + r.at("notify"),
	})
	_ = heard.SetReadDeadline(time.Now().Add(testkit.Slowly(30 * time.Second)))
	for ready := false; !ready; {
		buf := make([]byte, 1000)
		n, err := heard.Read(buf)
		if err != nil {
			t.Fatalf("systemd never hears READY=1: %v", err)
		}
		ready = strings.Contains(string(buf[:n]), "READY=1\n")
	}
	log := r.at("log/spindle.log")
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	s.Do("SET", "k", "v")
	s.Signal(syscall.SIGTERM)
	s.Wait(testkit.Slowly(20 * time.Second))
	if !strings.Contains(read(t, log), "Redis is now ready to exit") {
		t.Error("the log did not continue in a new file")
	}
	if _, err := os.Stat(r.at("state/dump.rdb")); err != nil {
		t.Error(err)
	}

	sentinel, sentinelPort := execStart(t, r.at("usr/lib/systemd/system/spindle-sentinel.service")), testkit.FreePort(t)
	watcher := testkit.Launch(t, testkit.Spec{
		Program: sentinel[0], Bare: true, Port: sentinelPort,
		Args: append(sentinel[1:], "--port", strconv.Itoa(sentinelPort)),
	})
	if n := len(watcher.Do("SENTINEL", "MASTERS").Elems); n != 1 {
		t.Errorf("the Sentinel of the unit watches %d primaries", n)
	}
	watcher.Signal(syscall.SIGTERM)
	watcher.Wait(testkit.Slowly(20 * time.Second))
	if !strings.Contains(read(t, r.at("log/sentinel.log")), "Sentinel ID is") {
		t.Error("the Sentinel has not logged where its configuration says")
	}

	runTier(t, r)

	if err := os.WriteFile(conf, []byte("port 7000\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	r.install(t)
	if read(t, conf) != "port 7000\n" {
		t.Error("a second installation has changed the configuration")
	}
	uninstall(t, r)
}

// uninstall runs make uninstall. The configuration stays, and no other file.
func uninstall(t *testing.T, r root) {
	t.Helper()
	r.make(t, "uninstall")
	if read(t, r.at("etc/spindle/spindle.conf")) != "port 7000\n" {
		t.Error("make uninstall has changed the configuration")
	}
	for _, dir := range []string{"usr", "etc/logrotate.d"} {
		err := filepath.WalkDir(r.at(dir), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				t.Errorf("make uninstall leaves %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// runTier runs the commands of the units of the proxy and the dashboard, and sends a request to each.
func runTier(t *testing.T, r root) {
	t.Helper()
	shard := testkit.Launch(t, testkit.Spec{Args: []string{"--cluster-enabled", "yes", "--cluster-port",
		strconv.Itoa(testkit.FreePort(t))}})
	shard.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	port := testkit.FreePort(t)
	conf := strings.NewReplacer("\nproxy-cluster \"\"\n", "\nproxy-cluster "+shard.Addr+"\n",
		"\nport 6400\n", "\nport "+strconv.Itoa(port)+"\n").Replace(read(t, r.at("etc/spindle/proxy.conf")))
	if err := os.WriteFile(r.at("etc/spindle/proxy-one.conf"), []byte(conf), 0o640); err != nil {
		t.Fatal(err)
	}
	command := execStart(t, r.at("usr/lib/systemd/system/spindle-proxy@.service"))
	command[1] = strings.Replace(command[1], "%i", "one", 1)
	proxy := testkit.Launch(t, testkit.Spec{Program: command[0], Bare: true, Port: port, Args: command[1:]})
	testkit.Until(t, testkit.Slowly(30*time.Second), "the proxy serves", func() error {
		v, err := proxy.Ask("SET", "k", "v")
		return errors.Join(err, v.Err())
	})

	port = testkit.FreePort(t)
	command = execStart(t, r.at("usr/lib/systemd/system/spindle-dashboard.service"))
	testkit.Launch(t, testkit.Spec{Program: command[0], Bare: true, NoWait: true, Port: port,
		Args: append(command[1:], "--dashboard-address", "127.0.0.1:"+strconv.Itoa(port))})
	testkit.Until(t, testkit.Slowly(30*time.Second), "the dashboard of the unit answers", func() error {
		reply, err := http.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/healthz")
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		return testkit.Equal(reply.StatusCode, http.StatusOK)
	})
}

// TestUnits: systemd-analyze accepts the units without a warning, and rates the server's exposure as small.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: make deps installs it")
	}
	r := root{t.TempDir()}
	places := strings.NewReplacer("@BINDIR@", r.at("bin"), "@SYSCONFDIR@", r.at("etc"), "@STATEDIR@", r.at("state"))
	if err := os.Mkdir(r.at("bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testkit.Spindle(t), r.at("bin/spindle")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spindle-proxy", "spindle-dashboard"} {
		if err := os.Symlink("spindle", r.at("bin/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"spindle.service", "spindle-sentinel.service", "spindle-proxy@.service",
		"spindle-dashboard.service", "spindle-backup.service", "spindle-backup.timer"} {
		unit := r.at(name)
		if err := os.WriteFile(unit, []byte(places.Replace(read(t, "../../packaging/systemd/"+name))), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", analyze, "verify", "--man=no", unit); code != 0 ||
			strings.Contains(out, name) {
			t.Errorf("systemd-analyze verify %s: %d %s", name, code, out)
		}
		if strings.HasSuffix(name, ".timer") {
			continue
		}
		if out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", analyze, "security", "--offline=yes",
			"--threshold=30", unit); code != 0 {
			t.Errorf("systemd-analyze security %s: %d %s", name, code, out)
		}
	}
}

// TestUserScriptAndLinks: while user.sh changes files in the configuration folder, the user spindle may not write to
// that folder. A file with a second hard link is left alone, so root never changes the owner of a linked file.
func TestUserScriptAndLinks(t *testing.T) {
	dir := t.TempDir()
	conf, tools, log := dir+"/conf", dir+"/tools", dir+"/log"
	for _, folder := range []string{conf, tools, dir + "/data", dir + "/data-sentinel", dir + "/data-dashboard",
		dir + "/logs"} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{conf + "/a.conf", dir + "/elsewhere"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(dir+"/elsewhere", conf+"/hard.conf"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/elsewhere", conf+"/soft.conf"); err != nil {
		t.Fatal(err)
	}
	note := "#!/bin/sh\necho \"$(stat -c %a " + conf + ") ${0##*/} $*\" >> " + log + "\n"
	for name, script := range map[string]string{
		"getent": "#!/bin/sh\nexit 0\n", "chown": note, "chmod": note + "exec /bin/chmod \"$@\"\n",
		// The script's check of the owner needs a user that may not exist here.
		"find": "#!/bin/sh\nfor word; do shift; [ \"$word\" = spindle ] && word=65534; set -- \"$@\" \"$word\"; done\n" +
			"exec /usr/bin/find \"$@\"\n",
	} {
		if err := os.WriteFile(tools+"/"+name, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, code := testkit.Run(t, time.Minute, "", "env", "PATH="+tools+":"+os.Getenv("PATH"), "sh",
		"../../packaging/user.sh", conf, dir+"/data", dir+"/logs")
	if code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	for _, want := range []string{"750 chmod 640 " + conf + "/a.conf\n", "750 chown -h spindle:spindle " + conf +
		"/a.conf\n"} {
		if !strings.Contains(read(t, log), want) {
			t.Errorf("no %q in\n%s", want, read(t, log))
		}
	}
	if strings.Contains(read(t, log), "hard") || strings.Contains(read(t, log), "soft") {
		t.Errorf("a link was followed:\n%s", read(t, log))
	}
	if stat, err := os.Stat(conf); err != nil || stat.Mode().Perm() != 0o770 {
		t.Errorf("the folder in the end: %v, %v", stat.Mode(), err)
	}
}
