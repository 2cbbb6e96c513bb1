package setting

import "errors"

// A Row is one directive: how it is called, what it accepts, and where its value lies.
//
// setting.R1. A row's text (Get) given back to Set leaves the value as it was. CONFIG SET's rollback goes by it.
// setting.R2. Set either stores the whole new value or returns an error and stores nothing.
// setting.R3. A row holds its default from the moment it is made.
type Row struct {
	Name  string
	Alias string // an older name; CONFIG GET shows both, the file may use either
	Flags Flags

	codec   codec
	deflt   string   // Get's text of the default
	atStart []string // the default's lines, of a row that is Apart
	missing string   // why NoEffect has no effect
}

// A codec is what a kind of row knows: text to value and back.
type codec interface {
	set(args []string, how How) error
	get() string
	// lines are the arguments of each line that states the value in a file; none at all removes the directive.
	lines() []string
}

// How says where a new value comes from.
type How uint8

const (
	FromCommand  How = iota // CONFIG SET, which replaces the value
	FromFile                // the first line of this name in the configuration
	FromFileMore            // a later line: save rules and their kin add to what the earlier ones said
)

// Flags say what may be done with a row, and by whom.
type Flags uint16

const (
	Immutable Flags = 1 << iota // only the file and the command line can set it
	// The same, but CONFIG SET of the value it has is no error: for settings that Redis does not have.
	Fixed
	Sensitive   // CONFIG SET's value is kept out of the slow log and MONITOR
	Hidden      // CONFIG GET shows it by its whole name only
	Protected   // CONFIG SET needs enable-protected-configs
	DenyLoading // CONFIG SET answers LOADING while the data set loads
	MultiArg    // takes several arguments on its line
	// CONFIG SET applies it even when the text is the same: files that changed under their name.
	Volatile
	NoEffect   // accepted; does nothing in this version, and start-up says so
	AlwaysFile // REWRITE writes it even when it is the default
	KeepEmpty  // REWRITE keeps a line whose value is empty, as is the default
	Apart      // its lines stand each for itself: REWRITE appends none that says what the default does
)

// Mutable is a row that CONFIG SET changes at once: the default, and its name where a reader might wonder.
const Mutable Flags = 0

// An Option refines a row: a flag, or one of Between, Also, Adjust, Clamp, Nothing.
type Option interface{ refine(*Row) }

func (f Flags) refine(r *Row) { r.Flags |= f }

type option func(*Row)

func (o option) refine(r *Row) { o(r) }

// Also gives the row its older name.
func Also(alias string) Option { return option(func(r *Row) { r.Alias = alias }) }

// A hook is compared by address, so that one hook over several rows runs once.
type hook struct{ run func() error }

// Nothing marks a row that is accepted and does nothing yet; why says what it would need, for the operator.
func Nothing(why string) Option {
	return option(func(r *Row) { r.Flags |= NoEffect; r.missing = why })
}

// finish refines the row and notes its default: every constructor ends here.
func finish(r Row, options []Option) Row {
	for _, o := range options {
		o.refine(&r)
	}
	r.deflt = r.codec.get()
	if r.Flags&Apart != 0 {
		r.atStart = r.codec.lines()
	}
	return r
}

// Get is the value as CONFIG GET shows it.
func (r *Row) Get() string { return r.codec.get() }

// Default is the value at start, as CONFIG GET would show it.
func (r *Row) Default() string { return r.deflt }

// Why says what a NoEffect row waits for.
func (r *Row) Why() string { return r.missing }

// IsDefault says that REWRITE may leave the row out.
func (r *Row) IsDefault() bool { return r.codec.get() == r.deflt }

// ErrArguments is the answer to too few or too many arguments.
var ErrArguments = errors.New("wrong number of arguments")

// Set parses args and stores the value (setting.R2). It runs no hook.
func (r *Row) Set(args []string, how How) error {
	if r.Flags&MultiArg == 0 && len(args) != 1 {
		return ErrArguments
	}
	return r.codec.set(args, how)
}
