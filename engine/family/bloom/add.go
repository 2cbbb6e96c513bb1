package bloom

import (
	"errors"
	"fmt"
	"strings"

	"spindle/engine/command"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
	"spindle/internal/ascii"
	"spindle/internal/number"
)

// Defaults are the parameters of a filter that a call does not set. The zero value has RedisBloom's defaults. They are
// set before the first turn and read inside turns.
type Defaults struct {
	errorRate float64 // 0 means 0.01
	capacity  uint64  // 0 means 100
}

// growth is the default capacity of a key's next filter, as a multiple of the capacity of its last filter.
const growth = 2

// Parse reads the arguments of the loadmodule line that names the module: ERROR_RATE rate, INITIAL_SIZE n.
//
// Errors: the module's own texts. It refuses CF_MAX_EXPANSIONS, because this server has no cuckoo filters.
func (d *Defaults) Parse(args []string) error {
	if len(args)%2 != 0 {
		return errors.New("Invalid number of arguments passed")
	}
	for i := 0; i < len(args); i += 2 {
		name, text := strings.ToUpper(args[i]), []byte(args[i+1])
		switch name {
		case "INITIAL_SIZE":
			n, ok := number.ParseInt(text)
			if !ok {
				return errors.New("Invalid argument for 'INITIAL_SIZE'")
			}
			if n <= 0 {
				return errors.New("INITIAL_SIZE must be > 0")
			}
			d.capacity = uint64(n)
		case "ERROR_RATE":
			rate, ok := number.ParseDouble(text)
			if !ok {
				return errors.New("Invalid argument for 'ERROR_RATE'")
			}
			if rate <= 0 {
				return errors.New("ERROR_RATE must be > 0")
			}
			if rate >= 1 {
				return errors.New("ERROR_RATE must be < 1")
			}
			d.errorRate = rate
		default:
			return fmt.Errorf("Unrecognized option '%s'", args[i])
		}
	}
	return nil
}

func (d *Defaults) params() bloom.Params {
	p := bloom.Params{Error: 0.01, Capacity: 100, Growth: growth}
	if d.errorRate != 0 {
		p.Error = d.errorRate
	}
	if d.capacity != 0 {
		p.Capacity = d.capacity
	}
	return p
}

// reserve is BF.RESERVE key error_rate capacity [EXPANSION expansion] [NONSCALING]. Replies: OK. It ignores unknown
// words, as the module does. Errors: ErrWrongType, errExists, and one for each argument.
func reserve(c *command.Context) error {
	if len(c.Args) > 7 {
		return command.ErrArity(c.Spec)
	}
	p := bloom.Params{Growth: growth}
	var ok bool
	if p.Error, ok = number.ParseDouble(c.Args[2]); !ok {
		return errRate
	}
	if p.Error >= 1 || p.Error <= 0 {
		return errRateRange
	}
	capacity, ok := number.ParseInt(c.Args[3])
	if !ok {
		return errCapacity
	}
	if capacity <= 0 {
		return errCapacityRange
	}
	p.Capacity = uint64(capacity)
	options := c.Args[4:]
	p.Fixed = find(options, "NONSCALING") >= 0
	if i := find(options, "EXPANSION"); i >= 0 {
		if i+1 == len(options) {
			return errNoGrowth
		}
		if p.Fixed {
			return errFixedGrowth
		}
		growth, ok := number.ParseInt(options[i+1])
		if !ok {
			return errGrowth
		}
		if growth < 1 {
			return errGrowthRange
		}
		p.Growth = uint32(growth)
	}
	e, err := edit(c, c.Args[1])
	if err != nil {
		return err
	}
	if e != nil {
		return errExists
	}
	b := bound(c, 0)
	if _, err := create(c, c.Args[1], p, &b); err != nil {
		return err
	}
	propagated(c, c.Args[1])
	c.Reply.OK()
	return nil
}

// find returns the index of word in args, or -1.
func find(args [][]byte, word string) int {
	for i, a := range args {
		if command.Is(a, word) {
			return i
		}
	}
	return -1
}

// create makes a filter at key, which does not exist yet.
//
// Errors: errTooBig, errBound, errCannotCreate.
func create(c *command.Context, key []byte, p bloom.Params, b *bloom.Bound) (*value.Edit, error) {
	root, err := bloom.New(c.Space.Store(), p, b)
	switch err {
	case nil:
		return install(c, key, root), nil
	case bloom.ErrTooBig:
		return nil, errTooBig
	case bloom.ErrBound:
		return nil, errBound
	}
	return nil, errCannotCreate
}

func install(c *command.Context, key []byte, root memory.Ref) *value.Edit {
	e := c.DB.CreateRoot(key, value.Module, value.Raw, root)
	c.Notify(command.EventNew, "new", key)
	return e
}

// add is BF.ADD key item. If key is missing, it creates a filter with the parameters d. Replies: whether the item is
// new.
// Errors: ErrWrongType, errFull, errBound, errCannotAdd. Propagates as written, even if the item is not new.
func (d *Defaults) add(c *command.Context) error {
	b := bound(c, 1)
	e, err := editOrCreate(c, d.params(), true, &b)
	if err != nil {
		return err
	}
	added, err := bloom.Add(e, c.Args[2], &b)
	if err != nil {
		return addError(err)
	}
	propagated(c, c.Args[1])
	c.Reply.Bool(added)
	return nil
}

func editOrCreate(c *command.Context, p bloom.Params, mayCreate bool, b *bloom.Bound) (*value.Edit, error) {
	e, err := edit(c, c.Args[1])
	if e != nil || err != nil {
		return e, err
	}
	if !mayCreate {
		return nil, errNotFound
	}
	return create(c, c.Args[1], p, b)
}

// addEach is BF.MADD key item [item …]. Replies: an array of BF.ADD's reply for each item.
func (d *Defaults) addEach(c *command.Context) error { return addAll(c, d.params(), true, c.Args[2:]) }

// addAll adds items, which are the last arguments of the call. Replies: an array with BF.ADD's reply for each item. It
// may contain errors. After the error that the filter is full, addAll stops.
// Propagates as written, without the items that this server's limits refused, because replicas have no such limits.
func addAll(c *command.Context, p bloom.Params, mayCreate bool, items [][]byte) error {
	b := bound(c, len(items))
	e, err := editOrCreate(c, p, mayCreate, &b)
	if err != nil {
		return err
	}
	mark, n := c.Reply.Mark(), 0
	fixed := bloom.Read(e.Value()).Options()&bloom.Fixed != 0
	if !fixed { // a filter that grows cannot become full
		c.Reply.Array(len(items))
	}
	var told [][]byte // the call as it is propagated; nil if it is propagated as written
	for i, item := range items {
		added, err := bloom.Add(e, item, &b)
		n++
		if err == nil {
			if c.Reply.Bool(added); told != nil {
				told = append(told, item)
			}
			continue
		}
		if (err == bloom.ErrBound || err == bloom.ErrWork) && told == nil {
			told = append([][]byte{}, c.Args[:len(c.Args)-len(items)+i]...)
		}
		c.Reply.Error(addError(err))
		if err == bloom.ErrFull {
			break
		}
	}
	if fixed {
		c.Reply.ArrayAt(mark, n)
	}
	propagated(c, c.Args[1])
	switch {
	case told == nil:
	case len(told) == len(c.Args)-len(items):
		c.PropagateNothing()
	default:
		c.Propagate(told...)
	}
	return nil
}

func addError(err error) error {
	switch err {
	case bloom.ErrFull:
		return errFull
	case bloom.ErrBound:
		return errBound
	case bloom.ErrWork:
		return errWork
	}
	return errCannotAdd
}

// insert is BF.INSERT key [CAPACITY n] [ERROR rate] [EXPANSION n] [NOCREATE] [NONSCALING] ITEMS item [item …]. It is
// BF.MADD with the parameters of a new filter. Errors: ErrWrongType, errNotFound under NOCREATE, and one for each
// argument.
//
// The first one or two letters decide the option, as in the module, so ITEM and CAP also work.
func (d *Defaults) insert(c *command.Context) error {
	p, mayCreate := d.params(), true
	capacity, growth := int64(p.Capacity), int64(p.Growth)
	items := [][]byte(nil)
	for i := 2; i < len(c.Args) && items == nil; i++ {
		word := c.Args[i]
		option := letter(word, 0)
		if (option == 'e' || option == 'c') && i+1 == len(c.Args) {
			return command.ErrArity(c.Spec)
		}
		ok := true
		switch {
		case option == 'i':
			items = c.Args[i+1:]
		case option == 'e' && letter(word, 1) == 'r':
			i++
			if p.Error, ok = number.ParseDouble(c.Args[i]); !ok {
				return errInsertRate
			}
		case option == 'e':
			i++
			if growth, ok = number.ParseInt(c.Args[i]); !ok {
				return errInsertGrowth
			}
		case option == 'c':
			i++
			if capacity, ok = number.ParseInt(c.Args[i]); !ok {
				return errInsertCap
			}
		case option == 'n' && letter(word, 2) == 'c':
			mayCreate = false
		case option == 'n':
			p.Fixed = true
		default:
			return errInsertOption
		}
	}
	if len(items) == 0 {
		return command.ErrArity(c.Spec)
	}
	if p.Error <= 0 || p.Error >= 1 || capacity < 1 || growth < 1 {
		return errInsertValue
	}
	p.Capacity, p.Growth = uint64(capacity), uint32(growth)
	return addAll(c, p, mayCreate, items)
}

// letter returns the i-th letter of word in lower case, or 0 past its end.
func letter(word []byte, i int) byte {
	if i >= len(word) {
		return 0
	}
	return ascii.Lower(word[i])
}
