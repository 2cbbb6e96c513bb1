package bloom

import (
	"strconv"

	"spindle/engine/command"
	"spindle/engine/data/value/bloom"
	"spindle/internal/number"
	"spindle/protocol"
)

// exists is BF.EXISTS key item. Replies: whether the filter seems to have the item. For a missing key and for another
// type it replies false, as in the module.
func exists(c *command.Context) error {
	r, err := lookup(c, c.Args[1])
	c.Reply.Bool(err == nil && r.Has(c.Args[2]))
	return nil
}

// existEach is BF.MEXISTS key item [item …]. Replies: an array with BF.EXISTS's reply for each item. Errors: errWork.
func existEach(c *command.Context) error {
	r, err := lookup(c, c.Args[1])
	items := c.Args[2:]
	c.Reply.Array(len(items))
	b := bound(c, len(items))
	for _, item := range items {
		has := false
		if err == nil {
			var tooMuch error
			if has, tooMuch = r.HasWithin(item, &b); tooMuch != nil {
				return errWork
			}
		}
		c.Reply.Bool(has)
	}
	return nil
}

// card is BF.CARD key. Replies: the number of items that seemed new when they were added, or 0 for a missing key.
// Errors: ErrWrongType.
func card(c *command.Context) error {
	r, err := lookup(c, c.Args[1])
	if err == errNotFound {
		c.Reply.Int(0)
		return nil
	}
	if err != nil {
		return err
	}
	c.Reply.Uint(r.Items())
	return nil
}

// A figure is a field of BF.INFO.
type figure struct {
	field string // as the call names it
	name  string // as the reply names it
	of    func(reply *protocol.Reply, r bloom.Reader)
}

var figures = [...]figure{
	{"CAPACITY", "Capacity", func(reply *protocol.Reply, r bloom.Reader) {
		reply.Uint(sum(r, func(l bloom.Link) uint64 { return l.Capacity }))
	}},
	{"SIZE", "Size", func(reply *protocol.Reply, r bloom.Reader) { reply.Uint(size(r)) }},
	{"FILTERS", "Number of filters", func(reply *protocol.Reply, r bloom.Reader) { reply.Int(int64(r.Links())) }},
	{"ITEMS", "Number of items inserted", func(reply *protocol.Reply, r bloom.Reader) { reply.Uint(r.Items()) }},
	{"EXPANSION", "Expansion rate", func(reply *protocol.Reply, r bloom.Reader) {
		if r.Options()&bloom.Fixed != 0 {
			reply.Null()
		} else {
			reply.Int(int64(r.Growth()))
		}
	}},
}

func sum(r bloom.Reader, of func(bloom.Link) uint64) (n uint64) {
	for i := range r.Links() {
		n += of(r.Link(i))
	}
	return n
}

// size returns the size that the filter has in the module: its structures and all bits. MEMORY USAGE shows the size in
// this server.
func size(r bloom.Reader) uint64 {
	const chainBytes, linkBytes = 32, 64
	return chainBytes + sum(r, func(l bloom.Link) uint64 { return linkBytes + l.Bytes })
}

// info is BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]. Replies: a map of all five figures, or of one.
// In RESP2 a single figure is an array with one element. Errors: ErrWrongType, errNotFound, errFieldName.
func info(c *command.Context) error {
	if len(c.Args) > 3 {
		return command.ErrArity(c.Spec)
	}
	r, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	if len(c.Args) == 2 {
		c.Reply.Map(len(figures))
		for _, f := range figures {
			c.Reply.Simple(f.name)
			f.of(c.Reply, r)
		}
		return nil
	}
	for _, f := range figures {
		if !command.Is(c.Args[2], f.field) {
			continue
		}
		if c.Reply.RESP3 {
			c.Reply.Map(1)
			c.Reply.Simple(f.name)
		} else {
			c.Reply.Array(1)
		}
		f.of(c.Reply, r)
		return nil
	}
	return errFieldName
}

// debug is BF.DEBUG key. Replies: a line about the chain and a line about each link. Errors: ErrWrongType, errNotFound.
func debug(c *command.Context) error {
	r, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	hashWidth := uint64(32)
	if r.Options()&bloom.Wide != 0 {
		hashWidth = 64
	}
	c.Reply.Array(1 + r.Links())
	var room [192]byte
	c.Reply.Bulk(number.AppendUint(append(room[:0], "size:"...), r.Items()))
	for i := range r.Links() {
		l := r.Link(i)
		line := room[:0]
		for _, f := range [...]struct {
			name string
			n    uint64
		}{
			{"bytes:", l.Bytes}, {" bits:", l.Bits}, {" hashes:", uint64(l.Hashes)}, {" hashwidth:", hashWidth},
			{" capacity:", l.Capacity}, {" size:", l.Items},
		} {
			line = number.AppendUint(append(line, f.name...), f.n)
		}
		c.Reply.Bulk(strconv.AppendFloat(append(line, " ratio:"...), l.Error, 'g', 6, 64))
	}
	return nil
}
