package overview

import (
	"strings"

	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/family/conn"
	"spindle/engine/family/pubsub"
	"spindle/engine/part"
	"spindle/internal/logging"
)

// A ClientLog records what clients do: in ACL LOG, and in the log of the server.
type ClientLog struct {
	Core         *engine.Core
	Hub          *pubsub.Hub
	Log          *logging.Logger
	aclLog       acl.Log
	LaneRefusals acl.Inbox // calls that the admin lane has refused
}

// Line returns a client as log lines show it.
func (w *ClientLog) Line(cl *client.Client) string {
	return strings.TrimSuffix(string(conn.AppendLine(nil, cl, w.Core.Now(), w.Hub.Count)), "\n")
}

// LineNow is Line for a loop. It takes a turn.
func (w *ClientLog) LineNow(session any) (line logging.Client) {
	w.Core.Do(func() { line = logging.Client(w.Line(session.(*client.Client))) })
	return line
}

// Refusals returns ACL LOG and its counts.
func (w *ClientLog) Refusals() *acl.Log {
	w.LaneRefusals.MoveTo(&w.aclLog, w.Core.CountErrors)
	return &w.aclLog
}

// denied records a refusal of cl or of a script that cl has called.
func (w *ClientLog) denied(cl *client.Client, e acl.Entry) {
	log := w.Refusals()
	if log.Keeps() {
		e.Client = w.Line(cl)
	}
	log.Add(e, w.Core.Now())
}

// Listeners returns the listeners for events that are recorded.
func (w *ClientLog) Listeners() part.Listeners {
	return part.Listeners{Order: part.Later, Denied: w.denied, Attack: w.attack(),
		Tick:           func(int64) { w.Refusals() },
		EvictingClient: func(cl *client.Client) { w.Log.Notice("Evicting client: %s", logging.Client(w.Line(cl))) },
		Stuck:          func() { w.Log.Warning("Over client maxmemory after evicting all evictable clients") },
		ManyCodes: func(codes []string) {
			w.Log.Warning("Errorstats stopped adding new errors: clients have got %d different codes. "+
				"Scripts can make them up. CONFIG RESETSTAT begins the count again.", len(codes))
			w.Log.Warning("Current errors code list: %s", strings.Join(codes, ", "))
		}}
}

// attack warns, at most once a minute, that a browser sends HTTP to the server.
func (w *ClientLog) attack() func(*client.Client) {
	last := int64(0)
	return func(cl *client.Client) {
		if now := w.Core.Now(); now-last >= 60_000 {
			last = now
			w.Log.Warning("Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to "+
				"Redis. "+
				"This is likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Redis instance. "+
				"Connection from %s aborted.", cl.Conn.RemoteAddr())
		}
	}
}
