package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/bench/report"
	"spindle/bench/scenarios"
	"spindle/tests/testkit"
)

// TestMain lets the test binary also run as the bench, and as its children.
func TestMain(m *testing.M) {
	if os.Getenv("BENCH_IS_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestRefusals(t *testing.T) {
	for _, args := range []string{"", "nothing", "run", "run nothing", "quick -also x", "run -n x memory",
		"run -redis /nowhere memory", "run -server-cpus x memory"} {
		if err := run(strings.Fields(args)); err == nil {
			t.Errorf("bench %s is accepted", args)
		}
	}
}

func TestPairs(t *testing.T) {
	var p pairs
	if p.Set("a=/b") != nil || p.Set("c=d=e") != nil || p[0] != [2]string{"a", "/b"} || p[1] != [2]string{"c", "d=e"} {
		t.Error(p)
	}
	for _, text := range []string{"", "a", "=b", "a="} {
		if p.Set(text) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestInterrupt: ^C during a run leaves no server, no generator and no folder.
func TestInterrupt(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: make deps installs it")
	}
	scratch := t.TempDir()
	cmd := exec.Command(os.Args[0], "run", "-spindle", "/bin/true", "-scratch", scratch, "-port", "21480", "-keys", "1000",
		"-duration", "1m", "latency")
	cmd.Env = append(os.Environ(), "BENCH_IS_MAIN=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var children []int
	if !testkit.Holds(30*time.Second, func() bool { // a server and a generator
		children = childrenOf(cmd.Process.Pid)
		return len(children) >= 2
	}) {
		t.Errorf("children: %v", children)
	}
	time.Sleep(300 * time.Millisecond)
	children = append(children, childrenOf(cmd.Process.Pid)...)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Error(err)
	}
	for _, pid := range children {
		if !testkit.Holds(20*time.Second, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left in scratch: %v, %v", left, err)
	}
}

func childrenOf(pid int) (children []int) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue
		}
		for word := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// TestCommandNamesNoFolder: the command that a page gives for its repetition names no folder.
func TestCommandNamesNoFolder(t *testing.T) {
	for _, args := range [][]string{{"run", "-root", "/a/b", "-n", "2"}, {"run", "--root=/a/b", "-n", "2"},
		{"run", "-n", "2"}} {
		if got := strings.Join(withoutFolder(args), " "); got != "run -n 2" {
			t.Errorf("%q became %q", args, got)
		}
	}
	args := []string{"run", "-spindle", "/a/b/one", "-also", "two=/a/two", "--redis=/c"}
	if got := strings.Join(withoutFolder(args), " "); got != "run -spindle one -also two=two --redis=c" {
		t.Errorf("programs: %q", got)
	}
}

// TestSummaryIsOfTheResults: the picture in the README shows the stored results.
func TestSummaryIsOfTheResults(t *testing.T) {
	root := ".."
	sections, _, err := report.Load(filepath.Join(root, "bench", "results"), scenarios.Names())
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(filepath.Join(root, report.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(drawn, report.Summary(sections)) {
		t.Errorf("%s is old: go run ./bench report", report.SummaryFile)
	}
}
