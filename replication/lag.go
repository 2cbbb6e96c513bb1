package replication

const (
	// lagPoint is how many looks make a point of a lag, of which the last two are compared.
	lagPoint = 2
	// looksPerSecond is how often a lag is looked at.
	looksPerSecond = 10
)

// A lagTrend is how fast a replica's lag grows.
type lagTrend struct {
	sum, looks       int64
	last, beforeLast int64
	points           int
}

// note adds what the replica lacks now.
func (l *lagTrend) note(lacks int64) {
	l.sum += lacks
	if l.looks++; l.looks < lagPoint {
		return
	}
	l.beforeLast, l.last = l.last, l.sum/l.looks
	l.sum, l.looks = 0, 0
	l.points++
}

// perSecond is how many bytes the lag grows by in a second.
func (l *lagTrend) perSecond() int64 {
	if l.points < 2 {
		return 0
	}
	return (l.last - l.beforeLast) * looksPerSecond / lagPoint
}
