package whole

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// ends is a primary with a replica and a log. In each cell the primary ends and restarts.
var ends = &kind{name: "ends", lanes: 1, set: func(s *scene) {
	s.p = testkit.Start(s, "--appendonly", "yes", "--appendfsync", "always")
	s.r = testkit.Start(s, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.p.Port))
	s.more = []*testkit.Server{testkit.Start(s)}
	s.fill(fillers)
	s.r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
}}

// saves is like ends, without a log.
var saves = &kind{name: "saves", lanes: 1, set: func(s *scene) {
	s.p = testkit.Start(s)
	s.r = testkit.Start(s, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.p.Port))
	s.more = []*testkit.Server{testkit.Start(s)}
	s.fill(fillers)
	s.r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
}}

var endColumns = []*column{
	{name: "shutdown", kind: ends, weight: 25, rows: all, act: func(c *cell) {
		c.nap()
		c.shutdown(pick(c.rng, []any{"SHUTDOWN"}, []any{"SHUTDOWN", "SAVE"}, []any{"SHUTDOWN", "NOSAVE"},
			[]any{"SHUTDOWN", "NOW"})...)
	}, after: back},
	{name: "terminate", kind: ends, weight: 25, rows: all, act: func(c *cell) {
		c.nap()
		c.p.Signal(pick(c.rng, syscall.SIGTERM, syscall.SIGINT))
		c.p.Wait(testkit.Slowly(30 * time.Second))
	}, after: back},
	{name: "kill", kind: ends, weight: 25, rows: all, act: func(c *cell) {
		c.nap()
		c.p.Kill()
	}, after: back},
	{name: "tracking", kind: ends, weight: 25, rows: scripts, before: track, act: (*cell).tracked, after: trackedBack},
	{name: "saved", kind: saves, weight: 20, rows: all, act: func(c *cell) {
		c.nap()
		if c.rng.IntN(2) == 0 {
			c.shutdown("SHUTDOWN", "SAVE")
			return
		}
		c.tell(c.p, "CONFIG", "SET", "save", "3600 1")
		c.p.Signal(syscall.SIGTERM)
		c.p.Wait(testkit.Slowly(30 * time.Second))
	}, after: back},
}

// track connects a client that gets an invalidation when the unit's counter or a key of the client changes.
func track(c *cell) {
	c.told, c.stored = map[string]bool{}, map[string]bool{}
	client, err := respclient.Dial(c.p.Addr)
	if err != nil {
		c.Fatal(err)
	}
	c.listener = client
	client.SetTimeout(testkit.Slowly(20 * time.Second))
	client.OnPush = func(v respclient.Value) {
		if len(v.Elems) == 2 {
			for _, key := range v.Elems[1].Strings() {
				c.told[key] = true
				if key == c.unit.key("c") {
					c.isLogged("a push")
				}
			}
		}
	}
	for _, words := range [][]any{{"HELLO", 3}, {"CLIENT", "TRACKING", "ON"}, {"GET", c.unit.key("c")}} {
		if v, err := client.Do(words...); err != nil || v.Err() != nil {
			c.Fatal(words, v, err)
		}
	}
}

// tracked makes that client pipeline writes while the unit runs. The push about them is held meanwhile. After some
// replies the server is killed.
func (c *cell) tracked() {
	defer c.listener.Close()
	c.nap()
	n, last := 1+c.rng.IntN(8), 0
	for i := range n {
		key := c.unit.key("own:" + strconv.Itoa(i))
		c.listener.Send("GET", key)
		c.listener.Send("SET", key, i)
	}
	if last = c.rng.IntN(n); c.listener.Flush() != nil {
		c.Fatal("the writes cannot be sent")
	}
	for i := range last + 1 {
		for range 2 {
			v, err := c.listener.Receive()
			if err != nil || v.Err() != nil {
				c.Fatalf("the reply to write %d: %v %v", i, v, err)
			}
		}
		c.stored[c.unit.key("own:"+strconv.Itoa(i))] = true
	}
	c.p.Kill()
	for { // bytes that have arrived were sent before the kill
		v, err := c.listener.Receive()
		if err != nil {
			return
		}
		if v.Text == "OK" {
			last++
			c.stored[c.unit.key("own:"+strconv.Itoa(last))] = true
		}
	}
}

// trackedBack restarts the primary. It must have every write that was acknowledged, or about which the client got an
// invalidation.
func trackedBack(c *cell) {
	c.p.Restart()
	for key := range c.stored {
		if c.p.Do("EXISTS", key).Int == 0 {
			c.Errorf("the write of %s was acknowledged and is lost (%s)", key, c.outcome())
		}
	}
	for key := range c.told {
		if c.p.Do("EXISTS", key).Int == 0 {
			c.Errorf("a push has told the change of %s, which is lost (%s)", key, c.outcome())
		}
	}
	for i := range 8 {
		c.p.Do("UNLINK", c.unit.key("own:"+strconv.Itoa(i)))
	}
}

// shutdown ends the primary by a command. It repeats the command while the server is busy.
func (c *cell) shutdown(words ...any) {
	c.await("the end of the server", func() error {
		if c.p.Ended() {
			return nil
		}
		v, err := c.p.Ask(words...)
		if e := v.Err(); err == nil && e != nil && !strings.HasPrefix(e.Error(), "BUSY") {
			c.Fatal(e)
		}
		return fmt.Errorf("%v %v", v, err)
	})
	c.p.Wait(testkit.Slowly(30 * time.Second))
}

// back restarts the primary.
func back(c *cell) { c.p.Restart() }

// loads is a server whose log has a script in the form of Redis up to 6.2. Loading the log runs the script.
var loads = &kind{name: "load", lanes: 1, set: func(s *scene) {
	s.p = testkit.Start(s, "--appendonly", "yes")
	s.more = []*testkit.Server{testkit.Start(s)}
	s.fill(fillers)
	s.p.Do("WAITAOF", 1, 0, 0)
}}

var logged = &row{name: "logged", look: lookAtSteps}

var loadColumns = []*column{
	{name: "load", kind: loads, weight: 40, rows: []*row{logged}, act: func(c *cell) {
		u := &c.unit
		c.p.Terminate()
		c.appendToLog(c.p, u.part(1, u.n, u.work, "EVAL", steps))
		c.p.Again()
		c.await("a server that loads", func() error {
			v, err := c.p.Ask("PING")
			if err == nil && v.Err() == nil {
				return nil
			}
			if err == nil && strings.HasPrefix(v.Text, "LOADING") {
				err = nil
			}
			return err
		})
		c.nap()
		switch c.rng.IntN(8) {
		case 0:
			c.p.Signal(syscall.SIGTERM)
			c.p.Wait(testkit.Slowly(30 * time.Second))
		case 1:
			c.shutdown("SHUTDOWN", pick(c.rng, "NOSAVE", "SAVE", "NOW"))
		case 2:
			c.p.Kill()
		case 3:
			c.more[0].Do("REPLICAOF", "127.0.0.1", c.p.Port)
		default:
			words := pick(c.rng, []any{"BGSAVE"}, []any{"SAVE"}, []any{"CONFIG", "SET", "appendonly", "no"},
				[]any{"BGREWRITEAOF"}, []any{"FLUSHALL"}, []any{"CONFIG", "SET", "save", "1 1"}, []any{"DEBUG", "RELOAD"},
				[]any{"CLIENT", "KILL", "TYPE", "normal"}, []any{"REPLICAOF", "NO", "ONE"})
			v, err := c.p.Ask(words...)
			c.lost = words[0] == "FLUSHALL" && err == nil && v.Err() == nil // FLUSHALL ran after the load
		}
	}, after: func(c *cell) {
		if c.p.Ended() {
			c.p.Restart()
		}
		c.p.AwaitReady(testkit.Slowly(20 * time.Second))
	}, copies: func(c *cell) []*testkit.Server {
		if c.more[0].Info("replication")["role"] == "slave" {
			return []*testkit.Server{c.p, c.more[0]}
		}
		return []*testkit.Server{c.p}
	}, restore: func(c *cell) {
		c.p.Do("REPLICAOF", "NO", "ONE")
		c.p.Do("CONFIG", "SET", "appendonly", "yes", "save", "")
		if c.p.Do("EXISTS", "filler:1").Int == 0 {
			c.fill(fillers)
		}
		c.rewritten(c.p) // CONFIG SET may have started a rewrite
		c.must(c.p, "BGREWRITEAOF")
		c.rewritten(c.p)
		c.more[0].Do("REPLICAOF", "NO", "ONE")
		c.more[0].Do("FLUSHALL")
	}},
}

// appendToLog writes a command to the end of an ended server's log.
func (c *cell) appendToLog(s *testkit.Server, words []any) {
	files, err := filepath.Glob(s.File("appendonlydir/*.incr.aof"))
	if err != nil || len(files) == 0 {
		c.Fatalf("no log: %v", err)
	}
	file, err := os.OpenFile(files[len(files)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		c.Fatal(err)
	}
	defer file.Close()
	text := fmt.Sprintf("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*%d\r\n", len(words))
	for _, word := range words {
		one := fmt.Sprint(word)
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(one), one)
	}
	if _, err := file.WriteString(text); err != nil {
		c.Fatal(err)
	}
}
