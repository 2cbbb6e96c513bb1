package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spindle/tests/testkit"
)

// through is the suite of 7.0 as a client of the proxy: in external mode, over a cluster of three redis-servers. Its
// reference is one redis-server in the same mode. The suite's keys have no hash tags, so some commands of several keys
// fail.
var through = &suite{name: "7.0 through the proxy", files: proxyFiles, exclusions: "exclusions-proxy.txt",
	open: openThrough, external: true}

// proxyFiles lists the files that are run through the proxy. They test the commands of clients.
var proxyFiles = []string{
	"unit/type/string",
	"unit/type/incr",
	"unit/type/list",
	"unit/type/list-2",
	"unit/type/list-3",
	"unit/type/set",
	"unit/type/zset",
	"unit/type/hash",
	"unit/type/stream",
	"unit/type/stream-cgroups",
	"unit/keyspace",
	"unit/expire",
	"unit/scan",
	"unit/sort",
	"unit/multi",
	"unit/scripting",
	"unit/functions",
	"unit/pubsub",
	"unit/pubsubshard",
	"unit/protocol",
	"unit/auth",
	"unit/quit",
	"unit/bitops",
	"unit/bitfield",
	"unit/geo",
	"unit/hyperloglog",
}

func openThrough(ctx context.Context, here string) (*place, error) {
	p, err := openOlder(ctx, here)
	if err != nil {
		return nil, err
	}
	p.reference = filepath.Join(here, "reference-proxy.txt")
	p.version += ", in external mode"
	return p, nil
}

// servers holds the servers of one run in external mode: one reference, or shards and the proxy.
type servers struct {
	port   int
	shards []string // ports
	cmds   []*exec.Cmd
	dir    string
}

// shardCount is the number of shards of the proxy.
const shardCount = 3

// startOutside starts the servers that the suite connects to. It starts a proxy of the program tested over three
// partners. If tested is the partner, it starts only one server.
func (r *runner) startOutside(ctx context.Context, tested string) (*servers, error) {
	dir, err := os.MkdirTemp(r.dir, "outside-")
	if err != nil {
		return nil, err
	}
	o := &servers{dir: dir}
	if err := o.start(ctx, tested, r.partner); err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

func (o *servers) start(ctx context.Context, tested, partner string) error {
	own := []string{"--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes", "--enable-protected-configs",
		"yes"}
	var err error
	if tested == partner {
		o.port, err = o.launch(ctx, partner, own...)
		return err
	}
	create := []string{"--cluster", "create"}
	for range shardCount {
		bus, err := freePort()
		if err != nil {
			return err
		}
		port, err := o.launch(ctx, partner, append(own, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus))...)
		if err != nil {
			return err
		}
		o.shards = append(o.shards, strconv.Itoa(port))
		create = append(create, "127.0.0.1:"+strconv.Itoa(port))
	}
	if out, err := exec.CommandContext(ctx, "redis-cli", append(create, "--cluster-yes")...).CombinedOutput(); err != nil {
		return fmt.Errorf("redis-cli --cluster create: %w: %s", err, out)
	}
	for _, port := range o.shards {
		if err := o.await(ctx, port, "cluster_state:ok", "cluster", "info"); err != nil {
			return err
		}
	}
	args := []string{"--proxy", "--bind", "127.0.0.1", "--proxy-cluster"}
	for _, port := range o.shards {
		args = append(args, "127.0.0.1:"+port)
	}
	o.port, err = o.launch(ctx, tested, args...)
	return err
}

// suitePorts returns the first port that the suite tries. It depends on the process, so that two runs on one host use
// different ports.
func suitePorts() string { return strconv.Itoa(20000 + os.Getpid()%200*50) }

// launch starts a server on a free port, and waits until it answers PING.
func (o *servers) launch(ctx context.Context, program string, args ...string) (port int, err error) {
	if port, err = freePort(); err != nil {
		return 0, err
	}
	dir := filepath.Join(o.dir, strconv.Itoa(port))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(program, append(args, "--port", strconv.Itoa(port))...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	o.cmds = append(o.cmds, cmd)
	return port, o.await(ctx, strconv.Itoa(port), "PONG", "ping")
}

var errNoAnswer = errors.New("it does not answer as it should")

// await repeats a request to a server until the reply contains text.
func (o *servers) await(ctx context.Context, port, text string, words ...string) error {
	return testkit.Poll(time.Minute, func() error {
		if ctx.Err() != nil {
			return nil
		}
		out, _ := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", port}, words...)...).CombinedOutput()
		if !strings.Contains(string(out), text) {
			return fmt.Errorf("the server on port %s: %w: %s", port, errNoAnswer, out)
		}
		return nil
	})
}

// stop kills the servers. A test may have left one in a long sleep.
func (o *servers) stop() {
	for _, cmd := range o.cmds {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// arguments returns the suite's arguments. Tests of the replication stream are left out. The suite's README allows this
// for servers that offer clients no such stream.
func (o *servers) arguments() []string {
	return []string{"--host", "127.0.0.1", "--port", strconv.Itoa(o.port), "--singledb", "--tags", "-needs:repl",
		"--baseport", suitePorts()}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
