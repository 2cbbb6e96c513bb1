package scenarios

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spindle/bench/process"
	"spindle/bench/report"
)

// A DriverResult is another generator's result of one test.
type DriverResult struct {
	Test           string
	PerSecond      float64
	Mean, P50, P99 time.Duration
	P999           time.Duration // only memtier
	Max            time.Duration // only redis-benchmark
}

// parseRedisBenchmark parses the output of redis-benchmark --csv.
func parseRedisBenchmark(text string) ([]DriverResult, error) {
	if at := strings.Index(text, `"test"`); at > 0 {
		text = text[at:] // warnings come first
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		return nil, fmt.Errorf("redis-benchmark --csv: %v: %.200q", err, text)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	var results []DriverResult
	for _, row := range rows[1:] {
		r := DriverResult{Test: row[0]}
		for name, into := range map[string]*time.Duration{"avg_latency_ms": &r.Mean, "p50_latency_ms": &r.P50,
			"p99_latency_ms": &r.P99, "max_latency_ms": &r.Max} {
			at, ok := column[name]
			if !ok {
				return nil, fmt.Errorf("redis-benchmark --csv has no column %s", name)
			}
			if *into, err = milliseconds(row[at]); err != nil {
				return nil, err
			}
		}
		if r.PerSecond, err = strconv.ParseFloat(row[column["rps"]], 64); err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func milliseconds(text string) (time.Duration, error) {
	ms, err := strconv.ParseFloat(text, 64)
	return time.Duration(ms * float64(time.Millisecond)), err
}

// parseMemtier parses the lines Sets, Gets and Totals in memtier_benchmark's ALL STATS with --print-percentiles
// 50,99,99.9.
func parseMemtier(text string) ([]DriverResult, error) {
	_, table, found := strings.Cut(text, "ALL STATS")
	if !found {
		return nil, fmt.Errorf("memtier_benchmark printed no ALL STATS: %.200q", text)
	}
	var columns []string
	var results []DriverResult
	for line := range strings.SplitSeq(table, "\n") {
		switch fields := strings.Fields(line); {
		case len(fields) > 1 && fields[0] == "Type":
			columns = regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), -1)
		case len(columns) > 0 && len(fields) == len(columns) &&
			(fields[0] == "Sets" || fields[0] == "Gets" || fields[0] == "Totals"):
			r := DriverResult{Test: fields[0]}
			for i, name := range columns {
				var err error
				switch name {
				case "Ops/sec":
					r.PerSecond, err = strconv.ParseFloat(fields[i], 64)
				case "Avg. Latency":
					r.Mean, err = milliseconds(fields[i])
				case "p50 Latency":
					r.P50, err = milliseconds(fields[i])
				case "p99 Latency":
					r.P99, err = milliseconds(fields[i])
				case "p99.9 Latency", "p99.90 Latency":
					r.P999, err = milliseconds(fields[i])
				}
				if err != nil && fields[i] != "---" {
					return nil, fmt.Errorf("memtier_benchmark, %s of %s: %w", name, r.Test, err)
				}
			}
			results = append(results, r)
		}
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("memtier_benchmark: no line of ALL STATS is readable: %.300q", table)
	}
	return results, nil
}

// A driven is one run of another generator: its output, its duration, and the CPU time of both sides.
type driven struct {
	out                  string
	took, server, driver time.Duration
}

// drive runs a generator on the load's cores.
func (s *Server) drive(name string, args ...string) (d driven, err error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return d, err
	}
	cmd := exec.CommandContext(s.env.Context, path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	before, err := process.CPUTime(s.PID)
	if err != nil {
		return d, err
	}
	began := time.Now()
	if err := process.Start(cmd, s.env.LoadCPUs); err != nil {
		return d, err
	}
	if err := process.Wait(cmd); err != nil {
		return d, fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	after, err := process.CPUTime(s.PID)
	return driven{stdout.String(), time.Since(began), after - before,
		cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, err
}

// A drivenCost has the figures that another generator has measured.
type drivenCost struct{ cpu, rps, p50, p99, tail, server, driver report.Sample }

func (c *drivenCost) add(r DriverResult, requests float64, d driven) {
	c.cpu = append(c.cpu, float64(d.server)/requests)
	c.server = append(c.server, d.server.Seconds()/d.took.Seconds())
	c.driver = append(c.driver, d.driver.Seconds()/d.took.Seconds())
	c.rps = append(c.rps, r.PerSecond)
	c.p50 = append(c.p50, float64(r.P50))
	c.p99 = append(c.p99, float64(r.P99))
	c.tail = append(c.tail, float64(max(r.P999, r.Max)))
}

// drivenCosts has the results of another generator, by depth, test and server.
type drivenCosts map[string]*drivenCost

// at returns a function that finds the results at one depth.
func (d drivenCosts) at(pipeline int) func(test, contender string) *drivenCost {
	return func(test, contender string) *drivenCost {
		key := fmt.Sprint(pipeline, test, contender)
		if d[key] == nil {
			d[key] = &drivenCost{}
		}
		return d[key]
	}
}

// drivenTable returns the table of one depth of one generator. The first contender is the base of comparison.
func drivenTable(title, tail string, tests []string, contenders []Contender,
	at func(test, contender string) *drivenCost) report.Table {
	t := report.Table{Title: title, Columns: []string{"test", "server", "CPU µs/request", "× redis", "requests/s",
		"p50 µs", "p99", tail, "server busy", "driver busy", "verdict"}}
	for _, test := range tests {
		base := at(test, contenders[0].Name)
		for i, c := range contenders {
			x := at(test, c.Name)
			ratio, verdict := x.cpu.Ratio(base.cpu), ""
			if i > 0 && c.Kind == Spindle && ratio > 1 {
				verdict = string(report.Lost)
			}
			t.Rows = append(t.Rows, []string{test, c.Name, x.cpu.Text(report.Micros), report.Number(ratio),
				x.rps.Text(report.Thousands),
				x.p50.Short(report.Micros), x.p99.Short(report.Micros), x.tail.Short(report.Micros),
				report.Percent(x.server.Median()), report.Percent(x.driver.Median()), verdict})
		}
	}
	return t
}

// redisBenchmarkTests has redis-benchmark's names of tests. The rate is a guess, so that a test has about the right
// duration.
var redisBenchmarkTests = []struct {
	name string
	rate map[int]float64
}{
	{"ping_mbulk", map[int]float64{1: 120e3, 16: 1.2e6, 64: 1.6e6}},
	{"get", map[int]float64{1: 110e3, 16: 900e3, 64: 1.2e6}},
	{"set", map[int]float64{1: 110e3, 16: 800e3, 64: 1e6}}, {"incr", map[int]float64{1: 110e3, 16: 900e3, 64: 1.2e6}},
	{"mset", map[int]float64{1: 80e3, 16: 200e3, 64: 200e3}},
}

func redisBenchmark(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("redis-benchmark", contenders,
		fmt.Sprintf("`redis-benchmark -c 50 -d 32 -r %d -P … -n … -t … --csv`, a fresh server a run, each test about %v "+
			"long.", e.Keys, e.Duration),
		"CPU per request is over the whole test, its connecting included; there is no warm-up but the fill before.",
		"redis-benchmark is one thread: at depth it may be slower than the server, and then the throughput is its own.")
	costs := drivenCosts{}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		server, err := e.Begin(c, Start{})
		if err != nil {
			return err
		}
		defer server.End()
		for _, p := range pipelines {
			for _, test := range redisBenchmarkTests {
				n := max(1000, test.rate[p]*e.Duration.Seconds())
				host, port, _ := strings.Cut(server.Address, ":")
				d, err := server.drive("redis-benchmark", "-h", host, "-p", port, "-c", "50", "-d", "32", "-r",
					strconv.FormatUint(e.Keys, 10),
					"-P", strconv.Itoa(p), "-n", strconv.FormatInt(int64(n), 10), "-t", test.name, "--csv")
				if err != nil {
					return err
				}
				results, err := parseRedisBenchmark(d.out)
				if err != nil {
					return err
				}
				costs.at(p)(test.name, c.Name).add(results[0], float64(int64(n)), d)
			}
		}
		return nil
	})
	var tests []string
	for _, t := range redisBenchmarkTests {
		tests = append(tests, t.name)
	}
	for _, p := range pipelines {
		s.Tables = append(s.Tables, drivenTable(fmt.Sprintf("redis-benchmark -P %d", p), "max", tests,
			contenders, costs.at(p)))
	}
	return s, err
}

func memtier(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	seconds := max(1, int(e.Duration.Round(time.Second)/time.Second))
	s := e.section("memtier", contenders,
		fmt.Sprintf("`memtier_benchmark -c 50 -t 1 --ratio 1:1 -d 32 --key-pattern R:R --key-maximum %d --pipeline … "+
			"--test-time %d`, a fresh server a run, keys loaded before.", e.Keys, seconds),
		"CPU per request is over the whole test, its connecting included.")
	if _, err := exec.LookPath("memtier_benchmark"); err != nil {
		s.Text = append(s.Text, "memtier_benchmark was not on PATH: nothing was measured.")
		return s, nil
	}
	costs := drivenCosts{}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		server, err := e.Begin(c, Start{})
		if err != nil {
			return err
		}
		defer server.End()
		host, port, _ := strings.Cut(server.Address, ":")
		common := []string{"-s", host, "-p", port, "--hide-histogram", "-d", "32", "--key-maximum",
			strconv.FormatUint(e.Keys, 10)}
		if _, err := server.drive("memtier_benchmark", append(common, "-c", "8", "-t", "1", "--pipeline", "64", "--ratio",
			"1:0", "--key-pattern", "P:P", "-n", "allkeys")...); err != nil {
			return err
		}
		for _, p := range pipelines {
			d, err := server.drive("memtier_benchmark", append(common, "-c", "50", "-t", "1", "--ratio", "1:1",
				"--key-pattern", "R:R",
				"--pipeline", strconv.Itoa(p), "--test-time", strconv.Itoa(seconds), "--print-percentiles", "50,99,99.9")...)
			if err != nil {
				return err
			}
			results, err := parseMemtier(d.out)
			if err != nil {
				return err
			}
			total := results[len(results)-1]
			costs.at(p)("SET and GET 1:1", c.Name).add(total, total.PerSecond*float64(seconds), d)
		}
		return nil
	})
	for _, p := range pipelines {
		s.Tables = append(s.Tables, drivenTable(fmt.Sprintf("memtier_benchmark --pipeline %d", p), "p99.9",
			[]string{"SET and GET 1:1"}, contenders, costs.at(p)))
	}
	return s, err
}
