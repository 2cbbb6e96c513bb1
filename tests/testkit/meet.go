package testkit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// meetAgain is the time after which Meet repeats CLUSTER MEET. A node forgets one that was not answered within its node
// timeout, which happens on a busy host.
const meetAgain = 5 * time.Second

// Meet makes nodes of a cluster meet the first one, whose bus has the given port. It returns when the first node knows
// each of the others and they know it.
func Meet(t testing.TB, first *Server, bus any, others ...*Server) {
	t.Helper()
	id := map[*Server]string{}
	for _, n := range append([]*Server{first}, others...) {
		id[n] = n.Do("CLUSTER", "MYID").Text
	}
	asked := map[*Server]time.Time{}
	Until(t, Slowly(30*time.Second), "the nodes have met", func() (all error) {
		for _, n := range others {
			err := errors.Join(knows(first, id[n]), knows(n, id[first]))
			if err != nil && time.Since(asked[n]) > meetAgain {
				asked[n] = time.Now()
				v, failed := n.Ask("CLUSTER", "MEET", "127.0.0.1", first.Port, bus)
				err = errors.Join(err, failed, v.Err())
			}
			all = errors.Join(all, err)
		}
		return all
	})
}

// knows returns an error unless n lists a node by its ID, after their handshake.
func knows(n *Server, id string) error {
	v, err := n.Ask("CLUSTER", "NODES")
	if err != nil {
		return err
	}
	for line := range strings.Lines(v.Text) {
		if strings.HasPrefix(line, id) && !strings.Contains(line, "handshake") {
			return nil
		}
	}
	return fmt.Errorf("%s does not know %s: %s", n.Addr, id, v.Text)
}
