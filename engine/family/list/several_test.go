package list

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMovement runs random LMOVEMs and compares the lists with those of a model. The propagated commands make the same
// lists elsewhere, and no list loses its deadline.
func TestMovement(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	core, space := newCore(t)
	copied, elsewhere := newCore(t)
	cl, mirror := core.Client(2), copied.Client(2)
	model := map[string][]string{}
	both := func(words ...string) {
		core.Do(cl, words...)
		copied.Do(mirror, words...)
	}
	for step := range 3000 {
		for _, key := range []string{"a", "b"} {
			if len(model[key]) > 0 && rng.IntN(20) > 0 {
				continue
			}
			both("LTRIM", key, "1", "0")
			model[key] = nil
			for range 1 + rng.IntN(12) {
				text := strconv.Itoa(rng.IntN(100))
				if rng.IntN(3) == 0 {
					text = strings.Repeat("x", rng.IntN(3000))
				}
				both("RPUSH", key, text)
				model[key] = append(model[key], text)
			}
			space.DB(0).SetDeadline([]byte(key), 1_800_000_000_000)
			elsewhere.DB(0).SetDeadline([]byte(key), 1_800_000_000_000)
		}
		from, to := "a", "b"
		if rng.IntN(3) == 0 {
			to = "a"
		}
		ends := []string{"LEFT", "RIGHT"}
		pop, push := ends[rng.IntN(2)], ends[rng.IntN(2)]
		order := []string{"OBO", "BULK"}[rng.IntN(2)]
		n := 1 + rng.IntN(14)
		call := []string{"LMOVEM", from, to, pop, push, "COUNT", strconv.Itoa(n), order}
		want := moved(model, from, to, pop, push, order, n)
		core.Reset()
		if got := core.Do(cl, call...); got != want {
			t.Fatalf("seed %d, step %d: %q answers %q, want %q", seed, step, call, got, want)
		}
		for _, e := range core.Effects {
			copied.Do(mirror, e.Args...)
		}
		for _, key := range []string{"a", "b"} {
			want := fmt.Sprintf("*%d\r\n", len(model[key]))
			for _, text := range model[key] {
				want += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
			}
			here, there := core.Do(cl, "LRANGE", key, "0", "-1"), copied.Do(mirror, "LRANGE", key, "0", "-1")
			if here != want || there != want {
				t.Fatalf("seed %d, step %d: %q makes %q, and %q elsewhere; want %q", seed, step, call, here, there, want)
			}
			v, w := space.DB(0).Peek([]byte(key)), elsewhere.DB(0).Peek([]byte(key))
			if v.Exists() && (!w.Exists() || v.Deadline() != w.Deadline()) {
				t.Fatalf("seed %d, step %d: %q leaves different deadlines", seed, step, call)
			}
		}
	}
}

// moved runs LMOVEM on the model. It returns the reply.
func moved(model map[string][]string, from, to, pop, push, order string, n int) string {
	src := model[from]
	n = min(n, len(src))
	var block []string // as popped
	if pop == "LEFT" {
		block, src = slices.Clone(src[:n]), slices.Clone(src[n:])
	} else {
		block, src = slices.Clone(src[len(src)-n:]), slices.Clone(src[:len(src)-n])
		slices.Reverse(block)
	}
	model[from] = src
	if order == "BULK" && pop == "RIGHT" || order == "OBO" && push == "LEFT" {
		slices.Reverse(block)
	}
	if push == "LEFT" {
		model[to] = append(block, model[to]...)
	} else {
		model[to] = append(model[to], block...)
	}
	reply := fmt.Sprintf("*%d\r\n", n)
	for _, text := range block {
		reply += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return reply
}
