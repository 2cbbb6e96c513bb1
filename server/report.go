package server

import (
	"fmt"
	"strings"
	"time"

	"spindle/bgsave"
	"spindle/internal/logging"
)

// A reporter tells how far a load or a save has come: the log every ten seconds, the supervisor every second.
//
// Owner: a goroutine of its own. It reads figures that any goroutine may read, and is late where the machine is busy.
type reporter struct {
	log        *logging.Logger
	supervisor *Supervisor
	loading    *bgsave.Loading
	saving     func() *bgsave.Progress

	load, save course
}

// How often a reporter looks, and how often the log hears of it.
const (
	reportEvery = time.Second
	reportToLog = 10 * time.Second
)

func (in *instance) newReporter() *reporter {
	return &reporter{log: in.log, supervisor: in.supervisor, loading: &in.loading, saving: in.scheduler.Progress}
}

// run reports until stop closes.
func (r *reporter) run(stop <-chan struct{}) {
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

// tick looks once.
func (r *reporter) tick(now time.Time) {
	var status []string
	underway := r.load.active || r.save.active
	moves := false
	if l := r.loading; l.Active.Load() {
		text, log := r.load.at(now, l, l.Read.Load(), l.Total.Load(), l.Read.Load()+l.LastKeysLoaded.Load())
		text = "Loading: " + text
		if keys := l.LastKeysLoaded.Load(); keys > 0 {
			text += fmt.Sprintf(", %d keys so far", keys)
		}
		r.tell(log, text)
		status, moves = append(status, text), r.load.moves
	} else {
		r.load = course{}
	}
	if p := r.saving(); p != nil {
		text, log := r.save.at(now, p, p.Keys.Load(), p.Total.Load(), p.Bytes.Load())
		text = fmt.Sprintf("Saving: %s, %d of %d keys, %s written", text, p.Keys.Load(), p.Total.Load(), size(p.Bytes.Load()))
		r.tell(log, text)
		status, moves = append(status, text), moves || r.save.moves
	} else {
		r.save = course{}
	}
	if underway || len(status) > 0 {
		r.supervisor.Underway(strings.Join(status, "; "), moves)
	}
}

// tell writes a line of the log if it is time for one.
func (r *reporter) tell(now bool, text string) {
	if now {
		r.log.Notice("%s", text)
	}
}

// A course is how one load or save went from look to look.
type course struct {
	active     bool
	what       any       // whose course it is: a save that follows at once is another one
	began      time.Time // when it was first seen
	told       time.Time // when the log last heard of it
	done, work int64     // at the last look
	start      int64     // done at the first look
	moves      bool      // work has grown since the look before
}

// at is a look at what is under way: done of total, and work, which grows with every step. log says that it is time
// for a line.
func (c *course) at(now time.Time, what any, done, total, work int64) (text string, log bool) {
	if !c.active || c.what != what || done < c.done {
		*c = course{active: true, what: what, began: now, told: now, start: done, work: -1}
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
	if log = now.Sub(c.told) >= reportToLog; log {
		c.told = now
	}
	return text, log
}

// size is a number of bytes for people.
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
