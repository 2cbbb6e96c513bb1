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

// Arg is the hidden subcommand with which the bench runs itself as a generator.
const Arg = "load-child"

// An order is the input of the generator's process: one Spec, or several that run in turn.
type order struct {
	Specs  []Spec
	Slices Slices
}

// Main runs the generator's process. It reads an order and writes each Spec's Results.
func Main(in io.Reader, out io.Writer) error {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(4 << 30) // an open-loop run of hours may need one collection
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("the order of a run: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGUSR1)
	go func() {
		<-stop
		stopped.Store(true)
	}()
	results, err := o.run()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(results)
}

func (o *order) run() ([][]Result, error) {
	if o.Slices.Count > 0 {
		return Together(o.Specs, o.Slices)
	}
	if len(o.Specs) != 1 {
		return nil, fmt.Errorf("%d runs without slices", len(o.Specs))
	}
	r, err := Run(o.Specs[0])
	if err != nil {
		return nil, err
	}
	return [][]Result{{*r}}, nil
}

// A Runner is a running generator in its own process.
type Runner struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

// Start starts a run on the given cores.
func Start(spec Spec, cpus process.CPUs) (*Runner, error) {
	return start(order{Specs: []Spec{spec}}, cpus)
}

func start(o order, cpus process.CPUs) (*Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	r := &Runner{cmd: exec.Command(self, Arg)}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = bytes.NewReader(text), &r.out, &r.err
	return r, process.Start(r.cmd, cpus)
}

// Wait waits for the run's end and returns its result.
func (r *Runner) Wait() (*Result, error) {
	results, err := r.wait()
	if err != nil {
		return nil, err
	}
	return &results[0][0], nil
}

func (r *Runner) wait() ([][]Result, error) {
	if err := process.Wait(r.cmd); err != nil {
		return nil, fmt.Errorf("load generator: %w: %s", err, strings.TrimSpace(r.err.String()))
	}
	var results [][]Result
	if err := json.Unmarshal(r.out.Bytes(), &results); err != nil {
		return nil, fmt.Errorf("load generator's answer: %w", err)
	}
	return results, nil
}

// Finish ends the measured time now and waits for the result. For a run that is still warming up, the measured time
// begins at the same moment.
func (r *Runner) Finish() (*Result, error) {
	_ = r.cmd.Process.Signal(unix.SIGUSR1) // the process may have ended before
	return r.Wait()
}

// Abandon ends a run and drops its result.
func (r *Runner) Abandon() {
	_ = r.cmd.Process.Kill() // the process may have ended before
	_ = process.Wait(r.cmd)
}

// DoTogether runs Together in its own process.
func DoTogether(specs []Spec, slices Slices, cpus process.CPUs) ([][]Result, error) {
	r, err := start(order{specs, slices}, cpus)
	if err != nil {
		return nil, err
	}
	return r.wait()
}
