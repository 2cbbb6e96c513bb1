package server

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/bgsave"
	"spindle/internal/logging"
)

// A hearer is a systemd that notes what it is told.
type hearer struct {
	t    *testing.T
	conn *net.UnixConn
}

// hear starts one, and a supervisor that speaks to it.
func hear(t *testing.T) (*hearer, *Supervisor) {
	name := filepath.Join(t.TempDir(), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	s := &ProcessSettings{}
	s.Rows()
	s.Supervised.Set(supervisedSystemd)
	v := Supervise(s, logging.New(&bytes.Buffer{}))
	h := &hearer{t, conn}
	h.hears("STATUS=Redis is loading...\n")
	return h, v
}

// hears fails unless the next message begins with want.
func (h *hearer) hears(want string) {
	h.t.Helper()
	buf := make([]byte, 1000)
	_ = h.conn.SetReadDeadline(time.Now().Add(patience))
	if n, err := h.conn.Read(buf); err != nil || string(buf[:n]) != want {
		h.t.Errorf("systemd hears %q, %v; want %q", buf[:n], err, want)
	}
}

// TestProgressIsTold: the log hears of a load every ten seconds, systemd every second; it waits longer only while
// something moves, and hears the status before once it is over.
func TestProgressIsTold(t *testing.T) {
	h, v := hear(t)
	var log bytes.Buffer
	loading, saved := &bgsave.Loading{}, &bgsave.Progress{}
	var saving *bgsave.Progress
	r := &reporter{log: logging.New(&log), supervisor: v, loading: loading,
		saving: func() *bgsave.Progress { return saving }}
	now := time.Unix(1_000_000, 0)
	tick := func() { r.tick(now); now = now.Add(time.Second) }
	tick() // nothing is under way: nobody hears
	loading.Begin(1000)
	tick()
	h.hears("STATUS=Loading: 0.0%\nEXTEND_TIMEOUT_USEC=60000000\n")
	loading.Read.Store(100)
	loading.LastKeysLoaded.Store(7)
	tick()
	h.hears("STATUS=Loading: 10.0%, about 10 seconds to go, 7 keys so far\nEXTEND_TIMEOUT_USEC=60000000\n")
	tick() // it stands still
	h.hears("STATUS=Loading: 10.0%, about 19 seconds to go, 7 keys so far\n")
	for range 7 {
		tick()
		h.hears(lastStatus(r, now))
	}
	if log.Len() != 0 {
		t.Errorf("the log hears of it within ten seconds: %s", log.String())
	}
	loading.Read.Store(500)
	tick()
	h.hears("STATUS=Loading: 50.0%, about 11 seconds to go, 7 keys so far\nEXTEND_TIMEOUT_USEC=60000000\n")
	if !strings.HasSuffix(log.String(), " * Loading: 50.0%, about 11 seconds to go, 7 keys so far\n") ||
		strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log after ten seconds: %q", log.String())
	}
	loading.Active.Store(false)
	tick()
	h.hears("STATUS=Redis is loading...\n")
	v.Ready()
	h.hears("STATUS=Ready to accept connections\nREADY=1\n")
	tick()
	saved.Total.Store(10)
	saved.Keys.Store(5)
	saved.Bytes.Store(3 << 20)
	saving = saved
	tick()
	h.hears("STATUS=Saving: 50.0%, 5 of 10 keys, 3.0 MB written\nEXTEND_TIMEOUT_USEC=60000000\n")
	saving = nil
	tick()
	h.hears("STATUS=Ready to accept connections\n")
	v.Stopping()
	h.hears("STOPPING=1\n")
}

// lastStatus is what a load that stands still is told as, by the tick before now.
func lastStatus(r *reporter, now time.Time) string {
	again := r.load
	text, _ := again.at(now.Add(-time.Second), again.what, again.done, 1000, again.work)
	return "STATUS=Loading: " + text + ", 7 keys so far\n"
}
