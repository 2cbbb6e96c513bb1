package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// RSS returns a process's resident memory in bytes, without mapped files.
func RSS(pid int) int64 { return statusField(pid, "RssAnon") + statusField(pid, "RssShmem") }

// PeakRSS returns the peak resident memory, including mapped files, since the process began or since ResetPeak.
func PeakRSS(pid int) int64 { return statusField(pid, "VmHWM") }

// ResetPeak makes PeakRSS start again from the current value.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

func statusField(pid int, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return kilobytes(string(text), name)
}

// kilobytes finds "name: 123 kB" and returns the number of bytes.
func kilobytes(text, name string) int64 {
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}
