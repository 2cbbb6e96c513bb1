package process

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// listenAsSystemd listens on NOTIFY_SOCKET. next returns the next message, or "" if none comes for some seconds.
func listenAsSystemd(t *testing.T) (path string, next func() string) {
	path = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return path, func() string {
		buf := make([]byte, 4096)
		_ = conn.SetReadDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
		n, _ := conn.Read(buf)
		return string(buf[:n])
	}
}

// TestSystemdHears: systemd is notified of a slow load, with an extension of its time limit, and of the load's end. It
// is also notified of a slow last save, and of the end of the server.
func TestSystemdHears(t *testing.T) {
	s := testkit.Start(t)
	s.Do("DEBUG", "POPULATE", "1200", "k")
	s.Do("SAVE")
	s.Terminate()
	path, next := listenAsSystemd(t)
	again := testkit.Launch(t, testkit.Spec{
		Dir: s.Dir, NoWait: true, Shell: "export NOTIFY_SOCKET=" + path,
		Args: []string{"--supervised", "systemd", "--key-load-delay", "2000", "--rdb-key-save-delay", "2000",
			"--save", "3600 1"},
	})
	hears := func(what string, is func(string) bool) {
		t.Helper()
		for limit := time.Now().Add(testkit.Slowly(time.Minute)); time.Now().Before(limit); {
			if is(next()) {
				return
			}
		}
		t.Errorf("systemd never hears %s; the log: %s", what, again.Log())
	}
	hears("of the load", func(m string) bool {
		return strings.HasPrefix(m, "STATUS=Loading: ") && strings.Contains(m, "%") &&
			strings.Contains(m, "\nEXTEND_TIMEOUT_USEC=")
	})
	hears("of its end", func(m string) bool { return m == "STATUS=Ready to accept connections\nREADY=1\n" })
	again.Do("SET", "k", "v")
	again.Signal(syscall.SIGTERM)
	hears("of the last save", func(m string) bool {
		return strings.HasPrefix(m, "STATUS=Saving: ") && strings.Contains(m, "of 1201 keys") &&
			strings.Contains(m, "\nEXTEND_TIMEOUT_USEC=")
	})
	hears("of the end", func(m string) bool { return m == "STOPPING=1\n" })
	if code := again.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(s.File("dump.rdb")); err != nil {
		t.Error(err)
	}
}
