package acks

import (
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestAsksRestWhileAReplicaIsSilent: a write waits for two replicas, and one of them is stopped. The primary asks about
// ten times a second, and not as fast as the other replica answers. With ack-mode disk some requests come sooner,
// because the disk of the other replica may be ready sooner.
func TestAsksRestWhileAReplicaIsSilent(t *testing.T) {
	t.Parallel()
	const getAckBytes = 37 // of REPLCONF GETACK * in the stream
	for mode, sooner := range map[string]int64{"memory": 0, "disk": 40} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, all := replicas(t, testkit.Ours, 2, "--min-replicas-to-ack", "2", "--ack-timeout", long, "--ack-mode", mode)
			s.Do("SET", "a", "0")
			stop(t, all[1])
			c := s.Dial()
			send(t, c, "SET", "a", "1")
			state(t, s, "waiting")
			asked := func() int64 { return s.InfoInt("replication", "master_repl_offset") / getAckBytes }
			began := time.Now()
			from := asked()
			testkit.Until(t, testkit.Slowly(60*time.Second), "requests", func() error {
				return testkit.Equal(asked() >= from+sooner+20, true)
			})
			n := asked() - from
			if took := time.Since(began); took < time.Duration(n-sooner-5)*100*time.Millisecond {
				t.Errorf("%d requests in %s", n, took)
			}
		})
	}
}
