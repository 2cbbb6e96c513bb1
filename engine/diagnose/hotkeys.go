package diagnose

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"time"

	"spindle/engine/command"
)

// HotKeys estimates which keys are used most, from samples of the commands that run.
//
//	key ── hash ──▶ set ──▶ ┌──────┬──────┬─ ~ ─┬──────┐
//	                        │ hot  │ hot  │     │ hot  │   ways counters, one a key
//	                        └──────┴──────┴─ ~ ─┴──────┘
//
// diagnose.H1. A new key replaces the counter with the lowest rank in its set, and its rank continues from that weight
// (Space-Saving, set by set). The inherited weight counts for the rank only, not for the key's figures.
// diagnose.H2. Weights fade with the half-life halfLife. Old weights are not changed; instead, unit makes each new one
// larger.
// diagnose.H3. Memory is bounded: sets × ways counters, each with at most keyKept bytes of its key.
//
// Source: Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005.
type HotKeys struct {
	sets  [hotSets]hotSet
	seed  maphash.Seed
	total float64 // weight of all accesses to keys
	span  float64 // observed seconds, weighted like accesses
	unit  float64 // the present weight of one access
	last  int64   // nanos of the last Fade; 0 before the first

	Session *Session // the session started last, or nil
}

const (
	hotSets  = 256
	hotWays  = 8
	keyKept  = 512              // bytes of a key that are stored
	halfLife = 10 * time.Second // the time after which a sample counts half
	unitMost = 1e100            // above it all weights are scaled down
)

// A hotSet is a few counters. The fields that a search reads are next to each other.
type hotSet struct {
	hash [hotWays]uint64 // 0 for no key
	rank [hotWays]float64
	hot  [hotWays]hot
}

// A hot is the counter of one key.
type hot struct {
	db            int
	reads, writes float64
	bytes, nanos  float64
	key           []byte
	keyLen        int
}

func NewHotKeys() *HotKeys { return &HotKeys{seed: maphash.MakeSeed(), unit: 1} }

// A Use is one sampled access to a key.
type Use struct {
	Key    []byte // lent
	DB     int
	Write  bool
	Weight float64 // the number of accesses that the sample stands for
	Bytes  float64 // of request and reply, for all those accesses
	Nanos  float64 // time in the turn, for all those accesses
}

// Note adds a sample.
//
// Cost: a hash of the key and a search of one set. It allocates only while the set's counters have not yet held keys of
// this length.
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
	if h.Session != nil && h.Session.Active {
		h.Session.note(u)
	}
}

// lightest returns the counter that the next new key replaces.
func (s *hotSet) lightest() (at int) {
	for i := range s.rank {
		if s.rank[i] < s.rank[at] {
			at = i
		}
	}
	return at
}

// Fade advances the time. nanos is the time of a monotonic clock. Ten calls a second are enough.
func (h *HotKeys) Fade(nanos int64) {
	if s := h.Session; s != nil && s.Active && s.ends != 0 && nanos >= s.ends {
		s.Stop(s.ends)
	}
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

// shrink scales all weights down, so that a new access weighs 1 again.
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

func (h *HotKeys) Reset() {
	h.sets = [hotSets]hotSet{}
	h.total, h.span, h.unit = 0, 0, 1
}

// A HotKey is a key with its figures. Rates are means with a half-life of ten seconds.
type HotKey struct {
	DB            int
	Key           string  // the key's first bytes, at most 512
	KeyLen        int     // the length of the whole key
	Share         float64 // of all accesses to keys, 0 to 1
	Reads, Writes float64 // a second
	Bytes         float64 // of requests and replies, a second
	CPU           float64 // seconds of turns, a second
}

// Top returns the n most used keys, the hottest first.
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
	span := max(h.span, h.unit) // so that rates within the first second are not too large
	list := make([]HotKey, 0, min(max(n, 0), len(all)))
	for _, c := range all[:cap(list)] {
		list = append(list, HotKey{DB: c.db, Key: string(c.key), KeyLen: c.keyLen, Share: (c.reads + c.writes) / h.total,
			Reads: c.reads / span, Writes: c.writes / span, Bytes: c.bytes / span, CPU: c.nanos / span / 1e9})
	}
	return list
}

// HOTKEYS GET shows hotKeysShown keys by default, and hotKeysMost at most.
const (
	hotKeysShown = 20
	hotKeysMost  = 256
)

// hotKeysGet is HOTKEYS GET [COUNT n]. Replies: the most used keys, the hottest first, as maps: key, db, share in
// percent, and reads, writes, bytes, cpu-usec per second. All figures are estimates from samples.
func (f *family) hotKeysGet(c *command.Context) error {
	n, err := countOf(c, hotKeysShown, hotKeysMost)
	if err != nil {
		return err
	}
	top, r := f.HotKeys().Top(n), c.Reply
	rate := func(name string, v float64) {
		r.BulkString(name)
		r.DoubleText(strconv.AppendFloat(nil, v, 'f', 2, 64))
	}
	r.Array(len(top))
	for i := range top {
		k := &top[i]
		r.Map(7)
		r.BulkString("key")
		r.BulkString(k.Key)
		r.BulkString("db")
		r.Int(int64(k.DB))
		rate("share", k.Share*100)
		rate("reads", k.Reads)
		rate("writes", k.Writes)
		rate("bytes", k.Bytes)
		rate("cpu-usec", k.CPU*1e6)
	}
	return nil
}

// hotKeysReset is HOTKEYS RESET. It drops all samples.
func (f *family) hotKeysReset(c *command.Context) error {
	f.HotKeys().Reset()
	c.Reply.OK()
	return nil
}

func hotKeysHelp(c *command.Context) error {
	command.Help(c,
		"GET [COUNT <count>]",
		"    The <count> keys that are used most (default: 20, at most 256), from",
		"    samples that fade with a half-life of ten seconds. <share> is in percent",
		"    of all uses of keys; reads, writes, bytes and cpu-usec are per second.",
		"    Of a key at most 512 bytes are shown.",
		"    After START and without COUNT: the session's result.",
		"RESET",
		"    Drop the result of the last session. Without one: forget what was seen.",
		"START METRICS <n> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>] [SLOTS <n> <slot> ...]",
		"    Begin a session, in Redis's form.",
		"STOP",
		"    End the session. GET still returns its result.",
	)
	return nil
}
