package list

import "spindle/internal/setting"

// Settings are the limits as an operator gives them.
type Settings struct {
	Size  setting.Int // list-max-listpack-size
	Depth setting.Int // list-compress-depth
	Plain int         // DEBUG QUICKLIST-PACKED-THRESHOLD, in bytes; the core's
}

// Rows are the settings as CONFIG knows them.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("list-max-listpack-size", &s.Size, -2, setting.Between(-1<<31, 1<<31-1),
			setting.Also("list-max-ziplist-size")),
		setting.NewInt("list-compress-depth", &s.Depth, 0, setting.Between(0, 1<<31-1)),
	}
}

// Limits are the settings of now.
func (s *Settings) Limits() Limits {
	return Limits{Fill: int(s.Size.Get()), Plain: s.Plain, Depth: int(s.Depth.Get())}
}

// Limits say how large a listpack may become: one that is a list by itself, and one that is a leaf of a longer list.
type Limits struct {
	Fill  int // list-max-listpack-size: so many elements, or, from -1 to -5, 4 KB to 64 KB
	Plain int // elements of so many bytes and more get a leaf of their own; 0: those that no leaf has room for
	// list-compress-depth: so many leaves at either end stay as they are, those between are compressed; 0: none is.
	Depth int
}

const (
	// safeBytes bounds a listpack that is limited by its number of elements.
	safeBytes = 8192
	// overhead is what an element is taken to cost beyond its text when it is asked whether there is room for it.
	overhead = 8
)

// bytes is the largest listpack, and whether Fill is that and no number of elements.
func (l Limits) bytes() (n int, bySize bool) {
	if l.Fill >= 0 {
		return safeBytes, false
	}
	return 4096 << min(-(l.Fill+1), 4), true
}

// count is the greatest number of elements, where Fill is one.
func (l Limits) count() int { return max(l.Fill, 1) }

// exceeded says whether a listpack of so many bytes and elements would be too large; less is taken off the bytes.
func (l Limits) exceeded(bytes, count, less int) bool {
	most, bySize := l.bytes()
	return bytes > most-less || !bySize && count > l.count()
}

// halved says whether a listpack is small enough for a list to become one again by shrinking.
func (l Limits) halved(bytes, count int) bool {
	if most, bySize := l.bytes(); bySize {
		return bytes <= most/2
	}
	return count <= l.count()/2
}

// Whole says whether a listpack is small enough for a list that was just read from a file to be one.
func (l Limits) Whole(bytes, count int) bool {
	if most, bySize := l.bytes(); bySize {
		return bytes <= most
	}
	return count <= l.count()
}

// Takes says whether a listpack of so many bytes and elements has room for an element of n bytes.
func (l Limits) Takes(bytes, count, n int) bool {
	return !l.plain(n) && !l.exceeded(bytes+n+overhead, count+1, 0)
}

// plain says whether an element of n bytes gets a leaf of its own.
func (l Limits) plain(n int) bool {
	if l.Plain != 0 {
		return n >= l.Plain
	}
	most, _ := l.bytes()
	return n > most
}
