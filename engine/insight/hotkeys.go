package insight

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"time"
)

// HotKeys estimates which keys are used most, from samples of the commands that run.
//
//	key ── hash ──▶ set ──▶ ┌──────┬──────┬─ ~ ─┬──────┐
//	                        │ hot  │ hot  │     │ hot  │   ways counters, one a key
//	                        └──────┴──────┴─ ~ ─┴──────┘
//
// insight.H1. A key without a counter takes over the lightest counter of its set, and ranks from that weight on: the
// Space-Saving algorithm, set by set. What it has taken over decides its rank and is in none of its figures.
// insight.H2. Weights fade with halfLife: instead of making old ones smaller, unit makes each new one larger.
// insight.H3. Memory is bounded: sets × ways counters, each with at most keyKept bytes of its key.
//
// Source: Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005.
type HotKeys struct {
	sets  [hotSets]hotSet
	seed  maphash.Seed
	total float64 // weight of all accesses to keys
	span  float64 // seconds that were looked at, weighted as accesses are
	unit  float64 // what one access weighs now
	last  int64   // nanos, of the last Fade; 0: none yet
}

const (
	hotSets  = 256
	hotWays  = 8
	keyKept  = 512              // bytes of a key
	halfLife = 10 * time.Second // after which a sample counts half
	unitMost = 1e100            // past it all weights are made smaller at once
)

// A hotSet is a few counters. What a search reads lies together.
type hotSet struct {
	hash [hotWays]uint64 // 0: no key
	rank [hotWays]float64
	hot  [hotWays]hot
}

// A hot is what is known of one key.
type hot struct {
	db            int
	reads, writes float64
	bytes, nanos  float64
	key           []byte
	keyLen        int
}

// NewHotKeys returns one that has seen nothing.
func NewHotKeys() *HotKeys { return &HotKeys{seed: maphash.MakeSeed(), unit: 1} }

// A Use is one access to a key, as a sample has it.
type Use struct {
	Key    []byte // lent
	DB     int
	Write  bool
	Weight float64 // accesses that it stands for
	Bytes  float64 // of request and reply, of those accesses
	Nanos  float64 // time in the turn, of those accesses
}

// Note takes a sample.
//
// Cost: a hash of the key and a look at one set; no allocation once the set's counters have had keys as long.
func (h *HotKeys) Note(u *Use) {
	sum := max(1, maphash.Bytes(h.seed, u.Key)+uint64(u.DB)*0x9E3779B97F4A7C15)
	set := &h.sets[sum%hotSets]
	at := 0
	for at < hotWays && set.hash[at] != sum {
		at++
	}
	if at == hotWays {
		at = set.lightest()
		set.hash[at] = sum
		old := set.hot[at].key
		set.hot[at] = hot{db: u.DB, keyLen: len(u.Key), key: append(old[:0], u.Key[:min(len(u.Key), keyKept)]...)}
	}
	weight := u.Weight * h.unit
	h.total += weight
	set.rank[at] += weight
	c := &set.hot[at]
	if u.Write {
		c.writes += weight
	} else {
		c.reads += weight
	}
	c.bytes += u.Bytes * h.unit
	c.nanos += u.Nanos * h.unit
}

// lightest is the counter that the next new key takes over.
func (s *hotSet) lightest() (at int) {
	for i := range s.rank {
		if s.rank[i] < s.rank[at] {
			at = i
		}
	}
	return at
}

// Fade tells the time: nanos of a clock that only goes on. Often enough is ten times a second.
func (h *HotKeys) Fade(nanos int64) {
	if h.last == 0 {
		h.last = nanos
		return
	}
	elapsed := float64(nanos-h.last) / 1e9
	h.last = nanos
	if elapsed <= 0 {
		return
	}
	h.span += elapsed * h.unit
	if h.unit *= math.Exp2(elapsed / halfLife.Seconds()); h.unit > unitMost {
		h.shrink()
	}
}

// shrink has an access weigh 1 again.
func (h *HotKeys) shrink() {
	by := 1 / h.unit
	for i := range h.sets {
		for j := range hotWays {
			c := &h.sets[i].hot[j]
			h.sets[i].rank[j] *= by
			c.reads, c.writes, c.bytes, c.nanos = c.reads*by, c.writes*by, c.bytes*by, c.nanos*by
		}
	}
	h.total, h.span, h.unit = h.total*by, h.span*by, 1
}

// Reset forgets all keys.
func (h *HotKeys) Reset() {
	h.sets = [hotSets]hotSet{}
	h.total, h.span, h.unit = 0, 0, 1
}

// A HotKey is what was seen of a key. Rates are means that fade with a half-life of ten seconds.
type HotKey struct {
	DB            int
	Key           string  // at most 512 bytes of it
	KeyLen        int     // all of its bytes
	Share         float64 // of all accesses to keys, 0 to 1
	Reads, Writes float64 // a second
	Bytes         float64 // of requests and replies, a second
	CPU           float64 // seconds of turns, a second
}

// Top gives the n keys that were used most, the hottest first.
func (h *HotKeys) Top(n int) []HotKey {
	var all []*hot
	for i := range h.sets {
		for j := range hotWays {
			if c := &h.sets[i].hot[j]; c.reads+c.writes > 0 {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b *hot) int {
		return cmp.Or(cmp.Compare(b.reads+b.writes, a.reads+a.writes), cmp.Compare(a.db, b.db), bytes.Compare(a.key, b.key))
	})
	span := max(h.span, h.unit) // of the first second nothing larger is made up
	list := make([]HotKey, 0, min(max(n, 0), len(all)))
	for _, c := range all[:cap(list)] {
		list = append(list, HotKey{DB: c.db, Key: string(c.key), KeyLen: c.keyLen, Share: (c.reads + c.writes) / h.total,
			Reads: c.reads / span, Writes: c.writes / span, Bytes: c.bytes / span, CPU: c.nanos / span / 1e9})
	}
	return list
}
