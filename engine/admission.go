package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
)

// Admission decides whether a call may run now (gates.go). Most calls skip it: an ordinary client's command runs at
// once while no barrier is up (execute).

// wantsScrutiny are the traits of rows that always need full admission. wantsScrutinyOf are the flags of clients that
// need it.
const (
	wantsScrutiny   = command.Protected | command.OnlySentinel
	wantsScrutinyOf = client.Multi | client.PubSub | client.Restricted | fedStream
)

// fedStream are the flags of clients that receive the stream of effects or of commands. These clients may not touch
// keys, because no pause holds them back.
const fedStream = client.Replica | client.Monitor

// A verdict is what a gate, or admission as a whole, decided.
type verdict uint8

const (
	pass      verdict = iota // a gate lets the next gate decide
	run                      // the call runs, and later gates are not asked
	refuse                   // the reply is an error
	queue                    // kept for EXEC
	hold                     // the request stays unread, or the client continues to wait
	elsewhere                // the reply is a redirection
	skip                     // a log's command is skipped, without a reply
)

// callOf returns cl's call of spec. EXEC's flags follow from the queued commands: it does what one of them does, and
// lacks what one of them lacks.
func callOf(cl *client.Client, spec *command.Spec, args [][]byte) part.Call {
	return part.Call{Spec: spec, Args: args, Flags: flagsOf(cl, spec, args)}
}

// plainCall returns a call that does what its row says.
func plainCall(spec *command.Spec, args [][]byte) part.Call {
	return part.Call{Spec: spec, Args: args, Flags: spec.Flags}
}

func flagsOf(cl *client.Client, spec *command.Spec, args [][]byte) command.Flags {
	if spec.Means != nil {
		return spec.Means(args, spec.Flags)
	}
	if !spec.Has(command.RunsQueue) || cl.Queue == nil {
		return spec.Flags
	}
	const promises = command.Loading | command.Stale // flags that allow
	return spec.Flags&^(command.Flags(cl.Queue.Lacking)&promises) | command.Flags(cl.Queue.Flags)&^promises
}
