package bgsave

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/tests/testkit"
)

// A testScheduler is a Scheduler with faked surroundings. Only the test moves its clock.
type testScheduler struct {
	*Scheduler
	settings Settings
	view     *fakeView
	dirty    int64
	clock    time.Time
	turn     sync.Mutex
	log      bytes.Buffer
	loading  Loading
	busyWith bool
	ended    chan struct{} // gets a value when a background save has ended
}

func newTestScheduler(t *testing.T) *testScheduler {
	d := &testScheduler{clock: time.Unix(1_700_000_000, 0), view: newFakeView(t), ended: make(chan struct{}, 8)}
	d.settings.Rows()
	d.settings.FileName.Set(filepath.Join(t.TempDir(), "dump.rdb"))
	for i := range 100 {
		d.view.put(0, strings.Repeat("k", i+1), "v", 0)
	}
	d.Scheduler = NewScheduler(Parts{
		Settings: &d.settings, Log: logging.New(&d.log), Now: func() time.Time { return d.clock },
		Freeze: func() View { return d.view }, Dirty: func() int64 { return d.dirty },
		Turn:     func(f func()) { d.turn.Lock(); f(); d.turn.Unlock(); d.ended <- struct{}{} },
		Header:   func() Header { return header },
		Retained: func() int64 { return 4711 },
		Busy:     func() bool { return d.busyWith },
	})
	return d
}

// in runs f in a turn.
func (d *testScheduler) in(f func()) { d.turn.Lock(); defer d.turn.Unlock(); f() }

func (d *testScheduler) wait(t *testing.T) {
	t.Helper()
	select {
	case <-d.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the save does not end")
	}
}

func (d *testScheduler) figure(name string) string {
	var w info.Writer
	for _, s := range d.Sections(&d.loading) {
		for i := range s.Fields {
			s.Fields[i].Append(&w)
		}
	}
	_, after, _ := strings.Cut("\r\n"+string(w.B), "\r\n"+name+":")
	text, _, _ := strings.Cut(after, "\r\n")
	return text
}

func (d *testScheduler) expect(t *testing.T, figures ...string) {
	t.Helper()
	for i := 0; i < len(figures); i += 2 {
		if got := d.figure(figures[i]); got != figures[i+1] {
			t.Errorf("%s is %q, want %q", figures[i], got, figures[i+1])
		}
	}
}

func TestBackground(t *testing.T) {
	d := newTestScheduler(t)
	d.expect(t, "rdb_last_save_time", "1700000000", "rdb_bgsave_in_progress", "0", "rdb_last_bgsave_time_sec", "-1",
		"rdb_current_bgsave_time_sec", "-1", "rdb_last_bgsave_status", "ok", "total_forks", "0", "loading", "0")
	d.settings.SaveDelay.Set(2000)
	d.dirty = 7
	d.in(func() {
		if queued, err := d.Background(false, false); queued || err != nil {
			t.Fatal(queued, err)
		}
		d.expect(t, "current_save_keys_total", "100") // known at once: the turn that starts the save sets the total
		d.clock = d.clock.Add(3 * time.Second)
		d.dirty = 10 // changes during the save are not in the file
		d.Tick()
		d.expect(t, "rdb_bgsave_in_progress", "1", "rdb_current_bgsave_time_sec", "3", "rdb_changes_since_last_save", "10",
			"current_cow_size", "4711", "total_forks", "1", "rdb_saves", "1")
		if _, err := d.Background(true, false); err != ErrInProgress {
			t.Errorf("a second one: %v", err)
		}
		if err := d.Now(); err != ErrInProgress {
			t.Errorf("SAVE beside it: %v", err)
		}
	})
	d.wait(t)
	d.expect(t, "rdb_bgsave_in_progress", "0", "rdb_changes_since_last_save", "3", "rdb_last_save_time", "1700000003",
		"rdb_last_bgsave_time_sec", "3", "rdb_last_cow_size", "4711", "current_save_keys_total", "0")
	for _, line := range []string{"Background saving started by pid ", "DB saved on disk",
		"Background saving terminated with success"} {
		if !strings.Contains(d.log.String(), line) {
			t.Errorf("the log lacks %q", line)
		}
	}
	if d.view.closed != 1 {
		t.Errorf("the view was closed %d times", d.view.closed)
	}
}

func TestRules(t *testing.T) {
	d := newTestScheduler(t)
	d.settings.Rules.Set([]Rule{{60, 10}, {10, 100}})
	d.dirty = 10
	d.clock = d.clock.Add(60 * time.Second)
	d.Tick()
	d.dirty = 99
	d.Tick()
	if d.InProgress() {
		t.Fatal("started at 60 s, which is not past 60 s")
	}
	d.clock = d.clock.Add(time.Second)
	d.in(d.Tick)
	d.wait(t)
	d.expect(t, "rdb_changes_since_last_save", "0", "rdb_saves", "1")
	if !strings.Contains(d.log.String(), "10 changes in 60 seconds. Saving...") {
		t.Errorf("log %s", d.log.String())
	}
	d.dirty += 100
	d.clock = d.clock.Add(11 * time.Second)
	d.in(d.Tick)
	d.wait(t)
	if !strings.Contains(d.log.String(), "100 changes in 10 seconds. Saving...") {
		t.Errorf("log %s", d.log.String())
	}
}

// TestFailed: after a failed save, writes stop and the rules pause for five seconds. The next successful save ends
// both.
func TestFailed(t *testing.T) {
	d := newTestScheduler(t)
	good := d.settings.FileName.Get()
	d.settings.FileName.Set("/nonexistent/dump.rdb")
	d.settings.Rules.Set([]Rule{{1, 1}})
	d.dirty = 1
	d.clock = d.clock.Add(2 * time.Second)
	d.in(d.Tick)
	d.wait(t)
	d.expect(t, "rdb_last_bgsave_status", "err", "rdb_changes_since_last_save", "1")
	if !d.WritesStopped() || !strings.Contains(d.log.String(), "Background saving error") {
		t.Error("no listener is called")
	}
	d.settings.StopWrites.Set(false)
	if d.WritesStopped() {
		t.Error("stop-writes-on-bgsave-error no")
	}
	d.settings.StopWrites.Set(true)
	d.settings.Rules.Set(nil)
	if d.WritesStopped() {
		t.Error("without rules no files are wanted")
	}
	d.settings.Rules.Set([]Rule{{1, 1}})
	d.settings.FileName.Set(good)
	d.clock = d.clock.Add(4 * time.Second)
	d.in(d.Tick)
	if d.InProgress() {
		t.Error("tried again after 4 s")
	}
	d.clock = d.clock.Add(2 * time.Second)
	d.in(d.Tick)
	d.wait(t)
	d.expect(t, "rdb_last_bgsave_status", "ok", "rdb_changes_since_last_save", "0")
	if d.WritesStopped() {
		t.Error("writes still stopped")
	}
}

func TestQueued(t *testing.T) {
	d := newTestScheduler(t)
	d.busyWith = true
	if _, err := d.Background(false, false); err != ErrBusy {
		t.Errorf("beside a rewrite: %v", err)
	}
	if queued, err := d.Background(true, false); !queued || err != nil {
		t.Error(queued, err)
	}
	d.Tick()
	if d.InProgress() {
		t.Error("did not wait")
	}
	d.busyWith = false
	d.in(d.Tick)
	d.wait(t)
	d.expect(t, "rdb_saves", "1")
	if queued, err := d.Background(false, true); !queued || err != nil {
		t.Error("inside MULTI it is queued:", queued, err)
	}
}

// TestAbort: the old file stays, the temporary file is removed, and no result is recorded (bgsave.S3).
func TestAbort(t *testing.T) {
	d := newTestScheduler(t)
	path := d.settings.FileName.Get()
	if err := os.WriteFile(path, []byte("the old file"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.settings.SaveDelay.Set(1_000_000)
	d.dirty = 5
	var wait func(time.Duration)
	d.in(func() {
		if _, err := d.Background(false, false); err != nil {
			t.Fatal(err)
		}
	})
	temp := filepath.Join(filepath.Dir(path), tempName())
	testkit.Until(t, 10*time.Second, "a temporary file", func() error { _, err := os.Stat(temp); return err })
	d.in(func() { wait = d.AbortAndWait("a test") })
	wait(10 * time.Second)
	d.wait(t)
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
	if p, _ := os.ReadFile(path); string(p) != "the old file" {
		t.Errorf("the old file is now %.20q", p)
	}
	d.expect(t, "rdb_bgsave_in_progress", "0", "rdb_last_bgsave_status", "ok", "rdb_last_save_time", "1700000000",
		"rdb_changes_since_last_save", "5")
	if d.view.closed != 1 {
		t.Errorf("the view was closed %d times", d.view.closed)
	}
}

// TestFlushed: the file is written again, so that a restart does not bring the old keys back.
func TestFlushed(t *testing.T) {
	d := newTestScheduler(t)
	d.dirty = 3
	d.Flushed(2) // FLUSHALL counts them when it returns
	d.dirty += 2
	d.expect(t, "rdb_changes_since_last_save", "0", "rdb_saves", "0")
	got := newFakeInserter()
	if _, err := Load(t.Context(), d.settings.FileName.Get(), got, LoadOptions{}); err != nil || len(got.keys) != 100 {
		t.Fatal(err, len(got.keys))
	}
	d.settings.Rules.Set(nil)
	d.dirty += 3
	d.Flushed(0)
	d.expect(t, "rdb_changes_since_last_save", "3")
}

func TestLoadingFigures(t *testing.T) {
	d := newTestScheduler(t)
	d.loading.Begin(1000)
	d.loading.StartUnix.Store(time.Now().Unix() - 10)
	d.loading.Read.Store(250)
	d.expect(t, "loading", "1", "loading_total_bytes", "1000", "loading_loaded_bytes", "250", "loading_loaded_perc",
		"25.00", "loading_eta_seconds", "30")
}
