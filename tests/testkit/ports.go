package testkit

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
)

// Ports are below the kernel's range for outgoing connections, so that no client can take one before the server binds
// it. So are the ports of cluster buses. A locked file reserves each port for this process, because test processes run
// in parallel.
const defaultPorts = "12000-21999"

var (
	portsMu sync.Mutex
	next    int
	leases  []*os.File // held until the process ends
)

// FreePort returns a loopback port that has no listener. No other test process will get it. SPINDLE_TEST_PORTS
// (from-to) sets the range.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// busDistance is the difference between the port of a cluster node's bus and the node's port.
const busDistance = 10000

// FreePorts returns the first of count consecutive free ports. The ports of their cluster buses are free too.
func FreePorts(t testing.TB, count int) int {
	t.Helper()
	row := 0
	for last := 0; row < count; {
		port := FreePort(t)
		if port != last+1 {
			row = 0
		}
		last = port
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+busDistance))
		if err != nil {
			row = 0
			continue
		}
		_ = l.Close()
		if row++; row == count {
			return port - count + 1
		}
	}
	return 0
}

func freePort() (int, error) {
	text := os.Getenv("SPINDLE_TEST_PORTS")
	if text == "" {
		text = defaultPorts
	}
	low, high, _ := strings.Cut(text, "-")
	from, err := strconv.Atoi(low)
	if err != nil {
		return 0, fmt.Errorf("SPINDLE_TEST_PORTS: %w", err)
	}
	to, err := strconv.Atoi(high)
	if err != nil || to < from {
		return 0, fmt.Errorf("SPINDLE_TEST_PORTS: %q is no range", text)
	}
	dir := filepath.Join(os.TempDir(), "spindle-test-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	portsMu.Lock()
	defer portsMu.Unlock()
	if next == 0 {
		next = os.Getpid() * 97
	}
	for range to - from + 1 {
		port := from + next%(to-from+1)
		next++
		lease, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return 0, err
		}
		if syscall.Flock(int(lease.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			lease.Close()
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			lease.Close()
			continue
		}
		leases = append(leases, lease)
		return port, l.Close()
	}
	return 0, fmt.Errorf("no port of %s is free", text)
}

// ShutDown shuts down the server on a loopback port, if there is one, and waits until no process listens there. The
// data is not saved.
func ShutDown(t testing.TB, port int) {
	t.Helper()
	at := "127.0.0.1:" + strconv.Itoa(port)
	c, err := respclient.DialTimeout(at, Slowly(ReplyTimeout))
	if err != nil {
		return
	}
	defer c.Close()
	c.SetTimeout(Slowly(ReplyTimeout))
	_, _ = c.Do("SHUTDOWN", "NOSAVE", "NOW") // the server replies by closing the connection
	Until(t, Slowly(20*time.Second), "the end of a server", func() error {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
			return fmt.Errorf("it still listens on %d", port)
		}
		return nil
	})
}
