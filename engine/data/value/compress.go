package value

import "spindle/internal/compress/lzf"

// Compress returns text compressed to at most most bytes, for values that stay compressed. It returns nil if text needs
// more. Only the core calls it.
//
// Lifetime: until the next call.
func (s *Store) Compress(text []byte, most int) []byte {
	if s.packer == nil {
		s.packer = new(lzf.Packer) // 32 KB, which most servers never need
	}
	return s.packer.Pack(text, most)
}
