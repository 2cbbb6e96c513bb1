package proxy

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestDemo: the demo's proxies serve the cluster, and spindle ctl works with its dashboard. At the demo's end no
// process and no file is left.
func TestDemo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Log("etcd is not installed: a folder is the store")
	}
	folder := t.TempDir()
	first, cmd, token := startDemo(t, folder)
	at := func(port int) string { return "127.0.0.1:" + strconv.Itoa(first+port) }
	for i := range 2 {
		c, err := respclient.Dial(at(6 + i))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		expect(t, c, "OK", "MSET", "a", "1", "b", "2", "c", "3")
		expect(t, c, "[1 2 3]", "MGET", "a", "b", "c")
	}
	shown, code := testkit.Run(t, testkit.Slowly(time.Minute), "", testkit.Spindle(t), "ctl", "--url", "http://"+at(10),
		"--token", token, "proxies", "demo")
	if code != 0 || !strings.Contains(shown, "proxy-1") || !strings.Contains(shown, "proxy-2") {
		t.Errorf("spindle ctl proxies: %d\n%s", code, shown)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the demo has ended with %v", err)
	}
	for i := range 13 {
		if c, err := respclient.Dial(at(i)); err == nil {
			c.Close()
			t.Errorf("%s still listens", at(i))
		}
	}
	if left, _ := filepath.Glob(folder + "/*"); len(left) > 0 {
		t.Errorf("not removed: %v", left)
	}
}

// startDemo starts a demo and waits until it is up. It returns the demo's first port and the dashboard's token. The
// ports of the nodes' buses are in the range of outgoing connections too. If one is taken meanwhile, startDemo tries
// other ports.
func startDemo(t *testing.T, folder string) (first int, cmd *exec.Cmd, token string) {
	t.Helper()
	for range 10 {
		first = testkit.FreePorts(t, 13)
		cmd = exec.Command(testkit.Spindle(t), "proxy", "demo", "--port", strconv.Itoa(first), "--dir", folder,
			"--pidfile", filepath.Join(folder, "pid"))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var failure strings.Builder
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Stderr = &failure
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // the demo has exited already, unless the test has failed
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, said, is := strings.Cut(lines.Text(), "its token is "); is {
				token = said
			}
			if strings.HasPrefix(lines.Text(), "Ctrl-C ends all of it") {
				return first, cmd, token
			}
		}
		_ = cmd.Wait() // its output shows the failure
		if !strings.Contains(failure.String(), "cannot be had") {
			t.Fatalf("the demo has not come up: %s", failure.String())
		}
	}
	t.Fatal("no ports were free")
	return 0, nil, ""
}
