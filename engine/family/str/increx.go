package str

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// incrExOptions are the options of INCREX.
type incrExOptions struct {
	by, low, high []byte // the numbers as text; nil if not given
	float         bool   // BYFLOAT
	saturate      bool
	persist, enx  bool
	unit          unit
	expiry        []byte
}

func (o *incrExOptions) parse(args [][]byte) error {
	for i := 0; i < len(args); i++ {
		word, more := args[i], i+1 < len(args)
		u := unitOf(word)
		switch {
		case command.Is(word, "SATURATE"):
			o.saturate = true
			continue
		case command.Is(word, "ENX"):
			o.enx = true
			continue
		case command.Is(word, "PERSIST") && o.unit == noExpiry:
			o.persist = true
			continue
		case !more:
			return protocol.ErrSyntax
		case (command.Is(word, "BYINT") || command.Is(word, "BYFLOAT")) && o.by == nil:
			o.by, o.float = args[i+1], command.Is(word, "BYFLOAT")
		case command.Is(word, "LBOUND") && o.low == nil:
			o.low = args[i+1]
		case command.Is(word, "UBOUND") && o.high == nil:
			o.high = args[i+1]
		case u != noExpiry && !o.persist && (o.unit == noExpiry || o.unit == u):
			o.unit, o.expiry = u, args[i+1]
		default:
			return protocol.ErrSyntax
		}
		i++
	}
	switch {
	case o.enx && o.persist:
		return protocol.ErrSyntax
	case o.enx && o.unit == noExpiry:
		return errENX
	}
	return nil
}

// incrEx is INCREX key [BYINT n | BYFLOAT x] [LBOUND low] [UBOUND high] [SATURATE] [deadline | PERSIST] [ENX].
//
// It adds to a number within bounds. The deadline is EX seconds, PX ms, EXAT s or PXAT ms. ENX sets the deadline only
// if the key has none.
// Replies: the new value and the number added. If the sum is out of bounds, nothing changes, and the number added is 0.
// With SATURATE the new value is then the bound.
// Errors: ErrSyntax, errENX, errBounds, ErrNotInteger, ErrNotFloat, "invalid expire time", ErrWrongType, ErrOverflow,
// errNaN. Propagates: SET key value, with PXAT or KEEPTTL.
func incrEx(c *command.Context) error {
	var o incrExOptions
	if err := o.parse(c.Args[2:]); err != nil {
		return err
	}
	var when int64
	if o.unit != noExpiry {
		var err error
		if when, err = deadline(c, o.unit, o.expiry); err != nil {
			return err
		}
	}
	v, err := writeString(c, c.Args[1])
	if err != nil {
		return err
	}
	end := ending{c: c, volatile: v.Exists() && v.Volatile()}
	switch {
	case o.persist:
	case o.unit == noExpiry || o.enx && end.volatile:
		end.until = keyspace.KeepTTL
	default:
		end.until = when
	}
	if o.float {
		return o.addFloat(v, &end)
	}
	return o.addInt(v, &end)
}

// intOr reads an integer. It returns otherwise if text is nil.
func intOr(text []byte, otherwise int64) (int64, error) {
	if text == nil {
		return otherwise, nil
	}
	return command.Int(text)
}

func (o *incrExOptions) addInt(v value.Value, end *ending) error {
	by, err := intOr(o.by, 1)
	if err != nil {
		return err
	}
	low, err := intOr(o.low, math.MinInt64)
	if err != nil {
		return err
	}
	high, err := intOr(o.high, math.MaxInt64)
	if err != nil {
		return err
	}
	if low > high {
		return errBounds
	}
	old, ok := int64(0), true
	if v.Exists() {
		if old, ok = integer(v); !ok {
			return protocol.ErrNotInteger
		}
	}
	c := end.c
	sum, within := bounded(old, by, low, high)
	added := sum - old
	switch {
	case !within && !o.saturate:
		c.Reply.Array(2)
		c.Reply.Int(old)
		c.Reply.Int(0)
		return nil
	case (added < 0) != (sum < old): // the bounds are too far apart
		return protocol.ErrOverflow
	}
	var room [number.MaxIntLen]byte
	end.created = c.DB.SetInt(c.Args[1], sum, end.until)
	end.publish("incrby", number.AppendInt(room[:0], sum))
	c.Reply.Array(2)
	c.Reply.Int(sum)
	c.Reply.Int(added)
	return nil
}

// bounded returns old+by, or the bound that the sum exceeds.
func bounded(old, by, low, high int64) (sum int64, within bool) {
	sum = old + by
	overflow := by != 0 && (by > 0) != (sum > old)
	switch {
	case overflow && by > 0 || !overflow && sum > high:
		return high, false
	case overflow || sum < low:
		return low, false
	}
	return sum, true
}

// longOf reads a long double. It refuses infinity.
func longOf(text []byte) (number.Long, error) {
	n, ok := number.ParseLong(text)
	if ok {
		n, ok = n.Add(number.Long{})
	}
	if !ok {
		return n, protocol.ErrNotFloat
	}
	return n, nil
}

func (o *incrExOptions) addFloat(v value.Value, end *ending) error {
	by, err := longOf(o.by)
	if err != nil {
		return err
	}
	var low, high, old number.Long
	if o.low != nil {
		if low, err = longOf(o.low); err != nil {
			return err
		}
	}
	if o.high != nil {
		if high, err = longOf(o.high); err != nil {
			return err
		}
	}
	if o.low != nil && o.high != nil && high.Less(low) {
		return errBounds
	}
	if v.Exists() {
		var ok bool
		if old, ok = longDouble(v); !ok {
			return protocol.ErrNotFloat
		}
	}
	sum, finite := old.Add(by)
	down := by.Less(number.Long{})
	within := true
	switch {
	case o.high != nil && (!finite && !down || finite && high.Less(sum)):
		sum, within = high, false
	case o.low != nil && (!finite && down || finite && sum.Less(low)):
		sum, within = low, false
	case !finite && o.saturate:
		return errNaN
	case !finite:
		within = false
	}
	c := end.c
	var room, more [128]byte
	if !within && !o.saturate {
		c.Reply.Array(2)
		c.Reply.DoubleText(number.AppendLong(room[:0], old))
		c.Reply.DoubleText([]byte("0"))
		return nil
	}
	added, ok := sum.Add(old.Negated())
	if !ok {
		return errNaN
	}
	text := number.AppendLong(room[:0], sum)
	end.created = c.DB.SetPlain(c.Args[1], text, end.until)
	end.publish("incrbyfloat", text)
	c.Reply.Array(2)
	c.Reply.DoubleText(text)
	c.Reply.DoubleText(number.AppendLong(more[:0], added))
	return nil
}

// An ending is what INCREX does after the addition.
type ending struct {
	c        *command.Context
	volatile bool  // the key had a deadline
	created  bool  // the key is new
	until    int64 // its deadline; see DB.SetString
}

// publish propagates the new value and publishes the changes.
func (e *ending) publish(event string, text []byte) {
	c, key := e.c, e.c.Args[1]
	if e.created {
		c.Notify(command.EventNew, "new", key)
	}
	c.Changed(1)
	c.Notify(command.EventString, event, key)
	kept := c.Effects.Keep(text)
	switch {
	case e.until == keyspace.KeepTTL:
		c.Propagate(wordSet, key, kept, wordKeepTTL)
	case e.until != 0:
		c.Propagate(wordSet, key, kept, wordPxAt, c.Effects.Number(e.until))
		c.Notify(command.EventGeneric, "expire", key)
	default:
		c.Propagate(wordSet, key, kept)
		if e.volatile {
			c.Notify(command.EventGeneric, "persist", key)
		}
	}
}
