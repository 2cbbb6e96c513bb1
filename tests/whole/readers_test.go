package whole

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// This file has units that only read, at a replica that becomes the primary, or gets another data set, in their middle.
// Meanwhile another client changes two keys together (changes).

// looksTwice is a script that looks at the role and the data twice, and computes for a while in between.
const looksTwice = `
local function look()
  local one, other = tostring(redis.call('GET', KEYS[1])), tostring(redis.call('GET', KEYS[2]))
  return one .. ' ' .. other .. ' ' .. redis.call('DBSIZE') ..
    string.match(redis.call('INFO', 'replication'), ' ?role:%a+'), one == other
end
local first, same = look()
local t = os.clock() while os.clock() - t < tonumber(ARGV[1]) do end
local second = look()
if first ~= second or not same then
  return redis.error_reply('ERR torn: ' .. first .. ' became ' .. second) end
return first`

// readLibrary defines looksTwice as a function.
const readLibrary = "#!lua name=reads\nredis.register_function{function_name='looks', flags={'no-writes'}, " +
	"callback=function(KEYS, ARGV)" + looksTwice + "\nend}"

// looksTwice returns a call of the script.
func (c *cell) looksTwice(call ...any) []any {
	return append(call, 2, c.unit.key("c"), c.unit.key("m"), fmt.Sprintf("%.6f", c.unit.work.Seconds()))
}

var (
	evalReads = &row{name: "eval-reads", look: reader.look, requests: func(c *cell) [][]any {
		return [][]any{c.looksTwice("EVAL_RO", looksTwice)}
	}}
	fcallReads = &row{name: "fcall-reads", look: reader.look, prepare: func(c *cell) {
		c.p.Do("FUNCTION", "LOAD", "REPLACE", readLibrary)
		c.await("the library at the replica", func() error {
			return testkit.Equal(len(c.r.Do("FUNCTION", "LIST", "LIBRARYNAME", "reads").Elems), 1)
		})
	}, requests: func(c *cell) [][]any {
		return [][]any{c.looksTwice("FCALL_RO", "looks")}
	}}
	execReads = &row{name: "exec-reads", look: reader.look, requests: func(c *cell) [][]any {
		u := &c.unit
		return [][]any{{"MULTI"}, {"ROLE"}, {"MGET", u.key("c"), u.key("m")}, {"DBSIZE"},
			c.looksTwice("EVAL_RO", looksTwice), {"DBSIZE"}, {"MGET", u.key("c"), u.key("m")}, {"ROLE"}, {"EXEC"}}
	}}
	readRows = []*row{evalReads, fcallReads, execReads}
)

// checkReads fails the cell if two reads of the unit differ. It reports whether the unit was answered with data.
func (c *cell) checkReads() bool {
	c.end()
	e := c.unit.reply.Elems
	if c.row != execReads || len(e) == 0 {
		return c.unit.acked()
	}
	if !c.unit.acked() || len(e) != 7 || len(e[0].Elems) == 0 || len(e[1].Elems) != 2 || len(e[6].Elems) == 0 {
		c.Errorf("a read of a transaction has failed: %v", c.unit.reply)
		return false
	}
	text := func(i int) string { return strings.Join(e[i].Strings(), " ") + strconv.FormatInt(e[i].Int, 10) }
	if role, last := e[0].Elems[0].Text, e[6].Elems[0].Text; role != last || text(1) != text(5) || text(2) != text(4) ||
		e[1].Elems[0].Text != e[1].Elems[1].Text {
		c.Errorf("the reads of a transaction differ: %v", c.unit.reply)
	}
	return true
}

// readsUntil runs the unit again and again, until over is true and a unit got data. A unit without data fails the cell.
// A slow cluster may be down for a moment: units of that moment do not count.
func (c *cell) readsUntil(what string, over func() bool) {
	for began, answered := time.Now(), false; ; c.resend() {
		final := over()
		switch {
		case c.checkReads():
			answered = true
		case !strings.HasPrefix(c.unit.reply.Text, "CLUSTERDOWN"):
			c.Fatalf("a unit got no data: %s", c.outcome())
		}
		if final && answered {
			return
		}
		if time.Since(began) > patience {
			c.Fatalf("%s: not yet, or no unit got data", what)
		}
	}
}

// leads reports whether s is a primary. It returns false if a script keeps s busy.
func leads(s *testkit.Server) bool {
	v, err := s.Ask("INFO", "replication")
	return err == nil && strings.Contains(v.Text, "role:master")
}

// resend sends the unit again.
func (c *cell) resend() {
	u := &c.unit
	c.leave()
	u.sent, u.reply, u.err, u.after, u.done = false, respclient.Value{}, nil, nil, make(chan struct{})
	c.begin()
}

// changes changes two keys of the unit together, on s, until stop is called.
func (c *cell) changes(s *testkit.Server) (stop func()) {
	client, err := respclient.Dial(s.Addr)
	if err != nil {
		c.Fatal(err)
	}
	client.SetTimeout(testkit.Slowly(20 * time.Second))
	over := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for tick := time.Tick(time.Millisecond); ; {
			select {
			case <-over:
				return
			case <-tick:
				if _, err := client.Pipeline([]any{"MULTI"}, []any{"INCR", c.unit.key("c")}, []any{"INCR", c.unit.key("m")},
					[]any{"RPUSH", c.unit.key("l"), 1}, []any{"EXEC"}); err != nil {
					return
				}
			}
		}
	})
	return func() {
		close(over)
		group.Wait()
		_ = client.Close()
	}
}

// smallBacklog is a primary with a small backlog, and a replica that loads a full copy beside its old data.
var smallBacklog = &kind{name: "small-backlog", lanes: 1, set: func(s *scene) {
	s.p = testkit.Start(s, "--repl-backlog-size", "16384", "--repl-ping-replica-period", "1")
	s.r = testkit.Start(s, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.p.Port), "--repl-diskless-load", "swapdb")
	s.fill(fillers)
	s.r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
}}

var readerColumns = []*column{
	{name: "copy-again", kind: smallBacklog, weight: 12, rows: readRows, before: func(c *cell) {
		onReplica(c)
		c.p.Do("CONFIG", "SET", "rdb-key-save-delay", c.rng.IntN(1000))
	}, act: func(c *cell) {
		// The batch leaves no moment in which the replica could continue from the backlog.
		copies, u := c.p.InfoInt("stats", "sync_full"), &c.unit
		client := known(c, c.p)
		defer client.Close()
		if _, err := client.Pipeline([]any{"CLIENT", "KILL", "TYPE", "replica"}, []any{"EVAL", `
			for i = 1, 40 do redis.call('SET', 'filler:pad', string.rep(i % 10, 1000)) end
			for _, key in ipairs(KEYS) do redis.call('INCR', key) end
			redis.call('SET', KEYS[1] .. 'x', 'y', 'PX', 20)`, 2, u.key("c"), u.key("m")}); err != nil {
			c.Fatal(err)
		}
		hurry(c.r)
		defer c.changes(c.p)()
		c.readsUntil("another full copy", func() bool {
			return c.p.InfoInt("stats", "sync_full") > copies && c.r.Info("replication")["master_link_status"] == "up"
		})
	}, restore: func(c *cell) { c.p.Do("CONFIG", "SET", "rdb-key-save-delay", 0) }},
	{name: "read-failover", kind: handovers, weight: 6, rows: readRows, before: onReplica, act: func(c *cell) {
		defer c.changes(c.p)()
		c.nap()
		switch c.rng.IntN(3) {
		case 0:
			c.must(c.p, "FAILOVER")
		case 1:
			c.must(c.p, "FAILOVER", "TO", "127.0.0.1", c.r.Port)
		default: // as Sentinel does
			client := known(c, c.r)
			defer client.Close()
			if _, err := client.Pipeline([]any{"MULTI"}, []any{"REPLICAOF", "NO", "ONE"}, []any{"CLIENT", "KILL", "TYPE",
				"pubsub"}, []any{"EXEC"}); err != nil {
				c.Fatal(err)
			}
			c.must(c.p, "REPLICAOF", "127.0.0.1", c.r.Port)
		}
		c.readsUntil("the failover", func() bool { return leads(c.r) })
	}, after: func(c *cell) {
		c.await("the failover", func() error {
			i := c.p.Info("replication")
			return testkit.Equal(i["role"]+" "+i["master_failover_state"], "slave no-failover")
		})
		c.p, c.r = c.r, c.p
		c.r.Do("CONFIG", "SET", "appendonly", "no")
		c.p.Do("CONFIG", "SET", "appendonly", "yes")
		c.rewritten(c.p)
	}},
	{name: "read-cluster-failover", kind: clusters, weight: 4, rows: readRows, before: func(c *cell) {
		votesAgain(c)
		onReplica(c)
		c.unit.ahead = [][]any{{"READONLY"}}
	}, act: func(c *cell) {
		defer c.changes(c.p)()
		c.nap()
		c.takesOver("CLUSTER", "FAILOVER")
		asked := time.Now()
		c.readsUntil("the failover", func() bool {
			return leads(c.r) || time.Since(asked) > testkit.Slowly(2*time.Second)
		})
	}, after: exchanged},
}
