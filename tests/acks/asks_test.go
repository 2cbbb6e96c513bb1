package acks

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"syscall"
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

// TestTooFewForAFailover: with min-replicas-to-ack 1, a primary with two replicas warns while one of them is silent. A
// failover to the other one might lose a confirmed write.
func TestTooFewForAFailover(t *testing.T) {
	t.Parallel()
	admin := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s, all := replicas(t, testkit.Ours, 2, "--min-replicas-to-ack", "1", "--admin-address", admin)
	healthz := func(want string) {
		testkit.Until(t, testkit.Slowly(60*time.Second), want, func() error {
			r, err := http.Get("http://" + admin + "/healthz")
			if err != nil {
				return err
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			return errors.Join(err, testkit.Equal(r.StatusCode, 200), testkit.Equal(string(body), want))
		})
	}
	healthz("ok\n")
	stop(t, all[1])
	healthz("ok\nwarning: 1 of 2 replicas are well. A failover that keeps confirmed writes needs 2 " +
		"(min-replicas-to-ack 1).\n")
	for field, want := range map[string]int64{"known": 2, "well": 1, "for_failover": 2} {
		if n := s.InfoInt("replication", "ack_replicas_"+field); n != want {
			t.Errorf("ack_replicas_%s is %d", field, n)
		}
	}
	all[1].Signal(syscall.SIGCONT)
	healthz("ok\n")
}
