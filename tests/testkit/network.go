package testkit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A Network is a set of hosts, and the wires between them. Each host is a network namespace of the kernel with its own
// address. The namespaces end with the test process, and are invisible from outside.
//
// Servers on a host also listen on unix sockets, so that a test can reach a host that is cut off.
type Network struct {
	t     testing.TB
	hub   *exec.Cmd // holds the namespace with the bridges
	hosts []*NetworkHost
}

// A NetworkHost is one host of a Network.
type NetworkHost struct {
	IP   string
	wire string // the name of the wire's end in the hub
	keep *exec.Cmd
}

// The hub has two bridges. All hosts are on the first, unless Split has moved some to the second.
const bridges = "link add b0 type bridge\nlink add b1 type bridge\nlink set b0 up\nlink set b1 up\nlink set lo up\n"

// NewNetwork makes a network with this many hosts. It skips the test if the kernel forbids it or iproute2 is missing.
func NewNetwork(t testing.TB, hosts int) *Network {
	t.Helper()
	n := &Network{t: t}
	for _, program := range []string{"ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("iproute2 or util-linux is not installed: make deps installs iproute2: %v", err)
		}
	}
	var err error
	if n.hub, err = hold(t, "unshare", "--map-root-user", "--net", "sleep", "infinity"); err != nil {
		t.Skipf("network namespaces are forbidden here: run it where unshare --map-root-user --net works: %v", err)
	}
	if err := in(n.hub, bridges); err != nil {
		t.Skipf("this kernel has no bridges in network namespaces: run it where ip link add type bridge works: %v", err)
	}
	for i := range hosts {
		h := &NetworkHost{IP: fmt.Sprintf("10.77.0.%d", i+1), wire: fmt.Sprintf("w%d", i)}
		if h.keep, err = hold(t, "nsenter", append(into(n.hub), "unshare", "--net", "sleep", "infinity")...); err != nil {
			t.Fatal(err)
		}
		pid := h.keep.Process.Pid
		err := in(n.hub, fmt.Sprintf("link add %s type veth peer name e0 netns %d\nlink set %s master b0 up\n",
			h.wire, pid, h.wire))
		if err == nil {
			err = in(h.keep, "addr add "+h.IP+"/24 dev e0\nlink set e0 up\nlink set lo up\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		n.hosts = append(n.hosts, h)
	}
	return n
}

// hold starts a process that keeps a namespace open. The process executes several programs, the last of which is sleep.
func hold(t testing.TB, name string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(name, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := startChild(cmd); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd, Poll(Slowly(20*time.Second), func() error {
		select {
		case <-ended:
			return fmt.Errorf("%s %v: %s", name, args, said.String())
		default:
		}
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
		if err == nil && string(comm) != "sleep\n" {
			err = fmt.Errorf("%s has made no namespace yet", name)
		}
		return err
	})
}

// into returns nsenter's arguments for the namespace of a process.
func into(cmd *exec.Cmd) []string {
	return []string{"--preserve-credentials", "--user", "--net", "--target", fmt.Sprint(cmd.Process.Pid)}
}

// in runs commands of ip in a namespace.
func in(where *exec.Cmd, commands string) error {
	cmd := exec.Command("nsenter", append(into(where), "ip", "-batch", "-")...)
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}

// Hosts returns all hosts, in the order of their addresses.
func (n *Network) Hosts() []*NetworkHost { return n.hosts }

// Shell returns the Shell of a [Spec] whose server runs on the host.
func (h *NetworkHost) Shell() string {
	return "exec nsenter " + strings.Join(into(h.keep), " ") + ` "$0" "$@"`
}

// Split separates these hosts from all others. They can still reach each other.
func (n *Network) Split(hosts ...*NetworkHost) { n.plug("b1", hosts) }

// Heal puts all hosts on one network again.
func (n *Network) Heal() { n.plug("b0", n.hosts) }

func (n *Network) plug(bridge string, hosts []*NetworkHost) {
	n.t.Helper()
	var b strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&b, "link set %s master %s\n", h.wire, bridge)
	}
	if err := in(n.hub, b.String()); err != nil {
		n.t.Fatal(err)
	}
}
