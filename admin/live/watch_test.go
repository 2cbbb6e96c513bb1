package live

import (
	"errors"
	"testing"
	"time"

	"spindle/internal/histogram"
)

// TestSince: a trouble keeps the time at which it began. Once it is over, it is kept with its end.
func TestSince(t *testing.T) {
	held := time.Duration(0)
	w := watch{history: newHistory(), source: &Source{
		Held: func() time.Duration { return held }, Holder: func() Holder { return Holder{"keys", 17, "10.0.0.9:5000"} },
	}}
	begin := time.Unix(1000, 0)
	f := healthy()
	w.latest = &f
	at := func(s int) Condition { return w.judge(begin.Add(time.Duration(s) * time.Second)) }
	if c := at(0); !c.OK || len(c.Now) != 0 {
		t.Fatalf("healthy: %+v", c)
	}
	held = 2 * time.Second
	for s := 2; s < 5; s++ {
		if c := at(s); c.OK || len(c.Now) != 1 || c.Now[0].SinceMs != 1_000_000 {
			t.Fatalf("held: %+v", c)
		}
		held += time.Second
	}
	held = 0
	f.Info["aof_last_write_status"] = "err"
	c := at(6)
	if len(c.Now) != 1 || c.Now[0].SinceMs != 1_006_000 {
		t.Errorf("a log that cannot be written: %+v", c)
	}
	if len(c.Past) != 1 || c.Past[0].ID != "turn" || c.Past[0].SinceMs != 1_000_000 || c.Past[0].EndMs != 1_006_000 {
		t.Errorf("what is over: %+v", c.Past)
	}
	if c := at(9); c.Now[0].SinceMs != 1_006_000 {
		t.Errorf("later: %+v", c)
	}
	for s := range 3 * mostPast {
		f.Info["aof_last_write_status"] = []string{"ok", "err"}[s%2]
		at(10 + s)
	}
	if c := at(500); len(c.Past) != mostPast || c.Past[0].EndMs < c.Past[1].EndMs {
		t.Errorf("%d are kept, the first ended at %d", len(c.Past), c.Past[0].EndMs)
	}
}

// TestGrowth: counters grow over five seconds and over a minute; a reset is no growth.
func TestGrowth(t *testing.T) {
	var w watch
	begin := time.Unix(1000, 0)
	var f *Figures
	for s := range 100 {
		fields := healthy("total_connections_received", grouped(int64(s)), "uptime_in_seconds", "3600")
		f = &fields
		w.count(begin.Add(time.Duration(s)*time.Second), f)
	}
	if f.Grown[lately].Connections != 5 || f.Grown[lately].Span != 5*time.Second ||
		f.Grown[minute].Connections != 60 || f.Grown[minute].Span != time.Minute {
		t.Errorf("it has grown by %+v", f.Grown)
	}
	if len(w.counted) > 62 {
		t.Errorf("%d moments are kept", len(w.counted))
	}
	fields := healthy("total_connections_received", "3")
	if w.count(begin.Add(100*time.Second), &fields); fields.Grown[minute].Connections != 0 {
		t.Errorf("after a reset it has grown by %+v", fields.Grown)
	}
	w = watch{}
	fields = healthy("total_connections_received", "40", "uptime_in_seconds", "3")
	if w.count(begin, &fields); fields.Grown[lately].Connections != 40 || fields.Grown[lately].Span != 3*time.Second {
		t.Errorf("three seconds after its start it has grown by %+v", fields.Grown)
	}
}

// TestLatencies: the replies of each second are counted separately, and those of a command every ten seconds.
func TestLatencies(t *testing.T) {
	h := newHistory()
	get := &histogram.H{}
	all := func(yield func(string, *histogram.H) bool) {
		now := *get
		yield("get", &now)
	}
	for s := range int64(40) {
		get.Add(int64(time.Millisecond), 10)
		later := h.latencies(1000+s, all)
		if later.Total != 10 {
			t.Fatalf("second %d: %d replies", s, later.Total)
		}
	}
	if later := h.latencies(1040, all); later.Total != 0 {
		t.Errorf("no reply, but %d are counted", later.Total)
	}
	if h.CommandJSON("set", 0) != nil {
		t.Error("a command that has not run has a history")
	}
	want := `{"step":10,"at":[1010,1020,1030,1040],"calls":[10,10,10,9],"p50":[1000,1000,1000,1000],` +
		`"p99":[1000,1000,1000,1000],"max":[1000,1000,1000,1000]}`
	if got := string(h.CommandJSON("get", 1000)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestCloseWaits: Close returns after the running look, which uses the core.
func TestCloseWaits(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	p := New(Options{Source: Source{
		Held: func() time.Duration { return 0 },
		Sample: func() Sample {
			close(begun)
			<-end
			return Sample{}
		},
		Observe: func(...string) ([]byte, error) { return nil, errors.New("none") },
		Latency: func(func(string, *histogram.H) bool) {}, Certificates: func(func(string, int64)) {},
		Changed: func() []Change { return nil },
	}})
	<-begun
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
		t.Error("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	close(end)
	<-closed
}
