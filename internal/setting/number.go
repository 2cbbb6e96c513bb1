package setting

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A unit is the format of a number.
type unit uint8

const (
	plain         unit = iota // 10
	memory                    // 1gb, 512mb, 100k
	memoryPercent             // memory, or 5% stored as -5
	octal                     // 755
)

// Errors in Redis's words.
var (
	errNotInteger = errors.New("argument couldn't be parsed into an integer")
	errNotMemory  = errors.New("argument must be a memory value")
	errNotPercent = errors.New("argument must be a memory or percent value")
	errNotOctal   = errors.New("argument couldn't be parsed as an octal number")
	errTooBig     = errors.New("number past 1<<63") // becomes the text about bounds
)

// Example returns an example of a valid value for the error err, such as ", such as 2gb". It returns "" if there is
// none.
func Example(err error) string {
	switch {
	case errors.Is(err, errNotMemory):
		return ", such as 512mb or 2gb"
	case errors.Is(err, errNotPercent):
		return ", such as 512mb or 5%"
	}
	return ""
}

// intCodec is every number that fits int64.
type intCodec struct {
	v        *Int
	unit     unit
	min, max int64
	adjust   func(int64) int64 // nil keeps the number unchanged
}

// NewInt returns a row for a plain whole number. Without Between it must not be negative.
func NewInt(name string, v *Int, deflt int64, options ...Option) Row {
	return newNumber(name, v, deflt, plain, options)
}

// NewMemory returns a row for a number of bytes, which may have a unit: 100, 1k, 1kb, 5MB, 2gb.
func NewMemory(name string, v *Int, deflt int64, options ...Option) Row {
	return newNumber(name, v, deflt, memory, options)
}

// NewMemoryPercent returns a row for a number of bytes, or for a percentage, which is stored negative: 5% is -5.
func NewMemoryPercent(name string, v *Int, deflt int64, options ...Option) Row {
	return newNumber(name, v, deflt, memoryPercent, options)
}

// NewOctal returns a row for a file mode.
func NewOctal(name string, v *Int, deflt int64, options ...Option) Row {
	return newNumber(name, v, deflt, octal, options)
}

func newNumber(name string, v *Int, deflt int64, u unit, options []Option) Row {
	v.Set(deflt)
	return finish(Row{Name: name, codec: &intCodec{v: v, unit: u, max: math.MaxInt64}}, options)
}

// Between bounds a number. Both bounds are valid values.
func Between(min, max int64) Option {
	return option(func(r *Row) {
		c := r.codec.(*intCodec)
		c.min, c.max = min, max
	})
}

// Adjust stores f's result instead of a valid number, without an error.
func Adjust(f func(int64) int64) Option {
	return option(func(r *Row) { r.codec.(*intCodec).adjust = f })
}

// Clamp stores the nearest number of a narrower range, without an error.
func Clamp(least, most int64) Option {
	return Adjust(func(n int64) int64 { return min(max(n, least), most) })
}

func (c *intCodec) get() string { return formatNumber(c.unit, c.v.Get()) }

func (c *intCodec) set(args []string, _ How) error {
	n, err := parseNumber(c.unit, args[0])
	if below, ok := parseInt(args[0]); ok && below < 0 && c.unit == memory && c.min < 0 {
		n, err = below, nil // a number below zero switches something off
	}
	if err == errTooBig {
		return c.outside()
	}
	if err != nil {
		return err
	}
	if err := c.bound(n); err != nil {
		return err
	}
	if c.adjust != nil {
		n = c.adjust(n)
	}
	c.v.Set(n)
	return nil
}

func (c *intCodec) bound(n int64) error {
	switch {
	case c.unit == memoryPercent && n < 0:
		if n < c.min {
			return fmt.Errorf("percentage argument must be less or equal to %d", -c.min)
		}
	case n < c.min || n > c.max:
		return c.outside()
	}
	return nil
}

// outside returns the error for a number out of bounds.
func (c *intCodec) outside() error {
	if c.unit == octal {
		return fmt.Errorf("argument must be between %o and %o inclusive", c.min, c.max)
	}
	return fmt.Errorf("argument must be between %d and %d inclusive", c.min, c.max)
}

func (c *intCodec) lines() []string {
	n := c.v.Get()
	if n >= 0 && (c.unit == memory || c.unit == memoryPercent) {
		return []string{FormatMemory(uint64(n))}
	}
	return []string{c.get()}
}

func formatNumber(u unit, n int64) string {
	switch {
	case u == octal:
		return strconv.FormatInt(n, 8)
	case u == memoryPercent && n < 0:
		return strconv.FormatInt(-n, 10) + "%"
	}
	return strconv.FormatInt(n, 10)
}

func parseNumber(u unit, s string) (int64, error) {
	switch u {
	case plain:
		if n, ok := parseInt(s); ok {
			return n, nil
		}
		return 0, errNotInteger
	case octal:
		if n, err := strconv.ParseInt(s, 8, 64); err == nil {
			return n, nil
		}
		return 0, errNotOctal
	}
	if n, ok := ParseMemory(s); ok {
		if n > math.MaxInt64 {
			return 0, errTooBig
		}
		return int64(n), nil
	}
	if u == memory {
		return 0, errNotMemory
	}
	if digits, isPercent := strings.CutSuffix(s, "%"); isPercent {
		if n, ok := parseInt(digits); ok && n >= 0 {
			return -n, nil
		}
	}
	return 0, errNotPercent
}

// parseInt reads the canonical text of a number: no plus, no blanks, no leading zeros.
func parseInt(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// ParseMemory reads a number of bytes: digits, then nothing, b, k (1000), kb (1024), m, mb, g or gb in any case. Digits
// without a unit that do not fit become the greatest number.
func ParseMemory(s string) (uint64, bool) {
	at := 0
	for at < len(s) && s[at] >= '0' && s[at] <= '9' {
		at++
	}
	var scale uint64
	switch strings.ToLower(s[at:]) {
	case "", "b":
		scale = 1
	case "k":
		scale = 1000
	case "kb":
		scale = 1 << 10
	case "m":
		scale = 1000 * 1000
	case "mb":
		scale = 1 << 20
	case "g":
		scale = 1000 * 1000 * 1000
	case "gb":
		scale = 1 << 30
	default:
		return 0, false
	}
	if at == 0 {
		return 0, true
	}
	n, _ := strconv.ParseUint(s[:at], 10, 64) // out of range returns the greatest
	if n > math.MaxUint64/scale {
		return 0, false
	}
	return n * scale, true
}

// FormatMemory writes a number of bytes with the greatest unit that divides it.
func FormatMemory(n uint64) string {
	switch {
	case n != 0 && n%(1<<30) == 0:
		return strconv.FormatUint(n>>30, 10) + "gb"
	case n != 0 && n%(1<<20) == 0:
		return strconv.FormatUint(n>>20, 10) + "mb"
	case n != 0 && n%(1<<10) == 0:
		return strconv.FormatUint(n>>10, 10) + "kb"
	}
	return strconv.FormatUint(n, 10)
}

// uintCodec is a number of bytes that may use all 64 bits.
type uintCodec struct{ v *Uint }

// NewMemoryUint returns a row for a number of bytes up to the greatest uint64.
func NewMemoryUint(name string, v *Uint, deflt uint64, options ...Option) Row {
	v.Set(deflt)
	return finish(Row{Name: name, codec: &uintCodec{v}}, options)
}

func (c *uintCodec) get() string     { return strconv.FormatUint(c.v.Get(), 10) }
func (c *uintCodec) lines() []string { return []string{FormatMemory(c.v.Get())} }
func (c *uintCodec) set(args []string, _ How) error {
	n, ok := ParseMemory(args[0])
	if !ok {
		return errNotMemory
	}
	c.v.Set(n)
	return nil
}
