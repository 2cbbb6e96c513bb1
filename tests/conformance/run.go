package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	idleLimit  = 120 * time.Second // if no test begins or ends for this long, the running one hangs
	fileLimit  = 15 * time.Minute
	hangsAtAll = 4 // after this many hanging tests, the rest of a file is left out
)

// A program is a server, with additional lines for its configuration files.
type program struct{ path, directives string }

// ownDirectives lets spindle start if a test configures a feature that does not exist yet. The test may be about
// something else.
const ownDirectives = "unsupported-directives warn\n"

// A runner runs files of the suite in its own tree.
type runner struct {
	dir      string
	source   string
	partner  string // the suite's own server, which some tests run together with the tested one
	keep     bool
	tls      bool
	external bool     // the suite is a client of servers that are started for each file
	tested   string   // the program that the current file is run with
	again    string   // an earlier run whose results are used again; "" means none
	env      []string // the suite's environment for the current file
	prelude  []string // precedes ./runtest: a network namespace, if the kernel allows one
}

// namespace gives the suite its own network. Some of its servers listen on all addresses, and some tests need a second
// address that is not a loopback address.
const namespace = `
ip link set lo up
ip link add conf0 type veth peer name conf1 2>/dev/null || ip link add conf0 type dummy
ip addr add 10.255.77.1/24 dev conf0
ip link set conf0 up
ip link set conf1 up 2>/dev/null
exec "$@"`

func newRunner(source, partner string, keep bool) (*runner, error) {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, err
	}
	r := &runner{dir: dir, source: source, partner: partner, keep: keep}
	if err := makeTree(dir, source); err != nil {
		r.close()
		return nil, err
	}
	unshare := []string{"unshare", "--net"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	r.prelude = append(unshare, "sh", "-c", namespace, "namespace")
	if out, err := exec.Command(r.prelude[0], append(r.prelude[1:], "true")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: no network namespace here (%v: %s): running without; some servers will listen "+
			"on every address\n",
			err, strings.TrimSpace(string(out)))
		r.prelude = nil
	}
	return r, nil
}

func (r *runner) close() {
	if r.keep {
		fmt.Println("kept:", r.dir)
		return
	}
	os.RemoveAll(r.dir)
}

// file runs one file of the suite with server as redis-server, without the tests whose names are in skip.
//
// A test that hangs is recorded, and the file is run again without it, so that the later tests are reached.
func (r *runner) file(ctx context.Context, server program, file string, skip []string) (*results, error) {
	if r.again != "" {
		if got, err := readResults(filepath.Join(r.again, resultsFile(file))); err == nil && len(got.names) > 0 {
			return got, nil
		}
	}
	err := wrap(r.dir, "redis-server", server.path)
	r.env, r.tested = nil, server.path
	if run := instancesRuns[file]; run != nil && err == nil {
		r.env, err = wrapInstances(r.dir, run.programs(server.path, r.partner))
	}
	if err != nil {
		return nil, err
	}
	if err := addDirectives(r.dir, r.source, server.directives); err != nil {
		return nil, err
	}
	return withoutHanging(func(hung []string) (*results, string, error) {
		got, hangs, err := r.once(ctx, file, append(append([]string(nil), skip...), hung...))
		if hangs != "" {
			fmt.Fprintf(os.Stderr, "%s: %q hangs\n", file, hangs)
		}
		return got, hangs, err
	})
}

// withoutHanging calls once to run a file, and calls it again without each test that hangs. A test that fails in any
// run counts as failed: it may pass in the next run, because that run begins with other data.
func withoutHanging(once func(hung []string) (got *results, hangs string, err error)) (*results, error) {
	var hung []string
	var failed []record
	for {
		got, hangs, err := once(hung)
		if err != nil {
			return nil, err
		}
		if hangs == "" || len(hung) == hangsAtAll {
			for _, rec := range failed {
				got.add(rec)
			}
			for _, name := range hung {
				got.add(record{status: statusHang, name: name, detail: "did not end"})
			}
			return got, nil
		}
		failed = append(failed, got.errors()...)
		hung = append(hung, hangs)
	}
}

// once runs the file once. hangs is the name of the test that was running at the time limit.
func (r *runner) once(ctx context.Context, file string, skip []string) (got *results, hangs string, err error) {
	log := filepath.Join(r.dir, resultsFile(file))
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		return nil, "", err
	}
	limit, idle, args := fileLimit, idleLimit, append([]string(nil), r.prelude...)
	instances := instancesRuns[file]
	if instances != nil {
		limit, idle, args = instances.limit, instances.idle, append(args, instances.driver)
	} else {
		args = append(args, "./runtest", "--single", file, "--clients", "1", "--durable", "--timeout", "3600")
	}
	if r.external {
		outer, err := r.startOutside(ctx, r.tested)
		if err != nil {
			return nil, "", err
		}
		defer outer.stop()
		args = append(args, outer.arguments()...)
		if len(outer.shards) > 0 {
			r.env = []string{"CONFORMANCE_SHARDS=" + strings.Join(outer.shards, " ")}
		}
	}
	if r.keep {
		args = append(args, "--dont-clean")
	}
	if r.tls {
		args = append(args, "--tls")
	}
	for _, name := range skip {
		if instances == nil {
			args = append(args, "--skiptest", name)
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "CONFORMANCE_RESULTS="+log, "CONFORMANCE_SKIP="+strings.Join(skip, "\n"),
		"LC_ALL=C.UTF-8")
	cmd.Env = append(cmd.Env, r.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.Create(log + ".out")
	if err != nil {
		return nil, "", err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	timedOut, err := watch(ctx, cmd, log, limit, idle)
	if err != nil {
		return nil, "", err
	}
	got, err = readResults(log)
	if err != nil {
		return nil, "", err
	}
	if timedOut {
		hangs = got.running
		if hangs == "" {
			// A test that failed half-way may leave a suspended server, and the suite then waits for that server.
			hangs = got.failed
		}
		if hangs == "" {
			got.add(record{status: statusHang, name: outside, detail: "its output is " + out.Name()})
		}
	}
	return got, hangs, nil
}

// resultsFile returns the name of the file into which resume.tcl writes the results of file's tests.
func resultsFile(file string) string {
	return "results-" + strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(file)
}

// watch waits for cmd. At a time limit it kills the process group of cmd, and nothing else.
func watch(ctx context.Context, cmd *exec.Cmd, log string, limit, idle time.Duration) (timedOut bool, err error) {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	end := func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
	}
	began, moved := time.Now(), time.Now()
	var size int64
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // servers that a failed test did not end
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return false, err
			}
			return false, nil // a failing test makes it exit with 1; the results name the test
		case <-ctx.Done():
			end()
			return false, ctx.Err()
		case now := <-tick.C:
			if info, err := os.Stat(log); err == nil && info.Size() != size {
				size, moved = info.Size(), now
			}
			if now.Sub(moved) > idle || now.Sub(began) > limit {
				end()
				return true, nil
			}
		}
	}
}

// serverVersion returns the output of --version, in one line.
func serverVersion(ctx context.Context, server string) string {
	out, err := exec.CommandContext(ctx, server, "--version").Output()
	if err != nil {
		return "unknown"
	}
	return strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "; ")
}
