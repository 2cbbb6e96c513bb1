package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"net"
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

// ask sends one command to a port.
func ask(port int, args ...any) (respclient.Value, error) {
	c, err := respclient.DialTimeout(fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return respclient.Value{}, err
	}
	defer c.Close()
	c.SetTimeout(testkit.Slowly(time.Minute))
	v, err := c.Do(args...)
	return v, errors.Join(err, v.Err())
}

// TestDemo: six nodes form a cluster in which a killed primary is replaced. The demo prints the command that starts the
// node again, and that command works. At the demo's end no process and no file is left.
func TestDemo(t *testing.T) {
	t.Parallel()
	first, folder := testkit.FreePorts(t, 6), t.TempDir()
	cmd := exec.Command(testkit.Spindle(t), "cluster", "demo", "--port", strconv.Itoa(first), "--dir", folder, "6")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // the demo has exited already, unless the test has failed
	lines := bufio.NewScanner(out)
	said := func(text string) string {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return lines.Text()
			}
		}
		t.Fatalf("the demo has not said %q", text)
		return ""
	}
	said(fmt.Sprintf("starting 6 nodes, ports %d to %d", first, first+5))
	said(fmt.Sprintf("127.0.0.1:%d  primary, slots 0-5460", first))
	said(fmt.Sprintf("127.0.0.1:%d  replica of 127.0.0.1:%d", first+3, first))
	said("Ctrl-C ends the nodes")
	v, err := ask(first, "INFO", "server")
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	for line := range strings.SplitSeq(v.Text, "\r\n") {
		if text, is := strings.CutPrefix(line, "process_id:"); is {
			pid, _ = strconv.Atoi(text)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, again, _ := strings.Cut(said("has ended: signal: killed"), "To start it again: spindle ")
	testkit.Until(t, testkit.Slowly(patience), "the replica takes over", func() error {
		v, err := ask(first+3, "ROLE")
		if err == nil && v.Elems[0].Text != "master" {
			err = errors.New(v.Elems[0].Text)
		}
		return err
	})
	node := exec.Command(testkit.Spindle(t), again)
	node.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, testkit.Slowly(patience), "the node comes back", func() error {
		v, err := ask(first, "ROLE")
		if err == nil && v.Elems[0].Text != "slave" {
			err = errors.New(v.Elems[0].Text)
		}
		return err
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the demo has ended with %v", err)
	}
	if err := node.Wait(); err != nil {
		t.Errorf("the node that was started by hand has ended with %v", err)
	}
	for i := range 6 {
		if _, err := ask(first+i, "PING"); err == nil {
			t.Errorf("the node at port %d is still there", first+i)
		}
	}
	if left, _ := filepath.Glob(folder + "/*"); len(left) > 0 {
		t.Errorf("not removed: %v", left)
	}
}

// TestDemoRefuses: an impossible request is refused with its reason, and leaves no files.
func TestDemoRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	busy := strconv.Itoa(testkit.FreePort(t))
	l, err := net.Listen("tcp", "127.0.0.1:"+busy)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct{ args, want string }{
		{"", "Usage: spindle cluster demo"}, {"x", "Usage: spindle cluster demo"}, {"0", "N is 1 to 100"},
		{"101", "N is 1 to 100"},
		{"--port 60000 3", "below 65536"}, {"--replicas 3 3", "too few"}, {"--port " + busy + " 1", busy},
	} {
		args := append([]string{"cluster", "demo", "--dir", folder}, strings.Fields(c.args)...)
		out, code := testkit.Run(t, testkit.Slowly(20*time.Second), "", testkit.Spindle(t), args...)
		if code != 1 || !strings.Contains(out, c.want) {
			t.Errorf("%q: %d, %q", c.args, code, out)
		}
	}
	if left, _ := filepath.Glob(folder + "/*"); len(left) > 0 {
		t.Errorf("not removed: %v", left)
	}
}
