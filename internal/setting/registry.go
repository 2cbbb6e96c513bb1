package setting

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Registry holds every row of a process under its names.
//
// setting.G1. A name or alias, in any case, leads to one row.
// setting.G2. SetMany stores all of its values or none. After a failure, hooks have run again for the old values. Any
// goroutine may call it. Calls that write take its lock, and hooks run under it.
type Registry struct {
	mu         sync.Mutex
	rows       []*Row          // by name
	byName     map[string]*Row // lower case, with aliases
	names      []string        // keys of byName, in order
	hooks      map[*Row][]*hook
	given      map[*Row]bool // set by the configuration file
	directives []directive
	groups     []group
	followers  []func()
	warn       func(format string, args ...any)
}

// A directive is only allowed in a configuration file, and CONFIG REWRITE writes it.
type directive struct {
	name  string
	lines func() []string
}

// A group is a directive that is repeated per first argument.
type group struct {
	name    string
	aliases map[string]string
	lines   func() []Grouped
}

// NewRegistry joins the rows of all packages. It refuses a name that two rows claim.
func NewRegistry(groups ...[]Row) (*Registry, error) {
	r := &Registry{
		byName: map[string]*Row{}, hooks: map[*Row][]*hook{}, given: map[*Row]bool{}, warn: func(string, ...any) {},
	}
	for _, group := range groups {
		for i := range group {
			if err := r.add(&group[i]); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(r.rows, func(a, b *Row) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(r.names)
	return r, nil
}

func (r *Registry) add(row *Row) error {
	for _, name := range []string{row.Name, row.Alias} {
		if name == "" {
			continue
		}
		if name != strings.ToLower(name) {
			return fmt.Errorf("setting %q is not in lower case", name)
		}
		if r.byName[name] != nil {
			return fmt.Errorf("setting %q is declared twice", name)
		}
		r.byName[name] = row
		r.names = append(r.names, name)
	}
	r.rows = append(r.rows, row)
	return nil
}

// LogWarnings sets the function for problems that do not appear in the reply.
func (r *Registry) LogWarnings(f func(format string, args ...any)) { r.warn = f }

// Rows returns all rows, ordered by name.
func (r *Registry) Rows() []*Row { return r.rows }

// Lookup returns the row with this name or alias, or nil if there is none.
func (r *Registry) Lookup(name string) *Row {
	if row := r.byName[name]; row != nil {
		return row
	}
	return r.byName[strings.ToLower(name)]
}

// OnChange registers f to run once after a CONFIG SET that has changed any of the named rows. It does not run for the
// file's values. An error of f undoes the whole CONFIG SET: every row gets its old value and the hooks run once more.
// Hooks run in the order of their arguments. An unknown name is a bug of this program and panics.
func (r *Registry) OnChange(f func() error, names ...string) {
	h := &hook{run: f}
	for _, name := range names {
		row := r.Lookup(name)
		if row == nil {
			panic("setting: OnChange of unknown " + name)
		}
		r.hooks[row] = append(r.hooks[row], h)
	}
}

// Follow registers f to run once the configuration is read (Loaded), and after each CONFIG SET that changes any of the
// named rows. It is for functions that copy a setting and cannot fail.
func (r *Registry) Follow(f func(), names ...string) {
	r.followers = append(r.followers, f)
	r.OnChange(func() error { f(); return nil }, names...)
}

// Loaded notes that the whole configuration has been read.
func (r *Registry) Loaded() {
	for _, f := range r.followers {
		f()
	}
}

// OnRewrite registers the writer of a directive without a row, such as user. lines returns the arguments of each line.
func (r *Registry) OnRewrite(name string, lines func() []string) {
	r.directives = append(r.directives, directive{name, lines})
}

// A Grouped is a line's arguments, of which the first selects the line to replace. An Optional line is only written if
// the file has it already.
type Grouped struct {
	Text     string
	Optional bool
}

// OnRewriteGroup registers the writer of a directive that is repeated per first argument, such as `sentinel monitor`.
// Each line replaces an old one with the same first argument. aliases maps older words to newer ones.
func (r *Registry) OnRewriteGroup(name string, aliases map[string]string, lines func() []Grouped) {
	r.groups = append(r.groups, group{name, aliases, lines})
}

// A Pair is a name and its value's text.
type Pair struct{ Name, Value string }

// Get runs CONFIG GET. It looks up names directly, and matches patterns against every name that is not Hidden. A name
// appears once, in the spelling of the first pattern that found it. match matches a glob without regard to case.
func (r *Registry) Get(patterns []string, match func(pattern, name string) bool) []Pair {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Pair
	seen := map[string]bool{}
	add := func(name string, row *Row) {
		if key := strings.ToLower(name); !seen[key] {
			seen[key] = true
			found = append(found, Pair{name, row.Get()})
		}
	}
	for _, pattern := range patterns {
		if !strings.ContainsAny(pattern, "[*?") {
			if row := r.Lookup(pattern); row != nil {
				add(pattern, row)
			}
			continue
		}
		for _, name := range r.names {
			if row := r.byName[name]; row.Flags&Hidden == 0 && match(pattern, name) {
				add(name, row)
			}
		}
	}
	return found
}

// ErrLoading is SetMany's error for a row that cannot change while the data set loads; the client gets LOADING.
var ErrLoading = errors.New("loading")

var errImmutable = errors.New("can't set immutable config")

// Conditions are facts about the moment and the client for SetMany.
type Conditions struct {
	Loading   bool // the data set is being loaded
	Protected bool // enable-protected-configs lets this client change Protected rows
}

// SetMany runs CONFIG SET (setting.G2). Errors other than ErrLoading are the reply's text after "ERR ".
func (r *Registry) SetMany(pairs []Pair, now Conditions) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows, err := r.mayChange(pairs, now)
	if err != nil {
		return err
	}
	before := make([]string, len(rows))
	for i, row := range rows {
		before[i] = row.Get()
	}
	var due []dueHook
	for i, row := range rows {
		if err := row.Set(row.split(pairs[i].Value), FromCommand); err != nil {
			r.restore(rows[:i], before)
			return refusal(strings.ToLower(pairs[i].Name), err)
		}
		changed := row.Get() != before[i]
		if changed && row.Flags&Fixed != 0 {
			r.restore(rows[:i+1], before)
			return refusal(pairs[i].Name, errImmutable)
		}
		if !changed && row.Flags&Volatile == 0 {
			continue
		}
		for _, h := range r.hooks[row] {
			if !slices.ContainsFunc(due, func(d dueHook) bool { return d.hook == h }) {
				due = append(due, dueHook{h, strings.ToLower(pairs[i].Name)})
			}
		}
	}
	for i, d := range due {
		if err := d.hook.run(); err != nil {
			r.warn("Failed applying new configuration. Possibly related to new %s setting. Restoring previous settings.", d.name)
			r.restore(rows, before)
			r.again(due[:i+1])
			return refusal(d.name, err)
		}
	}
	return nil
}

// A dueHook is a hook with the name for which it runs.
type dueHook struct {
	hook *hook
	name string
}

// mayChange finds the rows of pairs, or returns the first reason why they cannot change. A row may be named twice, by
// its name and its alias; the later value wins, as clients expect.
func (r *Registry) mayChange(pairs []Pair, now Conditions) ([]*Row, error) {
	rows := make([]*Row, 0, len(pairs))
	for i, p := range pairs {
		row := r.Lookup(p.Name)
		switch {
		case row == nil:
			name, _, _ := strings.Cut(p.Name, "\x00") // Redis prints a C string
			return nil, fmt.Errorf("Unknown option or number of arguments for CONFIG SET - '%s'", name)
		case row.Flags&Immutable != 0:
			return nil, refusal(p.Name, errImmutable)
		case row.Flags&Protected != 0 && !now.Protected:
			return nil, refusal(p.Name, errors.New("can't set protected config"))
		case row.Flags&DenyLoading != 0 && now.Loading:
			return nil, ErrLoading
		case slices.ContainsFunc(pairs[:i], func(q Pair) bool { return strings.EqualFold(q.Name, p.Name) }):
			return nil, refusal(p.Name, errors.New("duplicate parameter"))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func refusal(name string, err error) error {
	return fmt.Errorf("CONFIG SET failed (possibly related to argument '%s') - %w", name, err)
}

// split splits a CONFIG SET value, or Get's text, into arguments at each blank, for rows that take several.
func (r *Row) split(value string) []string {
	if r.Flags&MultiArg == 0 {
		return []string{value}
	}
	if value == "" {
		return nil
	}
	return strings.Split(value, " ")
}

// restore gives rows their old values.
func (r *Registry) restore(rows []*Row, before []string) {
	for i, row := range rows {
		if err := row.Set(row.split(before[i]), FromCommand); err != nil {
			r.warn("Failed restoring failed CONFIG SET command. Error setting %s to '%s': %s", row.Name, before[i], err)
		}
	}
}

// again runs hooks for restored values.
func (r *Registry) again(due []dueHook) {
	for _, d := range due {
		if err := d.hook.run(); err != nil {
			r.warn("Failed applying restored failed CONFIG SET command: %s", err)
		}
	}
}

// Load gives a row the arguments of one line of the configuration. No hook runs. known is false if there is no such
// row.
func (r *Registry) Load(name string, args []string) (known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.Lookup(name)
	if row == nil {
		return false, nil
	}
	if row.Flags&MultiArg != 0 && len(args) == 1 && args[0] != "" {
		// One argument may hold several: --save "900 1".
		if args, err = SplitArgs(args[0]); err != nil {
			return true, err
		}
	}
	how := FromFile
	if r.given[row] {
		how = FromFileMore
	}
	if err := row.Set(args, how); err != nil {
		return true, err
	}
	r.given[row] = true
	return true, nil
}

// Idle returns the names of rows without an effect whose value the configuration has changed from the default.
func (r *Registry) Idle() []string {
	var names []string
	for _, row := range r.rows {
		if r.given[row] && row.Flags&NoEffect != 0 && !row.IsDefault() {
			names = append(names, row.Name)
		}
	}
	return names
}
