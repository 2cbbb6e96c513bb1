package value

import "spindle/internal/compress/lzf"

// A compressor is what texts are compressed with that stay in memory so. It is made when the first one is.
type compressor struct {
	lzf     lzf.Compressor
	scratch []byte
}

// Compress is text in at most so many bytes, nil if it takes more. The core's.
//
// Lifetime: until the next call.
func (s *Store) Compress(text []byte, most int) []byte {
	if s.compressor == nil {
		s.compressor = new(compressor)
	}
	c := s.compressor
	if most > len(c.scratch) {
		c.scratch = make([]byte, most)
	}
	n := c.lzf.Compress(c.scratch[:most], text)
	if n == 0 {
		return nil
	}
	return c.scratch[:n]
}
