// Command bench compares spindle with redis-server on this machine and writes BENCHMARKS.md.
//
// Owner: its caller. It starts every server itself, on loopback ports and in its own folders, and ends them all, also
// on ^C.
// Never: imported, nor does it touch a server that it did not start.
//
//	bench quick            under a minute, prints a table, writes nothing
//	bench full             every scenario; writes BENCHMARKS.md, bench/plots and bench/results
//	bench run NAME…        some scenarios; prints their tables, and writes with -write
//	bench report           writes BENCHMARKS.md again from bench/results
//	bench pgo              writes default.pgo
//	bench list             names the scenarios
//	bench simulate         what more loops would do on more cores, with assumed costs
//
// Start at bench/scenarios; bench/load is the generator, bench/report the text.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
	"spindle/bench/scenarios"
	"spindle/bench/simulate"
)

func main() {
	if len(os.Args) == 2 { // a child process that the bench started
		switch os.Args[1] {
		case load.Arg:
			exit(load.Main(os.Stdin, os.Stdout))
		case process.StallArg:
			exit(process.StallMain(os.Stdin, os.Stdout))
		}
	}
	exit(run(os.Args[1:]))
}

func exit(err error) {
	switch {
	case err == nil:
		os.Exit(0)
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "bench: interrupted")
		os.Exit(130)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// options are the flags. A zero value means the subcommand's default.
type options struct {
	redis, spindle, root, scratch, serverCPUs, loadCPUs, plots string
	also                                                       pairs
	runs, port                                                 int
	duration, warmup                                           time.Duration
	keys, many                                                 uint64
	write                                                      bool
	only                                                       string
}

// pairs collects flags of the form name=path.
type pairs [][2]string

func (p *pairs) String() string { return fmt.Sprint(*p) }

func (p *pairs) Set(text string) error {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" || path == "" {
		return errors.New("want name=path")
	}
	*p = append(*p, [2]string{name, path})
	return nil
}

var subcommands = map[string]options{
	"quick":  {runs: 2, duration: 800 * time.Millisecond, warmup: 200 * time.Millisecond, keys: 500_000, many: 500_000},
	"full":   {runs: 5, duration: 4 * time.Second, warmup: time.Second, keys: 1_000_000, many: 10_000_000, write: true},
	"run":    {runs: 3, duration: 4 * time.Second, warmup: time.Second, keys: 1_000_000, many: 10_000_000},
	"pgo":    {runs: 1, duration: 15 * time.Second, keys: 1_000_000, many: 1_000_000},
	"report": {},
	"list":   {},
}

// ownRedis is the redis-server that is compared unless another one is named.
const ownRedis = "redis-server"

const usage = "usage: bench quick|full|run|report|pgo|list|simulate [flags] [scenario…]"

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	if args[0] == "simulate" {
		return simulate.Main(args[1:], os.Stdout)
	}
	o, ok := subcommands[args[0]]
	if !ok {
		return fmt.Errorf("no subcommand %q; %s", args[0], usage)
	}
	flags := flag.NewFlagSet("bench "+args[0], flag.ContinueOnError)
	flags.StringVar(&o.redis, "redis", cmp.Or(os.Getenv("REDIS_SERVER"), ownRedis),
		"the reference `server`: a path, or a name on PATH; default $REDIS_SERVER")
	flags.Var(&o.also, "also",
		"a further server beside it, as `name=path`; may be repeated (valkey-server on PATH joins by itself)")
	flags.StringVar(&o.spindle, "spindle", "", "spindle's `binary` (default: bin/spindle, built if it is not there)")
	flags.StringVar(&o.root, "root", ".", "the repository's `folder`")
	flags.StringVar(&o.scratch, "scratch", "", "`folder` for the servers' data (default: a new one in $TMPDIR)")
	flags.StringVar(&o.serverCPUs, "server-cpus", "0", "`cores` of the server: 0, 0-1, any")
	flags.StringVar(&o.loadCPUs, "load-cpus", "1", "`cores` of the load")
	flags.IntVar(&o.runs, "n", o.runs, "`runs` of everything, alternating between the servers")
	flags.IntVar(&o.port, "port", 21450, "the first of twenty loopback `ports`")
	flags.DurationVar(&o.duration, "duration", o.duration, "counted `time` of each figure")
	flags.DurationVar(&o.warmup, "warmup", o.warmup, "`time` before it that is not counted")
	flags.Uint64Var(&o.keys, "keys", o.keys, "`keys` of most scenarios")
	flags.Uint64Var(&o.many, "many", o.many, "`keys` of memory, gc, bgsave, loading and lazyfree")
	flags.StringVar(&o.plots, "plots", "svg", "the `form` of pictures: svg or png")
	flags.StringVar(&o.only, "only", "",
		"measure only the cells of throughput and types that this `expression` matches, as \"LPOP 16\"; writes nothing")
	flags.BoolVar(&o.write, "write", o.write, "write BENCHMARKS.md, plots and results")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	names := flags.Args()
	if o.only != "" && o.write {
		return errors.New("-only leaves cells out: its figures are not written")
	}
	if o.plots != "svg" && o.plots != "png" {
		return fmt.Errorf("pictures are svg or png, not %q", o.plots)
	}
	switch args[0] {
	case "list":
		for _, s := range scenarios.Catalogue {
			fmt.Printf("%-16s %s\n", s.Name, s.What)
		}
		return nil
	case "report":
		return o.writeReport()
	case "full":
		if len(names) == 0 {
			names = scenarios.Names()
		}
	case "run":
		if len(names) == 0 {
			return errors.New("bench run needs scenarios: " + strings.Join(scenarios.Names(), " "))
		}
	}
	for _, name := range names {
		if scenarios.Find(name) == nil {
			return fmt.Errorf("no scenario %q; there are %s", name, strings.Join(scenarios.Names(), " "))
		}
	}
	return o.start(args, names)
}

// start prepares everything for the scenarios, runs them, and always cleans up.
func (o *options) start(args, names []string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	context.AfterFunc(ctx, process.KillAll) // so that waits for children and requests to them fail at once
	defer process.KillAll()
	e, err := o.env(ctx, args)
	if err != nil {
		return err
	}
	defer os.RemoveAll(e.Scratch)
	err = o.do(e, args[0], names)
	if ctx.Err() != nil {
		return context.Canceled
	}
	return err
}

func (o *options) do(e *scenarios.Env, subcommand string, names []string) error {
	switch subcommand {
	case "quick":
		return scenarios.Quick(e, os.Stdout)
	case "pgo":
		return scenarios.Profile(e, filepath.Join(o.root, "default.pgo"))
	}
	for _, name := range names {
		e.Log.Write([]byte(name + ": " + scenarios.Find(name).What + "\n"))
		section, err := scenarios.Find(name).Run(e)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		section.Title = scenarios.Find(name).What
		section.NameRival()
		for i := range section.Tables {
			section.Tables[i].Print(os.Stdout)
		}
		if targets := section.Targets(); len(targets.Rows) > 0 {
			targets.Print(os.Stdout)
		}
		if o.write { // after each, so that an interrupted run keeps its results
			if err := section.Save(o.results()); err != nil {
				return err
			}
			if err := o.writeReport(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *options) results() string { return filepath.Join(o.root, "bench", "results") }

func (o *options) writeReport() error {
	sections, beside, err := report.Load(o.results(), scenarios.Names())
	if err != nil {
		return err
	}
	return report.Write(o.root, sections, beside)
}

// withoutFolder removes -root and the folders of programs, so that a page does not show where files are on the machine.
func withoutFolder(args []string) (rest []string) {
	for i := 0; i < len(args); i++ {
		switch name, _, joined := strings.Cut(args[i], "="); {
		case strings.TrimLeft(name, "-") != "root":
			at := strings.IndexByte(args[i], '=') + 1
			arg, path := args[i], args[i][at:]
			if filepath.IsAbs(path) {
				arg = arg[:at] + filepath.Base(path)
			}
			rest = append(rest, arg)
		case !joined:
			i++
		}
	}
	return rest
}

// env makes the Env of the scenarios from flags.
func (o *options) env(ctx context.Context, args []string) (*scenarios.Env, error) {
	e := &scenarios.Env{Context: ctx, Runs: max(1, o.runs), Duration: o.duration, Warmup: o.warmup, Keys: max(1, o.keys),
		ManyKeys: max(1, o.many),
		Port:     o.port, Log: os.Stderr, Command: "go run ./bench " + strings.Join(withoutFolder(args), " ")}
	var err error
	if o.only != "" {
		if e.Only, err = regexp.Compile(o.only); err != nil {
			return nil, err
		}
	}
	if e.ServerCPUs, err = process.ParseCPUs(o.serverCPUs); err != nil {
		return nil, err
	}
	if e.LoadCPUs, err = process.ParseCPUs(o.loadCPUs); err != nil {
		return nil, err
	}
	if !e.ServerCPUs.Holds() || !e.LoadCPUs.Holds() {
		fmt.Fprintf(os.Stderr, "bench: cores %s and %s are not both ours: nothing is pinned, and figures are worth little\n",
			e.ServerCPUs, e.LoadCPUs)
		e.ServerCPUs, e.LoadCPUs = nil, nil
	}
	path, err := exec.LookPath(o.redis)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; install redis-server or name one with -redis", o.redis, err)
	}
	e.Reference, e.Beside = scenarios.Contender{Name: "redis", Path: path}, o.redis != ownRedis
	if strings.HasPrefix(scenarios.Version(path), "valkey ") {
		e.Reference.Name = "valkey"
	}
	for _, pair := range o.also {
		e.Also = append(e.Also, scenarios.Contender{Name: pair[0], Path: pair[1]})
	}
	if valkey, err := exec.LookPath("valkey-server"); err == nil {
		e.Also = append(e.Also, scenarios.Contender{Name: "valkey", Path: valkey})
	}
	if e.Spindle, err = o.binary(); err != nil {
		return nil, err
	}
	if o.write && !e.Beside {
		e.PlotDir, e.PlotBase, e.PlotForm = filepath.Join(o.root, "bench", "plots"), "bench/plots", o.plots
	}
	if e.Scratch, err = os.MkdirTemp(o.scratch, "spindle-bench-"); err != nil {
		return nil, err
	}
	return e, process.PinSelf(e.LoadCPUs)
}

// binary returns the path of spindle's program. It builds the program if no path is given and none exists.
func (o *options) binary() (string, error) {
	path := o.spindle
	if path == "" {
		path = filepath.Join(o.root, "bin", "spindle")
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			build := exec.Command("go", "build", "-o", filepath.Join("bin", "spindle"), ".")
			build.Dir, build.Stderr = o.root, os.Stderr
			if err := build.Run(); err != nil {
				return "", fmt.Errorf("building spindle: %w", err)
			}
		}
	}
	return exec.LookPath(abs(path))
}

func abs(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
