package command

import (
	"strconv"

	"spindle/engine/client"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// A Context is what a handler sees of the world: one request, whose it is, and the data it works on.
//
// Lifetime: one call. Args and Reply are lent (R2).
type Context struct {
	Client   *client.Client
	Args     [][]byte // Args[0] is the name
	Bulk     *protocol.Bulk
	Reply    *protocol.Reply
	Space    *keyspace.Keyspace
	DB       *keyspace.DB
	Spec     *Spec
	Now      int64 // Unix ms; the same for a whole turn, transaction or script
	Settings *Settings
	Whole    *Whole

	Dirty   int64 // how many changes this call made: propagation and the save rules go by it
	Core    Core
	Effects Effects

	// Named and Lapsed are subkeys of events that the call will publish: those it changes, and those past their
	// deadline (Name, NotifyNamed).
	Named, Lapsed keyspace.Names

	inline Reading // of Inline
}

// Core is what a handler may ask of the core. The core implements it; a fake of these tests a family alone.
type Core interface {
	// Call runs another command as this client's, replies included: EXEC. If lent, the command is not over: the caller
	// has to Lend, too, and its step is called when the command is.
	Call(c *Context, spec *Spec, args [][]byte) (lent bool, err error)
	// Run runs a command for a script: as cl, a Fake with a Script, admitted as if its user had sent it. The reply, an
	// error of the command among them, goes to cl.Out. An error that is returned has refused the command, and nothing
	// was replied.
	Run(cl *client.Client, args [][]byte) error
	// Lend lets others have the turn while c's command is not over, and answers whether it could. The handler returns
	// right after. step is called in slices of about a millisecond, with the same context, until it says that the
	// command is over. Meanwhile only commands run that may while the server is busy.
	Lend(c *Context, step Step) bool
	// GiveWay lets others have the turn for once, where Lend cannot because c is a command of a log that is loaded. It
	// answers whether it did. The handler continues after it.
	GiveWay(c *Context) bool
	// Tardy says that the command under way has lent the turn for longer than busy-reply-threshold.
	Tardy() bool
	// Show has MONITOR show c's command now, before the commands that it runs. Its row has SkipMonitor.
	Show(c *Context)
	// Block parks the client until Ready or Timeout answers for it.
	Block(c *Context, w Wait)
	// CanReadBeside says whether c's client can wait while its command is read beside the turns. It cannot in a
	// transaction or a script, or while views keep too much memory.
	CanReadBeside(c *Context) bool
	// ReadBeside is Context.ReadBeside.
	ReadBeside(c *Context, read func(*Reading) error)
	// ReadsAnyKey says whether the user may make c's call and, by the same rules, read any key beside those it names.
	ReadsAnyKey(c *Context) bool
	// Notifies says whether notify-keyspace-events asks for one of the classes.
	Notifies(classes EventClass) bool
	// Notify publishes a keyspace event if notify-keyspace-events asks for its class.
	Notify(class EventClass, event string, db int, key []byte)
	// NotifySubkeys is Notify of an event about parts of a value: names[0], names[step], names[2*step] …
	NotifySubkeys(class EventClass, event string, db int, key []byte, names [][]byte, step int)
}

// A CountedError is an error reply that was counted already, with a command that the failing one has run. It fails the
// call, and no code is counted again.
type CountedError struct{ Reply *protocol.Error }

// Unwrap gives the reply.
func (e CountedError) Unwrap() error { return e.Reply }

// Error implements error.
func (e CountedError) Error() string { return e.Reply.Error() }

// A Step is the next slice of a command that has lent the turn. A returned error is the command's reply, as a handler's
// is.
type Step func(c *Context) (done bool, err error)

// Wait is what one client blocks on.
type Wait struct {
	Keys       [][]byte
	DeadlineMs int64 // Unix ms; 0 waits forever
	// The type that Keys are to hold; a key that holds another type serves other clients. None: any type.
	Type value.Type
	// Runs in a turn when a key may have become ready; a reply, or an error, which is one, ends the wait.
	Retry func(c *Context) error
	// Returns when Retry is due although no key is ready: Unix ms, not before the present; 0: never. The core asks when
	// the wait begins, and after each Retry that did not reply. It may be nil.
	Again func(c *Context) int64
	// Retry also runs when a stream has left its key, to answer with an error (XREADGROUP).
	Gone    bool
	Timeout func(c *Context) // appends the reply of a wait that ran out
	Left    func()           // runs when the wait is over, however it ended; may be nil
	Busy    bool             // the command is at work, beside the core: the client is not shown as blocked
}

// EventClass is a class of keyspace events, one letter of notify-keyspace-events.
type EventClass uint32

const (
	EventGeneric     EventClass = 1 << iota // g
	EventString                             // $
	EventList                               // l
	EventSet                                // s
	EventHash                               // h
	EventZSet                               // z
	EventStream                             // t
	EventModule                             // d
	EventExpired                            // x
	EventEvicted                            // e
	EventKeyMiss                            // m
	EventNew                                // n
	EventKeyspace                           // K
	EventKeyevent                           // E
	EventOverwritten                        // o
	EventTypeChanged                        // c

	EventSubkeyspace      // S: events of a key, with subkeys: the fields of a hash
	EventSubkeyevent      // T: keys of an event, with subkeys
	EventSubkeyspaceItem  // I: events of a subkey
	EventSubkeyspaceEvent // V: subkeys of an event of a key
)

// EventSubkeys are the classes that ask for subkeys.
const EventSubkeys = EventSubkeyspace | EventSubkeyevent | EventSubkeyspaceItem | EventSubkeyspaceEvent

// Effects is what one call sends to the sinks instead of its arguments.
//
// Its slices are kept from call to call, so that rewriting a command costs no allocation in steady state.
type Effects struct {
	Unheard  bool           // there is no sink: Commands stay empty. The core says so
	To       client.Targets // the sinks that get them; 0: those that get the client's writes
	Replaced bool           // Commands stands for the call (empty: nothing is propagated)
	Commands [][][]byte     // in order; arguments are lent until the call's propagation

	args   [][]byte // what Commands' elements are cut from
	digits []byte   // what Number's and Keep's answers are cut from
}

// digitRoom is how much is set aside for made-up arguments at a time: some fifty numbers.
const digitRoom = 1 << 10

// argsKept is how much room for arguments, or for commands, one call leaves to the next, and is made at a time.
// XREADGROUP of a million entries sends fourteen million arguments.
const argsKept = 4096

// Reset empties e for the next call and keeps its room. The core calls it when it has booked a call's effects.
func (e *Effects) Reset() {
	e.Replaced, e.To = false, 0
	if cap(e.args) > argsKept || cap(e.Commands) > argsKept {
		e.Commands, e.args = nil, nil
	}
	clear(e.Commands)
	e.Commands, e.args, e.digits = e.Commands[:0], e.args[:0], e.digits[:0]
}

// Number writes n in decimal where it holds until the call's propagation: an argument for Propagate.
func (e *Effects) Number(n int64) []byte {
	var text [20]byte
	return e.Keep(strconv.AppendInt(text[:0], n, 10))
}

// Keep copies text to where it holds until the call's propagation: an argument for Propagate that lies on the stack.
func (e *Effects) Keep(text []byte) []byte {
	if cap(e.digits)-len(e.digits) < len(text) {
		e.digits = make([]byte, 0, max(digitRoom, len(text))) // what was cut from the old room keeps it alive
	}
	at := len(e.digits)
	e.digits = append(e.digits, text...)
	return e.digits[at:len(e.digits):len(e.digits)]
}

// Changed says that the call made n changes: the request itself is propagated unless Propagate replaced it.
func (c *Context) Changed(n int) { c.Dirty += int64(n) }

// Propagate sends args in place of the request as the client wrote it, also when the call changed nothing. Several
// calls send several commands, which the core wraps in MULTI and EXEC. The bytes must hold until the handler has
// returned; the slice of them is copied.
func (c *Context) Propagate(args ...[]byte) {
	e := &c.Effects
	if !e.Replaced {
		e.Replaced, e.Commands, e.args = true, e.Commands[:0], e.args[:0]
	}
	if e.Unheard {
		return
	}
	if cap(e.args)-len(e.args) < len(args) { // Commands keep what was cut from the old room alive
		e.args = make([][]byte, 0, max(min(2*cap(e.args), argsKept), len(args), 16))
	}
	at := len(e.args)
	e.args = append(e.args, args...)
	e.Commands = append(e.Commands, e.args[at:len(e.args):len(e.args)])
}

// PropagateNothing keeps the request from the sinks although it changed something.
func (c *Context) PropagateNothing() { c.Effects.Replaced = true }

// Overwritten is the type of the value that the call is about to replace whole. NotifyOverwritten then publishes the
// events. None: there is no value, or nothing asks for these events.
func (c *Context) Overwritten(db *keyspace.DB, key []byte) value.Type {
	if !c.Core.Notifies(EventOverwritten | EventTypeChanged) {
		return value.None
	}
	return db.Peek(key).Type()
}

// NotifyOverwritten publishes that a value of type was has been replaced by one of type is.
func (c *Context) NotifyOverwritten(db *keyspace.DB, key []byte, was, is value.Type) {
	if was == value.None {
		return
	}
	c.Core.Notify(EventOverwritten, "overwritten", db.Index(), key)
	if was != is {
		c.Core.Notify(EventTypeChanged, "type_changed", db.Index(), key)
	}
}

// Overwrites publishes that the call replaces the value at key, if there is one, by one of type t.
func (c *Context) Overwrites(key []byte, t value.Type) {
	c.NotifyOverwritten(c.DB, key, c.Overwritten(c.DB, key), t)
}

// Notify publishes a keyspace event about key in the client's database.
func (c *Context) Notify(class EventClass, event string, key []byte) {
	c.Core.Notify(class, event, c.Client.DB, key)
}

// NotifySubkeys publishes an event about parts of the value at key: names[0], names[step], names[2*step] …
func (c *Context) NotifySubkeys(class EventClass, event string, key []byte, names [][]byte, step int) {
	c.Core.NotifySubkeys(class, event, c.Client.DB, key, names, step)
}

// Name adds a subkey to Named or Lapsed, if notify-keyspace-events asks for subkeys.
func (c *Context) Name(list *keyspace.Names, subkey []byte) {
	if c.Core.Notifies(EventSubkeys) {
		list.Add(subkey)
	}
}

// NameEach adds every step-th of names, as Name does.
func (c *Context) NameEach(list *keyspace.Names, names [][]byte, step int) {
	if c.Core.Notifies(EventSubkeys) {
		for i := 0; i < len(names); i += step {
			list.Add(names[i])
		}
	}
}

// NotifyNamed publishes an event about the subkeys in Named or Lapsed, and empties the list.
func (c *Context) NotifyNamed(class EventClass, event string, key []byte, list *keyspace.Names) {
	c.NotifySubkeys(class, event, key, list.All(), 1)
	list.Reset()
}
