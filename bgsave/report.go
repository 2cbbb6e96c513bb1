package bgsave

import (
	"fmt"
	"strings"
	"time"

	"spindle/internal/logging"
)

// A Reporter shows the progress of a load or a save: in the log every ten seconds, to the supervisor every second.
//
// Owner: the goroutine of Run. It reads figures that any goroutine may read.
type Reporter struct {
	Log     *logging.Logger
	Loading *Loading
	Saving  func() *Progress // nil: no save is under way
	// Underway shows text to the supervisor. "" ends the display. moves means that there was progress.
	Underway func(text string, moves bool)

	load, save course
}

// How often a Reporter checks the progress, and how often it writes to the log.
const (
	reportEvery = time.Second
	reportToLog = 10 * time.Second
)

// Run reports until stop closes.
func (r *Reporter) Run(stop <-chan struct{}) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			r.tick(now)
		}
	}
}

// tick checks the figures once.
func (r *Reporter) tick(now time.Time) {
	var status []string
	underway := r.load.active || r.save.active
	moves := false
	if l := r.Loading; l.Active.Load() {
		text, log := r.load.at(now, l, l.Read.Load(), l.Total.Load(), l.Read.Load()+l.LastKeysLoaded.Load())
		text = "Loading: " + text
		if keys := l.LastKeysLoaded.Load(); keys > 0 {
			text += fmt.Sprintf(", %d keys so far", keys)
		}
		if log {
			r.Log.Notice("%s", text)
		}
		status, moves = append(status, text), r.load.moves
	} else {
		r.load = course{}
	}
	if p := r.Saving(); p != nil {
		text, log := r.save.at(now, p, p.Keys.Load(), p.Total.Load(), p.Bytes.Load())
		text = fmt.Sprintf("Saving: %s, %d of %d keys, %s written", text, p.Keys.Load(), p.Total.Load(), size(p.Bytes.Load()))
		if log {
			r.Log.Notice("%s", text)
		}
		status, moves = append(status, text), moves || r.save.moves
	} else {
		r.save = course{}
	}
	if underway || len(status) > 0 {
		r.Underway(strings.Join(status, "; "), moves)
	}
}

// A course is the progress of one load or save, from one tick to the next.
type course struct {
	active     bool
	what       any       // identifies the load or save, because another may follow at once
	began      time.Time // when it was first seen
	loggedAt   time.Time // when the log last had a line
	done, work int64     // at the last look
	start      int64     // done at the first look
	moves      bool      // work has grown since the last look
}

// at updates the progress of a task that has done a part of total. work grows with every step. log reports whether a
// log line is due.
func (c *course) at(now time.Time, what any, done, total, work int64) (text string, log bool) {
	if !c.active || c.what != what || done < c.done {
		*c = course{active: true, what: what, began: now, loggedAt: now, start: done, work: -1}
	}
	c.moves, c.work, c.done = work > c.work, work, done
	text = "size unknown"
	if total > 0 {
		text = fmt.Sprintf("%.1f%%", min(100, 100*float64(done)/float64(total)))
	}
	span := now.Sub(c.began)
	if more := done - c.start; more > 0 && total > done && span > 0 {
		left := time.Duration(float64(span) * float64(total-done) / float64(more))
		text += fmt.Sprintf(", about %d seconds to go", 1+left/time.Second)
	}
	if log = now.Sub(c.loggedAt) >= reportToLog; log {
		c.loggedAt = now
	}
	return text, log
}

// size returns a number of bytes in units for people.
func size(bytes int64) string {
	units := []string{"bytes", "KB", "MB", "GB", "TB"}
	n, unit := float64(bytes), 0
	for n >= 1024 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d %s", bytes, units[0])
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}
