package proxy

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"spindle/internal/info"
	"spindle/internal/slots"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
	"spindle/proxy/topology"
)

// The cache of hot keys: the proxy answers GET itself for keys that are read often. It is off by default.
//
// A key that is read hotReads times within a second is read once more, on a connection with CLIENT TRACKING ON. The
// shard says on it when the key changes. PTTL goes with that GET, so that a value does not outlive its key.
//
// proxy.H1. A reply of the cache is never older than a write that this proxy has answered. When a write is answered,
// all entries of its slot are void that were asked for before. A script voids all entries: it may write keys that it
// does not name. A write through another proxy voids an entry when the shard's message comes, or after
// proxy-cache-max-age at the latest.
// proxy.H2. A client's GET is not answered from the cache while one of its earlier requests on the slot is under way.
// Nor is it beside a script, or a request that names no key.
// proxy.H3. An entry serves only clients of the user and database that it was read with.
// proxy.H4. An entry is void when the map changes, or the connection ends that would tell of changes.
// proxy.H5. Entries take at most proxy-cache-size bytes.
type hotCache struct {
	settings *Settings
	written  [slots.Count]atomic.Uint32 // writes to each slot that are over
	all      atomic.Uint32              // the same, of writes without a slot: FLUSHALL
	hits     atomic.Int64
	fills    atomic.Int64
	voided   atomic.Int64 // by a shard's message

	mu      sync.RWMutex
	entries map[hotKey]*hotEntry
	bytes   int64
	seed    maphash.Seed
}

type hotKey struct {
	id  identity // without resp3
	key string
}

// A hotEntry is one value, or says that a key is being read or cannot be. All but value, ready and until are set when
// it is made, and do not change.
type hotEntry struct {
	hotKey
	from    *upstream // where it is read
	of      *topology.Map
	slot    int
	written uint32 // of its slot, when it was asked for
	all     uint32
	asked   int64 // ns of the workers' clocks
	value   []byte
	until   int64
	ready   bool
}

const (
	hotReads   = 32               // reads within a second that make a key hot
	hotSketch  = 4096             // keys of which reads are counted
	hotLongest = 64 << 10         // bytes of the longest value that is kept
	hotCost    = 256              // bytes of an entry beside its key and its value
	hotRest    = time.Second * 10 // for a server that refuses CLIENT TRACKING
)

func newHotCache(own *Settings) *hotCache {
	return &hotCache{settings: own, entries: map[hotKey]*hotEntry{}, seed: maphash.MakeSeed()}
}

// isOn reports whether there is a cache at all.
func (h *hotCache) isOn() bool { return h.settings.CacheSize.Get() > 0 }

// voidAll voids all entries, and those that are asked for. While the cache is off, writes are not counted.
func (h *hotCache) voidAll() { h.all.Add(1) }

// A hotCount counts reads of one key.
type hotCount struct {
	hash   uint64
	second int64
	reads  int
}

// fromCache answers GET of a hot key. It returns false if the shard must answer.
func (s *session) fromCache(key []byte, slot int) bool {
	w, h := s.w, s.w.p.cache
	if s.access.private != nil || s.silence != speaking || s.isUnderWay(slot) {
		return false
	}
	id := s.access.id
	id.resp3 = false
	if p := h.find(w, id, key, slot); p != nil {
		h.hits.Add(1)
		if bytes.Equal(p, replyNil3) && !s.access.id.resp3 {
			p = replyNil
		}
		s.answer(s.expect(), p)
		return true
	}
	if w.isHot(key) && len(key) <= hotLongest {
		w.fill(id, key, slot)
	}
	return false
}

var (
	replyNil  = []byte("$-1\r\n")
	replyNil3 = []byte("_\r\n")
)

// isUnderWay reports whether an earlier request of the session on a slot, or on none, has no reply yet (proxy.H2). If
// the session owes more than 64 replies, isUnderWay returns true without looking for one.
func (s *session) isUnderWay(slot int) bool {
	if s.owed.n > 64 {
		return true
	}
	for i := range s.owed.n {
		if o := s.owed.at(i); !o.done && (o.script || o.slot == noSlot || meets(o.slot, int16(slot))) {
			return true
		}
	}
	return false
}

// find returns the reply of a valid entry. It is lent for as long as the caller likes; nil: there is none.
func (h *hotCache) find(w *worker, id identity, key []byte, slot int) []byte {
	h.mu.RLock()
	defer h.mu.RUnlock()
	e := h.entries[hotKey{id, string(key)}]
	if e == nil || !e.ready || e.of != w.topology || e.until <= w.clock || e.written != h.written[slot].Load() ||
		e.all != h.all.Load() {
		return nil
	}
	return e.value
}

// isHot counts a read that the cache did not answer.
func (w *worker) isHot(key []byte) bool {
	if w.hot == nil {
		w.hot = make([]hotCount, hotSketch)
	}
	hash, second := maphash.Bytes(w.p.cache.seed, key), w.clock/int64(time.Second)
	c := &w.hot[hash%hotSketch]
	if c.hash != hash || second > c.second+1 {
		*c = hotCount{hash: hash}
	}
	if second > c.second {
		c.second, c.reads = second, c.reads/2
	}
	c.reads++
	return c.reads >= hotReads
}

// fill asks the slot's shard for a hot key, unless it is asked for already.
func (w *worker) fill(id identity, key []byte, slot int) {
	h := w.p.cache
	index := w.topology.Owner(slot)
	if index < 0 || w.topology.Shards[index].Primary == "" {
		return
	}
	u := w.listener(id, w.topology.Shards[index].Primary)
	if u == nil || u.isFull() {
		return
	}
	e := &hotEntry{hotKey: hotKey{id, string(key)}, from: u, of: w.topology, slot: slot,
		written: h.written[slot].Load(), all: h.all.Load(), asked: w.clock}
	h.mu.Lock()
	before := h.entries[e.hotKey]
	isAsked := before != nil && !before.ready && before.asked+int64(hotRest) > w.clock
	if !isAsked {
		h.remove(before)
		h.entries[e.hotKey] = e
		h.bytes += e.size()
	}
	h.mu.Unlock()
	if isAsked {
		return
	}
	h.fills.Add(1)
	u.push(call{to: (*hotValue)(e), slot: -1, fixed: true}, encode("GET", e.key))
	u.push(call{to: (*hotTime)(e), slot: -1, fixed: true}, encode("PTTL", e.key))
}

func (e *hotEntry) size() int64 { return int64(len(e.key)+len(e.value)) + hotCost }

// remove takes an entry out, if it is there. The caller holds mu.
func (h *hotCache) remove(e *hotEntry) {
	if e != nil && h.entries[e.hotKey] == e {
		delete(h.entries, e.hotKey)
		h.bytes -= e.size()
	}
}

// A hotValue takes the reply to GET.
type hotValue hotEntry

func (v *hotValue) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	e, h := (*hotEntry)(v), u.w.p.cache
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.remove(e)
	case refusal != scan.NotRefused || len(p) > hotLongest+32: // the entry stays as it is: it says not to ask again soon
	case h.entries[e.hotKey] == e:
		e.value = bytes.Clone(p)
		h.bytes += int64(len(p))
	}
	h.trim(e)
}

// noKey is what PTTL says of a key that is not there.
const noKey = -2

// A hotTime takes the reply to PTTL. It makes the entry ready.
type hotTime hotEntry

func (t *hotTime) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	e, h := (*hotEntry)(t), u.w.p.cache
	age := h.settings.CacheMaxAge.Get() * int64(time.Millisecond)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries[e.hotKey] != e || e.value == nil {
		return
	}
	ms, wrong := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimPrefix(p, []byte(":")), []byte("\r\n"))), 10, 64)
	if err != nil || refusal != scan.NotRefused || wrong != nil {
		return
	}
	if ms == noKey && !bytes.Equal(e.value, replyNil3) { // it has ended since GET
		h.remove(e)
		return
	}
	if ms >= 0 && ms < age/int64(time.Millisecond) {
		age = ms * int64(time.Millisecond)
	}
	e.until, e.ready = e.asked+age, true
}

// trim removes entries until the rest are small enough (proxy.H5), the newest one last. Their order is random: what is
// still hot comes back. The caller holds mu.
func (h *hotCache) trim(newest *hotEntry) {
	most := h.settings.CacheSize.Get()
	for _, e := range h.entries {
		if h.bytes <= most {
			return
		}
		if e != newest {
			h.remove(e)
		}
	}
	if h.bytes > most {
		h.remove(newest)
	}
}

// wrote voids what a call that is over may have changed (proxy.H1).
func (h *hotCache) wrote(w *worker, c *call) {
	if c.row == 0 {
		if t, is := c.to.(*executed); is {
			if slot := t.of.slot(); slot >= 0 && slot < firstTarget {
				h.written[slot].Add(1)
			}
			if t.of.any {
				h.all.Add(1)
			}
		}
		return
	}
	rows := w.p.table().Rows()
	if int(c.row) > len(rows) {
		return
	}
	switch row := rows[c.row-1]; {
	case mayChangeAny(row, int(c.slot)):
		h.all.Add(1)
	case mayChange(row) && c.slot < firstTarget:
		h.written[c.slot].Add(1)
	}
}

// mayChange reports whether a command may change a value. PFCOUNT only reads, and writes its result into the value.
func mayChange(row *route.Row) bool {
	return !row.PubSub && (row.Write || row.MayReplicate || row.Script != route.NoScript && !row.Readonly)
}

// mayChangeAny reports whether a call of a slot may change keys of others.
func mayChangeAny(row *route.Row, slot int) bool {
	return mayChange(row) && (slot < 0 || row.Script != route.NoScript)
}

// hear takes a push of a connection with CLIENT TRACKING. It returns false if it is no invalidation.
func (h *hotCache) hear(u *upstream, p []byte) bool {
	if !bytes.HasPrefix(p, invalidation) {
		return false
	}
	p = p[len(invalidation):]
	id := u.access.id
	id.resp3 = false
	if p[0] == '_' {
		h.forget(func(e *hotEntry) bool { return e.from == u })
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range firstWords(p, len(p)) {
		if e := h.entries[hotKey{id, string(key)}]; e != nil {
			h.voided.Add(1)
			h.remove(e)
		}
	}
	return true
}

// forget removes entries.
func (h *hotCache) forget(which func(e *hotEntry) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		if which(e) {
			h.remove(e)
		}
	}
}

// listener returns the connection of this loop to a server on which hot keys are read for an identity. It is opened if
// there is none. nil: the server does not answer, or refuses CLIENT TRACKING.
func (w *worker) listener(id identity, at string) *upstream {
	if w.breaker(at).isOpen(w.now()) {
		return nil
	}
	id.resp3 = true
	a := w.listeners[id]
	if a == nil {
		a = w.newAccess(id)
		a.sessions, a.listens = 1, true
		w.listeners[id] = a
	}
	if a.deaf > w.clock {
		return nil
	}
	if ups := a.shared[at]; len(ups) > 0 {
		return ups[0]
	}
	u := w.open(a, at)
	a.shared[at] = []*upstream{u}
	return u
}

// closeListener closes the connections for hot keys of an identity whose last client has left this loop.
func (w *worker) closeListener(id identity) {
	other := id
	other.resp3 = !id.resp3
	if w.accesses[other] != nil {
		return
	}
	id.resp3 = true
	if a := w.listeners[id]; a != nil {
		delete(w.listeners, id)
		a.leave()
	}
}

// A hotTracks takes the answer to CLIENT TRACKING ON. A server that refuses, or that speaks RESP2 only, is left alone
// for a while.
type hotTracks struct{}

func (hotTracks) take(u *upstream, _ *call, _ []byte, refusal scan.Refusal, err *protocol.Error) {
	if err == nil && (refusal != scan.NotRefused || u.old) {
		u.access.deaf = u.w.clock + int64(hotRest)
		u.cut(errUntracked(u.at))
	}
}

var trackingOn = encode("CLIENT", "TRACKING", "ON")

// size returns how many entries there are, and their bytes.
func (h *hotCache) size() (keys int, bytes int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.entries), h.bytes
}

func (h *hotCache) resetCounts() {
	for _, n := range []*atomic.Int64{&h.hits, &h.fills, &h.voided} {
		n.Store(0)
	}
}

// tell writes the section Cache of INFO.
func (h *hotCache) tell(w *info.Writer) {
	keys, bytes := h.size()
	w.Int("proxy_cache_keys", int64(keys))
	w.Int("proxy_cache_bytes", bytes)
	w.Int("proxy_cache_hits", h.hits.Load())
	w.Int("proxy_cache_reads", h.fills.Load())
	w.Int("proxy_cache_changes", h.voided.Load())
}
