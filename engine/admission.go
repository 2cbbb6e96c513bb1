package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/protocol"
)

// Admission answers one question: may this command run now? Most never come here: with no barrier up, a client that is
// authenticated and in no special state runs its command at once (execute).

// wantsScrutiny are the rows, wantsScrutinyOf the clients, for which the short way is not enough.
const (
	wantsScrutiny   = command.Protected | command.OnlySentinel
	wantsScrutinyOf = client.Multi | client.PubSub | client.Restricted | fedStream
)

// fedStream are the clients that take the stream of effects or of commands: they may not touch keys, because no pause
// holds them back.
const fedStream = client.Replica | client.Monitor

// A verdict is what admission decided.
type verdict uint8

const (
	run       verdict = iota
	refuse            // answered with an error
	queue             // kept for EXEC
	hold              // not now: the client is paused and the request stays unread
	elsewhere         // answered with a redirection
)

// A feature's barriers and the calls that they judge are part's.
type (
	Barrier = part.Barrier
	Call    = part.Call
)

// callOf is cl's call of spec. EXEC does what was queued, and lacks what one of those lacks.
func callOf(cl *client.Client, spec *command.Spec, args [][]byte) Call {
	return Call{Spec: spec, Args: args, Flags: flagsOf(cl, spec, args)}
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

// AddBarrier appends b behind those added before; it is down at first.
func (c *Core) AddBarrier(b *Barrier) { c.barriers = append(c.barriers, b) }

// Raise puts b up or down.
func (c *Core) Raise(b *Barrier, up bool) {
	c.assertHeld()
	if b.Up == up {
		return
	}
	b.Up = up
	if up {
		c.raised++
	} else {
		c.raised--
	}
}

var (
	errNotInMulti = &protocol.Error{Code: "ERR", Text: "Command not allowed inside a transaction"}
	errFedStream  = &protocol.Error{Code: "ERR", Text: "Replica can't interact with the keyspace"}
)

// admit goes through everything that may stand in a request's way, in the reference's order.
func (c *Core) admit(cl *client.Client, spec *command.Spec, args [][]byte) (verdict, error) {
	c.assertHeld()
	if spec.Flags&command.Protected != 0 {
		if err := c.admitProtected(cl, spec); err != nil {
			return refuse, err
		}
	}
	if !cl.Authenticated && spec.Flags&command.NoAuth == 0 && !c.users.DefaultIsOpen() {
		return refuse, protocol.ErrNoAuth
	}
	if cl.Is(client.Multi) && spec.Flags&command.NoMulti != 0 {
		return refuse, errNotInMulti
	}
	if cl.Is(client.Restricted) {
		if err := c.admitRestricted(cl, spec, args); err != nil {
			return refuse, err
		}
	}
	if c.slots != nil {
		if err := c.admitSlots(cl, spec, args); err != nil {
			return elsewhere, err
		}
	}
	call := callOf(cl, spec, args)
	if err := c.obstacle(cl, call); err != nil {
		return refuse, err
	}
	if cl.Is(client.PubSub) && cl.Protocol == 2 && !spec.Has(command.WhileSubscribed) {
		return refuse, protocol.Errorf("ERR",
			"Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
			spec.Full)
	}
	if l := c.lent; l != nil && call.Flags&command.AllowBusy == 0 {
		if l.tardy && !cl.Is(client.Primary) {
			return refuse, l.refusal()
		}
		c.pause.hold(cl)
		return hold, nil
	}
	if cl.Flags&fedStream != 0 && call.Flags&(command.Write|command.ReadOnly|command.MayReplicate) != 0 {
		return refuse, errFedStream
	}
	if c.pause.holds(cl, call.Flags) {
		c.pause.hold(cl)
		return hold, nil
	}
	if cl.Is(client.Multi) && !spec.Has(command.InMulti) {
		return queue, nil
	}
	if !c.pause.on && c.latched(cl, spec, args) { // under a pause nothing of the key changes: it may be read
		c.pause.hold(cl)
		return hold, nil
	}
	return run, nil
}

// obstacle is the first barrier that refuses the call, for a client and for a script alike.
func (c *Core) obstacle(cl *client.Client, call Call) error {
	for _, b := range c.barriers {
		if !b.Up {
			continue
		}
		if err := b.Refuse(cl, call); err != nil {
			return err
		}
	}
	return nil
}

// The refusals of a script's commands. Their texts are the reference's.
var (
	errUnknownInScript = &protocol.Error{Code: "ERR", Text: "Unknown Redis command called from script"}
	errArityInScript   = &protocol.Error{Code: "ERR", Text: "Wrong number of args calling Redis command from script"}
	errNotInScript     = &protocol.Error{Code: "ERR", Text: "This Redis command is not allowed from script"}
	errReadOnlyScript  = &protocol.Error{Code: "ERR", Text: "Write commands are not allowed from read-only scripts."}
)

// admitScript decides about a command of a script: what holds for a client's request holds for it. For memory a script
// is refused only before it has written: half of it would be worse.
func (c *Core) admitScript(cl *client.Client, call Call) error {
	c.assertHeld()
	writes := call.Flags&(command.Write|command.MayReplicate) != 0
	if call.Flags&command.NoScript != 0 && !c.anyInScripts {
		return errNotInScript
	}
	if err := c.admitUserOfScript(cl, call); err != nil {
		return err
	}
	if writes && cl.Script.ReadOnly {
		return errReadOnlyScript
	}
	if c.replaying { // it has been admitted before
		return nil
	}
	for _, b := range c.barriers {
		if !b.Up || b == c.eviction.barrier || b.Spares && cl.Script.Wrote {
			continue
		}
		if err := b.Refuse(cl, call); err != nil {
			return err
		}
	}
	if call.Flags&command.DenyOOM != 0 && c.OutOfMemory() && !cl.Script.Wrote && !cl.Script.AllowOOM {
		return protocol.ErrOutOfMemory
	}
	if c.slots != nil { // a read-only replica says so first
		if err := c.admitSlotsOfScript(cl.Script, call); err != nil {
			return err
		}
	}
	if writes && len(c.latches.keys) != 0 && c.namesLatched(call.Spec, call.Args) {
		return errOnItsWay
	}
	return nil
}

// admitProtected refuses DEBUG and MODULE unless the configuration allows them to this client.
func (c *Core) admitProtected(cl *client.Client, spec *command.Spec) error {
	name, mode := "DEBUG", c.settings.EnableDebugCommand.Get()
	option := "enable-debug-command"
	if spec.Has(command.OfModules) {
		name, mode, option = "MODULE", c.settings.EnableModuleCommand.Get(), "enable-module-command"
	}
	if mode.Allows(protocol.IsLocal(cl.Conn)) {
		return nil
	}
	return protocol.Errorf("ERR",
		"%s command not allowed. If the %s option is set to \"local\", you can run it from a local connection, "+
			"otherwise you need to set this option in the configuration file, and then restart the server.", name, option)
}

// speaksHTTP says whether a request that names no command is the first line of HTTP, or its Host header: a browser was
// led here to have its words taken for commands.
func speaksHTTP(name []byte) bool { return command.Is(name, "POST") || command.Is(name, "HOST:") }

// repel closes the connection of a client that speaks HTTP, without a word.
func (c *Core) repel(cl *client.Client) {
	if c.hooks.Attack != nil {
		c.hooks.Attack(cl)
	}
	c.Kill(cl, false)
}
