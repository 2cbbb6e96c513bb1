package replication

import (
	"bytes"

	"spindle/engine/command"
)

// atOnce is how much of the backlog a replica gets in the turn that continues it. What is more goes on beside the
// turns.
const atOnce = 1 << 20

// catchUpPiece is how much of the backlog one turn copies then.
const catchUpPiece = 256 << 10

// tryContinue answers PSYNC <id> <offset> with +CONTINUE if r has this history up to there, and the backlog has the
// rest. It says whether it did. offset is that of the first byte wanted, which counts from 1.
func (f *Feed) tryContinue(c *command.Context, r *replica, id []byte, offset int64) bool {
	f.flush()
	log := f.settings.Log
	if !bytes.EqualFold(id, []byte(f.ID)) && (!bytes.EqualFold(id, []byte(f.ID2)) || offset > f.secondOffset) {
		switch {
		case string(id) == "?":
			log.Notice("Full resync requested by replica %s", r.name())
		case bytes.EqualFold(id, []byte(f.ID2)):
			log.Notice("Partial resynchronization not accepted: Requested offset for second ID was %d, but I can reply up to %d",
				offset, f.secondOffset)
		default:
			log.Notice("Partial resynchronization not accepted: Replication ID mismatch "+
				"(Replica asked for '%s', my replication IDs are '%s' and '%s')", id, f.ID, f.ID2)
		}
		return false
	}
	if f.tooOld[r.address()] {
		log.Notice("Partial resynchronization not accepted: %s could not read a part of the stream", r.name())
		return false
	}
	if f.log == nil || offset <= f.log.begin() || offset > f.log.end+1 {
		log.Notice("Unable to partial resync with replica %s for lack of backlog (Replica request was: %d).",
			r.name(), offset)
		if offset > f.offset {
			log.Warning("Warning: replica %s tried to PSYNC with an offset that is greater than "+
				"the master replication offset.", r.name())
		}
		return false
	}
	f.enlist(r)
	line := "CONTINUE"
	if r.psync2 {
		line += " " + f.ID
	}
	c.Reply.Simple(line)
	r.state, r.ackMs = online, f.core.SteadyMs()
	f.fallBehind(r, offset-1)
	f.acks = true
	f.continued++
	log.Notice("Partial resynchronization request from %s accepted. Sending %d bytes of backlog starting from offset %d.",
		r.name(), f.log.end-(offset-1), offset)
	f.core.Later(func() { f.beginCatchUp(r) }) // behind the reply: it belongs to this turn
	return true
}

// beginCatchUp sends r what it lacks, or has a goroutine go on with that.
func (f *Feed) beginCatchUp(r *replica) {
	turn := f.core.TurnNumber() // posts of this turn come behind its replies
	for sent := 0; sent < atOnce; {
		piece := f.nextOfBacklog(r)
		if piece == nil {
			return
		}
		sent += len(piece)
		r.cl.Conn.Post(turn, piece)
		f.posted.Add(int64(len(piece)))
	}
	go f.catchUp(r)
}

// nextOfBacklog copies the next piece of what r lacks; nil when there is none: then r gets the stream as it comes, or
// is gone.
func (f *Feed) nextOfBacklog(r *replica) []byte {
	f.flush()
	if _, still := r.cl.ReplicaState.(*replica); !still || f.log == nil || r.at == live {
		return nil
	}
	if r.at < f.log.begin() || r.at > f.log.end { // there was no memory for it, or it is another history's
		f.settings.Log.Warning("Replica %s is too slow for the replication backlog, which has moved past it.", r.name())
		r.at = live
		f.core.Kill(r.cl, false)
		return nil
	}
	piece := make([]byte, min(catchUpPiece, f.log.end-r.at))
	f.log.read(piece, r.at)
	if r.at += int64(len(piece)); r.at == f.log.end {
		r.at = live
	}
	f.settle()
	if len(piece) == 0 {
		return nil
	}
	return piece
}

// catchUp sends r the backlog, as fast as its socket takes what came before. It runs on a goroutine of its own.
func (f *Feed) catchUp(r *replica) {
	out := f.sender([]*replica{r})
	for {
		if out.await(); len(out.to) == 0 {
			if out.left[r] == errReplicaStuck {
				f.core.Do(func() { f.core.Kill(r.cl, false) })
			}
			return
		}
		var piece []byte
		f.core.Do(func() {
			piece = f.nextOfBacklog(r)
			if piece != nil { // here, so that what is decided later comes behind it
				r.cl.Conn.Post(f.core.TurnNumber(), piece)
				f.posted.Add(int64(len(piece)))
			}
		})
		if piece == nil {
			return
		}
	}
}
