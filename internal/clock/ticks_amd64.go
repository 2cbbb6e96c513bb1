package clock

import (
	"os"
	"strings"
)

// ticks reads the processor's counter.
func ticks() int64

// ticksGoOn reports whether the counter runs at one rate, at any processor speed, and equally on all processors. The
// kernel has found that if it uses the counter itself.
var ticksGoOn = func() bool {
	source, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return strings.TrimSpace(string(source)) == "tsc"
}()
