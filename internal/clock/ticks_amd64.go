package clock

import (
	"os"
	"strings"
)

// ticks reads the processor's counter.
func ticks() int64

// ticksGoOn says that the counter runs evenly, whatever the processor's speed, and alike on all processors: so the
// kernel finds that goes by it itself.
var ticksGoOn = func() bool {
	source, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return strings.TrimSpace(string(source)) == "tsc"
}()
