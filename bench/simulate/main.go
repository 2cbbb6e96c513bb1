package simulate

import (
	"flag"
	"fmt"
	"io"
	"time"
)

// Fitted has costs with which the simulation gives the figures of the bench on two cores. The costs of one loop and of
// the load generator follow from the CPU per request at three pipeline depths. Several, Iteration and Switch were
// chosen so that two loops agree too. Moved, Foreign and Ring are guesses. bench/results/simulate.md has the
// comparison. Flags replace each cost.
var Fitted = Costs{
	Before: 2300, BeforeEach: 40, After: 2200, AfterEach: 10, Turn: 110, TurnEach: 140, Several: 1000,
	Moved: 400, Foreign: 300, Publish: 150, Ring: 1500, Iteration: 2500, Switch: 3000, Client: 3880, ClientEach: 38,
}

// Main runs `bench simulate`: it prints how 1 to 32 loops would perform, each on its own core.
func Main(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench simulate", flag.ContinueOnError)
	r := Run{Costs: Fitted, Slice: 3e6, Wakeup: 5000, Watch: 300, Balance: 500_000}
	for _, f := range []struct {
		name, of string
		at       *Nanos
	}{
		{"before", "a batch, outside the turn before it", &r.Before},
		{"before-each", "each of its requests there", &r.BeforeEach},
		{"after", "a batch's replies", &r.After},
		{"after-each", "each reply", &r.AfterEach},
		{"turn", "a batch inside the turn", &r.Turn},
		{"turn-each", "each of its requests there", &r.TurnEach},
		{"several", "a batch outside the turn, if there are several loops", &r.Several},
		{"moved", "a turn after another loop's turn", &r.Moved},
		{"foreign", "running another loop's batch", &r.Foreign},
		{"publish", "publishing a batch", &r.Publish},
		{"ring", "waking a loop", &r.Ring},
		{"iteration", "asking the kernel for ready sockets", &r.Iteration},
		{"switch", "a thread that gets a core", &r.Switch},
		{"client", "the load generator, a batch", &r.Client},
		{"client-each", "the load generator, a request", &r.ClientEach},
		{"wakeup", "a wake, until the thread runs", &r.Wakeup},
		{"balance", "an idle core, before it takes over a waiting thread", &r.Balance},
		{"slice", "the scheduler's slice", &r.Slice},
	} {
		flags.Int64Var((*int64)(f.at), f.name, int64(*f.at), "`nanoseconds` of "+f.of)
	}
	cores := flags.Int("cores", 0, "`cores` that loops and load generator share; 0: each thread has its own")
	clients := flags.Int("clients", 50, "`clients` of each loop, or of all with -cores")
	loads := flags.Int("loads", 1, "`threads` of the load generator with -cores")
	flags.Float64Var(&r.Share, "share", 0.92, "the `part` of the time in which the machine runs its threads")
	flags.BoolVar(&r.Alone, "alone", false, "no loop runs another's batches: it sleeps until it has the turn")
	span := flags.Duration("time", 200*time.Millisecond, "simulated `time` of each line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.Time, r.Pre = Nanos(*span), Nanos(*span/5)
	fmt.Fprintf(out, "%-9s %-6s %12s %10s %10s %8s %9s %9s\n", "pipeline", "loops", "requests/s", "median µs", "p99 µs",
		"CPU µs", "combined", "turn held")
	for _, r.Pipeline = range []int{1, 10, 16, 50, 64} {
		for _, r.Loops = range []int{1, 2, 4, 8, 16, 32} {
			if r.Cores, r.Loads, r.Apart, r.Clients = *cores, *loads, false, *clients; *cores == 0 {
				r.Cores, r.Loads, r.Apart, r.Clients = r.Loops, 3*r.Loops, true, *clients*r.Loops
			} else if r.Loops > 4 {
				continue
			}
			p := r.Play()
			fmt.Fprintf(out, "%-9d %-6d %12.0f %10.1f %10.1f %8.2f %8.1f%% %8.1f%%\n", r.Pipeline, r.Loops, p.PerSecond,
				float64(p.Median)/1e3, float64(p.P99)/1e3, float64(p.CPU)/1e3, 100*p.Combined, 100*p.Busy)
		}
	}
	return nil
}
