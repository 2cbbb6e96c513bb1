package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RSS is a process's resident memory in bytes, without the files it maps.
func RSS(pid int) int64 { return statusField(pid, "RssAnon") + statusField(pid, "RssShmem") }

// PeakRSS is the most that was resident since the process began or since ResetPeak, mapped files included.
func PeakRSS(pid int) int64 { return statusField(pid, "VmHWM") }

// ResetPeak makes PeakRSS begin anew.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// AnonBytes is all anonymous memory of the machine. Its growth is what a process and its forked children cost together, pages copied on
// write counted once, which no figure of one process says.
func AnonBytes() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return kilobytes(string(text), "AnonPages")
}

func statusField(pid int, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return kilobytes(string(text), name)
}

// kilobytes finds "name:  123 kB" and returns bytes.
func kilobytes(text, name string) int64 {
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

// A Watch samples a figure until Stop.
type Watch struct {
	stop chan struct{}
	done sync.WaitGroup
	most int64
}

// NewWatch reads figure at once and then every interval.
func NewWatch(interval time.Duration, figure func() int64) *Watch {
	w := &Watch{stop: make(chan struct{}), most: figure()}
	w.done.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-ticker.C:
				w.most = max(w.most, figure())
			}
		}
	})
	return w
}

// Stop ends the sampling and returns the greatest figure seen.
func (w *Watch) Stop() int64 {
	close(w.stop)
	w.done.Wait()
	return w.most
}
