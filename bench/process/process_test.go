package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == StallArg {
		if err := StallMain(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]string{"": "any", "any": "any", "0": "0", "0,2": "0,2", "1-3": "1,2,3",
		"0,2-3": "0,2,3"} {
		if got, err := ParseCPUs(text); err != nil || got.String() != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "-1", "3-1", "0,", "1-", "0,x"} {
		if got, err := ParseCPUs(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	user, kernel, err := parseStat("12 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20 0")
	if err != nil || user != 2500*time.Millisecond || kernel != 310*time.Millisecond {
		t.Error(user, kernel, err)
	}
	if _, _, err := parseStat("12 (a) R 1"); err == nil {
		t.Error("a short line is accepted")
	}
}

func TestKilobytes(t *testing.T) {
	text := "Name:\tx\nVmHWM:\t    2048 kB\nRssAnon:\t 12 kB\n"
	if got := kilobytes(text, "VmHWM"); got != 2<<20 {
		t.Error(got)
	}
	if got := kilobytes(text, "Rss"); got != 0 {
		t.Error("a prefix of a name matched:", got)
	}
}

// TestChild: a child runs only on its core, its clock counts its CPU time, and KillAll kills it.
func TestChild(t *testing.T) {
	cmd := exec.Command("sh", "-c",
		"i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; grep Cpus_allowed_list /proc/self/status; sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(cmd, CPUs{0}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	if fields := strings.Fields(string(buf[:n])); err != nil || len(fields) != 2 || fields[1] != "0" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	if used, err := CPUTime(cmd.Process.Pid); err != nil || used < 5*time.Millisecond || used > time.Minute {
		t.Error(used, err)
	}
	if RSS(cmd.Process.Pid) == 0 || PeakRSS(cmd.Process.Pid) == 0 {
		t.Error("a live process has memory")
	}
	KillAll()
	err = Wait(cmd)
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || !ok || status.Signal() != syscall.SIGKILL {
		t.Error(err, status)
	}
	if _, err := CPUTime(cmd.Process.Pid); err == nil {
		t.Error("a dead process has a clock")
	}
}

func TestStallWatch(t *testing.T) {
	w, err := WatchStalls(CPUs{0})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	s, err := w.Stop()
	if err != nil || s.Wakes == 0 || s.Longest <= 0 || s.Memory <= 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
