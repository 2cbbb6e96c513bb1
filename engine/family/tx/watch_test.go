package tx

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/tests/testkit/commandtest"
)

// check checks tx.W1..tx.W5 for clients, which must be all clients.
func (w *Watches) check(clients []*client.Client) error {
	entries, watching := 0, 0
	for _, cl := range clients {
		if len(cl.Watched) > 0 {
			watching++
			if cl.Is(client.DirtyCAS) {
				return fmt.Errorf("tx.W4: client %d is dirty and watches %v", cl.ID, cl.Watched)
			}
		}
		for i, watched := range cl.Watched {
			entries++
			list := w.dbs[watched.DB][watched.Key]
			if watched.At >= len(list) || list[watched.At] != (watcher{cl, i}) {
				return fmt.Errorf("tx.W1, tx.W5: client %d says it is at %d of %q", cl.ID, watched.At, watched.Key)
			}
			for _, other := range cl.Watched[:i] {
				if other.DB == watched.DB && other.Key == watched.Key {
					return fmt.Errorf("tx.W1: client %d watches %q twice", cl.ID, watched.Key)
				}
			}
		}
	}
	listed := 0
	for _, keys := range w.dbs {
		for key, list := range keys {
			if len(list) == 0 {
				return fmt.Errorf("tx.W2: nobody watches %q", key)
			}
			listed += len(list)
		}
	}
	if listed != entries || w.space.Watching != entries || w.clients != watching {
		return fmt.Errorf("tx.W1, tx.W3: %d entries, %d in lists, Watching %d; %d clients, counted %d",
			entries, listed, w.space.Watching, watching, w.clients)
	}
	return nil
}

// TestForgettingDoesNotSearch compares UNWATCH of keys that another client also watches with UNWATCH of other keys. The
// first may take a few times as long. A search in the other client's list would take hundreds of times as long.
func TestForgettingDoesNotSearch(t *testing.T) {
	const n = 30_000
	core, w := newCore(t)
	first, second := core.Client(2), core.Client(2)
	words := []string{"WATCH"}
	for i := range n {
		words = append(words, fmt.Sprint("k", i))
	}
	timed := func(cl *client.Client) time.Duration {
		began := time.Now()
		w.Forget(cl)
		return time.Since(began)
	}
	core.Do(first, words...)
	alone := timed(first)
	shared, limit := time.Hour, 20*alone+50*time.Millisecond
	for tries := 0; tries < 10 && shared > limit; tries++ { // other work on the host lengthens some of them
		core.Do(first, words...)
		core.Do(second, words...)
		shared = timed(first)
	}
	if shared > limit {
		t.Errorf("%d keys: %v alone, %v beside another client, want at most %v", n, alone, shared, limit)
	}
}

// family returns a few commands that change keys, so that the test needs no other family.
func family(whole *command.Whole) command.Family {
	return command.Family{Name: "test", Rows: []command.Spec{
		{Name: "put", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
			c.DB.SetString(c.Args[1], []byte("v"), 0)
			c.Reply.OK()
			return nil
		}},
		{Name: "del", Arity: 2, Flags: command.Write,
			Run: func(c *command.Context) error { c.DB.Delete(c.Args[1]); return nil }},
		{Name: "flush", Arity: 1, Run: func(c *command.Context) error { whole.Empty(c.DB); return nil }},
		{Name: "swap", Arity: 1, Run: func(c *command.Context) error { whole.Swap(c.Space, 0, 1); return nil }},
		{Name: "fail", Arity: 1, Run: func(c *command.Context) error { c.Reply.OK(); return errExecAlone }},
	}}
}

func newCore(t *testing.T) (*commandtest.Core, *Watches) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	space := keyspace.New(heap, keyspace.Options{Databases: 2})
	w := NewWatches(space)
	whole := &command.Whole{Emptying: w.Emptying, Swapping: w.Swapping}
	core, err := commandtest.New(space, 1_700_000_000_000, w.Family(), family(whole))
	if err != nil {
		t.Fatal(err)
	}
	space.Hooks.Touched = w.Touched
	core.Abort = w.Abort
	return core, w
}

// TestWatchesModel compares Watches with the definition: a client is dirty if a key that it watches was written or
// removed.
func TestWatchesModel(t *testing.T) {
	core, w := newCore(t)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	type place struct {
		db  int
		key string
	}
	exists := map[place]bool{}
	var clients []*client.Client
	watched, dirty := map[*client.Client]map[place]bool{}, map[*client.Client]bool{}
	for range 5 {
		cl := core.Client(2)
		clients, watched[cl] = append(clients, cl), map[place]bool{}
	}
	spoil := func(p place) {
		for _, cl := range clients {
			if watched[cl][p] {
				dirty[cl] = true
				clear(watched[cl])
			}
		}
	}
	for step := range 5000 {
		cl := clients[rng.IntN(len(clients))]
		cl.DB = rng.IntN(2)
		p := place{cl.DB, fmt.Sprint("k", rng.IntN(4))}
		switch rng.IntN(12) {
		case 0, 1, 2, 3:
			core.Do(cl, "WATCH", p.key)
			if !dirty[cl] {
				watched[cl][p] = true
			}
		case 4, 5:
			core.Do(cl, "PUT", p.key)
			exists[p] = true
			spoil(p)
		case 6:
			core.Do(cl, "DEL", p.key)
			if exists[p] {
				delete(exists, p)
				spoil(p)
			}
		case 7:
			core.Do(cl, "UNWATCH")
			dirty[cl] = false
			clear(watched[cl])
		case 8, 9:
			core.Do(cl, "MULTI")
			want := "*0\r\n"
			if dirty[cl] {
				want = "*-1\r\n"
			}
			if got := core.Do(cl, "EXEC"); got != want {
				t.Fatalf("seed %d, step %d: EXEC answers %q, want %q", seed, step, got, want)
			}
			dirty[cl] = false
			clear(watched[cl])
		case 10:
			core.Do(cl, "FLUSH")
			for q := range exists {
				if q.db == cl.DB {
					spoil(q)
					delete(exists, q)
				}
			}
		case 11:
			core.Do(cl, "SWAP")
			swapped := map[place]bool{}
			for q := range exists {
				spoil(q)
				spoil(place{1 - q.db, q.key})
				swapped[place{1 - q.db, q.key}] = true
			}
			exists = swapped
		}
		if err := w.check(clients); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
		for _, other := range clients {
			if other.Is(client.DirtyCAS) != dirty[other] {
				t.Fatalf("seed %d, step %d: client %d dirty %t", seed, step, other.ID, other.Is(client.DirtyCAS))
			}
		}
	}
}

// TestQueueHoldsCopies: queued commands survive the buffer that they came in, which commandtest overwrites. An error
// inside leaves no partial reply.
func TestQueueHoldsCopies(t *testing.T) {
	core, _ := newCore(t)
	cl := core.Client(2)
	core.Do(cl, "MULTI")
	core.Do(cl, "PUT", "key-in-a-buffer")
	core.Do(cl, "FAIL")
	if got, want := core.Do(cl, "EXEC"), "*2\r\n+OK\r\n-ERR EXEC without MULTI\r\n"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if !core.Space.DB(0).Peek([]byte("key-in-a-buffer")).Exists() {
		t.Fatal("the key was not copied")
	}
	if cl.Flags&(client.Multi|client.DenyBlocking) != 0 || cl.Queue != nil {
		t.Fatalf("flags %b, queue %v after EXEC", cl.Flags, cl.Queue)
	}
}

func TestAbort(t *testing.T) {
	core, _ := newCore(t)
	cl := core.Client(2)
	core.Do(cl, "MULTI")
	if got, want := core.Do(cl, "EXEC",
		"x"), "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if cl.Is(client.Multi) {
		t.Fatal("still inside MULTI")
	}
}
