package reactor

import (
	"sync"

	"golang.org/x/sys/unix"

	"spindle/protocol"
)

// spareChunks is how many chunks a store keeps for the next long reply: 8 MB.
const spareChunks = 32

// A chunkStore lends the memory of long replies, outside the Go heap. Any goroutine: where loops borrow their kit for each visit, a chunk
// comes back in another visit than it was lent in, and so such kits share one store.
type chunkStore struct {
	mu    sync.Mutex
	spare [][]byte
}

func (s *chunkStore) lease(n int) []byte {
	if n == protocol.ChunkSize {
		if b := s.takeSpare(); b != nil {
			return b
		}
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	return b
}

func (s *chunkStore) takeSpare() (b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.spare) - 1; last >= 0 {
		b, s.spare[last] = s.spare[last], nil
		s.spare = s.spare[:last]
	}
	return b
}

func (s *chunkStore) giveBack(b []byte) {
	poison(b)
	if len(b) != protocol.ChunkSize || !s.keepSpare(b) {
		unix.Munmap(b)
	}
}

func (s *chunkStore) keepSpare(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) == spareChunks {
		return false
	}
	s.spare = append(s.spare, b)
	return true
}

// Chunk implements protocol.Chunks: more room for the reply of the batch that is being served, unless the connection will be cut for it.
func (c *conn) Chunk(n, _ int) (chunk []byte, release func()) {
	class := protocol.Class(c.class.Load())
	hard := c.loop.reactor.settings.Output.Get()[class].Hard
	if hard != 0 && uint64(c.out.bytes+c.out.tail.Since(c.batch)) >= hard || c.stranger() {
		return nil, nil
	}
	store := c.loop.longReplies
	b := store.lease(n)
	if b == nil {
		return make([]byte, 0, n), nil
	}
	return b[:0], func() { store.giveBack(b) }
}
