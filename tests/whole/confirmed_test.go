package whole

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// confirmed is a primary whose replies wait for replicas, and its two replicas. All have logs, so that replies can also
// wait for the disks of the replicas.
var confirmed = &kind{name: "confirmed", lanes: 1, set: func(s *scene) {
	s.links = map[*testkit.Server]*testkit.Relay{}
	node := func() *testkit.Server {
		one := testkit.Start(s, "--appendonly", "yes", "--appendfsync", "always", "--repl-ping-replica-period", "1",
			"--repl-timeout", "600")
		s.links[one] = testkit.NewRelay(s)
		return one
	}
	s.p, s.r = node(), node()
	s.more = []*testkit.Server{node()}
	s.fill(fillers)
	s.regroup(s.p)
}}

var (
	ackRows   = []*row{eval, fcall, exec, sorts, restore}
	ackCopies = withMore(1)
)

// In each of these columns a unit whose reply came without an error must be on the new primary.
var ackColumns = []*column{
	{name: "ack-kill", kind: confirmed, weight: 12, rows: ackRows, before: waits, act: func(c *cell) {
		c.watched(func() {
			c.darkens()
			c.endOrNap()
		})
		c.p.Kill()
	}, after: func(c *cell) {
		c.regroup(c.fittest())
		c.shown()
	}, copies: ackCopies, restore: waitsNot},
	{name: "ack-kill-all", kind: confirmed, weight: 1, rows: ackRows, before: func(c *cell) {
		waits(c)
		c.setAll("min-replicas-to-ack", 2, "ack-mode", "disk")
	}, act: func(c *cell) {
		// A replica whose disk is full confirms nothing. Otherwise both have the unit in their logs after the reply.
		c.watched(func() {
			if c.rng.IntN(2) == 0 {
				testkit.Moment(c.rng, c.unit.wait+c.unit.work)
				c.fillDisk(pick(c.rng, c.r, c.more[0]))
				c.endOr(c.unit.wait + c.unit.work + 20*time.Millisecond)
				return
			}
			c.endOrNap()
		})
		all := c.servers()
		for i := range all {
			all[len(all)-1-i].Signal(syscall.SIGKILL) // the primary last
		}
		for _, one := range all {
			one.Kill()
		}
	}, after: func(c *cell) {
		for _, one := range c.servers() {
			one.Restart()
		}
		c.regroup(pick(c.rng, c.r, c.more[0]))
		c.shown()
	}, copies: ackCopies, restore: waitsNot},
	{name: "ack-timeout", kind: confirmed, weight: 6, rows: ackRows,
		before: func(c *cell) {
			waits(c)
			c.setAll("ack-timeout", 20)
		}, act: func(c *cell) {
			c.watched(func() {
				c.nap()
				for _, link := range c.links {
					link.Darken(true)
				}
				c.end()
			})
			if err := c.unit.reply.Err(); err != nil && !strings.HasPrefix(err.Error(), "UNCONFIRMED") {
				c.Errorf("the unit: %v", err)
			}
			c.lost = !c.unit.acked()
		}, after: func(c *cell) {
			c.setAll("ack-timeout", 60_000)
			next := c.p
			if c.rng.IntN(2) == 0 {
				c.p.Kill()
				next = c.fittest()
			}
			c.regroup(next)
			c.shown()
		}, copies: ackCopies, restore: waitsNot},
	{name: "ack-failover", kind: confirmed, weight: 8, rows: ackRows, before: waits, act: func(c *cell) {
		// In half of the cells the target gets nothing for a while. The failover must wait for the target, even if the other
		// replica has confirmed the unit.
		c.watched(func() {
			c.nap()
			link, dark := c.links[c.r], c.rng.IntN(2) == 0
			link.Darken(dark)
			c.must(c.p, "FAILOVER", "TO", "127.0.0.1", c.r.Port)
			if dark {
				testkit.Moment(c.rng, 250*time.Millisecond)
				link.Darken(false)
				link.Cut()
			}
			c.end()
		})
	}, after: func(c *cell) {
		c.await("the failover", func() error {
			if role := c.r.Info("replication")["role"]; role != "master" {
				return fmt.Errorf("the replica is %s", role)
			}
			return testkit.Equal(c.p.Info("replication")["master_failover_state"], "no-failover")
		})
		c.regroup(c.r)
		c.shown()
	}, copies: ackCopies, restore: waitsNot},
	{name: "ack-promote", kind: confirmed, weight: 8, rows: ackRows, before: func(c *cell) {
		waits(c)
		c.setAll("min-replicas-to-ack", 2)
	}, act: func(c *cell) {
		// No write is confirmed after the promotion, because the other replica does not suffice.
		c.watched(func() {
			c.nap()
			c.must(c.r, "REPLICAOF", "NO", "ONE")
			c.must(c.p, "REPLICAOF", "127.0.0.1", c.r.Port)
			c.end()
		})
	}, after: func(c *cell) {
		c.regroup(c.r)
		c.shown()
	}, copies: ackCopies, restore: waitsNot},
}

// setAll sets parameters of all servers.
func (c *cell) setAll(pairs ...any) {
	for _, one := range c.servers() {
		one.Do(append([]any{"CONFIG", "SET"}, pairs...)...)
	}
}

// waits makes replies wait for replicas.
func waits(c *cell) {
	c.setAll("ack-timeout", 60_000, "ack-mode", pick(c.rng, "memory", "disk"), "min-replicas-to-ack", 1+c.rng.IntN(2))
}

// waitsNot makes them leave at once.
func waitsNot(c *cell) { c.setAll("min-replicas-to-ack", 0) }

// darkens makes some replicas get no more of the stream.
func (c *cell) darkens() {
	links := []*testkit.Relay{c.links[c.r], c.links[c.more[0]]}
	switch c.rng.IntN(4) {
	case 0, 1: // the other replica may confirm
		links = links[c.rng.IntN(2):][:1]
	case 2:
		return
	}
	testkit.Moment(c.rng, c.unit.wait+c.unit.work)
	for _, link := range links {
		link.Darken(true)
	}
}

// endOrNap waits for the unit's reply, or for a random time.
func (c *cell) endOrNap() {
	limit := c.unit.wait + c.unit.work + 20*time.Millisecond
	if c.rng.IntN(2) == 0 {
		limit = time.Duration(c.rng.Int64N(int64(limit)))
	}
	c.endOr(limit)
}

// endOr waits for the unit's reply, at most for a time.
func (c *cell) endOr(limit time.Duration) {
	select {
	case <-c.unit.done:
	case <-time.After(limit):
	}
}

// fillDisk lets no file of a server grow any more. The limit ends with the process.
func (c *cell) fillDisk(s *testkit.Server) {
	if err := unix.Prlimit(s.PID, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, nil); err != nil {
		c.Fatal(err)
	}
}

// watched runs f while another client asks the primary for keys of the unit.
func (c *cell) watched(f func()) {
	client, err := respclient.Dial(c.p.Addr)
	if err != nil {
		c.Fatal(err)
	}
	client.SetTimeout(testkit.Slowly(2 * time.Minute))
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for c.saw == 0 {
			all, err := client.Pipeline([]any{"MULTI"}, []any{"EXISTS", c.unit.key("m"), c.unit.key("k")}, []any{"ROLE"},
				[]any{"EXEC"})
			if err != nil || len(all[3].Elems) != 2 || all[3].Elems[1].Elems[0].Text != "master" {
				return // a replica shows what it has
			}
			c.saw = all[3].Elems[0].Int
			select {
			case <-over:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	c.sight = func() {
		_ = client.Close()
		<-done
	}
	defer close(over)
	f()
}

// shown fails the cell if the other client saw the unit and the new primary lacks it. No client sees what is not
// confirmed.
func (c *cell) shown() {
	if c.sight(); c.saw > 0 {
		if is, detail := c.row.look(c, c.p); is != whole {
			c.Errorf("another client has seen the unit, and the new primary lacks it: %s (%s)", detail, c.outcome())
		}
	}
}

// fittest waits until both replicas have lost their primary, and returns the one with the greatest offset.
func (c *cell) fittest() *testkit.Server {
	for _, one := range []*testkit.Server{c.r, c.more[0]} {
		c.links[one].Cut()
		one.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "down")
	}
	if c.more[0].InfoInt("replication", "slave_repl_offset") > c.r.InfoInt("replication", "slave_repl_offset") {
		return c.more[0]
	}
	return c.r
}

// regroup makes one server the primary of the others.
func (s *scene) regroup(primary *testkit.Server) {
	all := s.servers()
	for i, one := range all {
		if s.links[one].Darken(false); one == primary {
			all[0], all[i] = all[i], all[0]
		}
	}
	s.p, s.r, s.more[0] = all[0], all[1], all[2]
	s.p.Do("REPLICAOF", "NO", "ONE")
	for _, one := range all[1:] {
		if one.Ended() {
			one.Restart()
		}
		s.links[one].To(s.p)
		s.links[one].Cut()
		one.Do("REPLICAOF", "127.0.0.1", s.links[one].Port())
	}
	for _, one := range all[1:] {
		one.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	}
}
