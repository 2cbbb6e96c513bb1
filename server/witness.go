package server

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

// A witness writes down what clients do: in ACL LOG, and in the log of the server. It works inside turns.
type witness struct {
	core    *engine.Core
	hub     *pubsub.Hub
	log     *logging.Logger
	refused acl.Log
	book    func() // adds the refusals of the admin lane to refused
}

// line is a client as log lines show it.
func (w *witness) line(cl *client.Client) string {
	return strings.TrimSuffix(string(conn.AppendLine(nil, cl, w.core.Now(), w.hub.Count)), "\n")
}

// lineNow is line for a loop. It takes a turn.
func (w *witness) lineNow(session any) (line string) {
	w.core.Do(func() { line = w.line(session.(*client.Client)) })
	return line
}

// refusals are ACL LOG and its counts.
func (w *witness) refusals() *acl.Log {
	w.book()
	return &w.refused
}

// denied books a refusal, of cl's or of a script that cl called.
func (w *witness) denied(cl *client.Client, e acl.Entry) {
	log := w.refusals()
	if log.Keeps() {
		e.Client = w.line(cl)
	}
	log.Add(e, w.core.Now())
}

// listeners are the events that the log of the server tells.
func (w *witness) listeners() part.Listeners {
	return part.Listeners{Order: part.Later, Attack: w.attack(),
		EvictingClient: func(cl *client.Client) { w.log.Notice("Evicting client: %s", w.line(cl)) },
		Stuck:          func() { w.log.Warning("Over client maxmemory after evicting all evictable clients") },
		ManyCodes: func(codes []string) {
			w.log.Warning("Errorstats stopped adding new errors: clients have got %d different codes. "+
				"Scripts can make them up. CONFIG RESETSTAT counts anew.", len(codes))
			w.log.Warning("Current errors code list: %s", strings.Join(codes, ", "))
		}}
}

// attack says, at most once a minute, that a browser was led here.
func (w *witness) attack() func(*client.Client) {
	last := int64(0)
	return func(cl *client.Client) {
		if now := w.core.Now(); now-last >= 60_000 {
			last = now
			w.log.Warning("Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to "+
				"Redis. "+
				"This is likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Redis instance. "+
				"Connection from %s aborted.", cl.Conn.RemoteAddr())
		}
	}
}
