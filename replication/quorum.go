package replication

import (
	"fmt"

	"spindle/internal/info"
)

// With min-replicas-to-ack N a confirmed write is on N of the R replicas of a primary. So one of any R-N+1 has it, and
// a failover asks for so many. With fewer well replicas it waits.

// wellMs is how long ago a well replica was heard at most. Replicas acknowledge once a second.
const wellMs = 5000

// quorum returns how many replicas this primary has, how many of them are well, and how many a failover needs. Outside
// a cluster all replicas count that were here at once, since this server became a primary or since CONFIG RESETSTAT.
func (f *Feed) quorum() (known, well, need int64) {
	here, since := int64(0), f.core.SteadyMs()-wellMs
	for _, r := range f.replicas {
		if _, ok := r.acknowledged(); ok {
			if here++; r.ackMs >= since {
				well++
			}
		}
	}
	if f.most = max(f.most, here); f.Peers != nil {
		f.most = f.Peers()
	}
	return f.most, well, max(0, f.most-f.settings.MinAck.Get()+1)
}

// Warning says why no failover could keep the writes that replicas have confirmed, or "". Turn only.
func (f *Feed) Warning() string {
	n := f.settings.MinAck.Get()
	if n == 0 || f.following {
		return ""
	}
	known, well, need := f.quorum()
	if well >= need {
		return ""
	}
	return fmt.Sprintf("%d of %d replicas are well. A failover that keeps confirmed writes needs %d (min-replicas-to-ack %d).",
		well, known, need, n)
}

// quorumLines writes INFO's fields about a failover, if min-replicas-to-ack is set.
func quorumLines(w *info.Writer, f *Feed) {
	if f.settings.MinAck.Get() == 0 || f.following {
		return
	}
	known, well, need := f.quorum()
	w.Int("ack_replicas_known", known)
	w.Int("ack_replicas_well", well)
	w.Int("ack_replicas_for_failover", need)
}
