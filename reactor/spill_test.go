package reactor

import (
	"sync"
	"testing"

	"spindle/protocol"
)

// A chunk comes back on whatever goroutine has sent it, while others lend and give back: it is nobody else's meanwhile.
func TestChunksOfManyGoroutines(t *testing.T) {
	var s chunkStore
	var all sync.WaitGroup
	for id := range byte(8) {
		all.Go(func() {
			for range 500 {
				var lent [3][]byte
				for i := range lent {
					lent[i] = s.lease(protocol.ChunkSize)
					lent[i][0], lent[i][len(lent[i])-1] = id, id
				}
				for _, b := range lent {
					if b[0] != id || b[len(b)-1] != id {
						t.Error("a chunk was lent twice")
						return
					}
					s.giveBack(b)
				}
			}
		})
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) == 0 || len(s.spare) > spareChunks {
		t.Errorf("%d spare chunks", len(s.spare))
	}
}

// Spare chunks that nobody wants between two agings go back to the kernel, and those that are wanted stay.
func TestSpareChunksAge(t *testing.T) {
	s := chunkStore{aging: true} // the test ages
	spare := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.spare)
	}
	use := func(n int) {
		var lent [][]byte
		for range n {
			lent = append(lent, s.lease(protocol.ChunkSize))
		}
		for _, b := range lent {
			s.giveBack(b)
		}
	}
	use(10)
	for i, step := range []struct{ wanted, left int }{{0, 10}, {4, 4}, {4, 4}, {6, 6}, {0, 6}, {0, 0}} {
		s.age()
		use(step.wanted)
		if n := spare(); n != step.left {
			t.Errorf("step %d: %d spare chunks, want %d", i, n, step.left)
		}
	}
	use(spareChunks + 3)
	if n := spare(); n != spareChunks {
		t.Errorf("%d spare chunks, want %d", n, spareChunks)
	}
}

// Under netpoll a connection has another kit at each visit: a chunk must not come back to a kit that another visit works with by then, and
// none may be lost with a kit that the garbage collector drops.
func TestKitsShareTheirChunks(t *testing.T) {
	r, _ := serveBoard(t, newBoard(), Options{Backend: Netpoll})
	kits := &r.back.(*netpollBackend).kits
	one, other := kits.Get().(*kit), kits.Get().(*kit)
	if one == other || one.longReplies != other.longReplies {
		t.Error("each kit has chunks of its own")
	}
}
