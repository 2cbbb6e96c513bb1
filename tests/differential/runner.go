package differential

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// roundCalls is the number of calls of a round. The servers are emptied before each round.
const roundCalls = 5000

// A runner drives a pair through rounds.
type runner struct {
	pair     *pair
	families []family
	has      func(name string) bool
	seed     uint64
	now      int64
	sent     int
	perName  map[string]int // how often each command was sent
}

// run plays rounds until calls calls were alike, or until a difference. stopped is the last round.
func (r *runner) run(round uint64, calls int) (stopped uint64, sent []call, d *difference, err error) {
	for most := r.sent + calls; r.sent < most; round++ {
		if sent, d, err = r.round(round, min(roundCalls, most-r.sent)); d != nil || err != nil {
			return round, sent, d, err
		}
	}
	return round, nil, nil, nil
}

// round plays one round: n calls from empty servers, then the comparison of states. It ends early after a known
// difference that makes the data differ.
func (r *runner) round(round uint64, n int) (sent []call, d *difference, err error) {
	if err := r.pair.reset(); err != nil {
		return nil, nil, err
	}
	g := newGenerator(r.seed, round, r.now, ofRound(r.families, round), r.has)
	g.reference = r.pair.ref.version
	sent = make([]call, 0, n)
	for len(sent) < n {
		size := 100 + g.rng.IntN(150)
		if g.chance(15) {
			size = 1 + g.rng.IntN(8)
		}
		conn, from := g.rng.IntN(connections), len(sent)
		for range min(size, n-from) {
			args, inline := g.next()
			sent = append(sent, call{conn, args, inline})
			r.perName[sent[len(sent)-1].name()]++
		}
		d := r.pair.play(sent[from:])
		if *r.pair.ref.parted {
			r.sent += len(sent) - from
			return nil, nil, nil
		}
		if d != nil {
			d.at += from
			return sent[:d.at+1], d, nil
		}
		r.sent += len(sent) - from
	}
	what, err := r.pair.sameState(rand.New(rand.NewPCG(r.seed, ^round)))
	if err != nil || what == "" {
		return nil, nil, err
	}
	return sent, &difference{at: n, what: what}, nil
}

// rate returns the number of calls per second since a time, for reports.
func (r *runner) rate(since time.Time) string {
	took := time.Since(since)
	return fmt.Sprintf("%d calls in %v: %.0f calls/s", r.sent, took.Round(time.Millisecond),
		float64(r.sent)/took.Seconds())
}
