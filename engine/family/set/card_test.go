package set

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestCards: SUNIONCARD and SDIFFCARD return the number of members that SUNIONSTORE and SDIFFSTORE store, for sets of
// all sizes and encodings.
func TestCards(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	core := newCore(t)
	cl := core.Client(2)
	var keys []string
	for i, n := range []int{0, 1, 5, 100, 500, 700, 2000, 5000} {
		for _, form := range []string{"%d", "m%d"} {
			key := fmt.Sprintf("k%d%s", i, form)
			keys = append(keys, key)
			for range n {
				core.Do(cl, "SADD", key, fmt.Sprintf(form, rng.IntN(6000)))
			}
		}
	}
	for range 400 {
		some := make([]string, 1+rng.IntN(9))
		for i := range some {
			some[i] = keys[rng.IntN(len(keys))]
		}
		limit := rng.IntN(4000)
		for _, op := range []string{"SUNION", "SDIFF"} {
			stored := core.Do(cl, append([]string{op + "STORE", "d"}, some...)...)
			n, err := strconv.Atoi(strings.Trim(stored, ":\r\n"))
			if err != nil {
				t.Fatal(err)
			}
			call := append([]string{op + "CARD", strconv.Itoa(len(some))}, some...)
			if got := core.Do(cl, call...); got != stored {
				t.Fatalf("seed %d: %q counts %q, stored are %q", seed, call, got, stored)
			}
			if limit > 0 {
				n = min(n, limit)
			}
			call = append(call, "LIMIT", strconv.Itoa(limit))
			if got := core.Do(cl, call...); got != fmt.Sprintf(":%d\r\n", n) {
				t.Fatalf("seed %d: %q counts %q, want %d", seed, call, got, n)
			}
		}
	}
}
