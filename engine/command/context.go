package command

import (
	"strconv"

	"spindle/engine/client"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// A Context is what a handler gets: one request, its client, and the data it works on.
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

	Dirty   int64 // number of changes that this call made, for propagation and the save rules
	Core    Core
	Effects Effects

	// Named and Lapsed are subkeys of events that the call will publish: the subkeys that it changes, and those past
	// their deadline (Name, NotifyNamed).
	Named, Lapsed keyspace.Names

	inline Reading // of Inline
}

// Core is what a handler may call of the core. The core implements it. Tests of one family use a fake.
type Core interface {
	// Call runs another command for c's client and appends its reply to the client's replies. EXEC uses it. If lent is
	// true, that command has lent the turn and has not ended. The caller must then call Lend itself; its step runs once
	// that command has ended.
	Call(c *Context, spec *Spec, args [][]byte) (lent bool, err error)
	// Run runs a command for a script. cl is a Fake with a Script, and the command is admitted as if cl's user had sent
	// it. The reply goes to cl.Out, even if it is an error of the command. If Run returns an error, the command was
	// refused, and nothing was replied.
	Run(cl *client.Client, args [][]byte) error
	// Lend gives the turn to others while c's command has not ended. It returns whether it could. If so, the handler
	// must return at once. The core then calls step in slices of about a millisecond, with the same context, until step
	// returns that the command has ended. Between slices only commands run that are allowed while the server is busy.
	Lend(c *Context, step Step) bool
	// GiveWay gives the turn to others once. It is for a command of a log that is being loaded, which cannot Lend. It
	// returns whether it did. The handler continues after it.
	GiveWay(c *Context) bool
	// Tardy reports whether the running command has lent the turn for longer than busy-reply-threshold.
	Tardy() bool
	// Show sends c's command to MONITOR now, before the commands that it runs. Its row has SkipMonitor.
	Show(c *Context)
	// Block parks the client until w.Retry or w.Timeout replies.
	Block(c *Context, w Wait)
	// CanReadBeside reports whether c's client can wait while its command reads outside the turn. It cannot in a
	// transaction or a script, or while views keep too much memory.
	CanReadBeside(c *Context) bool
	// ReadBeside does the work of Context.ReadBeside.
	ReadBeside(c *Context, read func(*Reading) error)
	// ReadsAnyKey reports whether the user may make c's call and, by the same rules, also read keys that the call does
	// not name.
	ReadsAnyKey(c *Context) bool
	// Notifies reports whether notify-keyspace-events enables one of the classes.
	Notifies(classes EventClass) bool
	// Notify publishes a keyspace event if notify-keyspace-events enables its class.
	Notify(class EventClass, event string, db int, key []byte)
	// NotifySubkeys is Notify for an event about parts of a value: names[0], names[step], names[2*step] and so on.
	NotifySubkeys(class EventClass, event string, db int, key []byte, names [][]byte, step int)
}

// A CountedError is an error reply that was already counted for a command that the failing command has run. It fails
// the call, but its code is not counted again.
type CountedError struct{ Reply *protocol.Error }

// Unwrap returns the reply.
func (e CountedError) Unwrap() error { return e.Reply }

// Error implements error.
func (e CountedError) Error() string { return e.Reply.Error() }

// A Step runs the next slice of a command that has lent the turn. Like a handler, it may return an error as the
// command's reply.
type Step func(c *Context) (done bool, err error)

// Wait says what one client waits for.
type Wait struct {
	Keys       [][]byte
	DeadlineMs int64 // Unix ms; 0 waits forever
	// Type is the type of value that serves the client. A key that holds another type serves other clients. None means
	// any type.
	Type value.Type
	// Retry runs in a turn when a key may have become ready. If it replies, or returns an error, the wait ends.
	Retry func(c *Context) error
	// Again returns the time at which Retry runs even if no key is ready, in Unix ms and not in the past. 0 means
	// never. The core calls Again when the wait begins, and after each Retry that did not reply. Again may be nil.
	Again func(c *Context) int64
	// If Gone is true, Retry also runs when a stream has left its key, to reply with an error (XREADGROUP).
	Gone    bool
	Timeout func(c *Context) // appends the reply of a wait that ran out
	Left    func()           // runs when the wait has ended for any reason; may be nil
	Busy    bool             // the command works outside the turn: the client is not shown as blocked
}

// EventClass is a class of keyspace events, named by one letter of notify-keyspace-events.
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

// EventSubkeys are the classes of events that name subkeys.
const EventSubkeys = EventSubkeyspace | EventSubkeyevent | EventSubkeyspaceItem | EventSubkeyspaceEvent

// Effects is what one call sends to the sinks instead of its arguments.
//
// Its slices are reused by the next call, so rewriting a command costs no allocation in steady state.
type Effects struct {
	Unheard  bool           // set by the core if there is no sink: Commands then stay empty
	To       client.Targets // the sinks that get them; 0 means those that get the client's writes
	Replaced bool           // Commands stands for the call (empty: nothing is propagated)
	Commands [][][]byte     // in order; arguments are lent until the call's propagation

	args   [][]byte // what Commands' elements are cut from
	digits []byte   // what the results of Number and Keep are cut from
}

// digitRoom is how many bytes are allocated at a time for made-up arguments: enough for some fifty numbers.
const digitRoom = 1 << 10

// argsKept is the number of arguments or commands for which room is allocated at a time. A call keeps that much room
// for the next call. XREADGROUP of a million entries sends fourteen million arguments.
const argsKept = 4096

// Reset empties e for the next call and keeps its room. The core calls it when it has sent a call's effects.
func (e *Effects) Reset() {
	e.Replaced, e.To = false, 0
	if cap(e.args) > argsKept || cap(e.Commands) > argsKept {
		e.Commands, e.args = nil, nil
	}
	clear(e.Commands)
	e.Commands, e.args, e.digits = e.Commands[:0], e.args[:0], e.digits[:0]
}

// Number returns n in decimal, as an argument for Propagate. Lifetime: until the call is propagated.
func (e *Effects) Number(n int64) []byte {
	var text [20]byte
	return e.Keep(strconv.AppendInt(text[:0], n, 10))
}

// Keep returns a copy of text, as an argument for Propagate. Lifetime: until the call is propagated. It is for text
// that is on the stack.
func (e *Effects) Keep(text []byte) []byte {
	if cap(e.digits)-len(e.digits) < len(text) {
		e.digits = make([]byte, 0, max(digitRoom, len(text))) // what was cut from the old room keeps it alive
	}
	at := len(e.digits)
	e.digits = append(e.digits, text...)
	return e.digits[at:len(e.digits):len(e.digits)]
}

// Changed reports that the call made n changes. The request is then propagated as it is, unless Propagate replaced it.
func (c *Context) Changed(n int) { c.Dirty += int64(n) }

// Propagate sends args to the sinks in place of the client's request, even if the call changed nothing. Several calls
// send several commands, which the core wraps in MULTI and EXEC. The bytes must stay unchanged until the handler has
// returned. The slice of arguments is copied.
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

// PropagateNothing sends nothing to the sinks although the call changed something.
func (c *Context) PropagateNothing() { c.Effects.Replaced = true }

// Overwritten returns the type of the value that the call is about to replace whole. NotifyOverwritten then publishes
// the events. It returns None if there is no value, or if none of these events is enabled.
func (c *Context) Overwritten(db *keyspace.DB, key []byte) value.Type {
	if !c.Core.Notifies(EventOverwritten | EventTypeChanged) {
		return value.None
	}
	return db.Peek(key).Type()
}

// NotifyOverwritten publishes that a value of type was has been replaced by a value of type is.
func (c *Context) NotifyOverwritten(db *keyspace.DB, key []byte, was, is value.Type) {
	if was == value.None {
		return
	}
	c.Core.Notify(EventOverwritten, "overwritten", db.Index(), key)
	if was != is {
		c.Core.Notify(EventTypeChanged, "type_changed", db.Index(), key)
	}
}

// Overwrites publishes that the call replaces the value at key, if there is one, by a value of type t.
func (c *Context) Overwrites(key []byte, t value.Type) {
	c.NotifyOverwritten(c.DB, key, c.Overwritten(c.DB, key), t)
}

// Notify publishes a keyspace event about key in the client's database.
func (c *Context) Notify(class EventClass, event string, key []byte) {
	c.Core.Notify(class, event, c.Client.DB, key)
}

// NotifySubkeys publishes an event about parts of the value at key: names[0], names[step], names[2*step] and so on.
func (c *Context) NotifySubkeys(class EventClass, event string, key []byte, names [][]byte, step int) {
	c.Core.NotifySubkeys(class, event, c.Client.DB, key, names, step)
}

// Name adds a subkey to list, which is Named or Lapsed, if notify-keyspace-events asks for subkeys.
func (c *Context) Name(list *keyspace.Names, subkey []byte) {
	if c.Core.Notifies(EventSubkeys) {
		list.Add(subkey)
	}
}

// NameEach adds every step-th of names to list, as Name does.
func (c *Context) NameEach(list *keyspace.Names, names [][]byte, step int) {
	if c.Core.Notifies(EventSubkeys) {
		for i := 0; i < len(names); i += step {
			list.Add(names[i])
		}
	}
}

// NotifyNamed publishes an event about the subkeys in list, which is Named or Lapsed, and empties the list.
func (c *Context) NotifyNamed(class EventClass, event string, key []byte, list *keyspace.Names) {
	c.NotifySubkeys(class, event, key, list.All(), 1)
	list.Reset()
}
