package setting

type stringCodec struct {
	v     *String
	check func(string) error
}

// NewString returns a row whose value is any one argument.
func NewString(name string, v *String, deflt string, options ...Option) Row {
	v.Set(deflt)
	return finish(Row{Name: name, codec: &stringCodec{v: v}}, options)
}

// CheckString sets a function that refuses some texts, such as a path instead of a name.
func CheckString(f func(string) error) Option {
	return option(func(r *Row) { r.codec.(*stringCodec).check = f })
}

func (c *stringCodec) get() string     { return c.v.Get() }
func (c *stringCodec) lines() []string { return []string{Quote(c.v.Get())} }
func (c *stringCodec) set(args []string, _ How) error {
	if c.check != nil {
		if err := c.check(args[0]); err != nil {
			return err
		}
	}
	c.v.Set(args[0])
	return nil
}

// A Codec reads and writes values that are more than a word.
type Codec[T any] struct {
	// Parse makes a value of one line's arguments. old is the current value: classes that the arguments do not name
	// keep their values, and a line with FromFileMore may add to it. old is shared and must not be changed.
	Parse func(args []string, old T, how How) (T, error)
	// Format returns the text for CONFIG GET. Parse must turn this text, split at blanks (or whole, without MultiArg),
	// into the same value.
	Format func(T) string
	// Lines returns the lines for the file, without the directive's name. If Lines is nil, the file gets Format's text,
	// quoted if the row takes one argument. If Lines returns none, the directive is removed from the file.
	Lines func(T) []string
}

type valueCodec[T any] struct {
	v *Value[T]
	Codec[T]
	multi bool
}

// NewValue returns a row with its own grammar. It needs the flag MultiArg if it takes more than one argument.
func NewValue[T any](name string, v *Value[T], deflt T, c Codec[T], options ...Option) Row {
	v.Set(deflt)
	codec := &valueCodec[T]{v: v, Codec: c}
	for _, o := range options {
		if flags, ok := o.(Flags); ok && flags&MultiArg != 0 {
			codec.multi = true
		}
	}
	return finish(Row{Name: name, codec: codec}, options)
}

func (c *valueCodec[T]) get() string { return c.Format(c.v.Get()) }

func (c *valueCodec[T]) lines() []string {
	if c.Lines != nil {
		return c.Lines(c.v.Get())
	}
	text := c.get()
	if !c.multi || text == "" {
		text = Quote(text)
	}
	return []string{text}
}

func (c *valueCodec[T]) set(args []string, how How) error {
	v, err := c.Parse(args, c.v.Get(), how)
	if err != nil {
		return err
	}
	c.v.Set(v)
	return nil
}

// A Call is a row whose value is outside this process's memory, such as the working directory.
type Call struct {
	Set   func(args []string, how How) error
	Get   func() string
	Lines func() []string // nil: Get's text, quoted
}

// NewCall returns a row that calls functions.
func NewCall(name string, c Call, options ...Option) Row {
	return finish(Row{Name: name, codec: &callCodec{c}}, options)
}

type callCodec struct{ c Call }

func (c *callCodec) set(args []string, how How) error { return c.c.Set(args, how) }
func (c *callCodec) get() string                      { return c.c.Get() }
func (c *callCodec) lines() []string {
	if c.c.Lines != nil {
		return c.c.Lines()
	}
	return []string{Quote(c.c.Get())}
}
