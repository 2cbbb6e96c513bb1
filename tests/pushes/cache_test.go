package pushes

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"spindle/tests/testkit"
)

const (
	cachedKeys = 12
	volatile   = 4 // keys that expire now and then
	none       = -1
)

// A cache is a client that caches what it has read until an invalidation names it.
type cache struct {
	link   *link
	held   map[string]int  // the cached values; none for a missing key
	last   map[string]int  // the latest known value of the key
	gone   map[string]bool // the key has changed since then
	due    []string        // requested keys, in order
	keys   []string
	rng    *rand.Rand
	misses int
}

// take handles one reply or push. Values only grow. A key is only invalidated after a change, so a later read must
// return a newer value.
func (c *cache) take(got string) error {
	if key, is := strings.CutPrefix(got, ">2 invalidate *1 "); is {
		delete(c.held, key)
		c.gone[key] = true
		return nil
	}
	if len(c.due) == 0 {
		return fmt.Errorf("unasked: %q", got)
	}
	key := c.due[0]
	c.due = c.due[1:]
	n, err := strconv.Atoi(got)
	if got == "_" {
		n, err = none, nil
	}
	if err != nil {
		return fmt.Errorf("%s is %q", key, got)
	}
	expires := key < "k"+fmt.Sprint(volatile)
	last := c.last[key]
	switch {
	case n != none && n < last, n == none && !expires && last > 0:
		return fmt.Errorf("%s was %d, and is %d", key, last, n)
	case c.gone[key] && !expires && n == last:
		return fmt.Errorf("%s was said to have changed, and still is %d", key, n)
	}
	c.held[key], c.last[key], c.gone[key] = n, max(n, last), false
	c.misses++
	return nil
}

// read requests some keys that are not cached.
func (c *cache) read() error {
	var commands [][]string
	for range 1 + c.rng.IntN(4) {
		key := c.keys[c.rng.IntN(len(c.keys))]
		if _, is := c.held[key]; !is {
			commands, c.due = append(commands, []string{"GET", key}), append(c.due, key)
		}
	}
	if len(commands) == 0 { // another client must change something first
		return c.settle()
	}
	if err := c.link.send(commands...); err != nil {
		return err
	}
	for len(c.due) > 0 {
		got, err := c.link.read()
		if err == nil {
			err = c.take(got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle handles all replies and pushes that the server sent before its reply to a PING.
func (c *cache) settle() error {
	if err := c.link.send([]string{"PING", "end"}); err != nil {
		return err
	}
	for {
		switch got, err := c.link.read(); {
		case err != nil:
			return err
		case got == "end":
			return nil
		default:
			if err := c.take(got); err != nil {
				return err
			}
		}
	}
}

// TestCachesAreNeverStale: caches on one loop and on two read at the same time, while others write and keys expire. No
// cache misses a change. After an invalidation a cache reads a newer value. At the end every cached value equals the
// server's.
func TestCachesAreNeverStale(t *testing.T) {
	for loops := 1; loops <= 2; loops++ {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--io-threads", fmt.Sprint(loops))
			var keys []string
			for i := range cachedKeys {
				keys = append(keys, "k"+string(rune('0'+i)))
			}
			var readers, writers sync.WaitGroup
			caches, stop := make([]*cache, 6), make(chan struct{})
			for i := range caches {
				l, err := dial(s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				l.send([]string{"HELLO", "3"}, []string{"CLIENT", "TRACKING", "ON"})
				l.read()
				l.read()
				caches[i] = &cache{
					link: l, held: map[string]int{}, last: map[string]int{}, gone: map[string]bool{}, keys: keys,
					rng: rand.New(rand.NewPCG(uint64(i), uint64(loops))),
				}
				readers.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := caches[i].read(); err != nil {
							t.Errorf("cache %d: %v", i, err)
							return
						}
					}
				})
			}
			for w := range 3 { // each writer has its own keys
				writers.Go(func() {
					l, err := dial(s.Addr)
					if err != nil {
						t.Error(err)
						return
					}
					defer l.Close()
					rng := rand.New(rand.NewPCG(uint64(w), 1))
					for n := 1; n <= 1500*testkit.Scale(); n++ {
						key := keys[w+3*rng.IntN(len(keys)/3)]
						command := []string{"SET", key, fmt.Sprint(n)}
						if key < "k"+fmt.Sprint(volatile) && rng.IntN(2) == 0 {
							command = append(command, "PX", "1")
						}
						l.send(command)
						l.read()
					}
				})
			}
			writers.Wait()
			close(stop)
			readers.Wait()
			for i, c := range caches {
				if t.Failed() {
					break
				}
				for _, key := range keys {
					s.Do("PERSIST", key)
				}
				if err := c.settle(); err != nil {
					t.Fatal(err)
				}
				for key, n := range c.held {
					want := none
					if v := s.Do("GET", key); v.Text != "" {
						want, _ = strconv.Atoi(v.Text)
					}
					if n != want {
						t.Errorf("cache %d: %s is %d, and cached as %d", i, key, want, n)
					}
				}
				if c.misses < 100 {
					t.Errorf("cache %d has read %d values: that shows nothing", i, c.misses)
				}
			}
		})
	}
}
