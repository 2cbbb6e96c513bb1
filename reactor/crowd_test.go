package reactor

import "testing"

// However many connections are ready at once, they share few reply buffers. Connections that have a buffer are flushed
// before too many others get one.
func TestManyConnectionsShareBuffers(t *testing.T) {
	const clients = 6 * crowd
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			r, addr := serveHandler(t, h, Options{Backend: b})
			var peers []*peer
			for range clients {
				peers = append(peers, dial(t, addr))
			}
			for range 4 { // gnet begins to gather after the first
				h.mu.Lock() // the loop stays in its first batch until all have asked
				for _, p := range peers {
					p.send(command("PING"))
				}
				h.mu.Unlock()
				for _, p := range peers {
					p.expect("+OK\r\n")
				}
			}
			if pooled, most := r.Stats().PooledBytes, int64((crowd+1)*replySize); pooled > most {
				t.Errorf("%d bytes of reply buffers for %d connections, want %d at most", pooled, clients, most)
			}
		})
	}
}
