package cli

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"spindle/internal/reason"
)

const proxyUsage = "Usage: spindle proxy demo [OPTION ...]\n"

// proxyTool runs the program proxy. Its only subcommand is demo.
func proxyTool(p process) int {
	if len(p.args) == 0 || p.args[0] != "demo" {
		fmt.Fprint(p.err, proxyUsage)
		return 1
	}
	t := &demoTier{demo: &demo{process: p, replicas: 1, ended: make(chan *demoNode)}}
	t.demo.tier = t
	flags := flag.NewFlagSet("proxy demo", flag.ContinueOnError)
	flags.SetOutput(p.err)
	flags.IntVar(&t.port, "port", 7000,
		"the first port; the others are the next ones, and 10000 more for the nodes' buses")
	flags.StringVar(&t.parent, "dir", os.TempDir(), "the `folder` that gets a new folder with all files")
	flags.StringVar(&t.pidFile, "pidfile", "", "a `file` that has the process ID while the demo runs")
	flags.StringVar(&t.store, "store", "auto", "etcd, folder, or auto: etcd if it is installed")
	flags.Usage = func() {
		fmt.Fprint(p.err, proxyUsage+
			"\nStarts a cluster of three shards, two proxies and a dashboard on this host, and waits. Ctrl-C ends them and\n"+
			"removes their files.\n\n")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(p.args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 1
	}
	if flags.NArg() != 0 || t.store != "auto" && t.store != "etcd" && t.store != "folder" {
		flags.Usage()
		return 1
	}
	if t.port < 1 || t.port+demoPorts-1+busDistance > 65535 {
		fmt.Fprintf(p.err, "The ports from %d on, and those of the buses, %d higher, are not all below 65536\n",
			t.port, busDistance)
		return 1
	}
	if err := t.run(); err != nil {
		fmt.Fprintf(p.err, "%s\n", err)
		return 1
	}
	return 0
}

// These are the ports of a demo with proxies, counted from the first one.
const (
	demoShards    = 6 // nodes of the cluster, from the first port on
	portProxy     = 6 // two proxies
	portMetrics   = 8 // two proxies
	portDashboard = 10
	portEtcd      = 11 // for clients; the next one is for other members
	demoPorts     = 13
)

// A demoTier is the proxies in front of a demo's cluster, with their dashboard and their store.
type demoTier struct {
	*demo
	pidFile   string
	store     string // auto, etcd or folder; then the directive's value
	token     string
	processes []*demoNode // in the order of their start
	proxies   []*demoNode
	dashboard *demoNode
	etcd      string // the path of etcd's program; if "", the store is a folder
}

// run starts everything, waits for a signal, and removes everything.
func (t *demoTier) run() error {
	for i := portProxy; i < demoPorts; i++ {
		if err := isFree(t.port + i); err != nil {
			return err
		}
	}
	if t.pidFile != "" {
		f, err := os.OpenFile(t.pidFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("%s: %s; does a demo run already?", t.pidFile, reason.Of(err))
		}
		defer os.Remove(t.pidFile)
		if _, err = fmt.Fprintln(f, os.Getpid()); err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	if t.store != "folder" {
		program, err := exec.LookPath("etcd")
		switch {
		case err == nil:
			t.etcd = program
		case t.store == "etcd":
			return errors.New("etcd is not installed: apt install etcd-server")
		default:
			fmt.Fprint(t.out, "etcd is not installed, so a folder is the store: that is for trials on one machine.\n")
		}
	}
	return t.demo.run(demoShards)
}

// begin starts the store, the dashboard and the proxies. The cluster must exist. over reports whether a signal came.
func (t *demoTier) begin(signals <-chan os.Signal) (over bool, err error) {
	t.token = rand.Text()
	fmt.Fprint(t.out, "starting the store, a dashboard and two proxies ...\n")
	t.store = "folder:" + filepath.Join(t.folder, "store")
	if t.etcd != "" {
		etcd, err := t.startEtcd()
		if err != nil {
			return false, err
		}
		if over, err := t.take(signals, func() error { return answers("http://" + etcd.address + "/health") }); over ||
			err != nil {
			return over, err
		}
	}
	if t.dashboard, err = t.startRole("dashboard", portDashboard, "--dashboard", "--dashboard-address",
		t.address(portDashboard), "--dashboard-write-token", t.token, "--store", t.store); err != nil {
		return false, err
	}
	over, err = t.take(signals, func() error { return answers("http://" + t.dashboard.address + "/healthz") }, t.create)
	if over || err != nil {
		return over, err
	}
	for i := range 2 {
		p, err := t.startRole(fmt.Sprint("proxy-", i+1), portProxy+i, "--proxy", "--bind", "127.0.0.1", "--port",
			strconv.Itoa(t.port+portProxy+i), "--admin-address", t.address(portMetrics+i), "--proxy-product", "demo",
			"--proxy-id", fmt.Sprint("proxy-", i+1), "--store", t.store)
		if err != nil {
			return false, err
		}
		t.proxies = append(t.proxies, p)
		if over, err := t.take(signals, func() error {
			_, err := p.ask("PING")
			return err
		}); over || err != nil {
			return over, err
		}
	}
	return false, nil
}

func (t *demoTier) address(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port+port))
}

// startEtcd starts an etcd of one member.
func (t *demoTier) startEtcd() (*demoNode, error) {
	client, peer := "http://"+t.address(portEtcd), "http://"+t.address(portEtcd+1)
	t.store = "etcd://" + t.address(portEtcd)
	n := &demoNode{port: t.port + portEtcd, address: t.address(portEtcd), folder: filepath.Join(t.folder, "etcd")}
	n.cmd = exec.Command(t.etcd, "--name", "demo", "--data-dir", filepath.Join(n.folder, "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "demo="+peer)
	return n, t.begun(n)
}

// startRole starts spindle in another role.
func (t *demoTier) startRole(name string, port int, args ...string) (*demoNode, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &demoNode{port: t.port + port, address: t.address(port), folder: filepath.Join(t.folder, name)}
	n.cmd = exec.Command(program, args...)
	n.cmd.Args[0] = "spindle" // whatever this program's file is called
	return n, t.begun(n)
}

// begun starts a process. Its log is in its folder.
func (t *demoTier) begun(n *demoNode) error {
	if err := os.Mkdir(n.folder, 0o755); err != nil {
		return errors.New(reason.Of(err))
	}
	log, err := os.Create(filepath.Join(n.folder, "log"))
	if err != nil {
		return errors.New(reason.Of(err))
	}
	defer log.Close()
	n.cmd.Stdout, n.cmd.Stderr, n.cmd.Dir = log, log, n.folder
	n.again = strings.Join(n.cmd.Args, " ")
	t.processes = append(t.processes, n)
	return t.launch(n)
}

// create creates the product.
func (t *demoTier) create() error {
	args := []string{"product", "create", "demo", "cluster", "--url", "http://" + t.dashboard.address, "--token", t.token}
	for _, n := range t.nodes {
		args = append(args, "--seed", n.address)
	}
	return runCtl(process{args: args, out: io.Discard, err: io.Discard})
}

// answers returns an error unless a GET of url succeeds.
func answers(url string) error {
	client := http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	reply, err := client.Get(url)
	if err != nil {
		return errors.New(reason.Of(err))
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, reply.Status)
	}
	return nil
}

// kill kills the processes that run, and returns their number.
func (t *demoTier) kill() (running int) {
	for _, n := range t.processes {
		if n.cmd.Process != nil && !n.over {
			_ = n.cmd.Process.Kill() // the process may have ended before
			running++
		}
	}
	return running
}

// show prints the processes of the demo, and commands to try.
func (t *demoTier) show() {
	for _, n := range t.nodes {
		if n.of == nil {
			fmt.Fprintf(t.out, "%s  shard, slots %d-%d\n", n.address, n.slots[0], n.slots[1])
		} else {
			fmt.Fprintf(t.out, "%s  replica of %s\n", n.address, n.of.address)
		}
	}
	for i, p := range t.proxies {
		fmt.Fprintf(t.out, "%s  proxy, metrics at http://%s/metrics\n", p.address, t.address(portMetrics+i))
	}
	url := "http://" + t.dashboard.address
	fmt.Fprintf(t.out, "%s  dashboard; the store is %s\n", t.dashboard.address, t.store)
	fmt.Fprintf(t.out, `Files and logs: %s

The page:       %s/   its token is %s
A client:       redis-cli -p %d set hello world      (the other proxy is at %d)
Load:           redis-benchmark -p %d -t set,get -r 100000 -n 1000000 -P 16 -q
The shell:      export SPINDLE_DASHBOARD_URL=%s SPINDLE_DASHBOARD_TOKEN=%s
                %s ctl groups demo
Moving slots:   %s ctl plan demo --move 0-999 --to %s --start --wait
Balancing:      %s ctl plan demo --balance slots --start --wait
A failover:     kill -9 %d      (the first shard; its replica takes over)
Ctrl-C ends all of it and removes its files.
`, t.folder, url, t.token, t.proxies[0].port, t.proxies[1].port, t.proxies[0].port, url, t.token, os.Args[0],
		os.Args[0], t.nodes[1].id, os.Args[0], t.nodes[0].cmd.Process.Pid)
}
