// Package scenarios holds the bench's measurements: each scenario starts servers, loads them, reads their figures and
// returns a section of results.
//
// Owner: the bench's main goroutine; a scenario starts samplers and ends them itself.
// Never: leaves a server running, connects to one that it did not start, or leaves a run out of the figures.
// Start at env.go; server.go runs a server, info.go reads it; each scenario has a file, listed in catalogue.go.
package scenarios

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

// An Env is the input of every scenario.
type Env struct {
	Context    context.Context
	Reference  Contender   // redis-server
	Beside     bool        // the reference was named by hand: its results are stored separately
	Also       []Contender // more servers to compare with: valkey-server, another Redis
	Spindle    string      // path of the binary
	ServerCPUs process.CPUs
	LoadCPUs   process.CPUs
	Runs       int
	Duration   time.Duration // counted time of a cell
	Warmup     time.Duration
	Keys       uint64 // the size of the key space
	ManyKeys   uint64 // the size of a large key space
	Port       int    // the first of twenty ports for servers
	Scratch    string // a folder of ours
	PlotDir    string // "" means no plots
	PlotBase   string // that folder's name in BENCHMARKS.md
	PlotForm   string // svg or png
	Log        io.Writer
	Command    string         // this run's command line
	Only       *regexp.Regexp // the cells of throughput and types to measure, such as "LPOP 16"; nil means all

	nextPort int
	ports    int // the number of ports from Port; 0 means twenty
}

// A Kind says which arguments and INFO fields a server has.
type Kind int

// Redis stands for all servers that accept Redis's arguments and have Redis's INFO.
const (
	Redis Kind = iota
	Spindle
)

// A Contender is a server to compare, and how it is started.
type Contender struct {
	Name string
	Kind Kind
	Path string
	Args []string
}

// With returns c with another name and further arguments.
func (c Contender) With(name string, args ...string) Contender {
	c.Name, c.Args = name, append(append([]string(nil), c.Args...), args...)
	return c
}

// Ours returns spindle with its default settings.
func (e *Env) Ours() Contender { return Contender{Name: "spindle", Kind: Spindle, Path: e.Spindle} }

// Pair returns redis-server, further contenders, and spindle.
func (e *Env) Pair() []Contender {
	return append(append([]Contender{e.Reference}, e.Also...), e.Ours())
}

// Backends returns spindle with each of its event loops, and spindle with a second loop.
func (e *Env) Backends() []Contender {
	var all []Contender
	for _, backend := range []string{"gnet", "epoll", "io_uring", "netpoll"} {
		all = append(all, e.Ours().With("spindle "+backend, "--reactor-backend", backend))
	}
	return append(all, e.Ours().With("spindle gnet io-threads 2", "--reactor-backend", "gnet", "--io-threads", "2"))
}

// logf logs progress.
func (e *Env) logf(format string, args ...any) { fmt.Fprintf(e.Log, format+"\n", args...) }

// section begins a section with the fields that every section has.
func (e *Env) section(name string, contenders []Contender, text ...string) *report.Section {
	s := &report.Section{
		Name: name, Reference: versionNumber(e.Reference.Path), Beside: e.Beside,
		Taken: time.Now().UTC().Format("2006-01-02"), Machine: Machine(), Text: text, Commands: []string{e.Command},
	}
	for _, c := range contenders {
		s.Servers = append(s.Servers, fmt.Sprintf("%s: %s, `%s`", c.Name, Version(c.Path),
			strings.Join(append([]string{base(c.Path)}, c.arguments()...), " ")))
	}
	s.Text = append(s.Text, fmt.Sprintf("Server on core %s, load on core %s. %s.",
		e.ServerCPUs, e.LoadCPUs, plural(e.Runs, "run")))
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Machine describes this machine.
func Machine() []string {
	model, kernel := "unknown CPU", "unknown kernel"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.SplitSeq(string(text), "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = "Linux " + strings.TrimSpace(string(text))
	}
	memory := "unknown memory"
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kb); err == nil {
			memory = fmt.Sprintf("%.1f GB of memory", float64(kb)/(1<<20))
		}
	}
	return []string{fmt.Sprintf("%s, %s, %s, %s", model, plural(process.Available(), "core"), memory, kernel),
		runtime.Version() + " for the bench; spindle's own is with its version"}
}

// Version returns the first lines of a server's version text.
func Version(path string) string {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "unknown version"
	}
	return parseVersion(string(out))
}

// versionNumber returns the number of a server's version, after a name that is not Redis's: "7.0.15", "valkey 9.1.2".
func versionNumber(path string) string {
	words := append(strings.Fields(Version(path)), "", "")
	if words[0] == "valkey" {
		return words[0] + " " + words[1]
	}
	return words[0]
}

// parseVersion shortens "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=…" and keeps the line
// that spindle adds.
func parseVersion(text string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	var words []string
	if strings.HasPrefix(first, "Valkey ") {
		words = append(words, "valkey")
	}
	for word := range strings.FieldsSeq(first) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			words = append(words, version)
		} else if strings.HasPrefix(word, "malloc=") {
			words = append(words, "("+word+")")
		}
	}
	version := strings.Join(words, " ")
	if rest = strings.TrimSpace(rest); rest != "" {
		version = strings.ReplaceAll(rest, "\n", ", ") + ", compatible with " + version
	}
	return version
}

// alternate calls do for the contenders in turn, Runs times each: A B A B.
func (e *Env) alternate(contenders []Contender, do func(c Contender, run int) error) error {
	for run := range e.Runs {
		for _, c := range contenders {
			if err := e.Context.Err(); err != nil {
				return err
			}
			e.logf("  run %d of %d: %s", run+1, e.Runs, c.Name)
			if err := do(c, run); err != nil {
				return fmt.Errorf("%s, run %d: %w", c.Name, run+1, err)
			}
		}
	}
	return nil
}

// sideBySide starts all contenders and compares them in one cell after another, Runs times. For each cell, ready
// prepares every contender. Then all contenders are measured in alternating slices. The first contender differs between
// runs.
func (e *Env) sideBySide(contenders []Contender, start Start, prepare func(*Server) error, cells int,
	ready func(s *Server, cell int) (load.Spec, error), seen func(s *Server, cell int, slices []load.Result) error) error {
	for run := range e.Runs {
		e.logf("  run %d of %d", run+1, e.Runs)
		if err := e.runSideBySide(run, contenders, start, prepare, cells, ready, seen); err != nil {
			return fmt.Errorf("run %d: %w", run+1, err)
		}
	}
	return nil
}

func (e *Env) runSideBySide(run int, contenders []Contender, start Start, prepare func(*Server) error, cells int,
	ready func(s *Server, cell int) (load.Spec, error), seen func(s *Server, cell int, slices []load.Result) error) error {
	var servers []*Server
	for i := range contenders {
		c := contenders[(i+run)%len(contenders)]
		s, err := e.Begin(c, start)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		defer s.End()
		if err := prepare(s); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		servers = append(servers, s)
	}
	specs := make([]load.Spec, len(servers))
	for cell := range cells {
		if err := e.Context.Err(); err != nil {
			return err
		}
		for i, s := range servers {
			spec, err := ready(s, cell)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			specs[i] = s.address(spec)
		}
		results, err := load.DoTogether(specs, e.slices(), e.LoadCPUs)
		if err != nil {
			return err
		}
		for i, s := range servers {
			for at := range results[i] {
				if err := s.refuseErrors(&results[i][at]); err != nil {
					return err
				}
			}
			if err := seen(s, cell, results[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Slices must be short, because this machine's speed changes within a second. But they must be much longer than a
// millisecond. For about a millisecond after a server wakes up, the monitor of Go's runtime runs every 20 µs. In slices
// of 50 ms this alone is 1 to 2 % of the CPU of an unpipelined request. Under a steady load no server has this cost.
// The scenario latency shows the cost at the lowest rates.
const (
	sliceLength = 250 * time.Millisecond
	sliceSettle = 10 * time.Millisecond // after the slices of two others
)

// slices returns the slices that make up a cell's measured time.
func (e *Env) slices() load.Slices {
	return load.Slices{Count: max(1, int(e.Duration/sliceLength)), Settle: sliceSettle}
}

// fill sends words once for each of the keys, in order, as fast as the server accepts them.
func fill(keys uint64, first uint64, words ...string) load.Spec {
	return load.Spec{Connections: 8, Pipeline: 128, Requests: int64(keys), Mix: []load.Command{load.Request(words...)},
		Keys: load.KeySpace{First: first, Count: keys, Order: load.Sequential}}
}

var nan = math.NaN() // an unknown figure

// setWords is a SET with a key of 16 bytes and a value of 32.
var setWords = []string{"SET", "{key}", "{value:32}"}
