package client

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"spindle/internal/invariant"
)

// A Ledger tracks the total cost of clients, and which of them costs most, at any instant.
//
//	classes   13: cl ⇄ cl          a client stands in the class of its cost's length in bits: those of one class
//	          21: cl ⇄ cl ⇄ cl     differ by less than twofold
//	occupied  …100000001000…       bit i: class i has somebody
//
// A cost has two parts. The loop reports the cost of the connection's buffers when it changes. The core reports the
// rest at the end of a turn. Most connections have empty buffers between turns, and report nothing.
//
// client.C1. sum and reserved are the sums over the entered clients that are neither replica nor primary. fed is the
// sum of the replicas' costs.
// client.C2. An entered client that may be evicted is in the list of its cost's class, once. No other client is in a
// list.
// client.C3. occupied has bit i exactly while class i has a client.
//
// Any goroutine may call it. mu is taken last, and held only for a few instructions.
type Ledger struct {
	wake func() // called once each time that a client has to be evicted; never under mu
	held func() // panics unless the caller holds the turn (client.H1); nil where there is no turn

	mu       sync.Mutex
	classes  [costClasses]costClass
	occupied uint64
	limit    int64 // 0 means none

	sum, fed, primary, reserved atomic.Int64 // written under mu
	pressed                     atomic.Bool
}

const costClasses = 64

// A costClass is the clients of one class, in order of arrival.
type costClass struct {
	first, last *Client
	count       int
	bytes       int64
}

// A standing says to which sum a client's cost belongs, and whether the client may be evicted.
type standing uint8

const (
	absent  standing = iota // not entered
	spared                  // counted; CLIENT NO-EVICT
	evictee                 // counted, and may be evicted
	feeds                   // a replica
	follows                 // the link to our primary
)

// An account is a client's place in the Ledger.
type account struct {
	ledger             *Ledger
	standing           standing
	class              uint8
	buffers, reserved  int64        // as last reported by the loop; mu
	own                int64        // as last reported by the core; mu
	prepared           atomic.Int64 // as last recorded by Prepare; written under mu
	previous, neighbor *Client

	toldStanding standing // last reported by the core, which reads it without mu; turn only
	toldOwn      int64
}

// standingOf returns the present standing of c. Turn only.
func (c *Client) standingOf() standing {
	if invariant.Enabled {
		c.assertHeld()
	}
	switch {
	case c.Conn == nil:
		return absent
	case c.Is(Primary):
		return follows
	case c.Is(Replica) && !c.Is(Monitor):
		return feeds
	case c.Is(NoEvict):
		return spared
	}
	return evictee
}

// OwnBytes returns the client's cost without its connection's buffers. That is the client itself, its names, its
// transaction, and what families keep for it.
func (c *Client) OwnBytes() int {
	n := int(unsafe.Sizeof(*c)) + len(c.Name) + len(c.LibName) + len(c.LibVersion) + c.FamilyBytes
	if c.Queue != nil {
		n += c.Queue.Bytes
	}
	return n
}

// OnPressure sets wake, which is called when clients exceed the limit and one of them may be evicted. It may be called
// on any goroutine, and must not wait. Call OnPressure before the first client.
func (l *Ledger) OnPressure(wake func()) { l.wake = wake }

// assertHeld panics unless the caller holds the turn, in checked builds (client.H1).
func (l *Ledger) assertHeld() {
	if invariant.Enabled && l.held != nil {
		l.held()
	}
}

// assertHeld calls the Ledger's assertHeld, if c has been entered.
func (c *Client) assertHeld() {
	if invariant.Enabled && c.account.ledger != nil {
		c.account.ledger.assertHeld()
	}
}

// SetLimit bounds the total cost of clients that are neither replica nor primary. Zero means no bound.
func (l *Ledger) SetLimit(bytes int64) {
	l.mu.Lock()
	l.limit = bytes
	wake := l.press()
	l.mu.Unlock()
	l.call(wake)
}

// Sum returns the total cost of the clients that are neither replica nor primary, in bytes.
func (l *Ledger) Sum() int64 { return l.sum.Load() }

// Replicas returns the cost of the replicas' connections, in bytes.
func (l *Ledger) Replicas() int64 { return l.fed.Load() }

// Primary returns the cost of the link to our primary, in bytes.
func (l *Ledger) Primary() int64 { return l.primary.Load() }

// Reserved returns how much of the keyspace's memory is lent to clients, for large arguments that are arriving. The
// keyspace counts all of it. A client's cost includes only the part that it has filled.
func (l *Ledger) Reserved() int64 { return l.reserved.Load() }

// Pressed reports whether a client has to be evicted.
func (l *Ledger) Pressed() bool { return l.pressed.Load() }

// Costliest returns a client of the highest class. It returns nil when the sum is below the limit. It also returns nil
// when no client may be evicted; stuck is then true.
func (l *Ledger) Costliest() (c *Client, stuck bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit == 0 || l.sum.Load() < l.limit {
		l.pressed.Store(false)
		return nil, false
	}
	if l.occupied == 0 {
		l.pressed.Store(false)
		return nil, true
	}
	return l.classes[bits.Len64(l.occupied)-1].first, false
}

// enter opens c's account. Turn only.
func (l *Ledger) enter(c *Client) {
	l.assertHeld()
	c.account.ledger = l
	buffers, reserved := 0, 0
	l.mu.Lock()
	if c.Conn != nil {
		u := c.Conn.Usage()
		buffers, reserved = u.Total, u.Reserved
	}
	c.account.toldStanding, c.account.toldOwn = c.standingOf(), int64(c.OwnBytes())
	wake := l.update(c, c.account.toldStanding, int64(buffers), int64(reserved), c.account.toldOwn)
	l.mu.Unlock()
	l.call(wake)
}

// leave closes c's account. Turn only.
func (l *Ledger) leave(c *Client) {
	l.assertHeld()
	l.mu.Lock()
	l.update(c, absent, 0, 0, 0)
	l.mu.Unlock()
	c.account.toldStanding = absent
}

// Note updates the ledger if c's cost without buffers, or its standing, has changed. Turn only.
func (c *Client) Note() {
	c.assertHeld()
	a := &c.account
	if a.toldStanding == absent {
		return
	}
	own, standing := int64(c.OwnBytes()), c.standingOf()
	if own == a.toldOwn && standing == a.toldStanding {
		return
	}
	a.toldOwn, a.toldStanding = own, standing
	l := a.ledger
	l.mu.Lock()
	wake := l.update(c, standing, a.buffers, a.reserved, own)
	l.mu.Unlock()
	l.call(wake)
}

// Prepare records the size of a reply that is written outside the turn and is not in the loop's buffers yet. Zero means
// that the loop has it. Any goroutine.
func (c *Client) Prepare(bytes int) {
	a := &c.account
	l := a.ledger
	if l == nil {
		return
	}
	l.mu.Lock()
	wake := false
	if a.standing != absent {
		// The reply counts as buffers while it changes.
		buffers := a.buffers
		a.buffers += a.prepared.Swap(0)
		wake = l.update(c, a.standing, buffers+int64(bytes), a.reserved, a.own)
		a.buffers = buffers
		a.prepared.Store(int64(bytes))
	}
	l.mu.Unlock()
	l.call(wake)
}

// Prepared returns the size that Prepare recorded last. Any goroutine.
func (c *Client) Prepared() int { return int(c.account.prepared.Load()) }

// Account implements protocol.Accountant. The loop reports that the connection's buffers now cost bytes, and that
// reserved bytes of the keyspace's memory are lent to the connection.
func (c *Client) Account(bytes, reserved int) {
	a := &c.account
	l := a.ledger
	l.mu.Lock()
	wake := false
	if a.standing != absent {
		wake = l.update(c, a.standing, int64(bytes), int64(reserved), a.own)
	}
	l.mu.Unlock()
	l.call(wake)
}

// Reserve adds n to the bytes of the keyspace's memory that are lent for c's arguments. n may be negative. The loop's
// next Account includes these bytes.
func (c *Client) Reserve(n int) {
	a := &c.account
	l := a.ledger
	if l == nil {
		return
	}
	l.mu.Lock()
	if a.standing != absent {
		l.update(c, a.standing, a.buffers, max(0, a.reserved+int64(n)), a.own)
	}
	l.mu.Unlock()
}

// update gives c a new standing and cost. It reports whether to wake the core. Under mu.
func (l *Ledger) update(c *Client, standing standing, buffers, reserved, own int64) bool {
	a := &c.account
	ready := a.prepared.Load()
	if standing == absent {
		a.prepared.Store(0)
	}
	was, is := a.buffers+a.own+ready, buffers+own+a.prepared.Load()
	l.add(a.standing, -was, -a.reserved)
	l.add(standing, is, reserved)
	class := uint8(min(bits.Len64(uint64(is)), costClasses-1))
	if a.standing == evictee {
		l.classes[a.class].bytes -= was
		if standing != evictee || class != a.class {
			l.unlink(c)
		}
	}
	if standing == evictee {
		if a.standing != evictee || class != a.class {
			l.link(c, class)
		}
		l.classes[class].bytes += is
	}
	a.standing, a.class, a.buffers, a.reserved, a.own = standing, class, buffers, reserved, own
	return l.press()
}

// add adds bytes to the sum of a standing.
func (l *Ledger) add(to standing, bytes, reserved int64) {
	switch to {
	case absent:
		return
	case feeds:
		l.fed.Add(bytes)
	case follows:
		l.primary.Add(bytes)
	default:
		l.sum.Add(bytes)
	}
	l.reserved.Add(reserved)
}

// press reports whether the core must be woken: the sum has passed the limit, and the core does not know yet. Under mu.
func (l *Ledger) press() bool {
	if l.limit == 0 || l.sum.Load() < l.limit || l.occupied == 0 || l.pressed.Load() {
		return false
	}
	l.pressed.Store(true)
	return true
}

func (l *Ledger) call(wake bool) {
	if wake && l.wake != nil {
		l.wake()
	}
}

func (l *Ledger) link(c *Client, class uint8) {
	k, a := &l.classes[class], &c.account
	a.previous, a.neighbor = k.last, nil
	if k.last != nil {
		k.last.account.neighbor = c
	} else {
		k.first = c
	}
	k.last = c
	k.count++
	l.occupied |= 1 << class
}

func (l *Ledger) unlink(c *Client) {
	k, a := &l.classes[c.account.class], &c.account
	if a.previous != nil {
		a.previous.account.neighbor = a.neighbor
	} else {
		invariant.That(k.first == c, "client.C2: client %d is not the first of class %d", c.ID, a.class)
		k.first = a.neighbor
	}
	if a.neighbor != nil {
		a.neighbor.account.previous = a.previous
	} else {
		k.last = a.previous
	}
	a.previous, a.neighbor = nil, nil
	if k.count--; k.count == 0 {
		l.occupied &^= 1 << a.class
	}
}

// A CostClass counts the clients that may be evicted and cost less than Below bytes, but at least half of that. Bytes
// is their total cost.
type CostClass struct {
	Below   uint64
	Bytes   int64
	Clients int
}

// Classes yields the classes that have clients, from the costliest.
func (l *Ledger) Classes(yield func(CostClass) bool) {
	l.mu.Lock()
	classes := l.classes
	l.mu.Unlock()
	for i := costClasses - 1; i >= 0; i-- {
		if k := &classes[i]; k.count > 0 && !yield(CostClass{1 << i, k.bytes, k.count}) {
			return
		}
	}
}
