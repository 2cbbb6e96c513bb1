package process

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
)

// TestSystemd sends messages to a supervisor at a path and at an abstract address.
func TestSystemd(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "n"), fmt.Sprintf("@spindle-test-%d", os.Getpid())} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", name)
		s := &Settings{}
		s.Rows()
		s.Supervised.Set(supervisedAuto)
		v := Supervise(s, logging.New(io.Discard))
		if !v.Active() {
			t.Fatal("there is no supervisor")
		}
		v.Ready()
		v.Underway("Saving", true)
		v.Underway("Saving", false)
		v.Underway("", false)
		v.Stopping()
		for _, want := range []string{"STATUS=Redis is loading...\n",
			"STATUS=Ready to accept connections\nREADY=1\n", "STATUS=Saving\nEXTEND_TIMEOUT_USEC=60000000\n",
			"STATUS=Saving\n", "STATUS=Ready to accept connections\n", "STOPPING=1\n"} {
			buf := make([]byte, 100)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			if n, err := conn.Read(buf); err != nil || string(buf[:n]) != want {
				t.Errorf("%q, %v; want %q", buf[:n], err, want)
			}
		}
		_ = conn.Close()
	}
	t.Setenv("NOTIFY_SOCKET", "")
	s := &Settings{}
	s.Rows()
	for _, mode := range []supervision{supervisedNo, supervisedAuto, supervisedSystemd, supervisedUpstart} {
		s.Supervised.Set(mode)
		if Supervise(s, nil).Active() {
			t.Errorf("mode %d: supervised", mode)
		}
	}
}

func TestTitle(t *testing.T) {
	title := Title{Program: "spindle", Bind: "1.2.3.4", Port: 5, TLSPort: 6, UnixSocket: "/s", Mode: "[x]"}
	for template, want := range map[string]string{
		"{title} {listen-addr} {server-mode}": "spindle 1.2.3.4:5 [x]",
		" {port}{tls-port} ":                  "56",
		"{config-file} {unixsocket}":          "- /s",
		"{{port} {{":                          "{port} {",
	} {
		if got, ok := title.expand(template); !ok || got != want {
			t.Errorf("%s: %q, %v", template, got, ok)
		}
	}
	for _, wrong := range []string{"{", "{title", "{nosuch}", "{}", "", "  ", "{server-mode}"} {
		if checkTitle(wrong) == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if got := (Title{UnixSocket: "/s"}).listenAddr(); got != "unixsocket:/s" {
		t.Error(got)
	}
}

func TestCPUs(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0,2-5": 5, "0-14:2": 8, "3,3": 1} {
		if set, ok := parseCPUs(list); !ok || set.Count() != want {
			t.Errorf("%s: %d processors, %v", list, set.Count(), ok)
		}
	}
	for _, wrong := range []string{"", "x", "1-", "-1", "5-2", "1:2:3", "0-9999", "0-4:0"} {
		if _, ok := parseCPUs(wrong); ok {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestOpenFiles(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	const beside = 32
	var out bytes.Buffer
	log := logging.New(&out)
	if fit, err := FitOpenFiles(10, beside, log); fit != 10 || err != nil || out.Len() > 0 {
		t.Errorf("%d, %v, %s", fit, err, &out)
	}
	const tooMany = 1 << 40 // more than /proc/sys/fs/nr_open
	fit, err := FitOpenFiles(tooMany, beside, log)
	if err != nil || fit <= 0 || fit >= tooMany {
		t.Fatalf("%d, %v", fit, err)
	}
	for _, text := range []string{"You requested maxclients of 1099511627776 requiring at least 1099511627808 max file " +
		"descriptors.",
		fmt.Sprintf("maxclients has been reduced to %d to compensate for low ulimit", fit)} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in\n%s", text, &out)
		}
	}
	if less, err := FitOpenFiles(tooMany, beside+28, log); err != nil || less != fit-28 {
		t.Errorf("%d clients beside 28 files more, %d without, %v", less, fit, err)
	}
	want := fmt.Sprintf("The operating system is not able to handle the specified number of clients, try with %d", fit)
	if err := CheckMaxClients(tooMany, beside, log); err == nil || err.Error() != want {
		t.Error(err)
	}

	// A refusal changes nothing. The limit stays below the hard limit.
	var best, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &best); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &best)
	lower := unix.Rlimit{Cur: best.Cur - 1, Max: best.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	if err := CheckMaxClients(tooMany, beside, log); err == nil || err.Error() != want {
		t.Error(err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &after); err != nil || after != lower {
		t.Errorf("the limit is %+v after a refusal, was %+v, %v", after, lower, err)
	}
}

// TestOomScore writes the score and restores it. Raising the score needs no privilege.
func TestOomScore(t *testing.T) {
	before, err := readNumber(oomFile)
	if err != nil {
		t.Fatal(err)
	}
	s := &Settings{}
	s.Rows()
	s.OomValues.Set([3]int{1, 2, 3})
	o := NewOomAdjuster(s, nil)
	expect := func(what string, replica bool, want int64) {
		t.Helper()
		if err := o.Apply(replica); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got, _ := readNumber(oomFile); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	expect("no", false, before)
	s.OomScoreAdj.Set(oomRelative)
	expect("relative", true, min(before+2, 1000))
	s.OomScoreAdj.Set(oomLeave)
	expect("back", false, before)
}
