package proxy

import (
	"bytes"
	"strconv"
	"strings"

	"spindle/protocol"
	"spindle/protocol/scan"
)

// A call that a server did not run is sent again (proxy.P3), within a bound of tries and of time.
//
//	reply or event              where to, and when
//	MOVED                       the server named, at once; the map learns of it
//	ASK                         the server named, after ASKING, at once
//	TRYAGAIN, CLUSTERDOWN,      where the map says, after a pause
//	LOADING, MASTERDOWN
//	READONLY                    the same; the map is read anew
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
	triesMost  = 16
	pauseAgain = 20 // ms before the first of the later tries
)

// refused handles the oldest call of u, which a server has refused with p. It returns false if the error is the
// client's.
func (w *worker) refused(u *upstream, c *call, p []byte, refusal scan.Refusal) bool {
	if refusal == scan.NoScript {
		return w.reload(u, c)
	}
	if c.s != nil && c.s.closed && c.to == nil {
		u.drop()
		return true
	}
	err := errorOf(p)
	if c.tries >= triesMost {
		return false
	}
	switch refusal {
	case scan.Moved, scan.Ask:
		slot, at, ok := target(err, u.at)
		if !ok {
			return false
		}
		w.p.count.redirects.Add(1)
		if refusal == scan.Moved {
			w.p.finder.Moved(slot, at)
		}
		request := bytes.Clone(u.request())
		again := u.drop()
		again.tries++
		if w.breaker(at).isOpen(w.now()) {
			w.wait(u.access, again, request, err)
			return true
		}
		to := w.connection(u.access, &again, at)
		if refusal == scan.Ask {
			to.push(call{to: ignored{}, slot: -1, fixed: true, since: again.since}, asking)
		}
		to.beforeAgain(&again)
		to.push(again, request)
		return true
	case scan.ReadOnly:
		w.p.finder.Refresh()
		fallthrough
	case scan.TryAgain, scan.ClusterDown, scan.Loading, scan.PrimaryDown:
		return w.again(u, c, err)
	}
	return false
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
	if c.tries >= triesMost || w.now()-c.since > w.p.settings.Timeout.Get() || c.s == nil && c.to == nil {
		return false
	}
	if c.s != nil && c.s.closed && c.to == nil || u.owner != nil && u.access.private == nil && !c.patient {
		return false
	}
	request := bytes.Clone(u.request())
	again := u.drop()
	again.tries++
	w.wait(u.access, again, request, why)
	return true
}

// connection returns the connection to an address that a call is sent on again.
func (w *worker) connection(a *access, c *call, at string) *upstream {
	if c.patient && c.s != nil {
		return c.s.repin(at)
	}
	ups := a.to(at)
	return ups[c.number%uint64(len(ups))]
}

// wait keeps a call until its time.
func (w *worker) wait(a *access, c call, request []byte, why *protocol.Error) {
	if c.s != nil {
		c.s.retries++
	}
	pause := min(int64(pauseAgain)<<min(c.tries, 5), 500)
	r := &resend{call: c, request: request, why: why, access: a}
	w.after(pause, func() { w.sendAgain(r) })
}

// sendAgain sends a call to where the map says now.
func (w *worker) sendAgain(r *resend) {
	c := r.call
	if c.s != nil {
		c.s.retries--
		if c.s.closed && c.to == nil {
			return
		}
	}
	w.topology = w.p.finder.Current()
	w.p.count.retries.Add(1)
	index := w.indexOf(int(c.slot), c.number)
	why := r.why
	if index >= 0 {
		at := w.topology.Shards[index].Primary
		if at != "" && !w.breaker(at).isOpen(w.now()) {
			to := w.connection(r.access, &c, at)
			to.beforeAgain(&c)
			to.push(c, r.request)
			return
		}
	}
	if c.tries < triesMost && w.now()-c.since <= w.p.settings.Timeout.Get() {
		c.tries++
		w.wait(r.access, c, r.request, why)
		return
	}
	w.failCall(nil, &c, why)
}

// failCall gives a call's session or taker an error.
func (w *worker) failCall(u *upstream, c *call, err *protocol.Error) {
	w.p.count.failed.Add(1)
	switch {
	case c.to != nil:
		c.to.take(u, c, nil, scan.OtherError, err)
	case c.s != nil && !c.s.closed:
		var r protocol.Reply
		r.Error(err)
		c.s.answer(c.number, r.B)
	}
}
