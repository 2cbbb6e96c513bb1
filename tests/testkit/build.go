package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var built = sync.OnceValues(build)

// Spindle returns the path of the server's binary, built from this tree with the flags of the tests (-race, -tags
// invariants).
//
// SPINDLE_BINARY names another binary. All test processes of a run share one build, because the go command finds it up
// to date.
func Spindle(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func build() (string, error) {
	if path := os.Getenv("SPINDLE_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	kind, flags := "plain", raceBuild
	switch {
	case len(raceBuild) > 0:
		kind = "race"
	case Checked:
		kind, flags = "invariants", []string{"-tags", "invariants"}
	}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "bin", "test-"+kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // closing it releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "spindle")
	args := append(append([]string{"build", "-pgo=off"}, flags...), "-o", path, "spindle")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return path, nil
}
