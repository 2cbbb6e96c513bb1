package server

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/internal/setting"
)

// TestAFeatureIsOnePart: a command, a setting, an INFO field and a metric of one part all work.
func TestAFeatureIsOnePart(t *testing.T) {
	t.Chdir(t.TempDir())
	in, err := newInstance(logging.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	var step setting.Int
	count := int64(0)
	metric := prometheus.NewGauge(prometheus.GaugeOpts{Name: "trial_count", Help: "How often TRIAL ran."})
	in.parts = append(in.parts, &part.Part{
		Name: "trial", Rows: []setting.Row{setting.NewInt("trial-step", &step, 1, setting.Between(1, 9))},
		Join: func(p *part.Part) error {
			p.Families = []command.Family{{Name: "trial", Rows: []command.Spec{
				{Name: "trial", Arity: 1, Flags: command.Fast, Run: func(c *command.Context) error {
					count += step.Get()
					c.Reply.Int(count)
					return nil
				}}}}}
			p.Sections = []info.Section{{Name: "Stats", Fields: []info.Field{
				info.Int("trial_count", func() int64 { return count })}}}
			p.Metrics = []prometheus.Collector{metric}
			return nil
		},
	})
	if in.registry, err = setting.NewRegistry(in.parts.Rows()); err != nil {
		t.Fatal(err)
	}
	args := config.ParseArguments([]string{"spindle", "--port", "0", "--unixsocket", filepath.Join(t.TempDir(), "s"),
		"--trial-step", "4", "--admin-address", "127.0.0.1:0"})
	if in.config, err = config.Load(in.registry, args, bytes.NewReader(nil), config.Options{Log: in.log}); err != nil {
		t.Fatal(err)
	}
	if err := in.assemble(args); err != nil {
		t.Fatal(err)
	}
	if err := in.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.listening.reactor.Stop(0)
		in.lazy.Close()
	})
	ask := func(words ...string) []byte {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		reply, err := in.page.Consult("default", "", 0, args)
		if err != nil {
			t.Error(err)
		}
		return reply
	}
	if got := ask("TRIAL"); string(got) != ":4\r\n" {
		t.Errorf("TRIAL says %q", got)
	}
	if got := ask("CONFIG", "GET", "trial-step"); !bytes.Contains(got, []byte("\r\n4\r\n")) {
		t.Errorf("CONFIG GET says %q", got)
	}
	if got := ask("INFO", "stats"); !bytes.Contains(got, []byte("trial_count:4\r\n")) {
		t.Errorf("INFO says %q", got)
	}
	if err := in.startAdmin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.admin.Close)
	metric.Set(4)
	got, err := http.Get("http://" + in.adminAt.String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if text, err := io.ReadAll(got.Body); err != nil || !bytes.Contains(text, []byte("\ntrial_count 4\n")) {
		t.Errorf("/metrics lacks the figure of the part: %v", err)
	}
}
