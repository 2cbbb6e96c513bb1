package replication

import (
	"slices"
	"strings"
	"sync/atomic"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/protocol"
)

// A roster is the list of replicas.
//
// replication.F3. A replica that does not get the stream as it comes has the stream up to its own offset, at. The
// backlog keeps everything from the lowest of these offsets, once for all replicas. The output limit of replicas bounds
// how far one may lag.
type roster struct {
	core     *engine.Core
	settings *Settings
	stream   *stream
	spares   func(r *replica, lacks, nowMs int64) bool // throttle.spares
	replicas []*replica
	departed []departed // replicas that may come back, for the spool

	heardAcks bool // a replica has sent an acknowledgement in this turn
	outLimit  uint64
	// Bytes given to loops for replicas, including copies, minus the bytes that closed connections had not sent.
	posted    atomic.Int64
	sentBytes int64 // what written last returned
	sentRate  engine.Rate
}

// A departed is a replica that has left and may come back. It has the stream up to offset at.
type departed struct {
	address Address
	at      int64
	leftMs  int64
}

// departedMost bounds the departed replicas that are remembered.
const departedMost = 64

// enlist adds r to the replicas.
func (o *roster) enlist(r *replica) {
	o.stream.open()
	r.cl.Flags |= client.Replica
	r.cl.Conn.SetClass(protocol.ClassReplica)
	o.replicas = append(o.replicas, r)
	o.forgetDeparted(o.core.SteadyMs(), r.address())
}

// strike removes r, whose client has left.
func (o *roster) strike(r *replica) {
	close(r.gone)
	if i := slices.Index(o.replicas, r); i >= 0 {
		o.replicas = slices.Concat(o.replicas[:i], o.replicas[i+1:])
		o.posted.Add(-r.unsent())
		o.noteDeparted(r)
		o.keepNeeded()
		o.settings.Log.Notice("Connection with replica %s lost.", r.name())
	}
	if len(o.replicas) == 0 {
		o.stream.idleSinceMs = o.core.SteadyMs()
	}
}

// dismiss closes all replicas. They reconnect, and learn what has changed.
func (o *roster) dismiss() {
	for _, r := range slices.Clone(o.replicas) {
		o.core.Expel(r.cl, false)
	}
}

// find returns the replica that listens at to, or nil.
func (o *roster) find(to Address) *replica {
	for _, r := range o.replicas {
		if at := r.address(); at.Port == to.Port && strings.EqualFold(at.Host, to.Host) {
			return r
		}
	}
	return nil
}

// keepNeeded makes the backlog keep the bytes that replicas still need, and no more.
func (o *roster) keepNeeded() {
	if o.stream.log == nil {
		return
	}
	floor := int64(noFloor)
	for _, r := range o.replicas {
		if r.at != live && !o.stream.spool.usable() {
			floor = min(floor, r.at)
		}
	}
	o.stream.log.setFloor(floor)
	o.stream.noteBacklog()
}

// lacks returns the least offset up to which a replica certainly has the stream, or noFloor if no replica lacks
// anything. It is at least from, because a replica with a lower offset is lost. Bytes given to a connection count only
// when they are acknowledged: a replica whose connection breaks needs the others again.
func (o *roster) lacks(from int64) (least int64) {
	least = noFloor
	for _, r := range o.replicas {
		if r.at != live && r.at < from {
			continue
		}
		if r.at != live {
			least = min(least, r.at)
		}
		if at, ok := r.acknowledged(); ok {
			least = min(least, max(at, from))
		}
	}
	for _, d := range o.departed {
		if d.at >= from {
			least = min(least, d.at)
		}
	}
	return least
}

// noteDeparted remembers r, which has left, if r can continue later from its offset.
func (o *roster) noteDeparted(r *replica) {
	at, ok := r.acknowledged()
	if !ok || o.stream.log == nil || !o.stream.spool.usable() || o.find(r.address()) != nil {
		return
	}
	address := r.address()
	o.departed = slices.DeleteFunc(o.departed, func(d departed) bool { return d.address == address })
	if len(o.departed) == departedMost {
		o.departed = slices.Delete(o.departed, 0, 1)
	}
	o.departed = append(o.departed, departed{address, max(at, o.stream.first()), o.core.SteadyMs()})
}

// forgetDeparted forgets replicas that have left: those at the addresses came, which are back, and those that have been
// away for repl-backlog-ttl.
func (o *roster) forgetDeparted(nowMs int64, came ...Address) {
	ttl := o.settings.BacklogTTL.Get()
	o.departed = slices.DeleteFunc(o.departed, func(d departed) bool {
		return slices.Contains(came, d.address) || ttl != 0 && nowMs-d.leftMs > ttl*1000
	})
}

// ackedBy counts the replicas that have the stream up to offset. far returns a replica's offset.
func (o *roster) ackedBy(offset int64, far func(*replica) int64) (n int64) {
	for _, r := range o.replicas {
		if r.state == online && far(r) >= offset {
			n++
		}
	}
	return n
}

// WantsReplicas reports whether the settings make writes depend on replicas.
func (o *roster) WantsReplicas() bool {
	return o.settings.MinWrite.Get() > 0 && o.settings.MaxLag.Get() > 0
}

// goodReplicas counts the replicas that are online and have reported within min-replicas-max-lag.
func (o *roster) goodReplicas() (n int64) {
	oldest := o.core.SteadyMs() - o.settings.MaxLag.Get()*1000
	for _, r := range o.replicas {
		if r.state == online && r.ackMs >= oldest {
			n++
		}
	}
	return n
}

// EnoughReplicas reports whether a write is allowed.
func (o *roster) EnoughReplicas() bool {
	return !o.WantsReplicas() || o.stream.following || o.goodReplicas() >= o.settings.MinWrite.Get()
}

// Lagging counts the replicas that do not have the whole stream yet.
func (o *roster) Lagging() (n int) {
	o.stream.flush()
	for _, r := range o.replicas {
		if r.ackOffset < o.stream.offset {
			n++
		}
	}
	return n
}

// LogLag names the replicas that lack a part of the stream when the server ends.
func (o *roster) LogLag() {
	if len(o.replicas) == 0 {
		return
	}
	synced := 0
	for _, r := range o.replicas {
		if r.ackOffset >= o.stream.offset {
			synced++
			continue
		}
		o.settings.Log.Notice("Lagging replica %s reported offset %d behind master, lag=%d, state=%s.",
			r.name(), o.stream.offset-r.ackOffset, (o.core.SteadyMs()-r.ackMs)/1000, r.state)
	}
	o.settings.Log.Notice("%d of %d replicas are in sync when shutting down.", synced, len(o.replicas))
}

// written returns how many bytes the replicas' sockets have taken: the bytes given to loops, less those still unsent.
// Bytes on their way to a loop count as written. The result never falls. Turn only.
func (o *roster) written() uint64 {
	n := o.posted.Load()
	for _, r := range o.replicas {
		n -= r.unsent()
	}
	o.sentBytes = max(o.sentBytes, n)
	return uint64(o.sentBytes)
}

// OutputLimitCloses returns how many replicas the output limit has closed, for
// client_output_buffer_limit_disconnections. Turn only.
func (o *roster) OutputLimitCloses() uint64 { return o.outLimit }

// resetSums is the roster's share of CONFIG RESETSTAT.
func (o *roster) resetSums() {
	o.outLimit, o.sentBytes, o.sentRate = 0, 0, engine.Rate{}
	o.posted.Store(0)
	for _, r := range o.replicas {
		o.posted.Add(r.unsent()) // the socket has not taken these bytes yet
	}
}
