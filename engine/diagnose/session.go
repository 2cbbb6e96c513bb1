package diagnose

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/slots"
)

// A Session counts what keys cost between its start and its end, from the same samples as HotKeys. Its figures do not
// fade.
type Session struct {
	CPU, Net bool // which figures are shown
	Count    int  // the number of keys that are shown for each figure
	Sample   int64
	Slots    []uint16 // ascending; empty means all

	StartMs   int64 // Unix ms
	Active    bool
	Took      time.Duration // set when the session has ended
	UserCPU   time.Duration // of the process
	SystemCPU time.Duration

	AllNanos, AllBytes  float64 // of all keys
	OurNanos, OurBytes  float64 // of the keys in Slots
	keys                *HotKeys
	began, ends         int64 // nanos of HotKeys' clock; ends is 0 for no limit
	userBegan, sysBegan time.Duration
}

// Start begins a session. nanos is the time by the clock of Fade. lasts is 0 for no limit. The caller must have checked
// that no session is active.
func (h *HotKeys) Start(s *Session, nanos int64, lasts time.Duration) {
	s.Active, s.keys, s.began = true, NewHotKeys(), nanos
	if lasts > 0 {
		s.ends = nanos + int64(lasts)
	}
	s.userBegan, s.sysBegan = processTime()
	h.Session = s
}

// Stop ends the session at nanos.
func (s *Session) Stop(nanos int64) {
	s.update(nanos)
	s.Active = false
}

// Update brings the times of an active session up to date. It ends a session whose time is over.
func (s *Session) Update(nanos int64) {
	switch {
	case !s.Active:
	case s.ends != 0 && nanos >= s.ends:
		s.Stop(s.ends)
	default:
		s.update(nanos)
	}
}

func (s *Session) update(nanos int64) {
	s.Took = time.Duration(nanos - s.began)
	user, system := processTime()
	s.UserCPU, s.SystemCPU = user-s.userBegan, system-s.sysBegan
}

// processTime returns the processor time that the process has used.
func processTime() (user, system time.Duration) {
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) != nil {
		return 0, 0
	}
	return time.Duration(use.Utime.Nano()), time.Duration(use.Stime.Nano())
}

// note counts a sample.
func (s *Session) note(u *Use) {
	s.AllNanos += u.Nanos
	s.AllBytes += u.Bytes
	if len(s.Slots) > 0 {
		if _, in := slices.BinarySearch(s.Slots, slots.Of(u.Key)); !in {
			return
		}
	}
	s.OurNanos += u.Nanos
	s.OurBytes += u.Bytes
	s.keys.Note(u)
}

// A KeyCost is a key with its cost, in µs or bytes.
type KeyCost struct {
	Key  string
	Cost int64
}

// TopByCPU returns the keys that took the most time, in µs. Keys with the same name in different databases count as one
// key.
func (s *Session) TopByCPU() []KeyCost { return s.top(func(c *hot) float64 { return c.nanos / 1e3 }) }

// TopByNet returns the keys that moved the most bytes.
func (s *Session) TopByNet() []KeyCost { return s.top(func(c *hot) float64 { return c.bytes }) }

func (s *Session) top(cost func(c *hot) float64) []KeyCost {
	costs := map[string]float64{}
	for i := range s.keys.sets {
		for j := range hotWays {
			c := &s.keys.sets[i].hot[j]
			if v := cost(c); v > 0 {
				costs[string(c.key)] += v
			}
		}
	}
	var list []KeyCost
	for key, v := range costs {
		list = append(list, KeyCost{key, int64(v)})
	}
	slices.SortFunc(list, func(a, b KeyCost) int { return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(a.Key, b.Key)) })
	return list[:min(len(list), s.Count)]
}
