package faulty

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"spindle/internal/disk"
)

const create = os.O_WRONLY | os.O_CREATE | os.O_TRUNC

func write(t *testing.T, f disk.File, p string) {
	t.Helper()
	if n, err := f.Write([]byte(p)); err != nil || n != len(p) {
		t.Fatalf("Write: %d, %v", n, err)
	}
}

// TestPowerCut: after a power cut, all synced names and bytes exist. Unsynced ones exist, are missing or are torn.
func TestPowerCut(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		d := New(seed)
		f, err := d.Open("a", create, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		write(t, f, strings.Repeat("s", 700))
		if err := errors.Join(f.Sync(), d.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		write(t, f, strings.Repeat("u", 700))
		g, _ := d.Open("b", create, 0o644)
		write(t, g, "x")
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		next := d.Crash()
		if _, err := f.Write(nil); !errors.Is(err, ErrPower) {
			t.Fatalf("a write after the power cut: %v", err)
		}
		a, there := next.Content("a")
		if !there || !bytes.HasPrefix(a, bytes.Repeat([]byte("s"), 700)) {
			t.Fatalf("seed %d: synced bytes are gone: %q", seed, a)
		}
		switch rest := a[700:]; {
		case len(rest) == 0:
			seen["nothing of what was not synced"]++
		case bytes.Equal(rest, bytes.Repeat([]byte("u"), 700)):
			seen["all of it"]++
		case slices.Contains(rest, 0):
			seen["a hole"]++
		default:
			seen["a part"]++
		}
		if b, there := next.Content("b"); !there {
			seen["a name lost"]++
		} else if string(b) != "x" {
			t.Fatalf("seed %d: b is %q", seed, b)
		}
	}
	for _, what := range []string{"nothing of what was not synced", "all of it", "a hole", "a part", "a name lost"} {
		if seen[what] < 10 {
			t.Errorf("%s: %d of 400", what, seen[what])
		}
	}
}

// TestFailedSync: data that a failed Sync lost is still missing after the next successful Sync.
func TestFailedSync(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		d := New(seed)
		f, _ := d.Open("a", create, 0o644)
		_ = d.SyncDir(".")
		d.Fail(Fault{Op: Sync, Err: syscall.EIO, Times: 1})
		write(t, f, strings.Repeat("u", 600))
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("Sync: %v", err)
		}
		if err := f.Sync(); err != nil {
			t.Fatalf("the second Sync: %v", err)
		}
		if a, _ := d.Crash().Content("a"); string(a) != strings.Repeat("u", 600) {
			lost++
		}
	}
	if lost < 40 {
		t.Errorf("only %d of 50 lost anything", lost)
	}
}

// TestFaults: a full disk writes as much as fits. Faults begin and end as the test requests.
func TestFaults(t *testing.T) {
	d := New(1)
	f, _ := d.Open("a", create, 0o644)
	d.Space = 3
	if n, err := f.Write([]byte("abcd")); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Write on a full disk: %d, %v", n, err)
	}
	d.Space = -1
	heal := d.Fail(Fault{Op: Open, Name: "b", Err: syscall.EROFS, After: 1})
	for i, want := range []error{nil, syscall.EROFS, syscall.EROFS} {
		if _, err := d.Open("b", create, 0o644); !errors.Is(err, want) {
			t.Errorf("Open %d: %v", i, err)
		}
	}
	heal()
	if _, err := d.Open("b", create, 0o644); err != nil {
		t.Errorf("Open when healed: %v", err)
	}
	release := d.Stall(Sync)
	done := make(chan error, 1)
	go func() { done <- f.Sync() }()
	select {
	case <-done:
		t.Error("a stalled Sync came back")
	default:
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	d.CrashAfter(1)
	write(t, f, "x")
	if _, err := f.Write([]byte("y")); !errors.Is(err, ErrPower) || !d.Off() {
		t.Errorf("the write after the last: %v", err)
	}
}
