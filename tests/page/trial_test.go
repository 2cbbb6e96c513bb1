package page

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/tests/testkit"
)

// A fault is caused on a real server. The first screen of the page has to name it within ten seconds.
type fault struct {
	name   string
	serve  func(t *testing.T) (s *testkit.Server, url string) // nil means a plain server
	plant  func(t *testing.T, s *testkit.Server)
	says   string // a part of the text in the line of state
	panel  string // the panel to which the line of state links
	server []string
}

var faults = []fault{
	{name: "a slow script", plant: plantScript, says: "slow script", panel: "turns"},
	{name: "a big key", plant: plantBigKey, says: "A big key: the list cart:42 (db 0) has", panel: "keys"},
	{name: "a lagging replica", plant: plantLag, says: "lags: it has not answered for", panel: "replication"},
	{name: "a full disk", serve: serveSmallDisk, plant: plantFullDisk, says: "append-only file cannot be written:",
		panel: "persistence"},
	{name: "memory at its limit", server: []string{"--maxmemory", "20mb"}, plant: plantFullMemory,
		says: "Memory is at its limit: ", panel: "memory"},
	{name: "a burst of connects", plant: plantConnects, says: "A burst of connects: ", panel: "clients"},
	{name: "an expired certificate", serve: serveTLS, plant: plantExpiry, says: "The server's TLS certificate has ended",
		panel: "server"},
	{name: "a hot key", plant: plantHotKey, says: "A hot key: session:7 (db 0) gets", panel: "keys"},
	{name: "an uncovered slot", serve: serveNode, plant: plantSlot, says: "1 of 16,384 slots are uncovered",
		panel: "cluster"},
	{name: "a stuck fsync", server: []string{"--appendonly", "yes"}, plant: plantStuckSync, says: "fsync is stuck: ",
		panel: "persistence"},
}

// recordFile is the committed record of the trial.
const recordFile = "trial.txt"

// TestTrial causes ten faults, one after another. SPINDLE_TRIAL names a file for the record. It has each fault, the
// number of seconds until the line of state named it, and the text of that line.
func TestTrial(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.size(1280, 800, "light")
	record :=
		"# Ten faults, each planted on a healthy server: after how many seconds the first screen named it, and how.\n" +
			"# TestTrial makes this file: make page-record.\n"
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			b.t = t
			if f.serve == nil {
				f.serve = func(t *testing.T) (*testkit.Server, string) { return serve(t, f.server...) }
			}
			s, url := f.serve(t)
			b.enter(url)
			b.await("document.querySelector('#state').className === 'state good'")
			began := time.Now()
			f.plant(t, s)
			text := ""
			testkit.Until(t, testkit.Slowly(10*time.Second)-time.Since(began), f.name, func() error {
				text = eval[string](b, fmt.Sprintf(`[...document.querySelectorAll('#troubles li')]
					.filter((e) => e.getBoundingClientRect().bottom < innerHeight && scrollY === 0)
					.filter((e) => e.querySelector('a').hash === '#%s' && document.querySelector('#%[1]s'))
					.map((e) => e.querySelector('.text').textContent).find((text) => text.includes(%s)) || ''`, f.panel, strconv.Quote(f.says)))
				if text == "" {
					return fmt.Errorf("the page says %q", eval[string](b, "document.getElementById('state').innerText"))
				}
				return nil
			})
			record += fmt.Sprintf("\n%s, %.1f s\n    %s (panel %s)\n", f.name, time.Since(began).Seconds(), steady(text),
				f.panel)
		})
	}
	if file := os.Getenv("SPINDLE_TRIAL"); file != "" && !t.Failed() {
		if err := os.WriteFile(file, []byte(record), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// steady returns a text without the port of a client, which differs each time.
func steady(text string) string {
	before, rest, found := strings.Cut(text, "(127.0.0.1:")
	if _, after, ok := strings.Cut(rest, ")"); found && ok {
		return before + "(127.0.0.1:PORT)" + after
	}
	return text
}

// TestRecord: the committed record has all faults, each named within ten seconds.
func TestRecord(t *testing.T) {
	record, err := os.ReadFile(recordFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		_, rest, found := strings.Cut(string(record), "\n"+f.name+", ")
		took, rest, _ := strings.Cut(rest, " s\n")
		said, _, _ := strings.Cut(rest, "\n")
		if seconds, err := strconv.ParseFloat(took, 64); !found || err != nil || seconds > 10 {
			t.Errorf("%s: %q s", f.name, took)
		}
		if !strings.Contains(said, f.says) || !strings.Contains(said, "(panel "+f.panel+")") {
			t.Errorf("%s: the line said %q", f.name, said)
		}
	}
}

func plantScript(t *testing.T, s *testkit.Server) {
	c := s.Dial()
	c.Send("EVAL", "while true do end", 0)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testkit.Until(t, testkit.Slowly(30*time.Second), "the end of the script", func() error {
			v, err := s.Ask("SCRIPT", "KILL")
			if err == nil {
				err = v.Err()
			}
			return err
		})
	})
}

func plantBigKey(t *testing.T, s *testkit.Server) {
	testkit.Pipe(t, s.Dial(), 300_000, func(i int) []any { return []any{"RPUSH", "cart:42", "item " + strconv.Itoa(i)} })
}

// plantLag suspends a replica's process.
func plantLag(t *testing.T, s *testkit.Server) {
	replica := testkit.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(s.Port))
	s.AwaitOnline(testkit.Slowly(20*time.Second), 1)
	replica.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { replica.Signal(syscall.SIGCONT) })
}

// serveSmallDisk starts a server on a disk of 2 MB, where this process may mount one.
func serveSmallDisk(t *testing.T) (s *testkit.Server, url string) {
	dir := t.TempDir()
	if err := unix.Mount("spindle", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Logf("no disk can be mounted: %v; files are limited instead", err)
		return serve(t, "--appendonly", "yes")
	}
	t.Cleanup(func() {
		s.Kill()
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s, url = serve(t, "--appendonly", "yes", "--dir", dir)
	s.Crashes()
	return s, url
}

// plantFullDisk writes until the append-only file cannot grow any more.
func plantFullDisk(t *testing.T, s *testkit.Server) {
	limit := unix.Rlimit{Cur: 2 << 20, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(s.PID, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if v, err := s.Ask("SET", "key:"+strconv.Itoa(i), strings.Repeat("x", 10<<10)); err != nil || v.Err() != nil {
			return
		}
	}
	t.Fatal("the disk takes everything")
}

func plantFullMemory(t *testing.T, s *testkit.Server) {
	for i := range 1000 {
		if v, err := s.Ask("SET", "key:"+strconv.Itoa(i), strings.Repeat("x", 100<<10)); err != nil || v.Err() != nil {
			return
		}
	}
	t.Fatal("memory takes everything")
}

func plantConnects(t *testing.T, s *testkit.Server) {
	for range 1500 {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.Port))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

func serveTLS(t *testing.T) (s *testkit.Server, url string) {
	made := testkit.NewCertificates(t)
	month := x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	past := x509.Certificate{NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-time.Hour)}
	made.IssueAs(t, "months", &month)
	made.IssueAs(t, "past", &past)
	s, url = serve(t, "--tls-port", strconv.Itoa(testkit.FreePort(t)), "--tls-auth-clients", "no",
		"--tls-cert-file", made.File("months.crt"), "--tls-key-file", made.File("months.key"))
	for _, kind := range []string{".crt", ".key"} {
		text, err := os.ReadFile(made.File("past" + kind))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.File("past"+kind), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s, url
}

func plantExpiry(t *testing.T, s *testkit.Server) {
	s.Do("CONFIG", "SET", "tls-cert-file", s.File("past.crt"), "tls-key-file", s.File("past.key"))
}

func plantHotKey(t *testing.T, s *testkit.Server) {
	over := make(chan struct{})
	var worker sync.WaitGroup
	c := s.Dial()
	worker.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			batch := [][]any{{"GET", "session:7"}, {"GET", "session:" + strconv.Itoa(i%1000)}}
			for range 4 {
				batch = append(batch, batch...)
			}
			if _, err := c.Pipeline(batch...); err != nil {
				t.Errorf("the load: %v", err)
				return
			}
		}
	})
	t.Cleanup(func() { close(over); worker.Wait() })
}

func serveNode(t *testing.T) (s *testkit.Server, url string) {
	s, url = serve(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)))
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	return s, url
}

func plantSlot(_ *testing.T, s *testkit.Server) { s.Do("CLUSTER", "DELSLOTS", 100) }

// plantStuckSync makes strace delay each sync of the server, as on a disk that hangs.
func plantStuckSync(t *testing.T, s *testkit.Server) {
	program, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: make page installs it")
	}
	cmd := exec.Command(program, "-f", "-qq", "-o", filepath.Join(t.TempDir(), "calls"), "-p", strconv.Itoa(s.PID),
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=120000000")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // strace then detaches from the server
		cmd.Wait()
	})
	status := fmt.Sprintf("/proc/%d/status", s.PID)
	if !testkit.Holds(testkit.Slowly(5*time.Second), func() bool {
		text, _ := os.ReadFile(status)
		return strings.Contains(string(text), fmt.Sprintf("TracerPid:\t%d", cmd.Process.Pid))
	}) {
		t.Skipf("strace may not trace the server: %s", said.String())
	}
	s.Do("SET", "key", "value")
}
