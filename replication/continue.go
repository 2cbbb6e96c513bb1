package replication

import (
	"strings"

	"spindle/engine/command"
)

// tryContinue replies +CONTINUE to PSYNC <id> <offset> if r has this history up to the offset and the backlog has the
// rest. It reports whether it did. offset is that of the first byte that r wants, which counts from 1.
func (f *Feed) tryContinue(c *command.Context, r *replica, id []byte, offset int64) bool {
	f.flush()
	log := f.settings.Log
	if !f.knows(id, offset) {
		switch {
		case string(id) == "?":
			log.Notice("Full resync requested by replica %s", r.name())
		case strings.EqualFold(string(id), f.ID2):
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
	if f.log == nil || offset <= f.first() || offset > f.log.end+1 {
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
	r.state, r.ackMs, r.since = online, f.core.SteadyMs(), offset-1
	f.fallBehind(r, offset-1)
	f.heardAcks = true
	f.continued++
	log.Notice("Partial resynchronization request from %s accepted. Sending %d bytes of backlog starting from offset %d.",
		r.name(), f.log.end-(offset-1), offset)
	f.core.Later(func() { f.beginCatchUp(r) }) // after the reply
	return true
}
