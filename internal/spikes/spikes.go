// Package spikes records what took long, second by second, and describes it: the data and the texts of LATENCY.
//
// Owner: its caller; one goroutine at a time.
// Never: reads a clock, or decides what is long.
package spikes

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Events are the latest events that took long, by name. The zero value is empty.
//
// A sample is one second. If several events of a name fall in one second, it keeps the longest.
type Events struct{ series map[string]*Series }

// samplesKept is the number of samples of a name.
const samplesKept = 160

// A Series has the samples of one name.
type Series struct {
	samples [samplesKept]Sample
	next    int
	Longest int64 // ms, of all times
}

// A Sample is one second: Unix seconds, and ms.
type Sample struct{ Seconds, Millis int64 }

// Record adds an event, at a time in Unix ms. The caller must have compared took with its threshold.
func (e *Events) Record(nowMs int64, name string, took time.Duration) {
	s := e.series[name]
	if s == nil {
		if s = (&Series{}); e.series == nil {
			e.series = map[string]*Series{}
		}
		e.series[name] = s
	}
	seconds, millis := nowMs/1000, took.Milliseconds()
	s.Longest = max(s.Longest, millis)
	if last := s.last(); last.Seconds == seconds {
		last.Millis = max(last.Millis, millis)
		return
	}
	s.samples[s.next] = Sample{seconds, millis}
	s.next = (s.next + 1) % samplesKept
}

func (s *Series) last() *Sample { return &s.samples[(s.next+samplesKept-1)%samplesKept] }

// Last returns the latest sample.
func (s *Series) Last() Sample { return *s.last() }

// Reset removes events by name, or all if none is given. It returns how many names are removed.
func (e *Events) Reset(names ...string) (removed int) {
	before := len(e.series)
	for _, name := range names {
		delete(e.series, name)
	}
	if len(names) == 0 {
		clear(e.series)
	}
	return before - len(e.series)
}

// Names are the recorded names, sorted.
func (e *Events) Names() []string {
	names := make([]string, 0, len(e.series))
	for name := range e.series {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Of returns the samples of a name; nil: there are none.
func (e *Events) Of(name string) *Series { return e.series[name] }

// List is the samples, oldest first.
func (s *Series) List() []Sample {
	all := make([]Sample, 0, samplesKept)
	for i := range samplesKept {
		if at := s.samples[(s.next+i)%samplesKept]; at.Seconds != 0 {
			all = append(all, at)
		}
	}
	return all
}

// Graph is a picture of the samples in four lines. Each column is a sample, with its age below. nowMs is in Unix ms.
func (s *Series) Graph(name string, nowMs int64) string {
	list := s.List()
	low, high := list[0].Millis, list[0].Millis
	for _, at := range list {
		low, high = min(low, at.Millis), max(high, at.Millis)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n", name, high, low, s.Longest)
	b.WriteString(strings.Repeat("-", 80) + "\n")
	list = list[max(0, len(list)-80):]
	const marks = "_o#"
	for line := 3; line >= 0; line-- { // twelve heights: three marks in each of four lines
		row := []byte{}
		for _, at := range list {
			height := 0
			if high > low {
				height = int((at.Millis - low) * 11 / (high - low))
			}
			switch {
			case height/3 == line:
				row = append(row, marks[height%3])
			case height/3 > line:
				row = append(row, '|')
			default:
				row = append(row, ' ')
			}
		}
		if text := strings.TrimRight(string(row), " "); text != "" || line == 0 {
			b.WriteString(text + "\n")
		}
	}
	b.WriteString("\n")
	ages := make([]string, len(list))
	longest := 0
	for i, at := range list {
		ages[i] = age(nowMs/1000 - at.Seconds)
		longest = max(longest, len(ages[i]))
	}
	for line := range longest {
		for _, a := range ages {
			if line < len(a) {
				b.WriteByte(a[line])
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// age formats a number of seconds in one unit: 59s, 12m, 3h, 8d.
func age(seconds int64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm", seconds/60)
	case seconds < 86400:
		return fmt.Sprintf("%dh", seconds/3600)
	}
	return fmt.Sprintf("%dd", seconds/86400)
}

// Report is a text about all events: how often they were, how long they took, and advice. threshold is in ms, and 0 if
// nothing is measured. advice returns what an operator should check, or "".
func (e *Events) Report(threshold, nowMs int64, advice func(name string) string) string {
	var b strings.Builder
	names := e.Names()
	switch {
	case threshold == 0 && len(names) == 0:
		b.WriteString("Latency monitoring is disabled: nothing was measured, so there is nothing to say. " +
			"CONFIG SET latency-monitor-threshold <milliseconds> enables it.\n")
	case len(names) == 0:
		fmt.Fprintf(&b, "No event took longer than %d milliseconds. No worry.\n", threshold)
	default:
		b.WriteString("These events took longer than the threshold:\n\n")
	}
	for i, name := range names {
		s := e.series[name]
		list := s.List()
		sum, away := int64(0), int64(0)
		for _, at := range list {
			sum += at.Millis
		}
		mean := sum / int64(len(list))
		for _, at := range list {
			away += max(at.Millis-mean, mean-at.Millis)
		}
		period := float64(nowMs/1000-list[0].Seconds) / float64(len(list))
		fmt.Fprintf(&b, "%d. %s: %d spikes (average %dms, mean deviation %dms, period %.2f sec). Worst all time event "+
			"%dms.\n",
			i+1, name, len(list), mean, away/int64(len(list)), period, s.Longest)
	}
	told := []string{}
	for _, name := range names {
		if text := advice(name); text != "" && !slices.Contains(told, text) {
			told = append(told, text)
		}
	}
	if len(told) > 0 {
		b.WriteString("\nAdvice:\n\n- " + strings.Join(told, "\n- ") + "\n")
	}
	return b.String()
}
