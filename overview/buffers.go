package overview

import "spindle/engine/client"

// A bufferPeak knows the largest buffers that any client had in the last seconds, for INFO clients.
//
// It looks at some clients at each tick, so it may miss a short burst. Redis does the same.
type bufferPeak struct {
	clients *client.Registry
	next    int64 // the id of the next client to look at
	seconds [peakSeconds]struct{ at, in, out int64 }
}

const (
	peakSeconds = 8
	peakVisits  = 512 // the number of clients in a tick: 10,000 clients take two seconds
)

// tick looks at the next clients.
func (p *bufferPeak) tick(nowMs int64) {
	now := nowMs / 1000
	second := &p.seconds[now%peakSeconds]
	if second.at != now {
		second.at, second.in, second.out = now, 0, 0
	}
	left := peakVisits
	for cl := range p.clients.From(p.next) {
		if left--; left < 0 {
			p.next = cl.ID
			return
		}
		if cl.Conn == nil {
			continue
		}
		usage := cl.Conn.Usage()
		second.in, second.out = max(second.in, int64(usage.Query+usage.QueryFree)), max(second.out, int64(usage.Output))
	}
	p.next = 0
}

// recent returns the largest input and output buffer of the last seconds.
func (p *bufferPeak) recent(nowMs int64) (in, out int64) {
	for _, second := range p.seconds {
		if nowMs/1000-second.at < peakSeconds {
			in, out = max(in, second.in), max(out, second.out)
		}
	}
	return in, out
}
