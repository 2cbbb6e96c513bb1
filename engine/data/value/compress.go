package value

import "spindle/internal/compress/lzf"

// Compress is text in at most so many bytes, for values that stay compressed; nil if it takes more. The core's.
//
// Lifetime: until the next call.
func (s *Store) Compress(text []byte, most int) []byte {
	if s.packer == nil {
		s.packer = new(lzf.Packer) // 32 KB, which most servers never need
	}
	return s.packer.Pack(text, most)
}
