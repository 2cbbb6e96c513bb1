package cli

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spindle/internal/reason"
	"spindle/internal/slots"
	"spindle/protocol/respclient"
)

const (
	clusterUsage = "Usage: spindle cluster demo [OPTION ...] N\n"
	demoMost     = 100 // nodes
	demoPatience = 60 * time.Second
	endPatience  = 20 * time.Second // for the end of a node that the user has started again
	demoTimeout  = 2000             // ms, cluster-node-timeout: short, because users kill a node to see the failover
	busDistance  = 10000
)

// clusterTool runs the program cluster. Its only subcommand is demo.
func clusterTool(p process) int {
	if len(p.args) == 0 || p.args[0] != "demo" {
		fmt.Fprint(p.err, clusterUsage)
		return 1
	}
	d := demo{process: p, ended: make(chan *demoNode)}
	flags := flag.NewFlagSet("cluster demo", flag.ContinueOnError)
	flags.SetOutput(p.err)
	flags.IntVar(&d.port, "port", 7000, "the first node's port; the others have the next ones, and the buses 10000 more")
	flags.IntVar(&d.replicas, "replicas", -1, "how many replicas each primary has; 1 with six nodes or more, else 0")
	flags.StringVar(&d.parent, "dir", os.TempDir(), "the `folder` that gets a new folder with the nodes' files")
	flags.Usage = func() {
		fmt.Fprint(p.err, clusterUsage+
			"\nStarts N nodes of a cluster on this host and waits. Ctrl-C ends them and removes their files.\n\n")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(p.args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 1
	}
	count, err := strconv.Atoi(flags.Arg(0))
	if flags.NArg() != 1 || err != nil {
		flags.Usage()
		return 1
	}
	if d.replicas < 0 {
		d.replicas = 0
		if count >= 6 {
			d.replicas = 1
		}
	}
	switch {
	case count < 1 || count > demoMost:
		fmt.Fprintf(p.err, "N is 1 to %d, not %d\n", demoMost, count)
		return 1
	case d.port < 1 || d.port+count-1+busDistance > 65535:
		fmt.Fprintf(p.err, "The ports from %d on, and those of the buses, %d higher, are not all below 65536\n",
			d.port, busDistance)
		return 1
	case count < d.replicas+1:
		fmt.Fprintf(p.err, "%d nodes are too few for a primary with %d replicas\n", count, d.replicas)
		return 1
	}
	if err := d.run(count); err != nil {
		fmt.Fprintf(p.err, "%s\n", err)
		return 1
	}
	return 0
}

// A demo is a cluster on this host for a trial.
type demo struct {
	process
	port, replicas int
	parent, folder string
	nodes          []*demoNode
	ended          chan *demoNode
	tier           *demoTier // the proxies in front of the cluster; nil if there are none
}

// A demoNode is one node, in its own process.
type demoNode struct {
	port    int
	address string
	folder  string
	cmd     *exec.Cmd
	over    bool
	exit    error
	of      *demoNode // the primary of a replica; nil for a primary
	slots   [2]int    // the first and the last slot of a primary
	id      string
	again   string // the command that starts the node again
}

// run starts the nodes, makes them a cluster, waits for a signal, and removes everything.
func (d *demo) run(count int) (err error) {
	// The kernel kills a child when the thread that has started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := d.plan(count); err != nil {
		return err
	}
	if d.folder, err = os.MkdirTemp(d.parent, "spindle-cluster-"); err != nil {
		return fmt.Errorf("no folder for the nodes: %s", reason.Of(err))
	}
	defer func() { err = errors.Join(err, d.clear()) }()
	fmt.Fprintf(d.out, "starting %d nodes, ports %d to %d ...\n", count, d.port, d.port+count-1)
	for _, n := range d.nodes {
		if err := d.start(n); err != nil {
			return err
		}
	}
	fmt.Fprint(d.out, "joining them to a cluster ...\n")
	if over, err := d.join(signals); over || err != nil {
		return err
	}
	if d.tier != nil {
		if over, err := d.tier.begin(signals); over || err != nil {
			return err
		}
		d.tier.show()
	} else {
		d.show()
	}
	for {
		select {
		case <-signals:
			return nil
		case n := <-d.ended:
			n.over = true
			fmt.Fprintf(d.out, "%s has ended: %s. To start it again: %s\n", n.address, n.how(), n.again)
		}
	}
}

// plan assigns ports and roles to nodes.
func (d *demo) plan(count int) error {
	primaries := count / (d.replicas + 1)
	for i := range count {
		n := &demoNode{port: d.port + i}
		n.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port))
		for _, port := range []int{n.port, n.port + busDistance} {
			if err := isFree(port); err != nil {
				return err
			}
		}
		if i < primaries {
			n.slots = [2]int{i * slots.Count / primaries, (i+1)*slots.Count/primaries - 1}
		} else {
			n.of = d.nodes[i%primaries]
		}
		d.nodes = append(d.nodes, n)
	}
	return nil
}

// isFree returns an error if a port of the loopback address is in use.
func isFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d cannot be had: %s; --port names another first one", port, reason.Of(err))
	}
	return l.Close()
}

func (n *demoNode) file() string { return filepath.Join(n.folder, "node.conf") }

func (n *demoNode) how() string {
	if n.exit == nil {
		return "in order"
	}
	return n.exit.Error()
}

// start starts a node.
func (d *demo) start(n *demoNode) error {
	n.folder = filepath.Join(d.folder, strconv.Itoa(n.port))
	if err := os.Mkdir(n.folder, 0o755); err != nil {
		return errors.New(reason.Of(err))
	}
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\nlogfile log\nsave \"\"\nenable-debug-command local\n"+
		"cluster-enabled yes\ncluster-node-timeout %d\n", n.port, n.folder, demoTimeout)
	if err := os.WriteFile(n.file(), []byte(text), 0o644); err != nil {
		return errors.New(reason.Of(err))
	}
	n.again = "spindle " + n.file()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	n.cmd = exec.Command(program, n.file())
	n.cmd.Args[0] = "spindle" // whatever this program's file is called
	return d.launch(n)
}

// launch starts the process of a node.
func (d *demo) launch(n *demoNode) error {
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("%s did not start: %s", n.address, reason.Of(err))
	}
	go func() {
		n.exit = n.cmd.Wait()
		d.ended <- n
	}()
	return nil
}

// join makes the nodes a cluster. over reports whether a signal came.
func (d *demo) join(signals <-chan os.Signal) (over bool, err error) {
	over, err = d.take(signals, d.assign, d.attach, d.settled)
	if err != nil {
		err = fmt.Errorf("the nodes are no cluster: %w", err)
	}
	return over, err
}

// take runs the steps in order, and repeats each until it succeeds. over reports whether a signal came.
func (d *demo) take(signals <-chan os.Signal, steps ...func() error) (over bool, err error) {
	deadline := time.Now().Add(demoPatience)
	for len(steps) > 0 {
		err := steps[0]()
		if err == nil {
			steps = steps[1:]
			continue
		}
		if time.Now().After(deadline) {
			return false, fmt.Errorf("not ready after %v: %w", demoPatience, err)
		}
		select {
		case <-signals:
			return true, nil
		case n := <-d.ended:
			n.over = true
			log, _ := os.ReadFile(filepath.Join(n.folder, "log")) // empty if there is none
			lines := strings.Split(strings.TrimSpace(string(log)), "\n")
			return false, fmt.Errorf("%s has ended: %s\n%s", n.address, n.how(),
				strings.Join(lines[max(0, len(lines)-5):], "\n"))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false, nil
}

// assign gives each node its epoch and slots, and makes the first node meet the others. It is repeated until all reply.
func (d *demo) assign() error {
	for i, n := range d.nodes {
		if n.id != "" {
			continue
		}
		id, err := n.ask("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		// An order that was carried out cannot be repeated. So a busy node has time for its reply.
		var orders [][]any
		if n.of == nil {
			orders = append(orders, []any{"CLUSTER", "SET-CONFIG-EPOCH", i + 1},
				[]any{"CLUSTER", "ADDSLOTSRANGE", n.slots[0], n.slots[1]})
		}
		if i > 0 {
			orders = append(orders, []any{"CLUSTER", "MEET", "127.0.0.1", d.nodes[0].port})
		}
		for _, order := range orders {
			if _, err := n.askFor(demoPatience, order...); err != nil {
				return err
			}
		}
		n.id = id
	}
	return nil
}

// attach makes replicas replicate their primaries. It is repeated until each knows its primary.
func (d *demo) attach() error {
	for _, n := range d.nodes {
		if n.of == nil {
			continue
		}
		if _, err := n.ask("CLUSTER", "REPLICATE", n.of.id); err != nil {
			return err
		}
	}
	return nil
}

// settled returns an error unless each node knows all others and reports the cluster as ok, and each replica has its
// data.
func (d *demo) settled() error {
	for _, n := range d.nodes {
		known, err := n.ask("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		lines := strings.Fields(known)
		if !slices.Contains(lines, "cluster_state:ok") ||
			!slices.Contains(lines, fmt.Sprint("cluster_known_nodes:", len(d.nodes))) {
			return fmt.Errorf("%s does not see a whole cluster yet", n.address)
		}
		if n.of == nil {
			continue
		}
		following, err := n.ask("INFO", "replication")
		if err != nil {
			return err
		}
		if !slices.Contains(strings.Fields(following), "master_link_status:up") {
			return fmt.Errorf("%s does not follow yet", n.address)
		}
	}
	return nil
}

// ask sends one command on a new connection.
func (n *demoNode) ask(args ...any) (string, error) { return n.askFor(5*time.Second, args...) }

// askFor is ask, with the time for the reply.
func (n *demoNode) askFor(limit time.Duration, args ...any) (string, error) {
	c, err := respclient.DialTimeout(n.address, time.Second)
	if err != nil {
		return "", fmt.Errorf("%s: %s", n.address, reason.Of(err))
	}
	defer c.Close()
	c.SetTimeout(limit)
	v, err := c.Do(args...)
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %s", n.address, reason.Of(err))
	}
	return v.Text, nil
}

// show prints the nodes.
func (d *demo) show() {
	for _, n := range d.nodes {
		if n.of == nil {
			fmt.Fprintf(d.out, "%s  primary, slots %d-%d\n", n.address, n.slots[0], n.slots[1])
		} else {
			fmt.Fprintf(d.out, "%s  replica of %s\n", n.address, n.of.address)
		}
	}
	fmt.Fprintf(d.out, "Files and logs: %s\nTry: redis-cli -c -p %d\nCtrl-C ends the nodes and removes their files.\n",
		d.folder, d.port)
}

// end ends a node that the user has started again, and waits until it has written its last file. The node is no child
// of this process.
func (n *demoNode) end() {
	if id, err := n.ask("CLUSTER", "MYID"); err != nil || id != n.id {
		return
	}
	info, err := n.ask("INFO", "server")
	if err != nil {
		return
	}
	_, after, _ := strings.Cut(info, "process_id:")
	pid, _, _ := strings.Cut(after, "\r\n")
	_, _ = n.ask("SHUTDOWN", "NOSAVE", "NOW") // the node exits without a reply
	for limit := time.Now().Add(endPatience); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Readlink("/proc/" + pid + "/exe"); err != nil { // a zombie has none
			return
		}
	}
}

// clear kills the nodes, even those that the user has started again, and removes their files.
func (d *demo) clear() error {
	running := 0
	if d.tier != nil {
		running = d.tier.kill()
	}
	for _, n := range d.nodes {
		switch {
		case n.cmd == nil || n.cmd.Process == nil: // the node was not started
		case n.over:
			n.end()
		default:
			_ = n.cmd.Process.Kill() // the node may have ended before
			running++
		}
	}
	for range running {
		<-d.ended
	}
	if err := os.RemoveAll(d.folder); err != nil {
		return fmt.Errorf("%s is left: %s", d.folder, reason.Of(err))
	}
	return nil
}
