package reactor

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spindle/protocol"
)

// Returned chunks are spare, for the next long replies. Chunks beyond spareChunks (64 MB) go back to the kernel at
// once. Others do so when they were not used for spareAge.
const (
	spareChunks = 256
	spareAge    = 5 * time.Second
)

// A chunkStore lends the memory of long replies, outside the Go heap. Loops that share their kits also share a store,
// because a chunk may be returned by another kit than the one that lent it. Any goroutine.
type chunkStore struct {
	mu    sync.Mutex
	spare [][]byte // the most recently used chunk is at the end
	idle  int      // spare[:idle] was not used since the last age
	aging bool     // age will run
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
		s.idle = min(s.idle, last)
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
	if !s.aging {
		s.aging = true
		time.AfterFunc(spareAge, s.age)
	}
	return true
}

// age unmaps the chunks that were idle since the last age.
func (s *chunkStore) age() {
	s.mu.Lock()
	old := slices.Clone(s.spare[:s.idle])
	s.spare = slices.Delete(s.spare, 0, s.idle)
	s.idle = len(s.spare)
	if s.aging = s.idle > 0; s.aging {
		time.AfterFunc(spareAge, s.age)
	}
	s.mu.Unlock()
	for _, b := range old {
		unix.Munmap(b)
	}
}

// Chunk implements protocol.Chunks: it returns more room for the reply of the batch that is being served. It returns
// none if the connection will be cut for its output.
func (c *conn) Chunk(n, _ int) (chunk []byte, release func()) {
	if c.stranger() {
		return nil, nil
	}
	return c.chunk(n, c.out.bytes+c.out.tail.Since(c.batch))
}

// Outgrown implements protocol.Chunks.
func (c *conn) Outgrown(b []byte) {
	if f := c.away; f != nil { // this may be another loop's goroutine
		f.outgrown = append(f.outgrown, b)
		return
	}
	c.loop.replies.giveBack(b)
}

// chunk lends room for n bytes. held is how many bytes the connection has to send. Past its limit the connection gets
// no room, and will be cut. Any goroutine.
func (c *conn) chunk(n, held int) (chunk []byte, release func()) {
	class := protocol.Class(c.class.Load())
	l := c.home.Load()
	hard := l.reactor.settings.Output.Get()[class].Hard
	if hard != 0 && uint64(held) >= hard {
		return nil, nil
	}
	store := l.longReplies
	b := store.lease(n)
	if b == nil {
		return make([]byte, 0, n), nil
	}
	return b[:0], func() { store.giveBack(b) }
}

// A posted lends the chunks of a reply that is written outside the connection's loop. It does not count the
// connection's other output, which only the loop knows.
type posted struct{ c *conn }

// Chunks implements protocol.Conn.
func (c *conn) Chunks() protocol.Chunks { return posted{c} }

func (p posted) Chunk(n, held int) (chunk []byte, release func()) { return p.c.chunk(n, held) }

// Outgrown implements protocol.Chunks. No loop has lent the buffer.
func (posted) Outgrown([]byte) {}
