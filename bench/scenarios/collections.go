package scenarios

import (
	"fmt"
	"math/rand/v2"

	"spindle/bench/load"
)

// elementsPerCall is the number of elements that a call adds if the command takes several. So 10 M are added within
// seconds.
const elementsPerCall = 100

// A collection is a type of value, with its commands for filling and writing. Elements are 14 bytes long, and a hash's
// values are 16 bytes long.
type collection struct {
	name    string
	add     []string // command and key are "…", "big"
	element []string
	single  bool // a call adds one element
	// writes returns commands that change elements of a value of n elements without changing its size much.
	writes func(n uint64) []load.Command
	count  string // the command that counts the elements
}

// member is the pattern of the 14-byte elements.
const member = "m-{member}"

// score is a number without trailing zeros, so that every version prints it with the same digits.
const score = "{number}1"

var collections = []collection{
	{name: "list", add: []string{"RPUSH", "big"}, element: []string{member}, count: "LLEN",
		writes: func(n uint64) (mix []load.Command) {
			rng := rand.New(rand.NewPCG(1, 2)) // the same positions on every server
			for range 62 {
				mix = append(mix, load.Request("LSET", "big", fmt.Sprint(1+rng.Uint64N(max(1, n-2))), member))
			}
			return append(mix, load.Request("RPUSH", "big", member), load.Request("LPOP", "big"))
		}},
	{name: "set", add: []string{"SADD", "big"}, element: []string{member}, count: "SCARD",
		writes: func(uint64) []load.Command {
			return []load.Command{load.Request("SREM", "big", member), load.Request("SADD", "big", member)}
		}},
	{name: "hash", add: []string{"HSET", "big"}, element: []string{member, "{value:16}"}, count: "HLEN",
		writes: func(uint64) []load.Command {
			return []load.Command{load.Request("HSET", "big", member, "{value:16}")}
		}},
	{name: "zset", add: []string{"ZADD", "big"}, element: []string{score, member}, count: "ZCARD",
		writes: func(uint64) []load.Command {
			return []load.Command{load.Request("ZADD", "big", score, member)}
		}},
	{name: "stream", add: []string{"XADD", "big", "*", "f"}, element: []string{member}, single: true, count: "XLEN",
		writes: func(uint64) []load.Command {
			return []load.Command{load.Request("XADD", "big", "*", "f", member)}
		}},
}

// elements rounds n down to a multiple of elementsPerCall, but not to zero.
func elements(n uint64) uint64 { return max(n-n%elementsPerCall, elementsPerCall) }

// fillWith adds the elements first to first+n to the value at key.
func (c *collection) fillWith(key string, first, n uint64) load.Spec {
	words, calls := append([]string(nil), c.add...), n
	words[1] = key
	if c.single {
		words = append(words, c.element...)
	} else {
		calls = n / elementsPerCall
		for range elementsPerCall {
			words = append(words, c.element...)
		}
	}
	spec := fill(n, first, words...)
	spec.Requests = int64(calls)
	if !c.single {
		spec.Pipeline = 8
	}
	return spec
}

// fillCollection makes a value of n elements, and checks their number.
func (s *Server) fillCollection(c *collection, key string, first, n uint64) error {
	if err := s.Fill(c.fillWith(key, first, n)); err != nil {
		return err
	}
	count, err := s.Do(c.count, key)
	if err == nil && count.Int != int64(n) {
		err = fmt.Errorf("%s: %d elements in a %s after %d were added", s.Name, count.Int, c.name, n)
	}
	return err
}
