package aof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/internal/setting"
	"spindle/tests/testkit/faulty"
)

// TestHistoryText: an index is read as it was written, and damaged ones are refused.
func TestHistoryText(t *testing.T) {
	h := &history{
		bases: []pastBase{{"a b.1.base.rdb", 10, 0, 5}, {"x.2.base.aof", 0, 100, 7}},
		incrs: []pastIncr{{"x.1.incr.aof", 100, 0, 5}, {"x.2.incr.aof", liveSize, 100, 7}}, gone: []string{"x.0.incr.aof"},
	}
	again, err := parseHistory(h.text())
	if err != nil || string(again.text()) != string(h.text()) {
		t.Errorf("%v\n%s\n%s", err, h.text(), again.text())
	}
	for _, text := range []string{
		"base a size 1 offset 0 at 5", // the index lacks its end
		"base a size 1 offset 0\n", "base a size x offset 0 at 5\n", "base a size live offset 0 at 5\n", "gone\n",
		"base ../a size 1 offset 0 at 5\n", "incr a size 1 offset -1 from 5\n", "\x00\x00\x00\n",
		"incr a size 10 offset 0 from 5\nincr b size 10 offset 9 from 5\n", "file a seq 1 type b\n",
	} {
		if h, err := parseHistory([]byte(text)); !errors.Is(err, errHistory) {
			t.Errorf("%q: %v, %v", text, h, err)
		}
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("base a size 1 offset 0 at 5\nincr b size live offset 0 from 5\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := parseHistory(text)
		if err != nil {
			return
		}
		if again, err := parseHistory(h.text()); err != nil || string(again.text()) != string(h.text()) {
			t.Errorf("%q: %v", text, err)
		}
		h.prune(keep{seconds: 1, bytes: 1}, 1<<40)
	})
}

// TestPrune: the first base is removed when the next one is older than the configured time, or when the files are too
// large.
func TestPrune(t *testing.T) {
	h := &history{}
	h.begin(pastBase{name: "b1", size: 10, atMs: 1000}, "i1", liveSize)
	h.shut(100)
	h.next("i2", 2000)
	h.bases = append(h.bases, pastBase{"b2", 10, 100, 2000})
	h.shut(100)
	h.begin(pastBase{name: "b3", size: 10, atMs: 3000}, "i3", liveSize) // after a gap
	for _, c := range []struct {
		k     keep
		nowMs int64
		gone  string
	}{
		{keep{seconds: 10}, 11_999, ""},
		{keep{seconds: 10}, 12_000, "b1 i1"},
		{keep{seconds: 10}, 13_000, "b1 i1 b2 i2"},
		{keep{seconds: 10}, 1 << 40, "b1 i1 b2 i2"},
		{keep{bytes: 220}, 1 << 40, ""},
		{keep{bytes: 219}, 0, "b1 i1"},
		{keep{bytes: 1}, 0, "b1 i1 b2 i2"},
	} {
		pruned := &history{bases: slices.Clone(h.bases), incrs: slices.Clone(h.incrs)}
		pruned.prune(c.k, c.nowMs)
		if got := strings.Join(pruned.gone, " "); got != c.gone {
			t.Errorf("%+v at %d: %q, want %q", c.k, c.nowMs, got, c.gone)
		}
		if len(pruned.bases)+len(pruned.incrs)+len(pruned.gone) != 6 {
			t.Errorf("%+v: a file is in no list: %s", c.k, pruned.text())
		}
	}
}

// TestKeepSetting: aof-keep-history takes a time, a size, or both.
func TestKeepSetting(t *testing.T) {
	for text, want := range map[string]keep{
		"no": {}, "24h": {seconds: 86400}, "90s 1gb": {90, 1 << 30}, "7d 50gb": {7 * 86400, 50 << 30},
		"500mb": {bytes: 500 << 20}, "30m": {seconds: 1800},
	} {
		k, err := parseKeep(strings.Fields(text))
		if err != nil || k != want {
			t.Errorf("%s: %+v, %v", text, k, err)
		}
		if again, err := parseKeep(strings.Fields(formatKeep(k))); err != nil || again != k {
			t.Errorf("%s becomes %s, %+v, %v", text, formatKeep(k), again, err)
		}
	}
	for _, text := range []string{"yes", "0s", "24h 24h", "1gb 1gb", "24h 1gb x", "-1h", "50g", "99999999999999999999d",
		"24h no"} {
		if k, err := parseKeep(strings.Fields(text)); err == nil {
			t.Errorf("%s: %+v", text, k)
		}
	}
	s := &Settings{}
	s.Rows()
	if s.Past.Get().on() || setting.Quote("") != `""` {
		t.Error("a history is kept by default")
	}
}

// A promise is a step whose reply could leave, with the history's offset after the step.
type promise struct {
	step   int
	offset int64
}

// TestPowerCutsInHistory: three lives of a server that keeps its history, each ended by a power cut at any step of
// writing, rewriting and removing. Later lives can restore the data set as it was after every step whose reply could
// leave.
func TestPowerCutsInHistory(t *testing.T) {
	for from, seeds := uint64(0), crashSeeds(); from < seeds; from += crashBlock {
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) {
			t.Parallel()
			for seed := from; seed < min(from+crashBlock, seeds); seed++ {
				if problem := historyCut(t, seed); problem != "" {
					t.Fatalf("seed %d: %s", seed, problem)
				}
			}
		})
	}
}

// historyCut plays one seed. It returns what was wrong.
func historyCut(t *testing.T, seed uint64) (problem string) {
	rng := rand.New(rand.NewPCG(seed, 11))
	d := faulty.New(seed)
	var promises []promise
	var set sealedSet
	for life := range 3 {
		begin := func() (s *server, err error) {
			s = newServer(t, d)
			s.set.Fsync.Set(Always)
			s.set.Percentage.Set(0)
			s.set.Past.Set(keep{bytes: 1 << 40})
			return s, s.start()
		}
		s, err := begin()
		if damaged(err) && !d.Off() { // zeros at the end of the last increment
			if err := Fix(d, s.aof.Path()); err != nil {
				return err.Error()
			}
			s.close()
			s, err = begin()
		}
		switch {
		case d.Off():
		case err != nil:
			return fmt.Sprintf("life %d: %v\n%s", life, err, d)
		default:
			n, _ := s.state()
			if set.there > 0 {
				dir, _ := filepath.Abs("backupdir")
				if problem := s.loaded(t, d, dir, set.there); problem != "" {
					return fmt.Sprintf("life %d: the backup of step %d: %s\n%s", life, set.there, problem, d)
				}
			}
			if life > 0 {
				for range min(3, len(promises)) {
					p := promises[rng.IntN(len(promises))]
					if problem := s.hadBack(t, d, p); problem != "" {
						return fmt.Sprintf("life %d: %s\n%s", life, problem, d)
					}
				}
			}
			promises = append(promises, s.liveInHistory(d, rng, n, &set)...)
		}
		d = d.Crash()
		s.close()
	}
	return ""
}

// liveInHistory takes steps and rewrites until the power goes off.
func (s *server) liveInHistory(d *faulty.Disk, rng *rand.Rand, from int, set *sealedSet) (promised []promise) {
	d.CrashAfter(rng.IntN(90))
	for step := from + 1; !d.Off() && !s.fatal.Load() && step < from+100; step++ {
		turn, at := s.step(step), int64(0)
		s.Do(func() { at = s.aof.w.pastAt.Load() + s.aof.w.end() })
		if rng.IntN(8) == 0 {
			s.Do(func() {
				if !s.aof.Rewriting() {
					s.aof.startRewrite()
				}
			})
		}
		if rng.IntN(8) == 0 {
			s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() || d.Off() })
		}
		s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) || d.Off() })
		if s.gate.Holds(turn) || s.fatal.Load() || d.Off() {
			return promised
		}
		promised = append(promised, promise{step, at})
		s.Do(func() { s.backUp(rng, step, set) })
	}
	return promised
}

// TestHistoryOnAFullDisk: the disk takes no index any more while the log is rewritten. The server serves on, and the
// log tells of it. Once the index is written again, every moment can be had back. If the power goes off before, those
// that the last index knows can be. No moment gives other data.
func TestHistoryOnAFullDisk(t *testing.T) {
	for _, healed := range []bool{true, false} {
		t.Run(fmt.Sprint("healed ", healed), func(t *testing.T) {
			d := faulty.New(1)
			begin := func(d *faulty.Disk) *server {
				s := newServer(t, d)
				s.set.Fsync.Set(Always)
				s.set.Percentage.Set(0)
				s.set.Past.Set(keep{bytes: 1 << 40})
				if err := s.start(); err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := begin(d)
			var promises []promise
			steps := func(n int) {
				for range n {
					turn, at := s.step(len(promises)+1), int64(0)
					s.Do(func() { at = s.aof.w.pastAt.Load() + s.aof.w.end() })
					s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) })
					promises = append(promises, promise{len(promises) + 1, at})
				}
			}
			rewrite := func() {
				s.Do(s.aof.startRewrite)
				s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() })
			}
			steps(3)
			rewrite()
			steps(3)
			heal := d.Fail(faulty.Fault{Op: faulty.Write, Name: "history", Err: syscall.ENOSPC, Short: true})
			steps(3)
			known := len(promises)
			for range 2 {
				rewrite()
				steps(3)
			}
			if why := s.refused(); why != "" {
				t.Errorf("writes are refused: %s", why)
			}
			s.waitFor("a line about it", func() bool { return s.said("Can't write the index of the AOF's history") })
			if healed {
				heal()
				rewrite()
				steps(3)
				known = len(promises)
			}
			d = d.Crash()
			s.close()
			s = begin(d)
			if n, err := s.state(); err != nil || n != len(promises) {
				t.Fatalf("step %d of %d, %v", n, len(promises), err)
			}
			had := 0
			for i, p := range promises {
				switch problem := s.hadBack(t, d, p); {
				case problem == "":
					had++
				case i < known, strings.Contains(problem, " is "): // of another step
					t.Error(problem)
				default:
					t.Logf("not kept: %s", strings.SplitN(problem, "\n", 2)[0])
				}
			}
			t.Logf("%d of %d moments were had back", had, len(promises))
		})
	}
}

// TestGapsDiffer: the index lacks the last steps at several starts. The offsets of the log that continues differ each
// time, as long as a rewrite was between. The same log has the same offsets.
func TestGapsDiffer(t *testing.T) {
	seen := map[int64]int64{}
	for _, end := range []int64{0, 5, lostGap - 1, lostGap} {
		clear(seen)
		for last := int64(1); last < 100; last++ {
			h := &history{incrs: []pastIncr{{"i1", end, 0, 1000}}}
			h.gap = gapAfter(h.end(), []part{{seq: last}})
			h.begin(pastBase{name: "b", atMs: 2000}, "i", liveSize)
			at := h.incrs[1].offset
			if other, is := seen[at/lostGap]; is || at < end+lostGap {
				t.Fatalf("after %d: increment %d begins at %d, near increment %d", end, last, at, other)
			}
			seen[at/lostGap] = last
		}
	}
}

// A sealedSet is a backup: the step at its SEAL, and the step of its files once SEAL has replied. 0 means none.
type sealedSet struct{ asked, there int }

// backUp makes the next step of a backup, if it can make one. Turn only.
func (s *server) backUp(rng *rand.Rand, step int, set *sealedSet) {
	switch b := &s.aof.backup; {
	case b.state == backupSealed && set.there == 0:
		set.there = set.asked
	case rng.IntN(3) > 0:
	case b.state == backupIdle || b.state == backupFailed:
		_ = s.aof.startBackup(false) // refused while the folder has an earlier backup
	case b.state == backupIncrementing:
		if _, err := s.aof.sealBackup(); err == nil {
			set.asked = step
		}
	case b.state == backupSealed && rng.IntN(4) == 0:
		set.there = 0
		_ = s.aof.cleanBackup()
	}
}

// hadBack restores a step and loads it.
func (s *server) hadBack(t *testing.T, d *faulty.Disk, p promise) (problem string) {
	past, err := OpenPast(d, "appendonlydir/appendonly.aof.manifest")
	if err != nil {
		return err.Error()
	}
	route, err := past.Route(context.Background(), Moment{Offset: p.offset, ByOffset: true})
	if err != nil {
		return fmt.Sprintf("step %d at %d: %v\n%s", p.step, p.offset, err, past.history.text())
	}
	into := fmt.Sprintf("restored-%d", p.step)
	defer clearFolder(d, into)
	if err := past.Write(context.Background(), route, into); err != nil {
		return err.Error()
	}
	return s.loaded(t, d, into+"/appendonlydir", p.step)
}

// loaded starts another server on a log's folder, which must hold the data set of step.
func (s *server) loaded(t *testing.T, d *faulty.Disk, dir string, step int) (problem string) {
	again := newServer(t, d)
	defer again.close()
	again.aof.folder = &folder{disk: d, root: dir, dir: dir, name: "appendonly.aof"}
	again.aof.w.move(again.aof.folder)
	again.set.Truncated.Set(false)
	if err := again.aof.ReadManifest(); err != nil {
		return err.Error()
	}
	if _, err := again.aof.Load(context.Background(), again.target()); err != nil {
		return fmt.Sprintf("step %d: %v", step, err)
	}
	if n, err := again.state(); err != nil || n != step {
		return fmt.Sprintf("step %d is %d, %v", step, n, err)
	}
	return ""
}

// clearFolder removes a folder that a restore has made.
func clearFolder(d *faulty.Disk, into string) {
	names, _ := d.ReadDir(into + "/appendonlydir")
	for _, name := range names {
		_ = d.Remove(into + "/appendonlydir/" + name)
	}
}

// TestRouteSaysWhatIsMissing: the error names a base or an increment that is missing or damaged. An earlier base
// replaces a missing one where it can.
func TestRouteSaysWhatIsMissing(t *testing.T) {
	d := faulty.New(1)
	s := newServer(t, d)
	s.set.Fsync.Set(Always)
	s.set.Percentage.Set(0)
	s.set.Past.Set(keep{bytes: 1 << 40})
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	var offsets []int64
	for step := range 9 {
		turn := s.step(step + 1)
		s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) })
		s.Do(func() { offsets = append(offsets, s.aof.w.pastAt.Load()+s.aof.w.end()) })
		if step%3 == 2 {
			s.Do(s.aof.startRewrite)
			s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() })
		}
	}
	s.waitFor("the writer", s.resting)
	at := func(step int) Moment { return Moment{Offset: offsets[step-1], ByOffset: true} }
	route := func(m Moment) (*Route, error) {
		past, err := OpenPast(d, "appendonlydir")
		if err != nil {
			t.Fatal(err)
		}
		return past.Route(context.Background(), m)
	}
	bases := func(n int) string { return fmt.Sprintf("appendonlydir/appendonly.aof.%d.base.rdb", n) }
	if r, err := route(at(5)); err != nil || r.Base != "appendonly.aof.2.base.rdb" || len(r.Incrs) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := d.Remove(bases(2)); err != nil {
		t.Fatal(err)
	}
	if r, err := route(at(5)); err != nil || r.Base != "appendonly.aof.1.base.rdb" || len(r.Incrs) != 2 ||
		!slices.Equal(r.Skips, []string{"appendonly.aof.2.base.rdb is missing"}) {
		t.Errorf("without its base: %+v, %v", r, err)
	}
	damage, err := d.Open(bases(1), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := damage.Truncate(40); err != nil {
		t.Fatal(err)
	}
	_, err = route(at(5))
	missing := (*NoRouteError)(nil)
	if !errors.As(err, &missing) || len(missing.Why) != 2 || !strings.Contains(missing.Why[1], "damaged") ||
		!strings.Contains(missing.Still, "The moments of these bases can still be had") {
		t.Errorf("with a damaged base: %v", err)
	}
	if r, err := route(at(8)); err != nil || r.Base != "appendonly.aof.3.base.rdb" {
		t.Errorf("a later base serves: %+v, %v", r, err)
	}
	if _, err := route(Moment{Offset: 1 << 40, ByOffset: true}); err == nil || !strings.Contains(err.Error(),
		"the log ends at offset") {
		t.Errorf("after the end: %v", err)
	}
	if _, err := route(Moment{Second: 1}); err == nil || !strings.Contains(err.Error(), "The first moment is") {
		t.Errorf("before the beginning: %v", err)
	}
	if err := d.Remove("appendonlydir/appendonly.aof.3.incr.aof"); err != nil {
		t.Fatal(err)
	}
	if _, err := route(at(8)); err == nil || !strings.Contains(err.Error(), "appendonly.aof.3.incr.aof is missing") {
		t.Errorf("without an increment: %v", err)
	}
}

// TestNamesWithOtherNumbers: a log whose names have other numbers than the manifest, as after a restore by an earlier
// version, loses nothing in a rewrite. Once the new files took the names of the present ones, which were then removed.
func TestNamesWithOtherNumbers(t *testing.T) {
	d := faulty.New(1)
	begin := func() *server {
		s := newServer(t, d)
		s.set.Fsync.Set(Always)
		s.set.Percentage.Set(0)
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	steps := func(s *server, from, to int) {
		for step := from; step <= to; step++ {
			turn := s.step(step)
			s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) })
		}
	}
	rewrite := func(s *server) {
		s.Do(s.aof.startRewrite)
		s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() })
		s.waitFor("the writer", s.resting)
	}
	s := begin()
	steps(s, 1, 3)
	rewrite(s)
	steps(s, 4, 6)
	d = d.Crash()
	s.close()
	file, err := d.Open("appendonlydir/appendonly.aof.manifest", os.O_WRONLY|os.O_TRUNC, 0o644)
	if err == nil {
		_, err = file.Write([]byte("file appendonly.aof.2.base.rdb seq 1 type b\nfile appendonly.aof.2.incr.aof seq 1 type i\n"))
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	s = begin()
	rewrite(s)
	steps(s, 7, 9)
	d = d.Crash()
	s.close()
	s = begin()
	if n, err := s.state(); err != nil || n != 9 {
		t.Errorf("step %d of 9, %v", n, err)
	}
	s.close()
}

// TestRestoredNames: the names of a restored log have the numbers of its manifest, because Redis too names the next
// files by them.
func TestRestoredNames(t *testing.T) {
	d := faulty.New(1)
	s := newServer(t, d)
	s.set.Fsync.Set(Always)
	s.set.Percentage.Set(0)
	s.set.Past.Set(keep{bytes: 1 << 40})
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.step(1)
	s.Do(s.aof.startRewrite)
	s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() })
	turn, at := s.step(2), int64(0)
	s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) })
	s.Do(func() { at = s.aof.w.pastAt.Load() + s.aof.w.end() })
	past, err := OpenPast(d, "appendonlydir/appendonly.aof.manifest")
	if err != nil {
		t.Fatal(err)
	}
	route, err := past.Route(t.Context(), Moment{Offset: at, ByOffset: true})
	if err == nil {
		err = past.Write(t.Context(), route, "restored")
	}
	if err != nil {
		t.Fatal(err)
	}
	text, _ := d.Content("restored/appendonlydir/appendonly.aof.manifest")
	if want := "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"; string(text) !=
		want {
		t.Errorf("the manifest is\n%swant\n%s", text, want)
	}
	s.close()
}

// TestHistoryOfAnotherFolder: CONFIG SET dir lies between two times in which the log is on. The history of the second
// folder continues, and has no file of the first one.
func TestHistoryOfAnotherFolder(t *testing.T) {
	d := faulty.New(1)
	if err := d.Mkdir("other", 0o755); err != nil {
		t.Fatal(err)
	}
	var promises []promise
	step := 0
	live := func(s *server, n int) {
		for range n {
			step++
			turn, at := s.step(step), int64(0)
			s.Do(func() { at = s.aof.w.pastAt.Load() + s.aof.w.end() })
			s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) })
			promises = append(promises, promise{step, at})
		}
	}
	rewritten := func(s *server) {
		s.waitFor("the end of a rewrite", func() bool { return s.aof.state == on && !s.aof.Rewriting() })
		s.waitFor("the writer", s.resting)
	}
	begin := func(dir string) *server {
		s := newServer(t, d)
		s.aof.parts.Dir = func() string { return dir }
		s.set.Fsync.Set(Always)
		s.set.Percentage.Set(0)
		s.set.Past.Set(keep{bytes: 1 << 40})
		s.aof.Locate()
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := begin("other")
	live(first, 3)
	first.Do(first.aof.startRewrite)
	rewritten(first)
	live(first, 3)
	first.Do(first.aof.TurnOff)
	first.waitFor("the writer", first.resting)

	s := begin(".")
	for i := 1; i <= step; i++ {
		s.step(i)
	}
	s.Do(s.aof.startRewrite)
	rewritten(s)
	s.Do(s.aof.TurnOff)
	s.waitFor("the writer", s.resting)
	s.aof.parts.Dir = func() string { return "other" }
	s.Do(func() {
		if err := s.aof.TurnOn(); err != nil {
			t.Error(err)
		}
	})
	rewritten(s)
	live(s, 3)
	past, err := OpenPast(d, "other/appendonlydir/appendonly.aof.manifest")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range past.Files() {
		if f.Size < 0 {
			t.Errorf("%s is in no folder", f.Name)
		}
	}
	for _, p := range promises {
		route, err := past.Route(t.Context(), Moment{Offset: p.offset, ByOffset: true})
		into := fmt.Sprint("restored-", p.step)
		if err == nil {
			err = past.Write(t.Context(), route, into)
		}
		if err != nil {
			t.Errorf("step %d at %d: %v\n%s", p.step, p.offset, err, past.history.text())
			continue
		}
		if problem := s.loaded(t, d, into+"/appendonlydir", p.step); problem != "" {
			t.Error(problem)
		}
	}
	s.close()
	first.close()
}

// TestHistoryThatCannotBeRead: the disk does not give the index at a start, and during a rewrite. The index and its
// files stay. Once the disk gives the index, every moment that it knows can be had back. Once an empty index replaced
// it.
func TestHistoryThatCannotBeRead(t *testing.T) {
	for _, rewrites := range []int{0, 1} {
		t.Run(fmt.Sprint("rewrites ", rewrites), func(t *testing.T) {
			d := faulty.New(1)
			var promises []promise
			begin := func() *server {
				s := newServer(t, d)
				s.set.Fsync.Set(Always)
				s.set.Percentage.Set(0)
				s.set.Past.Set(keep{bytes: 1 << 40})
				if err := s.start(); err != nil {
					t.Fatal(err)
				}
				return s
			}
			steps := func(s *server, known bool) {
				for range 3 {
					turn, at := s.step(len(promises)+1), int64(-1)
					if known {
						s.Do(func() { at = s.aof.w.pastAt.Load() + s.aof.w.end() })
					}
					s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) })
					promises = append(promises, promise{len(promises) + 1, at})
				}
			}
			rewrite := func(s *server) {
				s.Do(s.aof.startRewrite)
				s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() })
			}
			s := begin()
			steps(s, true)
			rewrite(s)
			steps(s, true)
			d = d.Crash()
			s.close()
			heal := d.Fail(faulty.Fault{Op: faulty.Read, Name: "history", Err: syscall.EIO})
			s = begin()
			for range rewrites {
				rewrite(s)
			}
			steps(s, false)
			s.waitFor("the writer", s.resting)
			if s.Do(func() { s.aof.tickRewrite(s.aof.parts.Now()) }); s.aof.Rewriting() {
				t.Error("a rewrite begins for a history that cannot be read")
			}
			heal()
			s.Do(func() { s.aof.prunedPast = time.Time{} })
			s.waitFor("the history", func() bool { return s.aof.w.pastOn.Load() })
			s.waitFor("the removal of replaced files", func() bool {
				text, _ := d.Content("appendonlydir/appendonly.aof.manifest")
				return !strings.Contains(string(text), "type h")
			})
			steps(s, true)
			for _, p := range promises {
				if p.offset < 0 {
					continue
				}
				if problem := s.hadBack(t, d, p); problem != "" {
					t.Error(problem)
				}
			}
			s.close()
		})
	}
}

// TestRouteWithoutIncrements: an index that has lost its last lines gives a reason, and no panic.
func TestRouteWithoutIncrements(t *testing.T) {
	d := faulty.New(1)
	s := newServer(t, d)
	s.set.Past.Set(keep{bytes: 1 << 40})
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	past, err := OpenPast(d, "appendonlydir")
	if err != nil {
		t.Fatal(err)
	}
	past.history.incrs = nil
	if _, err := past.Route(t.Context(), Moment{ByOffset: true}); err == nil || !strings.Contains(err.Error(),
		"no increment") {
		t.Errorf("%v", err)
	}
	s.close()
}

// TestBackupIsNotAppendedTo: a server starts on a sealed backup, whose files are also files of the server that made it.
// The new server's writes go to another file. Once they went to the first server's log too. The commands that end a
// move are in the backup only.
func TestBackupIsNotAppendedTo(t *testing.T) {
	for _, ends := range []string{"", "*3\r\n$3\r\nSET\r\n$3\r\nend\r\n$1\r\n1\r\n"} {
		t.Run("ends "+strconv.Quote(ends), func(t *testing.T) { testBackupIsNotAppendedTo(t, ends) })
	}
}

func testBackupIsNotAppendedTo(t *testing.T, ends string) {
	d := faulty.New(1)
	begin := func(dir string) *server {
		s := newServer(t, d)
		s.aof.parts.Ends = func() []byte { return []byte(ends) }
		s.set.Fsync.Set(Always)
		s.set.Percentage.Set(0)
		if dir != "" {
			s.aof.folder = &folder{disk: d, root: dir, dir: dir, name: "appendonly.aof"}
			s.aof.w.move(s.aof.folder)
		}
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	steps := func(s *server, from, to int) {
		for i := from; i <= to; i++ {
			turn := s.step(i)
			s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) })
		}
	}
	s := begin("")
	steps(s, 1, 3)
	s.Do(func() {
		if err := s.aof.startBackup(false); err != nil {
			t.Error(err)
		}
	})
	s.waitFor("the base", func() bool { return s.aof.backup.state == backupIncrementing && len(s.aof.backup.files) > 0 })
	steps(s, 4, 6)
	s.Do(func() {
		if _, err := s.aof.sealBackup(); err != nil {
			t.Error(err)
		}
	})
	s.waitFor("SEAL", func() bool { return s.aof.backup.state == backupSealed })
	steps(s, 7, 9)
	dir, err := filepath.Abs("backupdir")
	if err != nil {
		t.Fatal(err)
	}
	other := begin(dir)
	steps(other, 7, 8)
	other.close()
	other = begin(dir)
	if has := other.text("end") != ""; has != (ends != "") {
		t.Errorf("the backup's server has run the commands: %t", has)
	}
	steps(other, 9, 10)
	if n, err := other.state(); err != nil || n != 10 {
		t.Errorf("the backup's server: step %d of 10, %v", n, err)
	}
	other.close()
	d = d.Crash()
	s.close()
	s = begin("")
	if n, err := s.state(); err != nil || n != 9 {
		t.Errorf("the first server: step %d of 9, %v", n, err)
	}
	if s.text("end") != "" {
		t.Error("the first server has run the commands of the backup")
	}
	s.close()
}
