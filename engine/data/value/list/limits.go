package list

import "spindle/internal/setting"

// Settings are the CONFIG settings of the limits.
type Settings struct {
	Size  setting.Int // list-max-listpack-size
	Depth setting.Int // list-compress-depth
	Plain int         // DEBUG QUICKLIST-PACKED-THRESHOLD, in bytes; only the core uses it
}

// Rows returns the rows of the CONFIG settings.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("list-max-listpack-size", &s.Size, -2, setting.Between(-1<<31, 1<<31-1),
			setting.Also("list-max-ziplist-size")),
		setting.NewInt("list-compress-depth", &s.Depth, 0, setting.Between(0, 1<<31-1)),
	}
}

// Limits returns the present limits.
func (s *Settings) Limits() Limits {
	return Limits{Fill: int(s.Size.Get()), Plain: s.Plain, Depth: int(s.Depth.Get())}
}

// Limits are the limits of a listpack that is a whole list, or a leaf of a longer list.
type Limits struct {
	Fill  int // list-max-listpack-size: a number of elements, or -1 to -5 for 4 KB to 64 KB
	Plain int // elements of at least this many bytes get a plain leaf; 0 means those too large for any leaf
	// Depth is list-compress-depth: the number of leaves at each end that stay uncompressed. 0 means that all do.
	Depth int
}

const (
	// safeBytes is the limit in bytes of a listpack that is limited by its number of elements.
	safeBytes = 8192
	// overhead is the assumed cost of an element in addition to its text, when room for it is checked.
	overhead = 8
)

// bytes returns the size limit of a listpack. bySize means that Fill is a size, not a number of elements.
func (l Limits) bytes() (n int, bySize bool) {
	if l.Fill >= 0 {
		return safeBytes, false
	}
	return 4096 << min(-(l.Fill+1), 4), true
}

// count returns the greatest number of elements, if Fill is a number.
func (l Limits) count() int { return max(l.Fill, 1) }

// exceeded reports whether a listpack of this many bytes and elements would be too large. less is subtracted from the
// limit in bytes.
func (l Limits) exceeded(bytes, count, less int) bool {
	most, bySize := l.bytes()
	return bytes > most-less || !bySize && count > l.count()
}

// halved reports whether a shrinking quicklist whose listpack has this size becomes a listpack.
func (l Limits) halved(bytes, count int) bool {
	if most, bySize := l.bytes(); bySize {
		return bytes <= most/2
	}
	return count <= l.count()/2
}

// Whole reports whether a listpack just read from a file is small enough to be a list.
func (l Limits) Whole(bytes, count int) bool {
	if most, bySize := l.bytes(); bySize {
		return bytes <= most
	}
	return count <= l.count()
}

// Takes reports whether a listpack of this many bytes and elements has room for an element of n bytes.
func (l Limits) Takes(bytes, count, n int) bool {
	return !l.plain(n) && !l.exceeded(bytes+n+overhead, count+1, 0)
}

// plain reports whether an element of n bytes gets a plain leaf.
func (l Limits) plain(n int) bool {
	if l.Plain != 0 {
		return n >= l.Plain
	}
	most, _ := l.bytes()
	return n > most
}
