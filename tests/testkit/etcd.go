package testkit

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An Etcd is an etcd cluster of Debian's etcd-server. Its members are killed when the test ends.
type Etcd struct{ Members []*EtcdMember }

// An EtcdMember is the process of one member.
type EtcdMember struct {
	Addr string // for clients, host:port

	t     testing.TB
	args  []string
	dir   string
	log   string
	https bool
	cmd   *exec.Cmd
	ended chan struct{}
}

// StartEtcd starts an etcd of n members and waits until each replies. more has further arguments. If they name files
// for TLS, clients must use https. It skips the test if etcd is not installed.
func StartEtcd(t testing.TB, n int, more ...string) *Etcd {
	t.Helper()
	program, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("etcd is not installed: make deps installs Debian's etcd-server")
	}
	e, cluster, scheme := &Etcd{}, []string{}, "http://"
	if slices.Contains(more, "--cert-file") {
		scheme = "https://"
	}
	dir := t.TempDir()
	var peers []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("http://127.0.0.1:%d", FreePort(t)))
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	for i := range n {
		name := fmt.Sprintf("m%d", i)
		m := &EtcdMember{Addr: fmt.Sprintf("127.0.0.1:%d", FreePort(t)), t: t, https: scheme == "https://",
			dir: filepath.Join(dir, name), log: filepath.Join(dir, name+".log")}
		m.args = append([]string{program, "--name", name, "--data-dir", m.dir,
			"--listen-client-urls", scheme + m.Addr, "--advertise-client-urls", scheme + m.Addr,
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new",
			"--heartbeat-interval", "50", "--election-timeout", "500"}, more...)
		e.Members = append(e.Members, m)
		m.start()
	}
	for _, m := range e.Members {
		m.AwaitReady()
	}
	return e
}

// Addrs returns the members' addresses for clients.
func (e *Etcd) Addrs() (addrs []string) {
	for _, m := range e.Members {
		addrs = append(addrs, m.Addr)
	}
	return addrs
}

func (m *EtcdMember) start() {
	m.t.Helper()
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	m.cmd = exec.Command(m.args[0], m.args[1:]...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := startChild(m.cmd); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan struct{})
	m.ended = ended
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(ended)
	}(m.cmd)
	m.t.Cleanup(m.Kill)
}

// AwaitReady waits until the member replies and knows a leader.
func (m *EtcdMember) AwaitReady() {
	m.t.Helper()
	scheme := "http://"
	if m.https { // a health request would need a client certificate, so the port is enough
		Until(m.t, Slowly(time.Minute), "etcd", func() error { return dials(m.Addr) })
		return
	}
	client := &http.Client{Timeout: Slowly(2 * time.Second)}
	defer client.CloseIdleConnections()
	Until(m.t, Slowly(time.Minute), "etcd", func() error {
		response, err := client.Get(scheme + m.Addr + "/health")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, text)
		}
		return err
	})
}

// Kill kills the member with SIGKILL, and waits for its end.
func (m *EtcdMember) Kill() {
	select {
	case <-m.ended:
		return
	default:
	}
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// Restart starts an ended member again, with its data. It does not wait until the member replies.
func (m *EtcdMember) Restart() {
	m.t.Helper()
	m.Kill()
	m.start()
}

// Save kills the member, and returns a function that kills it again and gives it the data of now. After both, the
// member runs and replies.
func (m *EtcdMember) Save() (restore func()) {
	m.t.Helper()
	saved := m.t.TempDir()
	again := func(to, from string) {
		m.t.Helper()
		m.Kill()
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
			m.t.Fatal(err)
		}
		m.start()
		m.AwaitReady()
	}
	again(saved, m.dir)
	return func() { again(m.dir, saved) }
}

// Signal sends a signal to the member.
func (m *EtcdMember) Signal(sig syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(sig); err != nil {
		m.t.Fatal(err)
	}
}

// Log returns the member's output.
func (m *EtcdMember) Log() string {
	text, _ := os.ReadFile(m.log)
	return string(text)
}

// dials returns nil if address accepts a connection.
func dials(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
