package reactor

import (
	"golang.org/x/sys/unix"

	"spindle/protocol"
)

// spareChunks is how many chunks a loop keeps for the next long reply: 8 MB.
const spareChunks = 32

// A chunkStore lends the memory of long replies, outside the Go heap.
type chunkStore struct{ spare [][]byte }

func (s *chunkStore) lease(n int) []byte {
	if last := len(s.spare) - 1; n == protocol.ChunkSize && last >= 0 {
		b := s.spare[last]
		s.spare[last] = nil
		s.spare = s.spare[:last]
		return b
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	return b
}

func (s *chunkStore) giveBack(b []byte) {
	poison(b)
	if len(b) == protocol.ChunkSize && len(s.spare) < spareChunks {
		s.spare = append(s.spare, b)
		return
	}
	unix.Munmap(b)
}

// Chunk implements protocol.Chunks: more room for the reply of the batch that is being served, unless the connection will be cut for it.
func (c *conn) Chunk(n, _ int) (chunk []byte, release func()) {
	class := protocol.Class(c.class.Load())
	hard := c.loop.reactor.settings.Output.Get()[class].Hard
	if hard != 0 && uint64(c.out.bytes+c.out.tail.Since(c.batch)) >= hard || c.stranger() {
		return nil, nil
	}
	store := &c.loop.longReplies
	b := store.lease(n)
	if b == nil {
		return make([]byte, 0, n), nil
	}
	return b[:0], func() { store.giveBack(b) }
}
