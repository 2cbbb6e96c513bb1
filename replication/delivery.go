package replication

import (
	"errors"
	"io"

	"spindle/engine/client"
	"spindle/protocol"
	"spindle/replication/segments"
)

// This file has the ways in which replicas get the stream. A replica whose socket keeps up gets the bytes as they come.
// Any other replica reads the backlog at its own pace, first on disk and then in memory, until it has caught up.

const (
	// aheadMax bounds the bytes of the stream that a replica's loop has not sent yet. Later bytes stay in the backlog,
	// which all replicas share.
	aheadMax = 1 << 20
	// atOnce bounds the bytes of the backlog that a replica gets in the turn that continues it. A goroutine sends the
	// rest.
	atOnce = 1 << 20
	// catchUpPiece bounds how many bytes of the backlog one turn copies for that goroutine. It also bounds how many
	// bytes the goroutine reads from the disk for one turn.
	catchUpPiece = 256 << 10
)

// give posts the stream's new bytes to the replicas.
func (o *roster) give(piece []byte) {
	for _, r := range o.replicas {
		switch {
		case r.at != live:
			o.limitLag(r)
		case r.state == online:
			o.core.Push(r.cl, piece)
			o.posted.Add(int64(len(piece)))
			o.watchSocket(r, len(piece))
		}
	}
}

// watchSocket notes that r's loop got n more bytes. If the socket does not take them, r then reads the backlog.
func (o *roster) watchSocket(r *replica, n int) {
	if r.unseen += n; r.unseen < aheadMax/4 || o.stream.log == nil {
		return
	}
	r.unseen = 0
	if r.unsent() > aheadMax {
		o.fallBehind(r, o.stream.log.end)
		go o.catchUp(r)
	}
}

// fallBehind notes that r has the stream up to offset at, and reads the rest from the backlog.
func (o *roster) fallBehind(r *replica, at int64) {
	r.at = at
	o.keepNeeded()
}

// limitLag closes r if it lacks too much: more than the hard limit, or more than the soft one for too long. While the
// spool takes the stream, the missing bytes cost no memory. Then r is closed only if the spool has dropped bytes that r
// needs.
func (o *roster) limitLag(r *replica) {
	if r.at == live || o.stream.log == nil || r.cl.Is(client.CloseASAP) {
		return
	}
	if o.stream.spool.usable() {
		if r.softSince = 0; r.at < o.stream.first() {
			o.lose(r)
		}
		return
	}
	limit, now := o.settings.Output(), o.core.SteadyMs()
	lacks := o.lacksOf(r)
	// A replica may lack everything that the backlog keeps anyway.
	over := limit.Hard > 0 && lacks >= max(limit.Hard, o.settings.BacklogSize.Get())
	switch {
	case limit.Soft == 0 || lacks < limit.Soft:
		r.softSince = 0
	case r.softSince == 0:
		r.softSince = now
	default:
		over = over || now-r.softSince > limit.Seconds*1000 && !o.spares(r, lacks, now)
	}
	if over {
		o.outLimit++
		o.settings.Log.Warning("Client id=%d addr=%s scheduled to be closed ASAP for overcoming of output buffer limits.",
			r.cl.ID, r.cl.Conn.RemoteAddr())
		r.at = live // the backlog need not keep its missing bytes
		o.keepNeeded()
		o.core.Kill(r.cl, false)
	}
}

// lacksOf is how many bytes of the stream r's socket has not taken. A replica that takes a full copy lacks what came
// since.
func (o *roster) lacksOf(r *replica) (lacks int64) {
	if r.at != live && o.stream.log != nil {
		lacks = o.stream.log.end - r.at
	}
	if r.state == online {
		lacks += r.unsent()
	}
	return lacks
}

// watch closes replicas that lack too much or are silent for repl-timeout.
func (o *roster) watch(nowMs int64) {
	limit := o.settings.Timeout.Get() * 1000
	for _, r := range o.replicas {
		o.limitLag(r)            // the soft limit depends on time, too
		if r.state == awaitAck { // it is loading, and sends blank lines
			if at := r.cl.Conn.LastActive(); at != r.activeMs {
				r.activeMs, r.blankMs = at, nowMs
			}
		}
		heardMs := max(r.ackMs, r.blankMs)
		if (r.state == online || r.state == awaitAck) && !r.rdbOnly && r.psync2 && nowMs-heardMs > limit &&
			!r.cl.Is(client.CloseASAP) {
			o.settings.Log.Warning("Disconnecting timedout replica (streaming sync): %s", r.name())
			o.core.Kill(r.cl, false)
		}
	}
}

// goOnline starts to send r the stream, beginning with the part that it lacks.
func (o *roster) goOnline(r *replica) {
	if r.state == online {
		return
	}
	r.state, r.ackMs, o.heardAcks = online, o.core.SteadyMs(), true
	o.beginCatchUp(r)
	o.settings.Log.Notice("Synchronization with replica %s succeeded", r.name())
}

// beginCatchUp sends r the part that it lacks, or starts a goroutine that does.
func (o *roster) beginCatchUp(r *replica) {
	if o.onDisk(r) != nil {
		go o.catchUp(r)
		return
	}
	for sent := 0; sent < atOnce; {
		n := o.postNext(r)
		if n == 0 {
			return
		}
		sent += n
	}
	go o.catchUp(r)
}

// postNext posts the next piece of the backlog to r, and returns its length. It returns 0 if r has caught up and now
// gets the stream as it comes, or if r is gone.
func (o *roster) postNext(r *replica) int {
	o.stream.flush()
	log := o.stream.log
	if !r.isHere() || log == nil || r.at == live {
		return 0
	}
	if r.at < log.begin() || r.at > log.end { // there was no memory for it, or it belongs to another history
		o.lose(r)
		return 0
	}
	piece := make([]byte, min(catchUpPiece, log.end-r.at))
	log.read(piece, r.at)
	if r.at += int64(len(piece)); r.at == log.end {
		r.at = live
	}
	o.keepNeeded()
	if len(piece) > 0 {
		r.cl.Conn.Post(o.core.TurnNumber(), piece)
		o.posted.Add(int64(len(piece)))
	}
	return len(piece)
}

// lose closes r, which needs bytes that are no longer kept.
func (o *roster) lose(r *replica) {
	o.settings.Log.Warning("Replica %s is too slow for the replication backlog, which has moved past it.", r.name())
	r.at = live
	o.core.Kill(r.cl, false)
}

// onDisk returns the log from which r gets its next bytes. It returns nil if these bytes are in memory, or r needs
// none.
func (o *roster) onDisk(r *replica) *segments.Log {
	o.stream.flush()
	log, spool := o.stream.log, o.stream.spool
	if !r.isHere() || log == nil || r.at == live || !spool.on() || r.at >= log.begin() {
		return nil
	}
	return spool.log
}

// catchUp sends r the backlog as fast as its socket takes it. It runs on its own goroutine, which also reads the disk.
func (o *roster) catchUp(r *replica) {
	out := o.sender(0, r)
	var reader *segments.Reader
	var source *segments.Log
	free := &pieces{free: make(chan []byte, piecesMost)}
	defer func() {
		if reader != nil {
			reader.Close()
		}
	}()
	for n := 1; n > 0; {
		if out.await(); len(out.to) == 0 {
			if out.left[r] == errReplicaStuck {
				o.core.Do(func() { o.core.Kill(r.cl, false) })
			}
			return
		}
		var log *segments.Log
		at := int64(0)
		o.core.Do(func() {
			if log, at = o.onDisk(r), r.at; log == nil {
				n = o.postNext(r)
			}
		})
		if log == nil {
			continue
		}
		if reader == nil || log != source || reader.At() != at {
			if reader != nil {
				reader.Close()
			}
			reader, source = log.From(at), log
		}
		piece, ok := free.take(r.gone)
		if !ok {
			return
		}
		piece, err := fill(piece, reader)
		o.core.Do(func() { o.postRead(r, log, at, piece, free, err) })
	}
}

// pieces are the buffers into which one catchUp reads the disk. Their number is bounded, because bytes on their way to
// a busy loop count as sent.
type pieces struct {
	free chan []byte // buffers whose bytes were sent
	made int
}

// piecesMost covers a little more than a connection may have unsent.
const piecesMost = unsentMax/catchUpPiece + 8

// giveBack takes back a piece. Any goroutine.
func (f *pieces) giveBack(p []byte) { f.free <- p[:cap(p)] }

// take returns a buffer, as soon as one is free. ok is false if the replica leaves first.
func (f *pieces) take(gone <-chan struct{}) (piece []byte, ok bool) {
	if f.made < piecesMost && len(f.free) == 0 {
		f.made++
		return make([]byte, catchUpPiece), true
	}
	select {
	case piece = <-f.free:
		return piece, true
	case <-gone:
		return nil, false
	}
}

// fill reads into piece. After an error, filled still has valid bytes of the stream.
func fill(piece []byte, reader *segments.Reader) (filled []byte, err error) {
	n := 0
	for n < len(piece) && err == nil {
		var more int
		more, err = reader.Read(piece[n:])
		n += more
	}
	return piece[:n], err
}

// postRead posts to r a piece of log from offset at, which was read outside the turn. If the read has failed, the spool
// is dropped. The next look of catchUp then finds that r is lost.
func (o *roster) postRead(r *replica, log *segments.Log, at int64, piece []byte, free *pieces, err error) {
	if o.stream.spool.log != log {
		free.giveBack(piece)
		return // perhaps of another history
	}
	if !r.isHere() || r.at != at || len(piece) == 0 {
		free.giveBack(piece)
	} else {
		r.at += int64(len(piece))
		reply := &protocol.Reply{}
		reply.Lend(piece, func() { free.giveBack(piece) })
		r.cl.Conn.PostReply(o.core.TurnNumber(), reply)
		o.posted.Add(int64(len(piece)))
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, segments.ErrMoved) {
		o.stream.spool.giveUp(err)
	}
}
