package str

import (
	"encoding/binary"
	"math"
	"math/bits"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// lcs is LCS key1 key2 [LEN] [IDX] [MINMATCHLEN n] [WITHMATCHLEN]: the longest common subsequence of two strings.
//
// Replies: the subsequence; with LEN its length; with IDX a map of "matches" (ranges in both strings, the last first)
// and "len". It propagates nothing.
// Errors: "The specified keys must contain string values", ErrSyntax, ErrNotInteger, and strings for which Redis's
// table would be too large.
func lcs(c *command.Context) error {
	for _, key := range c.Args[1:3] { // a lookup may delete an expired key, so the values are read after both
		if _, err := readString(c, key); err != nil {
			return errLCSTypes
		}
	}
	var o lcsOptions
	if err := o.parse(c.Args[3:]); err != nil {
		return err
	}
	va, vb := c.DB.Peek(c.Args[1]), c.DB.Peek(c.Args[2])
	m, n := length(va), length(vb)
	if m >= math.MaxUint32-1 || n >= math.MaxUint32-1 {
		return errLCSLong
	}
	// Redis uses four bytes a cell and refuses a larger table. We refuse the same sizes, but use one bit a cell.
	if uint64(m+1)*uint64(n+1) > uint64(c.MaxBulk())/4 {
		return errLCSMemory
	}
	return o.answer(c, va, vb)
}

// rowReads is the number of words of a row that cost as much to compute as an element costs to read. A row of fewer
// words counts as one element.
const rowReads = 32

func (o lcsOptions) answer(c *command.Context, va, vb value.Value) error {
	if length(vb) > 0 && c.IsLong(length(va)*(1+length(vb)/64/rowReads)) {
		return c.ReadBeside(func(r *command.Reading) error {
			o.reply(r, va, vb)
			return nil
		})
	}
	o.reply(c.Inline(), va, vb)
	return nil
}

func (o lcsOptions) reply(r *command.Reading, va, vb value.Value) {
	var a, b []byte
	if length(va) > 0 && length(vb) > 0 {
		a, b = va.Bytes(nil), vb.Bytes(nil)
	}
	if o.length {
		r.Reply.Int(int64(newGrid(r, a, b, false).length))
		return
	}
	g := newGrid(r, a, b, true)
	if o.index {
		o.appendMatches(r.Reply, g)
		return
	}
	room := r.Reply.BulkRoom(g.length)
	at := g.length
	for run := range g.runs {
		at -= run.length
		copy(room[at:], a[run.a:run.a+run.length])
	}
}

type lcsOptions struct {
	length, index, withLength bool
	atLeast                   int64
}

func (o *lcsOptions) parse(args [][]byte) (err error) {
	for i := 0; i < len(args); i++ {
		switch {
		case command.Is(args[i], "IDX"):
			o.index = true
		case command.Is(args[i], "LEN"):
			o.length = true
		case command.Is(args[i], "WITHMATCHLEN"):
			o.withLength = true
		case command.Is(args[i], "MINMATCHLEN") && i+1 < len(args):
			i++
			if o.atLeast, err = command.Int(args[i]); err != nil {
				return err
			}
		default:
			return protocol.ErrSyntax
		}
	}
	if o.length && o.index {
		return errLCSBoth
	}
	return nil
}

// appendMatches replies to IDX: the runs that are long enough, and the total length.
func (o *lcsOptions) appendMatches(r *protocol.Reply, g *grid) {
	r.Map(2)
	r.BulkString("matches")
	mark, n := r.Mark(), 0
	for run := range g.runs {
		if int64(run.length) < o.atLeast {
			continue
		}
		n++
		if o.withLength {
			r.Array(3)
		} else {
			r.Array(2)
		}
		for _, from := range [2]int{run.a, run.b} {
			r.Array(2)
			r.Int(int64(from))
			r.Int(int64(from + run.length - 1))
		}
		if o.withLength {
			r.Int(int64(run.length))
		}
	}
	r.ArrayAt(mark, n)
	r.BulkString("len")
	r.Int(int64(g.length))
}

// A grid is the table of L(i,j), the length of the longest common subsequence of a[:i] and b[:j]. It stores one bit a
// cell:
//
//	step(i,j) = L(i,j) > L(i,j-1)       row i is a bit vector over b, 64 cells a word
//
// str.G1. The steps suffice to find the subsequence backwards. Where a[i-1] != b[j-1], L(i,j) is the greater of
// L(i-1,j) and L(i,j-1). So L(i-1,j) > L(i,j-1) holds exactly if step(i,j) holds.
// str.G2. L(m,n) is the number of steps in row m.
//
// One addition over the whole vector computes a row from the previous one (Hyyrö, "Bit-parallel LCS-length computation
// revisited", 2004). So the 128 million cells that fit proto-max-bulk-len take milliseconds and 16 MB. If b is short,
// they take longer, and a kept row takes at least a byte.
type grid struct {
	a, b   []byte
	words  int    // of a row while it is computed
	bytes  int    // of a kept row
	flat   []byte // rows 1..m of inverted steps: a 0 bit is a step; empty if only the length is wanted
	length int
}

// newGrid fills the table. If keep is false, it only computes the length.
func newGrid(r *command.Reading, a, b []byte, keep bool) *grid {
	g := &grid{a: a, b: b, words: (len(b) + 63) / 64, bytes: (len(b) + 7) / 8}
	if len(a) == 0 || len(b) == 0 {
		return g
	}
	row := make([]uint64, g.words)
	for i := range row {
		row[i] = ^uint64(0)
	}
	if keep {
		g.flat = command.Room[byte](r, len(a)*g.bytes)
	}
	var where [256][]uint64 // where[x] has a bit for each x in b; only for the bytes in a
	for _, x := range a {
		if where[x] == nil {
			where[x] = occurrences(b, x, g.words)
		}
		r.Steps(1 + g.words/rowReads)
		nextRow(row, where[x])
		if keep {
			g.keep(row)
		}
	}
	for i, w := range row {
		if i == g.words-1 && len(b)%64 != 0 {
			w |= ^uint64(0) << (len(b) % 64)
		}
		g.length += bits.OnesCount64(^w)
	}
	return g
}

// keep appends the bits of row to flat.
func (g *grid) keep(row []uint64) {
	whole := len(g.b) / 64
	for _, w := range row[:whole] {
		g.flat = binary.LittleEndian.AppendUint64(g.flat, w)
	}
	for n := 8 * whole; n < g.bytes; n++ {
		g.flat = append(g.flat, byte(row[whole]>>(8*(n%8))))
	}
}

// nextRow converts the vector of one row to that of the next row. match has a bit for each position in b that holds the
// next byte of a.
func nextRow(row, match []uint64) {
	carry := uint64(0)
	for i, v := range row {
		u := v & match[i]
		var sum uint64
		sum, carry = bits.Add64(v, u, carry)
		row[i] = sum | (v &^ match[i])
	}
}

func occurrences(b []byte, x byte, words int) []uint64 {
	set := make([]uint64, words)
	for j, y := range b {
		if y == x {
			set[j/64] |= 1 << (j % 64)
		}
	}
	return set
}

// step returns step(i,j) as defined at grid. i and j count from 1.
func (g *grid) step(i, j int) bool {
	return g.flat[(i-1)*g.bytes+(j-1)/8]>>((j-1)%8)&1 == 0
}

// A matchRun is a common run of bytes, at index a in one string and at index b in the other.
type matchRun struct{ a, b, length int }

// runs yields the runs of the subsequence, from the last to the first. If there are several longest subsequences, it
// chooses the same one as Redis.
func (g *grid) runs(yield func(matchRun) bool) {
	i, j := len(g.a), len(g.b)
	length := 0
	for i > 0 && j > 0 {
		if g.a[i-1] == g.b[j-1] {
			i, j, length = i-1, j-1, length+1
			continue
		}
		if length > 0 && !yield(matchRun{i, j, length}) {
			return
		}
		length = 0
		if g.step(i, j) {
			i--
		} else {
			j--
		}
	}
	if length > 0 {
		yield(matchRun{i, j, length})
	}
}
