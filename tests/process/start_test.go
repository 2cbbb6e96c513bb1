package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// stockConf is the path of the Debian package's configuration.
const stockConf = "/etc/redis/redis.conf"

// TestStockConfiguration: a server starts with the distribution's unchanged file. The command line changes the few
// settings that this host needs.
func TestStockConfiguration(t *testing.T) {
	if _, err := os.Stat(stockConf); err != nil {
		t.Fatalf("%v: make deps installs it", err)
	}
	dir, port := t.TempDir(), testkit.FreePort(t)
	log := dir + "/server.log"
	s := testkit.Launch(t, testkit.Spec{Bare: true, Dir: dir, Port: port, Args: []string{stockConf,
		"--port", strconv.Itoa(port), "--dir", dir, "--logfile", log, "--pidfile", dir + "/server.pid", "--daemonize", "no"}})
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "Ready to accept connections") {
		t.Errorf("the log: %v %s", err, text)
	}
	if fields := s.Info("server"); fields["config_file"] != stockConf {
		t.Errorf("config_file:%s", fields["config_file"])
	}
	if pid, err := os.ReadFile(dir + "/server.pid"); err != nil || strings.TrimSpace(string(pid)) != strconv.Itoa(s.PID) {
		t.Errorf("pidfile: %q %v, want %d", pid, err, s.PID)
	}
	s.Do("SET", "k", "v")
	if code := s.Terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(dir + "/server.pid"); err == nil {
		t.Error("the pidfile was not removed")
	}
	s.Restart()
	if v := s.Do("GET", "k"); v.Text != "v" {
		t.Errorf("GET after SIGTERM and a start: %v", v)
	}
}

// TestRefusedConfiguration: for an error in a file, the process reports the line and exits.
func TestRefusedConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"nosuch yes\n":                  "Bad directive or wrong number of arguments",
		"\nappendfsync perhaps\n":       "argument(s) must be one of the following",
		"maxmemory 1zb\n":               "argument must be a memory value",
		"port 1 2\n":                    "wrong number of arguments",
		"save \"unbalanced\n":           "Unbalanced quotes in configuration line",
		"include /nonexistent/a.conf\n": "nonexistent",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/a.conf", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s := testkit.Launch(t, testkit.Spec{Bare: true, Dir: dir, NoWait: true, Args: []string{dir + "/a.conf"}})
		if code := s.Wait(20 * time.Second); code != 1 {
			t.Errorf("%q: exit code %d", text, code)
		}
		if log := s.Log(); !strings.Contains(log, want) ||
			(!strings.HasPrefix(text, "include") && !strings.Contains(log, "FATAL CONFIG FILE ERROR")) {
			t.Errorf("%q: %s", text, log)
		}
	}
}

// TestFolderThatTakesNoFiles: a server that may not save where it should says so at start. root keeps the folder's
// mode only without the right to override it.
func TestFolderThatTakesNoFiles(t *testing.T) {
	dir, port := t.TempDir(), testkit.FreePort(t)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	program, args := testkit.Spindle(t), []string{"--dir", dir, "--port", strconv.Itoa(port), "--bind", "127.0.0.1"}
	if os.Getuid() == 0 {
		args = append([]string{"--bounding-set=-dac_override,-dac_read_search", program}, args...)
		program = testkit.Program(t, "setpriv")
	}
	const warning = "WARNING No file can be created in the folder "
	s := testkit.Launch(t, testkit.Spec{Program: program, Bare: true, Port: port, Args: args})
	if log := s.Log(); !strings.Contains(log, warning+dir+": Permission denied") {
		t.Errorf("no warning: %s", log)
	}
	s.Kill()
	s = testkit.Launch(t, testkit.Spec{Program: program, Bare: true, Port: port, Args: append(args, "--save", "")})
	if log := s.Log(); strings.Contains(log, warning) {
		t.Errorf("a server that never saves warns: %s", log)
	}
}

// TestStandardInput: "-" reads the configuration from standard input.
func TestStandardInput(t *testing.T) {
	port := testkit.FreePort(t)
	dir := t.TempDir()
	conf := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsave \"\"\ndatabases 3\n", port, dir)
	s := testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Dir: dir, Args: []string{"-"},
		Shell: "exec <<'END'\n" + conf + "END"})
	if v := s.Do("CONFIG", "GET", "databases"); v.Elems[1].Text != "3" {
		t.Errorf("databases: %v", v)
	}
}

// TestDaemon: the started process exits, and another process serves. That process writes its PID file, and removes it
// at the end.
func TestDaemon(t *testing.T) {
	dir, port := t.TempDir(), testkit.FreePort(t)
	starter := testkit.Launch(t, testkit.Spec{Dir: dir, Port: port, NoWait: true, Args: []string{"--daemonize", "yes",
		"--pidfile", dir + "/pid", "--logfile", dir + "/log"}})
	if code := starter.Wait(20 * time.Second); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	c := await(t, starter.Addr)
	pid := 0
	for line := range strings.Lines(c.Must("INFO", "server").Text) {
		if text, ok := strings.CutPrefix(line, "process_id:"); ok {
			pid, _ = strconv.Atoi(strings.TrimSpace(text))
		}
	}
	if pid <= 1 || pid == starter.PID {
		t.Fatalf("process_id:%d, started as %d", pid, starter.PID)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) }) // the test's server, whose PID file has this number
	if text, err := os.ReadFile(dir + "/pid"); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(pid) {
		t.Errorf("pidfile: %q %v, want %d", text, err, pid)
	}
	if session, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil ||
		strings.Fields(string(session))[5] != strconv.Itoa(pid) {
		t.Errorf("not its own session: %s %v", session, err)
	}
	c.Must("SET", "k", "v")
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, 20*time.Second, "the daemon's end", func() error {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
			!strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("%s", stat)
		}
		return nil
	})
	if _, err := os.Stat(dir + "/pid"); err == nil {
		t.Error("the pidfile was not removed")
	}
}

// await returns a client of a server that testkit did not start.
func await(t *testing.T, address string) *respclient.Client {
	t.Helper()
	var c *respclient.Client
	testkit.Until(t, testkit.Slowly(20*time.Second), "a server at "+address, func() (err error) {
		if c, err = respclient.Dial(address); err == nil {
			c.SetTimeout(10 * time.Second)
			_, err = c.Do("PING")
		}
		return err
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// TestRewrite: CONFIG REWRITE keeps the file's comments and writes the changed settings. A restart uses them.
func TestRewrite(t *testing.T) {
	dir, port := t.TempDir(), testkit.FreePort(t)
	path := dir + "/spindle.conf"
	conf := fmt.Sprintf("# a comment of the operator's\nport %d\nbind 127.0.0.1\ndir %s\nmaxmemory "+
		"100mb\nrename-command DEBUG \"\"\n", port, dir)
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testkit.Launch(t, testkit.Spec{Bare: true, Dir: dir, Port: port, Args: []string{path}})
	s.Do("CONFIG", "SET", "maxmemory", "200mb", "maxmemory-policy", "allkeys-lfu", "save", "100 10",
		"requirepass", "a word")
	s.Do("CONFIG", "SET", "slowlog-max-len", "77", "client-output-buffer-limit", "pubsub 1mb 2mb 3")
	s.Do("CONFIG", "REWRITE")
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "# a comment of the operator's\n") {
		t.Errorf("%v %s", err, text)
	}
	s.Kill()
	s.Again()
	c := await(t, s.Addr)
	if v, err := c.Do("GET", "k"); err != nil || !strings.HasPrefix(v.Text, "NOAUTH ") {
		t.Errorf("without a password: %v %v", v, err)
	}
	c.Must("AUTH", "a word")
	for name, want := range map[string]string{"maxmemory": "209715200", "maxmemory-policy": "allkeys-lfu",
		"save": "100 10", "slowlog-max-len": "77",
		"client-output-buffer-limit": "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 2097152 3"} {
		if v := c.Must("CONFIG", "GET", name); len(v.Elems) != 2 || v.Elems[1].Text != want {
			t.Errorf("%s: %v, want %q", name, v, want)
		}
	}
	if v, err := c.Do("DEBUG", "JMAP"); err != nil || !strings.HasPrefix(v.Text, "ERR unknown command") {
		t.Errorf("DEBUG, renamed away: %v %v", v, err)
	}
}

// TestStartLine: one line of the log has the version, addresses, configuration, folder, memory limit and persistence.
// With several servers on a host it shows which one wrote the log.
func TestStartLine(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "my.conf")
	port := testkit.FreePort(t)
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nmaxmemory 512mb\nmaxmemory-policy allkeys-lru\nappendonly yes\n"+
		"save 900 1\n", port, dir)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testkit.Launch(t, testkit.Spec{Bare: true, Args: []string{conf}, Port: port, Dir: dir})
	version := s.Info("server")["spindle_version"]
	s.AwaitLog(testkit.Slowly(10*time.Second), fmt.Sprintf(
		"* spindle %s on 127.0.0.1:%d: %s, folder %s, maxmemory 512mb allkeys-lru, append-only file synced everysec, "+
			"saves 900 1\n",
		version, port, conf, dir))
	other := testkit.Start(t)
	other.AwaitLog(testkit.Slowly(10*time.Second), fmt.Sprintf(
		"on 127.0.0.1:%d: no configuration file, folder %s, no maxmemory, no append-only file, no saves\n",
		other.Port, other.Dir))
}

// TestHugePages: the kernel gives the process huge pages only if disable-thp is no. Then they are as for this process.
func TestHugePages(t *testing.T) {
	t.Parallel()
	enabled := func(pid int) string {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(status), "THP_enabled:\t")
		return after[:min(1, len(after))]
	}
	here := enabled(os.Getpid()) // "" if the kernel does not say
	if is := enabled(testkit.Start(t).PID); is != "0" && here != "" {
		t.Errorf("without disable-thp THP_enabled is %s", is)
	}
	if is := enabled(testkit.Start(t, "--disable-thp", "no").PID); is != here {
		t.Errorf("with disable-thp no THP_enabled is %s", is)
	}
}
