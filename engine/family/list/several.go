package list

import (
	"bytes"
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
	"spindle/protocol"
)

var (
	wordLPush = []byte("LPUSH")
	wordRPush = []byte("RPUSH")
)

// A movement is the parsed arguments of LMOVEM or BLMOVEM.
type movement struct {
	from, to list.End
	count    int64
	exactly  bool // count elements or none
	bulk     bool // the elements keep their order; otherwise they are pushed one by one
}

// parseMovement reads LEFT|RIGHT LEFT|RIGHT, and [COUNT|EXACTLY n OBO|BULK], which begins at argument at.
//
// Errors: ErrSyntax, errCount.
func parseMovement(args [][]byte, at int) (m movement, err error) {
	if m.from, m.to, err = ends(args[3:5]); err != nil {
		return m, err
	}
	m.count = 1
	options := args[at:]
	if len(options) == 0 {
		return m, nil
	}
	if len(options) != 3 {
		return m, protocol.ErrSyntax
	}
	m.exactly, m.bulk = command.Is(options[0], "EXACTLY"), command.Is(options[2], "BULK")
	if !m.exactly && !command.Is(options[0], "COUNT") || !m.bulk && !command.Is(options[2], "OBO") {
		return m, protocol.ErrSyntax
	}
	if m.count, err = command.Int(options[1]); err != nil || m.count < 1 {
		return m, errCount
	}
	return m, nil
}

// lMoveM is LMOVEM source destination LEFT|RIGHT LEFT|RIGHT [COUNT|EXACTLY n OBO|BULK]: LMOVE of several elements.
//
// Replies: an array of the elements in the order of the destination. It replies a null array if there are none, or not
// enough for EXACTLY. Errors: ErrSyntax, errCount, ErrWrongType.
// Propagates: LPOP or RPOP of the source, LPUSH or RPUSH of the elements.
func lMoveM(c *command.Context) error {
	m, err := parseMovement(c.Args, 5)
	if err != nil {
		return err
	}
	done, err := m.try(c)
	if !done && err == nil {
		c.Reply.NullArray()
	}
	return err
}

// blMoveM is BLMOVEM source destination LEFT|RIGHT LEFT|RIGHT timeout [COUNT|EXACTLY n OBO|BULK]. It is LMOVEM, but
// waits for an element, or with EXACTLY for n elements.
//
// Replies: a null array after the timeout. Further errors: those of Timeout.
func blMoveM(c *command.Context) error {
	if _, err := parseMovement(c.Args, 6); err != nil {
		return err
	}
	deadline, err := c.Timeout(c.Args[5])
	if err != nil {
		return err
	}
	return c.Await(value.List, deadline, 1, 2, moveSeveral, command.NoArray)
}

func moveSeveral(c *command.Context) (done bool, err error) {
	m, err := parseMovement(c.Args, 6)
	if err != nil {
		return false, err
	}
	return m.try(c)
}

// try moves the elements. done is false if there are none, or not enough.
func (m *movement) try(c *command.Context) (done bool, err error) {
	source, key := c.Args[1], c.Args[2]
	src, err := edit(c, source)
	if src == nil || err != nil {
		return false, err
	}
	length := list.Len(src.Value())
	if m.exactly && int64(length) < m.count {
		return false, nil
	}
	same := bytes.Equal(source, key)
	dst := src
	if !same {
		if dst, err = edit(c, key); err != nil {
			return false, err
		}
	}
	n := int(min(m.count, int64(length)))
	var room [16][]byte
	texts := outermost(c, src.Value(), m.from, n, room[:0])
	if m.bulk && (m.from == list.Head) != (m.to == list.Tail) {
		slices.Reverse(texts)
	}
	if same {
		list.Pop(src, c.Settings.Lists.Limits(), m.from, n)
	}
	push(c, dst, key, m.to, texts)
	if dst != nil && !same {
		c.DB.Signal(key)
	}
	c.DB.Touched(key)
	c.Notify(command.EventList, pushed(m.to), key)
	if !same {
		list.Pop(src, c.Settings.Lists.Limits(), m.from, n)
	}
	removed(c, src, source, popped(m.from), n)
	if same && (n == length || m.from != m.to) {
		m.propagateTurn(c, texts)
	} else {
		c.Propagate(wordPop(m.from), source, c.Effects.Number(int64(n)))
		propagatePush(c, m.to, texts)
	}
	c.Reply.Array(n)
	if m.to == list.Head {
		slices.Reverse(texts)
	}
	for _, text := range texts {
		c.Reply.Bulk(text)
	}
	return true, nil
}

// propagateTurn propagates a movement within one list: to its other end, or of the whole list. It propagates the push
// first, because a list that becomes empty would lose its deadline.
func (m *movement) propagateTurn(c *command.Context, texts [][]byte) {
	if m.from != m.to {
		propagatePush(c, m.to, texts)
	} else {
		slices.Reverse(texts)
		propagatePush(c, other(m.from), texts)
		slices.Reverse(texts)
	}
	c.Propagate(wordPop(m.from), c.Args[1], c.Effects.Number(int64(len(texts))))
}

// propagatePush propagates a push of elements to the destination.
func propagatePush(c *command.Context, end list.End, texts [][]byte) {
	var room [16][]byte
	c.Propagate(append(append(room[:0], wordPush(end), c.Args[2]), texts...)...)
}

func other(end list.End) list.End {
	if end == list.Head {
		return list.Tail
	}
	return list.Head
}

// outermost appends the texts of n elements at an end, from the outermost. Lifetime: until the call is propagated.
func outermost(c *command.Context, v value.Value, end list.End, n int, texts [][]byte) [][]byte {
	var walk list.Cursor
	if end == list.Head {
		walk.Seek(v, 0, list.Tail)
	} else {
		walk.Seek(v, list.Len(v)-1, list.Head)
	}
	var room [24]byte
	for range n {
		el, _ := walk.Next()
		texts = append(texts, c.Effects.Keep(el.Text(room[:])))
	}
	return texts
}

func wordPush(end list.End) []byte {
	if end == list.Head {
		return wordLPush
	}
	return wordRPush
}
