package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/bench/process"
)

// Arg is the hidden subcommand by which the bench runs itself as a generator.
const Arg = "load-child"

// Main is the generator's process: a Spec comes in, a Result goes out.
func Main(in io.Reader, out io.Writer) error {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(4 << 30) // a run of hours in an open loop may need one collection
	var spec Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("the order of a run: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGUSR1)
	go func() {
		<-stop
		stopped.Store(true)
	}()
	result, err := Run(spec)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// A Runner is a generator at work in its own process.
type Runner struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

// Start begins a run on the given cores.
func Start(spec Spec, cpus process.CPUs) (*Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	order, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	r := &Runner{cmd: exec.Command(self, Arg)}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = bytes.NewReader(order), &r.out, &r.err
	return r, process.Start(r.cmd, cpus)
}

// Wait waits for the run's end.
func (r *Runner) Wait() (*Result, error) {
	if err := process.Wait(r.cmd); err != nil {
		return nil, fmt.Errorf("load generator: %w: %s", err, strings.TrimSpace(r.err.String()))
	}
	var result Result
	if err := json.Unmarshal(r.out.Bytes(), &result); err != nil {
		return nil, fmt.Errorf("load generator's answer: %w", err)
	}
	return &result, nil
}

// Finish ends the counted time now and waits for the result. A run that is still warming up counts from its next moment.
func (r *Runner) Finish() (*Result, error) {
	_ = r.cmd.Process.Signal(unix.SIGUSR1) // it may have ended by itself
	return r.Wait()
}

// Abandon ends a run whose result nobody wants.
func (r *Runner) Abandon() {
	_ = r.cmd.Process.Kill() // it may have ended already
	_ = process.Wait(r.cmd)
}

// Do starts a run and waits for it.
func Do(spec Spec, cpus process.CPUs) (*Result, error) {
	r, err := Start(spec, cpus)
	if err != nil {
		return nil, err
	}
	return r.Wait()
}
