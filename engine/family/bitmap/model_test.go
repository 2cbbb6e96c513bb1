package bitmap

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// A model is a database of strings, read and written bit by bit.
type model map[string][]byte

func (m model) grow(key string, bits int) {
	if n := (bits+7)/8 - len(m[key]); n > 0 {
		m[key] = append(m[key], make([]byte, n)...)
	}
}

func (m model) bit(key string, at int) bool {
	return at>>3 < len(m[key]) && m[key][at>>3]&(0x80>>(at&7)) != 0
}

func (m model) set(key string, at int, on bool) {
	m[key][at>>3] &^= 0x80 >> (at & 7)
	if on {
		m[key][at>>3] |= 0x80 >> (at & 7)
	}
}

// at returns byte i of b, or 0 past its end.
func at(b []byte, i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0
}

func digit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// TestModel runs random commands on strings around chunk borders and compares with the model. Open views must not
// change.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	core, space := newCore(t)
	cl := core.Client(2)
	m := model{}
	keys := []string{"int", "short", "inline", "long", "sparse", "d"}
	put := func(key, val string) {
		core.Do(cl, "SET", key, val)
		m[key] = []byte(val)
	}
	near := func(key string) int { // a bit at a border, at the end, or anywhere
		edges := []int{0, value.ChunkSize * 8, 2 * value.ChunkSize * 8, len(m[key]) * 8, len(m[key]) * 4}
		if rng.IntN(4) == 0 {
			return rng.IntN(5 * value.ChunkSize * 4)
		}
		return max(edges[rng.IntN(len(edges))]+rng.IntN(140)-70, 0)
	}
	expect := func(got, want string, words ...string) {
		t.Helper()
		if got != want {
			t.Fatalf("%s answers %q, want %q", strings.Join(words, " "), got, want)
		}
	}
	do := func(want string, words ...string) {
		t.Helper()
		expect(core.Do(cl, words...), want, words...)
	}
	var frozen *keyspace.View
	then := map[string][]byte{}
	same := func() {
		for key, want := range then {
			v := frozen.Get(0, []byte(key))
			if !v.Exists() || !bytes.Equal(v.AppendTo(nil), want) {
				t.Fatalf("the view's %s has changed", key)
			}
		}
	}
	steps := 1200
	if testing.Short() {
		steps = 400
	}
	for step := range steps {
		key := keys[rng.IntN(len(keys))]
		switch rng.IntN(12) {
		case 0:
			switch key {
			case "int":
				put(key, strconv.Itoa(rng.IntN(1<<30)))
			case "short", "d":
				put(key, strings.Repeat("s", rng.IntN(60)+1))
			case "inline":
				put(key, strings.Repeat("x\x00", 1000+rng.IntN(3200)))
			case "long":
				put(key, strings.Repeat("abcdefg\xff", value.ChunkSize/4-rng.IntN(10)))
			case "sparse":
				core.Do(cl, "GETDEL", key)
				delete(m, key)
			}
		case 1, 2, 3, 4:
			at, on := near(key), rng.IntN(2)
			was := digit(m.bit(key, at))
			m.grow(key, at+1)
			m.set(key, at, on == 1)
			do(fmt.Sprintf(":%d\r\n", was), "SETBIT", key, strconv.Itoa(at), strconv.Itoa(on))
		case 5:
			at := near(key)
			do(fmt.Sprintf(":%d\r\n", digit(m.bit(key, at))), "GETBIT", key, strconv.Itoa(at))
		case 6:
			from, to := near(key), near(key)
			n := 0
			for i := from; i <= to && i < len(m[key])*8; i++ {
				n += digit(m.bit(key, i))
			}
			do(fmt.Sprintf(":%d\r\n", n), "BITCOUNT", key, strconv.Itoa(from), strconv.Itoa(to), "BIT")
		case 7:
			from, to, bit := near(key), near(key), rng.IntN(2)
			if m[key] == nil {
				continue // the reply does not depend on the range
			}
			want := -1
			for i := from; i <= to && i < len(m[key])*8 && want < 0; i++ {
				if m.bit(key, i) == (bit == 1) {
					want = i
				}
			}
			do(fmt.Sprintf(":%d\r\n", want), "BITPOS", key, strconv.Itoa(bit), strconv.Itoa(from), strconv.Itoa(to), "BIT")
		case 8, 9:
			f := field{false, 1 + rng.IntN(63)}
			at := near(key)
			m.grow(key, at+f.width)
			old, next := uint64(0), rng.Uint64()>>(64-f.width)
			for i := range f.width {
				old = old<<1 | uint64(digit(m.bit(key, at+i)))
				m.set(key, at+i, next>>(f.width-1-i)&1 == 1)
			}
			kind := fmt.Sprintf("u%d", f.width)
			do(fmt.Sprintf("*2\r\n:%d\r\n:%d\r\n", old, next), "BITFIELD", key,
				"SET", kind, strconv.Itoa(at), strconv.FormatUint(next, 10), "GET", kind, strconv.Itoa(at))
		case 10:
			ops := []string{"AND", "OR", "XOR", "NOT", "DIFF", "DIFF1", "ANDOR", "ONE"}
			op := ops[rng.IntN(len(ops))]
			sources := []string{key}
			if strings.HasPrefix(op, "DIFF") || op == "ANDOR" {
				sources = append(sources, keys[rng.IntN(len(keys))])
			}
			for op != "NOT" && rng.IntN(3) > 0 {
				sources = append(sources, keys[rng.IntN(len(keys))])
			}
			n := 0
			for _, s := range sources {
				n = max(n, len(m[s]))
			}
			result := make([]byte, n)
			for i := range result {
				x, any, many := at(m[sources[0]], i), byte(0), byte(0)
				first, one := x, x
				for _, s := range sources[1:] {
					y := at(m[s], i)
					any, many, one = any|y, many|y&one, one|y
					switch op {
					case "AND":
						x &= y
					case "OR":
						x |= y
					case "XOR":
						x ^= y
					}
				}
				switch op {
				case "NOT":
					x = ^x
				case "DIFF":
					x = first &^ any
				case "DIFF1":
					x = any &^ first
				case "ANDOR":
					x = any & first
				case "ONE":
					x = one &^ many
				}
				result[i] = x
			}
			if m["d"] = result; n == 0 {
				delete(m, "d")
			}
			core.Reset()
			do(fmt.Sprintf(":%d\r\n", n), append([]string{"BITOP", op, "d"}, sources...)...)
			if n > 0 && slices.Contains(ops[4:], op) {
				core.Do(cl, "GETDEL", "copy") // what is propagated makes the same string elsewhere
				for _, e := range slices.Clone(core.Effects) {
					if e.Args[1] == "d" {
						core.Do(cl, append([]string{e.Args[0], "copy"}, e.Args[2:]...)...)
					}
				}
				if got := core.Do(cl, "GETDEL", "copy"); got != fmt.Sprintf("$%d\r\n%s\r\n", n, result) {
					t.Fatalf("BITOP %s of %q propagates another result", op, sources)
				}
			}
			key = "d"
		case 11:
			if frozen != nil {
				same()
				frozen.Close()
			}
			frozen = space.Freeze()
			frozen.Keep()
			clear(then)
			for _, k := range keys {
				if m[k] != nil {
					then[k] = bytes.Clone(m[k])
				}
			}
		}
		if step%8 == 0 || m[key] == nil {
			want := "$-1\r\n"
			if m[key] != nil {
				want = fmt.Sprintf("$%d\r\n%s\r\n", len(m[key]), m[key])
			}
			if core.Do(cl, "GET", key) != want {
				t.Fatalf("step %d: %s is not what it should be", step, key)
			}
		}
	}
	same()
	frozen.Close()
}
