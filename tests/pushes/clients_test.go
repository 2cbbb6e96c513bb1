package pushes

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// programs returns how to start a client of each installed library that supports maintenance notifications.
func programs(t *testing.T) map[string]testkit.Spec {
	t.Helper()
	found := map[string]testkit.Spec{}
	if path, err := filepath.Abs("../../bin/clients/goredis-maintenance"); err == nil {
		if _, err := os.Stat(path); err == nil {
			found["go-redis"] = testkit.Spec{Program: path}
		}
	}
	if python, err := exec.LookPath("python3"); err == nil &&
		exec.Command(python, "-c", "import redis.maint_notifications").Run() == nil {
		script, err := filepath.Abs("testdata/clients/count.py")
		if err != nil {
			t.Fatal(err)
		}
		found["redis-py"] = testkit.Spec{Program: python, Args: []string{script}}
	}
	return found
}

// serviceAddress forwards new connections to the current primary, like an address that follows the role.
func serviceAddress(t *testing.T, servers ...*testkit.Server) string {
	t.Helper()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { front.Close() })
	go func() {
		for {
			in, err := front.Accept()
			if err != nil {
				return
			}
			go forward(in, servers)
		}
	}()
	return front.Addr().String()
}

func forward(in net.Conn, servers []*testkit.Server) {
	defer in.Close()
	for range 100 {
		for _, s := range servers {
			out, err := net.Dial("tcp", s.Addr)
			if err != nil {
				continue
			}
			defer out.Close()
			io.WriteString(out, "ROLE\r\n")
			first := make([]byte, 64)
			n, _ := out.Read(first)
			if !strings.Contains(string(first[:n]), "master") {
				continue
			}
			again, err := net.Dial("tcp", s.Addr)
			if err != nil {
				continue
			}
			defer again.Close()
			go func() {
				io.Copy(again, in)
				again.Close()
			}()
			io.Copy(in, again)
			return
		}
		time.Sleep(10 * time.Millisecond) // the role is changing
	}
}

// TestClientsNoticeNoFailover: go-redis and redis-py increment counters through an address that follows the primary.
// The application gets no error during a FAILOVER.
func TestClientsNoticeNoFailover(t *testing.T) {
	t.Parallel()
	clients := programs(t)
	if len(clients) == 0 {
		t.Skip("no go-redis (make clients) and no redis-py that knows maintenance notifications (8.0 or later)")
	}
	for name, spec := range clients {
		t.Run(name, func(t *testing.T) {
			primary, replica := pairOf(t)
			spec.Bare, spec.NoWait = true, true
			spec.Args = append(spec.Args, serviceAddress(t, primary, replica))
			client := testkit.Launch(t, spec)
			rises := func() {
				t.Helper()
				first, _ := strconv.Atoi(primary.Do("GET", "counter:0").Text)
				testkit.Await(t, testkit.Slowly(20*time.Second), "the counters to rise", func() bool {
					n, _ := strconv.Atoi(primary.Do("GET", "counter:0").Text)
					return n > first+20
				})
			}
			rises()
			for range 4 {
				primary.Do("FAILOVER")
				replica.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "role", "master")
				primary.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
				primary, replica = replica, primary
				primary.AwaitOnline(testkit.Slowly(20*time.Second), 1)
				rises()
			}
			if log := client.Log(); strings.Contains(log, "error:") {
				t.Errorf("errors reached the application:\n%s", log)
			}
		})
	}
}
