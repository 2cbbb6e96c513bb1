package clock

import (
	"runtime"
	"testing"
	"time"
)

func TestThreadCPU(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu, begin := ThreadCPU(), time.Now()
	for time.Since(begin) < 20*time.Millisecond {
	}
	if used, took := ThreadCPU()-cpu, int64(time.Since(begin)); used <= 0 || used > took {
		t.Errorf("the thread used %d ns of %d", used, took)
	}
	cpu, begin = ThreadCPU(), time.Now()
	time.Sleep(20 * time.Millisecond)
	if used, took := ThreadCPU()-cpu, int64(time.Since(begin)); used > took/2 {
		t.Errorf("sleeping used %d ns of %d", used, took)
	}
}
