package setting

import "errors"

// A Row is one directive: its name, its valid values, and the place of its value.
//
// setting.R1. Set with Get's text leaves the value unchanged. CONFIG SET's rollback relies on this.
// setting.R2. Set either stores the whole new value or returns an error and stores nothing.
// setting.R3. A new row holds its default.
type Row struct {
	Name  string
	Alias string // an older name; CONFIG GET shows both, the file may use either
	Flags Flags

	codec   codec
	deflt   string   // Get's text of the default
	atStart []string // the default's lines, for an Apart row
	missing string   // why it has no effect (NoEffect)
	given   *Bool    // set when the configuration sets the row (Chosen); nil: not needed
}

// A codec converts a kind of row between text and value.
type codec interface {
	set(args []string, how How) error
	get() string
	// lines returns the arguments of each line that states the value in a file. No lines remove the directive.
	lines() []string
}

// How is the source of a new value.
type How uint8

const (
	FromCommand  How = iota // CONFIG SET, which replaces the value
	FromFile                // the first line of this name in the configuration
	FromFileMore            // a later line, which adds to the earlier ones (such as save rules)
)

// Flags restrict the use of a row.
type Flags uint16

const (
	Immutable Flags = 1 << iota // only the file and the command line can set it
	// Fixed is like Immutable, but CONFIG SET with the current value is not an error. It is for settings that Redis
	// does not have.
	Fixed
	Sensitive   // CONFIG SET's value is kept out of the slow log and MONITOR
	Hidden      // CONFIG GET shows it only by its whole name
	Protected   // CONFIG SET needs enable-protected-configs
	DenyLoading // CONFIG SET replies LOADING while the data set loads
	MultiArg    // takes several arguments on its line
	// Volatile makes CONFIG SET apply the value even when the text is the same, because the named file may have
	// changed.
	Volatile
	NoEffect   // accepted, but has no effect in this version; start-up logs it
	AlwaysFile // REWRITE writes it even when it is the default
	KeepEmpty  // REWRITE keeps a line with an empty value that is the default
	Apart      // its lines are independent: REWRITE appends none that equals a default line
	Chosen     // while no line sets it, the server chooses itself; the page of settings has its default after a #
)

// Mutable marks a row that CONFIG SET changes at once. It is the default. It is written out where a reader might
// wonder.
const Mutable Flags = 0

// An Option refines a row: a flag, or one of Between, Also, Adjust, Clamp, Nothing.
type Option interface{ refine(*Row) }

func (f Flags) refine(r *Row) { r.Flags |= f }

type option func(*Row)

func (o option) refine(r *Row) { o(r) }

// Also gives the row its older name.
func Also(alias string) Option { return option(func(r *Row) { r.Alias = alias }) }

// A hook is identified by its address, so that one hook over several rows runs once.
type hook struct{ run func() error }

// Nothing marks a row that is accepted and has no effect yet; why tells the operator what is missing.
func Nothing(why string) Option {
	return option(func(r *Row) { r.Flags |= NoEffect; r.missing = why })
}

// ChosenUnless marks a row as Chosen. given becomes true when the configuration sets the row, even to the default.
func ChosenUnless(given *Bool) Option {
	return option(func(r *Row) { r.Flags |= Chosen; r.given = given })
}

// finish refines the row and records its default. Every constructor ends here.
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

// Get returns the value as CONFIG GET shows it.
func (r *Row) Get() string { return r.codec.get() }

// Default returns the value at start, as CONFIG GET would show it.
func (r *Row) Default() string { return r.deflt }

// Why returns why a NoEffect row has no effect.
func (r *Row) Why() string { return r.missing }

// IsDefault reports whether REWRITE may leave the row out.
func (r *Row) IsDefault() bool { return r.codec.get() == r.deflt }

// ErrArguments is the error for too few or too many arguments.
var ErrArguments = errors.New("wrong number of arguments")

// Set parses args and stores the value (setting.R2). It runs no hook.
func (r *Row) Set(args []string, how How) error {
	if r.Flags&MultiArg == 0 && len(args) != 1 {
		return ErrArguments
	}
	err := r.codec.set(args, how)
	if err == nil && r.given != nil && how != FromCommand {
		r.given.Set(true)
	}
	return err
}
