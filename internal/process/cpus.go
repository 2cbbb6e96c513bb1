package process

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// pin keeps all threads of the process, present and later, on the processors of server-cpulist: "0,2-5,8-14:2".
func pin(s *Settings, log *logging.Logger) {
	list := s.ServerCPUs.Get()
	if list == "" {
		return
	}
	set, ok := parseCPUs(list)
	if !ok {
		log.Warning("server-cpulist '%s' is not a list of processors such as 0,2-5,8-14:2", list)
		return
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		log.Warning("Can't set the processors of server-cpulist: %s", reason.Of(err))
		return
	}
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			log.Warning("Can't set the processors of server-cpulist: %s", reason.Of(err))
			return
		}
	}
}

// parseCPUs reads comma-separated processors and ranges; a range may have a step.
func parseCPUs(list string) (set unix.CPUSet, ok bool) {
	for part := range strings.SplitSeq(list, ",") {
		span, stepText, hasStep := strings.Cut(part, ":")
		firstText, lastText, isRange := strings.Cut(span, "-")
		first, err := strconv.Atoi(firstText)
		last, step := first, 1
		if isRange && err == nil {
			last, err = strconv.Atoi(lastText)
		}
		if hasStep && err == nil {
			step, err = strconv.Atoi(stepText)
		}
		if err != nil || first < 0 || last < first || last > 1023 || step < 1 {
			return set, false
		}
		for cpu := first; cpu <= last; cpu += step {
			set.Set(cpu)
		}
	}
	return set, true
}
