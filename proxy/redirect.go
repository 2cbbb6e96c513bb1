package proxy

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
)

// A call that a server did not run is sent again (proxy.P3) until proxy-timeout.
//
//	reply or event              where to, and when
//	MOVED                       the server named, at once; the map learns of it. After triesMost tries as READONLY
//	ASK                         the server named, after ASKING, at once. After triesMost tries as READONLY
//	TRYAGAIN, LOADING,          where the map says, after a pause
//	MASTERDOWN
//	READONLY                    the same; the map is read anew
//	CLUSTERDOWN                 the same; the map is read at other servers
//	a refused connection,       the same
//	bytes that were not sent
//
// proxy.P3. Nothing else is sent again: it may have run.

// A resend is a call that waits to be sent again.
type resend struct {
	call    call
	request []byte
	why     *protocol.Error
	access  *access
	due     bool // its pause is over; it waits for other calls of its session
	over    bool // it was sent, or has failed
}

// A delayed is a function that is called when its time has come.
type delayed struct {
	at int64 // ms
	f  func()
}

// after has f called in so many ms, on the loop.
func (w *worker) after(ms int64, f func()) {
	w.later = append(w.later, delayed{w.now() + ms, f})
	w.watch()
}

const (
	triesMost  = 16 // more are not counted
	pauseAgain = 20 // ms before the first of the later tries
)

// refused handles the oldest call of u, which a server has refused with p. It returns false if the error is the
// client's.
func (w *worker) refused(u *upstream, c *call, p []byte, refusal scan.Refusal) bool {
	if refusal == scan.NoScript {
		u.lacks()
		return false
	}
	if c.s != nil && c.s.closed && c.to == nil {
		u.drop()
		return true
	}
	err := errorOf(p)
	switch refusal {
	case scan.Moved, scan.Ask:
		slot, at, ok := target(err, u.at)
		if !ok || slot != int(c.slot) { // a script may have made it up
			return false
		}
		w.p.count.redirects.Add(1)
		if c.tries == triesMost || w.topology.Find(at) == nil { // only a node that a known one tells of is trusted
			w.p.finder.Refresh()
			return w.again(u, c, err)
		}
		if refusal == scan.Moved {
			w.p.finder.Moved(slot, at)
		}
		request := bytes.Clone(u.request())
		again := u.drop()
		again.countTry()
		if w.breaker(at).isOpen(w.now()) || w.awaitsLibraries(&again, at) || again.s != nil && again.s.isBehind(&again) {
			w.wait(u.access, again, request, err)
			return true
		}
		to := w.connection(u.access, &again, at)
		if again.byHash { // nothing comes between ASKING and the request
			to.bring(request)
		}
		if refusal == scan.Ask {
			to.push(call{to: ignored{}, slot: -1, fixed: true, since: again.since}, asking)
		}
		to.beforeAgain(&again)
		to.push(again, request)
		return true
	case scan.ReadOnly:
		if w.isScript(c) {
			return false
		}
		w.p.finder.Refresh()
		return w.again(u, c, err)
	case scan.TryAgain, scan.ClusterDown, scan.Loading, scan.PrimaryDown:
		if refusal == scan.ClusterDown {
			w.p.finder.Doubt(u.at)
		}
		if w.isScript(c) {
			return false
		}
		return w.again(u, c, err)
	}
	return false
}

// isScript reports whether a call runs a script. Its error may be one of the script's, which has run.
func (w *worker) isScript(c *call) bool {
	rows := w.p.table().Rows()
	if c.row == 0 || int(c.row) > len(rows) {
		return false
	}
	name := rows[c.row-1].Name
	return strings.HasPrefix(name, "eval") || strings.HasPrefix(name, "fcall")
}

var asking = encode("ASKING")

// target reads where a redirect points. A server that does not know its own address names none. Then it means the host
// of at.
func target(err *protocol.Error, at string) (slot int, address string, ok bool) {
	number, address, _ := strings.Cut(err.Text, " ")
	slot, bad := strconv.Atoi(number)
	host, port, found := cutAddress(address)
	if bad != nil || !found || slot < 0 {
		return 0, "", false
	}
	if host == "" || host == "?" {
		host, _, _ = cutAddress(at)
	}
	return slot, joinAddress(host, port), true
}

// again has the oldest call of u sent again later. It returns false if that is past the bound.
func (w *worker) again(u *upstream, c *call, why *protocol.Error) bool {
	if w.now()-c.since > w.p.settings.Timeout.Get() || c.s == nil && c.to == nil {
		return false
	}
	if c.s != nil && c.s.closed && c.to == nil || u.owner != nil && u.access.private == nil && !c.patient {
		return false
	}
	request := bytes.Clone(u.request())
	again := u.drop()
	again.countTry()
	w.wait(u.access, again, request, why)
	return true
}

func (c *call) countTry() { c.tries = min(c.tries+1, triesMost) }

// connection returns the connection to an address that a call is sent on again.
func (w *worker) connection(a *access, c *call, at string) *upstream {
	if c.patient && c.s != nil {
		return c.s.repin(at)
	}
	ups := a.to(at)
	if c.s == nil {
		return ups[0]
	}
	return ups[c.s.id%int64(len(ups))]
}

// wait keeps a call until its time.
func (w *worker) wait(a *access, c call, request []byte, why *protocol.Error) {
	pause := min(int64(pauseAgain)<<min(c.tries, 5), 500)
	r := &resend{call: c, request: request, why: why, access: a}
	if c.s != nil {
		c.s.enqueue(r)
	}
	w.after(pause, func() {
		if r.due = true; !r.over && (c.s == nil || c.s.isNext(r)) {
			w.sendAgain(r)
		}
	})
}

// sendAgain sends a call to where the map says now.
func (w *worker) sendAgain(r *resend) {
	c, why := r.call, r.why
	if c.s != nil {
		c.s.dequeue(r)
		defer c.s.goOn()
	}
	w.catchUp()
	late := w.now()-c.since > w.p.settings.Timeout.Get()
	if late || c.s != nil && c.s.closed {
		w.failCall(nil, &c, why)
		return
	}
	w.p.count.retries.Add(1)
	at := w.primaryOf(&c)
	switch held := w.states != nil && w.states.held[int(c.slot)]; {
	case at == "" || held || w.breaker(at).isOpen(w.now()) || w.awaitsLibraries(&c, at):
		c.countTry()
		w.wait(r.access, c, r.request, why)
	case w.source(int(c.slot)) != "" && c.s != nil:
		c.s.lift(int(c.slot), w.keysIn(r.request), func(err *protocol.Error) {
			if err != nil {
				w.failCall(nil, &c, err)
				return
			}
			w.deliver(r, c, at)
		})
	default:
		w.deliver(r, c, at)
	}
}

// primaryOf returns the address that a call goes to by the map: its slot's shard. A part of a request to all shards
// goes to the shard that it names. It returns "" if there is none.
func (w *worker) primaryOf(c *call) string {
	if part, is := c.to.(*share); is && part.shard != "" {
		for _, shard := range w.topology.Shards {
			if shard.ID == part.shard {
				return shard.Primary
			}
		}
		return ""
	}
	if index := w.indexOf(int(c.slot), c.number); index >= 0 {
		return w.shard(index).Primary
	}
	return ""
}

// deliver sends a call again.
func (w *worker) deliver(r *resend, c call, at string) {
	to := w.connection(r.access, &c, at)
	if c.byHash {
		to.bring(r.request)
	}
	to.beforeAgain(&c)
	to.push(c, r.request)
}

// keysIn copies the keys of a request.
func (w *worker) keysIn(request []byte) (keys [][]byte) {
	args := firstWords(request, math.MaxInt)
	if len(args) == 0 {
		return nil
	}
	var pl route.Plan
	if w.p.table().Plan(args, &pl); pl.Row == nil {
		return nil
	}
	for _, at := range w.p.table().AppendKeys(nil, pl.Row, args) {
		keys = append(keys, bytes.Clone(args[at]))
	}
	return keys
}

// failCall gives a call's session or taker an error.
func (w *worker) failCall(u *upstream, c *call, err *protocol.Error) {
	if c.s != nil { // otherwise it is the proxy's own
		w.p.count.failed.Add(1)
	}
	switch {
	case c.to != nil:
		c.to.take(u, c, nil, scan.OtherError, err)
	case c.s != nil && !c.s.closed:
		var r protocol.Reply
		r.Error(err)
		c.s.answer(c.number, r.B)
	}
}
