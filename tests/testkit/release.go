package testkit

import "spindle/protocol/respclient"

// crowd is the number of connected clients that ends the loop of UntilReleased.
const crowd = 40

// UntilReleased ends a loop of a script, "repeat ..." + UntilReleased, when Release is called. A loop that ends after a
// time would be too short for a busy test, or too long for a busy server. No other client can change what a script
// reads, but INFO shows it how many clients are connected.
const UntilReleased = `until tonumber(string.match(redis.call('INFO', 'clients'), 'connected_clients:(%d+)')) >= 40 `

// Release ends the loop of the script that the server runs. The test's other clients must be fewer than crowd. If the
// server ends with the script, the last connections fail.
func (s *Server) Release() {
	for range crowd {
		if c, err := respclient.Dial(s.Addr); err == nil {
			s.t.Cleanup(func() { c.Close() })
		}
	}
}
