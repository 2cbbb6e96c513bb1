package scenarios

import (
	"fmt"
	"io"
	"time"

	"spindle/bench/report"
)

// Quick is the comparison for daily use. It takes less than a minute and writes no files. Its runs are short and few,
// with an error of about 5 %.
func Quick(e *Env, out io.Writer) error {
	began := time.Now()
	contenders := []Contender{e.Reference, e.Ours()}
	m, err := e.measure(contenders, workloads[:2], pipelines, nil)
	if err != nil {
		return err
	}
	for _, line := range Machine() {
		fmt.Fprintln(out, line)
	}
	for _, c := range contenders {
		fmt.Fprintf(out, "%s: %s\n", c.Name, Version(c.Path))
	}
	fmt.Fprintf(out, "server on core %s, load on core %s, %s of %v a cell after %v of warm-up\n", e.ServerCPUs, e.LoadCPUs,
		plural(e.Runs, "run"), e.Duration, e.Warmup)
	for _, p := range pipelines {
		t := e.costTable(m, contenders, workloads[:2], p)
		t.Print(out)
	}
	t := report.Table{Title: fmt.Sprintf("Bytes per key, %s keys", report.Thousands(float64(e.Keys))),
		Columns: []string{"shape", "redis", "spindle", "target", "verdict"}}
	for _, shape := range shapes {
		redis, _, err := e.bytesPerKey(e.Reference, shape, e.Keys)
		if err != nil {
			return err
		}
		ours, _, err := e.bytesPerKey(e.Ours(), shape, e.Keys)
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, []string{shape.name, report.Number(redis), report.Number(ours),
			"≤ " + report.Number(shape.target), string(report.Judge(ours, shape.target, redis))})
	}
	t.Print(out)
	fmt.Fprintf(out, "\n%v\n", time.Since(began).Round(100*time.Millisecond))
	return nil
}
