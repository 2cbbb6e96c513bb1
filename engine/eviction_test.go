package engine

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/part"
)

const outOfMemory = "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

// TestEvictionEnds: under a limit that cannot be met, every policy evicts all keys that it may, in every database. Then
// it stops, on each attempt.
func TestEvictionEnds(t *testing.T) {
	const keys = 40 // with a deadline, and as many without, in each of two databases
	for _, policy := range policies {
		t.Run(policy.Name, func(t *testing.T) {
			h := newTestCore(t)
			cl, _ := h.arrive()
			for _, db := range []string{"SELECT 3", "SELECT 0"} {
				h.do(cl, db)
				for i := range keys {
					h.do(cl, fmt.Sprint("SET stays", i, " ", strings.Repeat("v", 500)),
						fmt.Sprint("SET ends", i, " ", strings.Repeat("v", 500), " EX 1000"))
				}
			}
			left := 0
			switch p := keyspace.Policy(policy.Value); p {
			case keyspace.NoEviction:
				left = 2 * keys
			case keyspace.VolatileLRU, keyspace.VolatileLFU, keyspace.VolatileRandom, keyspace.VolatileTTL,
				keyspace.VolatileLRM:
				left = keys
			}
			h.settings.Tenacity.Set(100) // without a limit of time
			h.settings.Policy.Set(policy.Value)
			h.settings.MaxMemory.Set(1)
			h.Do(h.ApplyMemoryLimit)
			for range 3 {
				h.expect("a write", h.do(cl, "SET new x"), outOfMemory)
				h.expect("what may stay", h.do(cl, "DBSIZE", "SELECT 3", "DBSIZE", "SELECT 0"),
					fmt.Sprintf(":%d\r\n+OK\r\n:%d\r\n+OK\r\n", left, left))
			}
			if n, want := h.space.Stats.Evicted, int64(4*keys-2*left); n != want {
				t.Errorf("%d keys were evicted, want %d", n, want)
			}
			h.settings.MaxMemory.Set(uint64(h.UsedMemory() + 1<<20))
			h.Do(h.ApplyMemoryLimit)
			h.expect("with room", h.do(cl, "SET new x"), "+OK\r\n")
		})
	}
}

// TestEvictionIsBookedToNoCommand: the time of an eviction before a command counts neither for that command nor for the
// commands before it.
func TestEvictionIsBookedToNoCommand(t *testing.T) {
	const nap, evicting = 20 * time.Millisecond, 600 * time.Millisecond
	var h *testCore
	h = newTestCore(t, command.Spec{Name: "grow", Arity: 2, Flags: command.Fast | command.Write,
		Run: func(c *command.Context) error {
			h.pass(nap)
			c.DB.SetString(c.Args[1], make([]byte, 100_000), 0)
			c.Reply.OK()
			return nil
		}})
	h.Subscribe(part.Listeners{Publish: func(_, _ []byte) { h.pass(evicting) }})
	h.settings.NotifyEvents.Set(int64(command.EventKeyevent | command.EventEvicted))
	h.settings.Policy.Set(EvictionPolicy(keyspace.AllKeysRandom))
	h.settings.MaxMemory.Set(uint64(h.UsedMemory() + 50_000))
	h.Do(h.ApplyMemoryLimit)
	cl, _ := h.arrive()
	h.expect("replies", h.do(cl, "GROW a", "GROW b"), "+OK\r\n+OK\r\n")
	if h.space.Stats.Evicted == 0 {
		t.Fatal("nothing was evicted")
	}
	s := &h.catalogue.Lookup([]byte("grow")).Stats
	if took := time.Duration(s.Nanos); s.Calls != 2 || took != 2*nap {
		t.Errorf("%d calls took %v", s.Calls, took)
	}
}

// TestPinnedMakesRoom: a deleted string that is still being sent to a client does not count towards maxmemory.
func TestPinnedMakesRoom(t *testing.T) {
	h := newTestCore(t)
	h.RemoveSink(h.sink)
	cl, _ := h.arrive()
	value := strings.Repeat("v", 100_000)
	for i := range 5 {
		h.do(cl, fmt.Sprint("SET long", i, " ", value))
	}
	h.settings.MaxMemory.Set(uint64(h.UsedMemory() + 10_000))
	h.Do(h.ApplyMemoryLimit)
	var release func()
	h.Do(func() { release = h.space.DB(0).Pin(h.space.DB(0).Lookup([]byte("long0"))) })
	h.expect("in its place", h.do(cl, "DEL long0", "SET new "+value, "SET one x"), ":1\r\n+OK\r\n+OK\r\n")
	h.expect("more", h.do(cl, "SET more "+value, "SET one x"), "+OK\r\n"+outOfMemory)
	release()
	h.expect("released", h.do(cl, "DEL more", "SET one x"), ":1\r\n+OK\r\n")
}

// TestOutOfMemoryWhileLent: a command that began without memory has lent the turn. A call of another client does not
// change that, so a script's later writes are refused too.
func TestOutOfMemoryWhileLent(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	long, _ := h.arrive()
	other, _ := h.arrive()
	h.settings.MaxMemory.Set(1)
	h.Do(h.ApplyMemoryLimit)
	h.batch(long, "LONG k")
	h.turn(other, "GET k")
	h.Do(func() {
		if !h.Core.Lent() || !h.OutOfMemory() {
			t.Errorf("lent: %t, out of memory: %t", h.Core.Lent(), h.OutOfMemory())
		}
	})
	third, _ := h.arrive()
	h.do(third, "ENDLONG")
	eventually(t, "the command's end", func() bool { return !h.Lent() })
}
