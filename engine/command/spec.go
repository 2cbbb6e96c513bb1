// Package command defines the terms of the command set: rows, flags, key specs, the context a handler runs in.
//
// Owner: rows are immutable after start, except Stats, which the core writes.
// Never: runs a command (the core does), or imports a family.
// Start here; context.go is what a handler sees, catalogue.go finds rows by name.
package command

import "slices"

// A Handler runs one command. If it returns an error, the error is the reply, and the core drops what the handler has
// appended to the reply.
type Handler func(*Context) error

// A Spec is one row of the command table.
type Spec struct {
	Name     string // lower case
	Arity    int    // counts the name (and the subcommand's); negative means "at least"
	Flags    Flags
	Traits   Traits
	ACL      ACL       // categories beyond those that Flags imply
	Apart    bool      // a subcommand that is not in its family's category
	Keys     []KeySpec // none for a command without keys
	Channels Channels  // which arguments are names of channels; 0 if none
	Tips     []string  // COMMAND INFO's tips
	Reads    Reads     // how much of its keys the command reads
	Run      Handler   // nil for a container whose Subs do the work
	Subs     []Spec    // subcommands: Name is the word alone ("list" of "client|list")

	// Means returns the flags of a call with these arguments. For example, a script's own flags decide what EVAL may
	// do. If Means is nil, the row's flags apply.
	Means func(args [][]byte, flags Flags) Flags

	// GetKeys appends the positions of a call's keys. It is for rows whose Keys cannot describe them: which option
	// counts, or how a key is used. It reads the arguments exactly as the handler does.
	GetKeys func(into []KeyPosition, args [][]byte) ([]KeyPosition, error)

	// Databases appends the positions of the arguments that name databases. It reads the arguments as the handler does.
	// The handler refuses the call if one of them is no database. If Databases is nil, calls name none.
	Databases func(into []int, args [][]byte) []int

	Parent *Spec   // set by the catalogue
	Full   string  // "client|list"; set by the catalogue
	Family string  // "string"; set by the catalogue
	ID     int     // dense, set by the catalogue: ACL bit, statistics
	legacy KeySpec // COMMAND INFO's first, last and step; set by the catalogue
	subs   index   // Subs by name; set by the catalogue
	Stats  Stats
}

// Flags are the flags that COMMAND INFO shows, and that admission and propagation use.
type Flags uint64

const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	PubSub
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	MayReplicate
	NoAsyncLoading
	NoMulti
	MovableKeys
	AllowBusy
	NoMandatoryKeys
	Protected
	TouchesArbitraryKeys
	Sentinel     // also in sentinel mode
	OnlySentinel // only in sentinel mode
	Module       // of a module, whose name is the row's Family
	// Brief is no flag of COMMAND INFO. The command's work is bounded by its own arguments, as with Fast, but Redis
	// does not call the command fast (SET). The core times a run of such commands together.
	Brief
)

// Traits are further flags of a command, which only this server uses. COMMAND INFO does not show them.
type Traits uint32

const (
	RunsQueue       Traits = 1 << iota // EXEC: it stands for the commands that MULTI has queued
	InMulti                            // runs inside MULTI; other commands are queued
	LeavesMulti                        // takes no memory inside MULTI, because it ends the transaction
	WhileSubscribed                    // a RESP2 client with subscriptions may run it
	KeepsAsking                        // ASKING: it is for the command that follows
	KeepsCaching                       // CLIENT …: CLIENT CACHING is for the command that follows
	AllKeys                            // SWAPDB: in effect it names every key
	MovesKeys                          // MIGRATE: the slot of its keys may be on its way to another node
	Probes                             // PING: clients use it to learn whether the server is well
	OfModules                          // MODULE …: enable-module-command is for it, enable-debug-command for others
	InLogs                             // a log may hold it, although it changes no data
	ResetsDB                           // RESET: in a log it chooses database 0
	Scripts                            // it runs or keeps scripts
	RunsText                           // EVAL: its first argument is the text of a script
	RunsFunction                       // FCALL
	Selects                            // SELECT: the client goes to the database that the call names
	AllDatabases                       // FLUSHALL: it is about every database
	Empties                            // FLUSHALL, FLUSHDB: it removes the keys of all slots
)

// NamedDatabases returns the databases that a call names, if there are n databases. It overwrites into.
func (s *Spec) NamedDatabases(into []int, args [][]byte, n int) []int {
	if s.Databases == nil {
		return into[:0]
	}
	into = s.Databases(into[:0], args)
	for i, at := range into {
		into[i] = Database(args[at], n)
	}
	return slices.DeleteFunc(into, func(db int) bool { return db < 0 })
}

// Database returns the number in arg if it is one of n databases, and -1 otherwise.
func Database(arg []byte, n int) int {
	db, err := Int32(arg)
	if err != nil || db < 0 || db >= n {
		return -1
	}
	return db
}

// DatabaseAt returns a Databases function for rows whose arguments at these places name databases.
func DatabaseAt(places ...int) func(into []int, args [][]byte) []int {
	return func(into []int, _ [][]byte) []int { return append(into, places...) }
}

// InDatabase reports whether calls use keys of the client's database. If so, ACL rules for databases apply to that
// database. SWAPDB and similar commands use only the databases that they name.
func (s *Spec) InDatabase() bool {
	return s.HasKeys(0) || s.ACL&(ACLKeyspace|ACLRead|ACLWrite) != 0 && s.Databases == nil
}

// Mark gives traits to rows and their subcommands.
func Mark(rows []Spec, t Traits) []Spec {
	for i := range rows {
		rows[i].Traits |= t
		Mark(rows[i].Subs, t)
	}
	return rows
}

// Has reports whether the row has one of the traits. A nil row has none.
func (s *Spec) Has(t Traits) bool { return s != nil && s.Traits&t != 0 }

// ACL are the categories of ACL CAT.
type ACL uint64

const (
	ACLKeyspace ACL = 1 << iota
	ACLRead
	ACLWrite
	ACLSet
	ACLSortedSet
	ACLList
	ACLHash
	ACLString
	ACLBitmap
	ACLHyperLogLog
	ACLGeo
	ACLStream
	ACLPubSub
	ACLAdmin
	ACLFast
	ACLSlow
	ACLBlocking
	ACLDangerous
	ACLConnection
	ACLTransaction
	ACLScripting
)

// Channels says to which arguments ACL rules for channels apply. Unsubscribing from a channel needs no permission.
type Channels uint8

const (
	PublishesTo          Channels = 1 + iota // the first argument is the channel
	SubscribesTo                             // every argument is a channel
	SubscribesToPatterns                     // every argument is a pattern of channels
)

// A KeySpec describes the positions of keys among the arguments, as COMMAND INFO's key specifications do.
type KeySpec struct {
	Flags KeyFlags
	Notes string
	// The search begins at Index, or after Keyword. The search for Keyword begins at KeywordFrom; a negative
	// KeywordFrom counts from the end. If neither applies, Unknown is true.
	Index       int
	Keyword     string
	KeywordFrom int
	Unknown     bool
	// The keys are a range, or as many keys as a count says.
	LastKey, Step, Limit  int
	KeyNum                bool
	KeyNumIndex, FirstKey int
	KeyStep               int
}

// KeyFlags are a key spec's flags.
type KeyFlags uint16

const (
	KeyRO KeyFlags = 1 << iota
	KeyRW
	KeyOW
	KeyRM
	KeyAccess
	KeyUpdate
	KeyInsert
	KeyDelete
	KeyNotKey
	KeyIncomplete
	KeyVariableFlags
)

// A KeyPosition is one key among the arguments.
type KeyPosition struct {
	Index int
	Flags KeyFlags
}

// FirstArg returns the key spec of most commands: the first argument is the only key.
func FirstArg(f KeyFlags) []KeySpec { return []KeySpec{{Flags: f, Index: 1, LastKey: 0, Step: 1}} }

// EachArg returns the key spec of commands whose keys are every step-th argument, from the first to the last.
func EachArg(step int, f KeyFlags) []KeySpec {
	return []KeySpec{{Flags: f, Index: 1, LastKey: -1, Step: step}}
}

// A Family is a list of rows that belong together; engine/catalogue lists the families.
type Family struct {
	Name string // COMMAND DOCS' group: "string", "generic", "connection"
	ACL  ACL    // given to every row
	Rows []Spec
}
