package rdb

import "math"

// This file skips values of any type without decoding them. The decoder finds a record's end this way, and tools check
// files whose types they need not understand. The cost depends on a value's bytes, never on the counts that it claims.

func skipText(c *cursor) error {
	n, encoded, err := c.size()
	if err != nil {
		return err
	}
	if !encoded {
		return c.drop(n)
	}
	c.i--
	_, err = c.text()
	return err
}

// skipTexts skips a count and per×count strings.
func skipTexts(per uint64) func(*cursor) error {
	return func(c *cursor) error {
		return c.each(func() error {
			for range per {
				if err := skipText(c); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// skipZSet skips a sorted set. Each score is a length byte and that much text; 253, 254, 255 stand for nan, +inf, -inf.
func skipZSet(c *cursor) error {
	return c.each(func() error {
		if err := skipText(c); err != nil {
			return err
		}
		n, err := c.byte()
		if err != nil || n >= 253 {
			return err
		}
		return c.drop(uint64(n))
	})
}

// skipZSet2 skips a sorted set in which each score is a float64.
func skipZSet2(c *cursor) error {
	return c.each(func() error {
		if err := skipText(c); err != nil {
			return err
		}
		return c.drop(8)
	})
}

// skipQuicklist2 skips a list. Each node is its kind and a string.
func skipQuicklist2(c *cursor) error {
	return c.each(func() error {
		if _, err := c.length(); err != nil {
			return err
		}
		return skipText(c)
	})
}

// skipHashTTL skips a hash: [earliest deadline], then deadline, field and value for each field.
func skipHashTTL(earliest bool) func(*cursor) error {
	return func(c *cursor) error {
		if earliest {
			if err := c.drop(8); err != nil {
				return err
			}
		}
		return c.each(func() error {
			if _, err := c.length(); err != nil {
				return err
			}
			if err := skipText(c); err != nil {
				return err
			}
			return skipText(c)
		})
	}
}

// skipHashTTLListpack skips a hash: the earliest deadline, then one string.
func skipHashTTLListpack(c *cursor) error {
	if err := c.drop(8); err != nil {
		return err
	}
	return skipText(c)
}

// skipHash2 skips a hash: field, value and deadline (ms, or -1) for each field.
func skipHash2(c *cursor) error {
	return c.each(func() error {
		if err := skipText(c); err != nil {
			return err
		}
		if err := skipText(c); err != nil {
			return err
		}
		return c.drop(8)
	})
}

// skipArray skips an array: a count, whether a next index follows, [that index], then index, tag and value for each
// element.
func skipArray(c *cursor) error {
	n, err := c.length()
	if err != nil {
		return err
	}
	next, err := c.length()
	if err != nil {
		return err
	}
	if next > 1 {
		return Corrupt("an array's flag is neither 0 nor 1")
	}
	if err := c.lengths(int(next)); err != nil {
		return err
	}
	return c.repeat(n, func() error {
		if err := c.lengths(1); err != nil {
			return err
		}
		tag, err := c.length()
		if err != nil {
			return err
		}
		switch tag {
		case 0, 3: // long and short strings
			return skipText(c)
		case 1, 2: // int64 and float64
			return c.drop(8)
		}
		return Corrupt("an array's element is of no known form")
	})
}

// skipKeyMeta skips a count, and then for each class of modules its number and fields.
func skipKeyMeta(c *cursor) error {
	return c.each(func() error {
		if err := c.drop(4); err != nil {
			return err
		}
		return skipModuleFields(c)
	})
}

// Types of the fields of a module's value. The fields end with moduleEOF.
const (
	moduleEOF    = 0
	moduleSint   = 1
	moduleUint   = 2
	moduleFloat  = 3
	moduleDouble = 4
	moduleString = 5
)

// skipModule skips the module's id, then its fields.
func skipModule(c *cursor) error {
	if _, err := c.length(); err != nil {
		return err
	}
	return skipModuleFields(c)
}

func skipModuleFields(c *cursor) error {
	return c.repeat(math.MaxUint64, func() error {
		op, err := c.length()
		if err != nil {
			return err
		}
		switch op {
		case moduleEOF:
			return errLast
		case moduleSint, moduleUint:
			_, err = c.length()
		case moduleFloat:
			err = c.drop(4)
		case moduleDouble:
			err = c.drop(8)
		case moduleString:
			err = skipText(c)
		default:
			return Corrupt("unknown opcode in a module's data")
		}
		return err
	})
}

// skipStream skips nodes of (16-byte id, listpack), counters, then consumer groups with their pending entries. Version
// 4 has producers after that: two limits, for each producer its name and its (message id, entry id) pairs, two
// counters.
func skipStream(version int) func(*cursor) error {
	return func(c *cursor) error {
		nodes := func() error {
			if err := skipText(c); err != nil {
				return err
			}
			return skipText(c)
		}
		if err := c.each(nodes); err != nil {
			return err
		}
		counters := 3 // length, last id
		if version >= 2 {
			counters += 5 // first id, greatest deleted id, entries ever added
		}
		if err := c.lengths(counters); err != nil {
			return err
		}
		if err := c.each(func() error { return skipGroup(c, version) }); err != nil || version < 4 {
			return err
		}
		if err := c.lengths(2); err != nil {
			return err
		}
		producers := func() error {
			if err := skipText(c); err != nil {
				return err
			}
			return c.each(func() error {
				if err := skipText(c); err != nil {
					return err
				}
				return c.lengths(2)
			})
		}
		if err := c.each(producers); err != nil {
			return err
		}
		return c.lengths(2)
	}
}

// skipGroup skips name, last id, [entries read], pending entries, consumers with their pending entries. In version 5 it
// also skips the ids of the pending entries without a consumer.
func skipGroup(c *cursor, version int) error {
	if err := skipText(c); err != nil {
		return err
	}
	counters := 2
	if version >= 2 {
		counters++
	}
	if err := c.lengths(counters); err != nil {
		return err
	}
	pending := func() error { // id, delivery time, delivery count
		if err := c.drop(16 + 8); err != nil {
			return err
		}
		_, err := c.length()
		return err
	}
	if err := c.each(pending); err != nil {
		return err
	}
	consumers := func() error { // name, seen time, [active time], ids of its pending entries
		if err := skipText(c); err != nil {
			return err
		}
		times := uint64(8)
		if version >= 3 {
			times += 8
		}
		if err := c.drop(times); err != nil {
			return err
		}
		return c.each(func() error { return c.drop(16) })
	}
	if err := c.each(consumers); err != nil || version < 5 {
		return err
	}
	return c.each(func() error { return c.drop(16) })
}

// each reads a count and calls step as often. Every step reads at least one byte, so a false count ends with the bytes.
func (c *cursor) each(step func() error) error {
	n, err := c.length()
	if err != nil {
		return err
	}
	return c.repeat(n, step)
}

// errLast ends a loop of unknown length.
const errLast = Corrupt("nothing follows")

// repeat calls step n times, or until it returns errLast.
func (c *cursor) repeat(n uint64, step func() error) error {
	if c.progress != nil {
		return c.progress.repeat(c, n, step)
	}
	return c.loop(n, step)
}

// loop is repeat without progress.
func (c *cursor) loop(n uint64, step func() error) error {
	for ; n > 0; n-- {
		if err := step(); err == errLast {
			break
		} else if err != nil {
			return err
		}
	}
	return nil
}

// lengths skips n lengths.
func (c *cursor) lengths(n int) error {
	for range n {
		if _, err := c.length(); err != nil {
			return err
		}
	}
	return nil
}
