package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestNowhereToListen: a server without an address does not start.
func TestNowhereToListen(t *testing.T) {
	for name, options := range map[string][]string{
		"no port":                    {"--port", "0"},
		"no address":                 {"--port", "21890", "--bind", ""},
		"only addresses that may be": {"--port", "21890", "--bind", "-198.51.100.7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, asServer, "", append(options, "--unixsocket", "")...)
			if status := s.exit(); status.ExitStatus() != 1 {
				t.Errorf("ended with %v", status)
			}
			if log := s.log(); !strings.HasSuffix(log, " # Configured to not listen anywhere, exiting.\n") {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}

// TestBindFileLine: a bind line without an address leaves only the Unix socket.
func TestBindFileLine(t *testing.T) {
	s := start(t, asServer, "", "--port", "21890", "--bind", "")
	s.await("Ready to accept connections unix")
	if log := s.log(); strings.Contains(log, "connections tcp") {
		t.Errorf("the log:\n%s", log)
	}
}

// TestTakenPort: the line before the last names the cause, and both lines have the words that monitoring looks for.
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	s := start(t, asServer, "", "--bind", "127.0.0.1", "--port", fmt.Sprint(port))
	if status := s.exit(); status.ExitStatus() != 1 {
		t.Errorf("ended with %v", status)
	}
	for _, line := range []string{
		fmt.Sprintf(" # Warning: Could not create server TCP listening socket 127.0.0.1:%d: bind: Address already in use\n",
			port),
		fmt.Sprintf(" # Failed listening on port %d (tcp), aborting.\n", port),
	} {
		if !strings.Contains(s.log(), line) {
			t.Errorf("no %q in\n%s", line, s.log())
		}
	}
}

// TestRebindToTakenPort: the server keeps its addresses, and its log does not say that it aborts.
func TestRebindToTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := start(t, asServer, "", "--bind", "127.0.0.1")
	c := s.dial()
	port := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)
	if v, _ := c.Do("CONFIG", "SET", "port",
		port); v.Text != "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. "+
		"Check server logs." {
		t.Errorf("CONFIG SET port: %v", v)
	}
	s.await(" # Warning: Could not create server TCP listening socket 127.0.0.1:" + port +
		": bind: Address already in use\n")
	if log := s.log(); strings.Contains(log, "aborting") {
		t.Errorf("the log:\n%s", log)
	}
}
