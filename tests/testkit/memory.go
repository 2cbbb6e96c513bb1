package testkit

import (
	"os"
	"testing"
)

// MemoryDir returns a new folder in memory, or on a disk if the host has none in memory. It is removed when the test
// ends. A busy disk may take seconds for each sync, and so the limits of a server that syncs small files may pass.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "spindle-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
