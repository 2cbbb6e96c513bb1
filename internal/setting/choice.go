package setting

import (
	"errors"
	"slices"
	"strings"
)

var errNotYesNo = errors.New("argument must be 'yes' or 'no'")

type boolCodec struct{ v *Bool }

// NewBool returns a row whose value is yes or no.
func NewBool(name string, v *Bool, deflt bool, options ...Option) Row {
	v.Set(deflt)
	return finish(Row{Name: name, codec: &boolCodec{v}}, options)
}

func (c *boolCodec) get() string {
	if c.v.Get() {
		return "yes"
	}
	return "no"
}

func (c *boolCodec) lines() []string { return []string{c.get()} }

func (c *boolCodec) set(args []string, _ How) error {
	switch strings.ToLower(args[0]) {
	case "yes":
		c.v.Set(true)
	case "no":
		c.v.Set(false)
	default:
		return errNotYesNo
	}
	return nil
}

// A Choice is one word of an Enum.
type Choice[T ~int] struct {
	Name  string
	Value T
}

type enumCodec[T ~int] struct {
	load    func() T
	store   func(T)
	choices []Choice[T]
	flags   bool // any number of words; their bits are joined
	check   func(T) error
}

// NewEnum returns a row whose value is one word of choices. If two words have one value, the first is shown.
func NewEnum[T ~int](name string, v *Enum[T], deflt T, choices []Choice[T], options ...Option) Row {
	v.Set(deflt)
	return finish(Row{Name: name, codec: &enumCodec[T]{load: v.Get, store: v.Set, choices: choices}}, options)
}

// NewFlags returns a row whose value is any number of words of choices, as the union of their bits. check, if not nil,
// refuses combinations.
func NewFlags[T ~int](name string, v *Enum[T], deflt T, choices []Choice[T], check func(T) error,
	options ...Option) Row {
	v.Set(deflt)
	return finish(Row{Name: name, Flags: MultiArg, codec: &enumCodec[T]{v.Get, v.Set, choices, true, check}}, options)
}

func (c *enumCodec[T]) set(args []string, _ How) error {
	if len(args) == 0 || !c.flags && len(args) != 1 {
		return c.refuse()
	}
	var value T
	for _, word := range args {
		choice, ok := c.find(word)
		if !ok {
			return c.refuse()
		}
		value |= choice
	}
	if c.check != nil {
		if err := c.check(value); err != nil {
			return err
		}
	}
	c.store(value)
	return nil
}

func (c *enumCodec[T]) find(word string) (T, bool) {
	for _, choice := range c.choices {
		if strings.EqualFold(choice.Name, word) {
			return choice.Value, true
		}
	}
	return 0, false
}

func (c *enumCodec[T]) refuse() error {
	var names []string
	for _, choice := range c.choices {
		names = append(names, choice.Name)
	}
	return errors.New("argument(s) must be one of the following: " + strings.Join(names, ", "))
}

func (c *enumCodec[T]) get() string {
	value := c.load()
	for _, choice := range c.choices {
		if choice.Value == value {
			return choice.Name
		}
	}
	var names []string
	for _, choice := range c.choices {
		if c.flags && choice.Value != 0 && value&choice.Value == choice.Value {
			names = append(names, choice.Name)
			value &^= choice.Value
		}
	}
	if len(names) == 0 || value != 0 {
		return "unknown"
	}
	return strings.Join(names, " ")
}

func (c *enumCodec[T]) lines() []string { return []string{c.get()} }

// A Letter is one character of a NewLetters value, with the bits it sets.
type Letter struct {
	Char byte
	Bits int64
}

type lettersCodec struct {
	v       *Int
	letters []Letter
	refusal error
}

// NewLetters returns a row for a set of bits that is written as letters in any order, such as notify-keyspace-events.
// It shows a letter if all its bits are set and not shown yet, in the order of letters. So a letter for many bits must
// come before letters for single bits. refusal is the error for any other character.
func NewLetters(name string, v *Int, deflt int64, letters []Letter, refusal error, options ...Option) Row {
	v.Set(deflt)
	return finish(Row{Name: name, codec: &lettersCodec{v, letters, refusal}}, options)
}

func (c *lettersCodec) set(args []string, _ How) error {
	var bits int64
	for i := range len(args[0]) {
		at := slices.IndexFunc(c.letters, func(l Letter) bool { return l.Char == args[0][i] })
		if at < 0 {
			return c.refusal
		}
		bits |= c.letters[at].Bits
	}
	c.v.Set(bits)
	return nil
}

func (c *lettersCodec) get() string {
	var text []byte
	left := c.v.Get()
	for _, l := range c.letters {
		if l.Bits != 0 && left&l.Bits == l.Bits {
			text = append(text, l.Char)
			left &^= l.Bits
		}
	}
	return string(text)
}

func (c *lettersCodec) lines() []string { return []string{Quote(c.get())} }
