package transcripts

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startServer builds and starts a server for one test, unless SPINDLE_SERVER names one, and returns its address.
func startServer(t *testing.T) string {
	if address := os.Getenv("SPINDLE_SERVER"); address != "" {
		return address
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "spindle")
	if out, err := exec.Command("go", "build", "-o", binary, "spindle").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	port := freePort(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes", "--dir", dir)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Signal(syscall.SIGTERM)
		process.Wait()
		log.Close()
	})
	address := "127.0.0.1:" + port
	if err := await(address); err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	return address
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// await returns when the server answers.
func await(address string) (err error) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		p := &player{address: address, protocol: 2}
		var reply []string
		reply, err = p.ask(0, []string{"PING"})
		p.close()
		if err == nil && strings.HasPrefix(reply[0], "+PONG") {
			return nil
		}
	}
	return fmt.Errorf("the server at %s does not answer: %v", address, err)
}

// TestReplay holds the server to every transcript, in RESP2 and RESP3.
func TestReplay(t *testing.T) {
	paths, err := filepath.Glob("*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	server := startServer(t)
	for _, path := range paths {
		script, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s/RESP%d", strings.TrimSuffix(path, ".txt"), protocol), func(t *testing.T) {
				err := Play(script, server, protocol, func(s *Step, reply []string) error {
					if err := s.Check(protocol, reply); err != nil {
						t.Errorf("%s:%d: %s: %v", path, s.Line, s.Text, err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		`GET k`:              {"GET", "k"},
		`SET  k "a b\r\n\""`: {"SET", "k", "a b\r\n\""},
		`SET k ""`:           {"SET", "k", ""},
		`SET k "\x00\xff"`:   {"SET", "k", "\x00\xff"},
		`SET k {3*ab}c`:      {"SET", "k", "abababc"},
	} {
		got, err := split(line)
		if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("split(%q) = %q, %v; want %q", line, got, err, want)
		}
	}
	if _, err := split(`SET k "open`); err == nil {
		t.Error("an open quote was accepted")
	}
}
