package lua

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCompilingTakesTimeInProportion: four times the source takes at most ten times as long. The compiler cannot be
// paused or killed, so quadratic time would hold the turn.
func TestCompilingTakesTimeInProportion(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, c := range map[string][3]string{
		"and":        {"return 1 ", "and x ", ""},
		"or":         {"return x ", "or x ", ""},
		"mixed":      {"return x ", "and x or x(1 and y) ", ""},
		"elseif":     {"if x then ", "elseif x then ", "end"},
		"break":      {"while x do ", "if x then break end ", "end"},
		"not":        {"return x ", "and not x ", ""},
		"comparison": {"if x ", "and x < 1 ", "then end"},
		"fields":     {"return x", ".y", ""},
		"index":      {"x = {", "[x] = 1, ", "}"},
		"strings":    {"", "x = 'a' ", ""},
		"closures":   {"", "f(function() return x end) ", ""},
		"lines":      {"", "\n", "x = 1"},
		"comments":   {"", "--[[x]]", "x = 1"},
		"long":       {"x = [[", "]x", "]]"},
	} {
		cost := func(n int) time.Duration {
			source := []byte(c[0] + strings.Repeat(c[1], n) + c[2])
			best := time.Duration(1 << 62)
			for range 3 {
				before := threadTime(t)
				if _, err := Compile("=x", source); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				best = min(best, threadTime(t)-before)
			}
			return best
		}
		one, four := cost(3_000), cost(12_000)
		if four > 10*max(one, tick) {
			t.Errorf("%s: %v, four times as much %v", name, one, four)
		}
	}
}

// tick is the resolution of threadTime.
const tick = 4 * time.Millisecond

// threadTime returns the processor time of this thread, which is independent of other processes.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	const thisThread = 1 // RUSAGE_THREAD
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
