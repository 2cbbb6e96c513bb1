package live

import "sync"

// A Sample is what the history keeps of a moment.
type Sample struct {
	OpsPerSecond, InputPerSecond, OutputPerSecond float64 // bytes of the network
	UsedMemory, ResidentMemory                    float64 // bytes
	Clients, Blocked                              float64
	Keys                                          float64
	TurnMicros, TurnsPerSecond                    float64 // a turn's mean length lately
	CPUPercent                                    float64 // of one core, since the last sample
}

// values are a Sample's in the order of names.
func (s *Sample) values() [series]float64 {
	return [series]float64{
		s.OpsPerSecond, s.InputPerSecond, s.OutputPerSecond, s.UsedMemory, s.ResidentMemory, s.Clients, s.Blocked,
		s.Keys, s.TurnMicros, s.TurnsPerSecond, s.CPUPercent,
	}
}

// names are what the page calls the series.
var names = [series]string{"ops", "in", "out", "used", "rss", "clients", "blocked", "keys", "turn", "turns", "cpu"}

const (
	series  = 11
	seconds = 600  // the fine ring: ten minutes, a point a second
	minutes = 1440 // the coarse ring: a day, a point a minute
)

// A History is two rings of fixed size: about 200 KB, whatever happens.
//
//	seconds: … 598 599 |600      each second's sample
//	minutes: … 10:41 10:42 |     the mean of a minute's samples
type History struct {
	mu     sync.Mutex
	fine   [seconds]point
	coarse [minutes]point
	nFine  int // points ever put in; the next goes to nFine % seconds
	nDay   int
	sum    [series]float64 // of the minute that is not over
	n      int
	minute int64
}

// A point is the figures of a time, in Unix seconds.
type point struct {
	at     int64
	values [series]float32
}

// Add puts in the sample of a second.
func (h *History) Add(unix int64, s Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if unix/60 != h.minute {
		h.closeMinute()
		h.minute = unix / 60
	}
	p := point{at: unix}
	for i, v := range s.values() {
		p.values[i] = float32(v)
		h.sum[i] += v
	}
	h.n++
	h.fine[h.nFine%seconds] = p
	h.nFine++
}

// closeMinute makes a point of the minute that is over.
func (h *History) closeMinute() {
	if h.n == 0 {
		return
	}
	p := point{at: h.minute * 60}
	for i := range h.sum {
		p.values[i] = float32(h.sum[i] / float64(h.n))
	}
	h.coarse[h.nDay%minutes] = p
	h.nDay++
	h.sum, h.n = [series]float64{}, 0
}

// Points are the points of a ring after the time since, in order: "at" and each series by its name. A gap shows in the
// times.
func (h *History) Points(day bool, since int64) map[string][]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	ring, n := h.fine[:], h.nFine
	if day {
		ring, n = h.coarse[:], h.nDay
	}
	first := max(0, n-len(ring))
	for first < n && ring[first%len(ring)].at <= since {
		first++
	}
	all := map[string][]float64{"at": make([]float64, 0, n-first)}
	for _, name := range names {
		all[name] = make([]float64, 0, n-first)
	}
	for i := first; i < n; i++ {
		p := &ring[i%len(ring)]
		all["at"] = append(all["at"], float64(p.at))
		for j, name := range names {
			all[name] = append(all[name], float64(p.values[j]))
		}
	}
	return all
}
