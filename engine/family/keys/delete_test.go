package keys

import "testing"

// TestDeleteExpired: where expired keys are only hidden, on a writable replica, DEL and UNLINK remove them and count
// them. A server that may remove expired keys does so first, and does not count them.
func TestDeleteExpired(t *testing.T) {
	for _, word := range []string{"DEL", "UNLINK"} {
		for _, replica := range []bool{false, true} {
			core := newCore(t)
			cl := core.Client(2)
			core.Do(cl, "PUT", "k", "v")
			core.Do(cl, "PEXPIRE", "k", "10")
			core.SetNow(core.Now() + 20)
			core.Space.Replica = replica
			want, event := ":0\r\n", "expired"
			if replica {
				want, event = ":1\r\n", "del"
			}
			core.Reset()
			got := core.Do(cl, word, "k")
			if n := core.Space.DB(0).Len(); got != want || n != 0 || len(core.Events) != 1 || core.Events[0].Name != event {
				t.Errorf("%s, replica %t: %q, %d keys are left, events %v", word, replica, got, n, core.Events)
			}
		}
	}
}
