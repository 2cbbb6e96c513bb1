package geo

import (
	"spindle/engine/command"
	"spindle/protocol"
)

// pos is GEOPOS key [member …]. Replies: an array with the longitude and latitude of each member, and a null array for
// a missing member.
// Errors: ErrWrongType.
func pos(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		if p, ok := locate(v, member); ok {
			answerPoint(c.Reply, p)
		} else {
			c.Reply.NullArray()
		}
	}
	return nil
}

// hash is GEOHASH key [member …]. Replies: an array of geohashes with 11 digits, and null for a missing member.
// Errors: ErrWrongType.
func hash(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Array(len(c.Args) - 2)
	var room [16]byte
	for _, member := range c.Args[2:] {
		if p, ok := locate(v, member); ok {
			c.Reply.Bulk(appendText(room[:0], p))
		} else {
			c.Reply.Null()
		}
	}
	return nil
}

// dist is GEODIST key member1 member2 [M | KM | FT | MI]. Replies: the distance as text with four decimals; null if a
// member is missing.
//
// Errors: errUnit, ErrSyntax, ErrWrongType.
func dist(c *command.Context) (err error) {
	unit := 1.0
	switch {
	case len(c.Args) > 5:
		return protocol.ErrSyntax
	case len(c.Args) == 5:
		if unit, err = parseUnit(c.Args[4]); err != nil {
			return err
		}
	}
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	p, ok := locate(v, c.Args[2])
	q, too := locate(v, c.Args[3])
	if !ok || !too {
		c.Reply.Null()
		return nil
	}
	answerDistance(c.Reply, distance(p, q)/unit)
	return nil
}
