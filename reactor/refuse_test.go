package reactor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"spindle/protocol"
)

// TestRefusedReplies: each held reply of a failed turn becomes one error, however the replies are split into pieces.
// Pushes, replies of other turns and bytes that may leave stay unchanged. Each lent piece is released once.
func TestRefusedReplies(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 2000 {
		gate, o, pool := protocol.NewGate(), &output{}, &bufferPool{}
		var want []byte
		lent, released, refused := 0, 0, int64(0)
		turns := uint64(1 + rng.IntN(6))
		failed := 1 + rng.Uint64N(turns+1) // turns before it fail
		gate.ShutLevel(1, 1)
		for turn := uint64(1); turn <= turns; turn++ {
			r := o.open(pool)
			from, before := r.Mark(), o.bytes
			var whole []byte
			replies := 0
			push := rng.IntN(4) == 0
			for range 1 + rng.IntN(4) {
				text := ""
				switch kind := rng.IntN(5); {
				case push || kind == 0:
					text = ">2\r\n$4\r\nnews\r\n:1\r\n"
				case kind == 1:
					text, replies = fmt.Sprintf("*2\r\n:%d\r\n$-1\r\n", turn), replies+1
				case kind == 2:
					data := []byte(strings.Repeat("x", rng.IntN(60)))
					r.LendBulk(len(data), func() { released++ }, data)
					lent, replies = lent+1, replies+1
					whole = append(append(fmt.Appendf(whole, "$%d\r\n", len(data)), data...), "\r\n"...)
				default:
					text, replies = "+OK\r\n", replies+1
				}
				r.Raw([]byte(text))
				whole = append(whole, text...)
			}
			o.settle(pool, from)
			o.hold(gate, wait{turn, 1, !push}, before)
			if rng.IntN(2) == 0 {
				o.seal(pool)
			}
			if turn < failed && !push {
				whole = refusedBytes(whole, replies)
				refused += int64(replies)
			}
			want = append(want, whole...)
		}
		gate.FailLevel(1, failed)
		if rng.IntN(2) == 0 {
			o.pass(gate, pool)
		}
		gate.PassLevel(1, ^uint64(0))
		o.pass(gate, pool)
		o.seal(pool)
		var got []byte
		for _, p := range o.queue[o.head:] {
			got = append(got, p.b...)
		}
		if !bytes.Equal(got, want) || o.held != 0 || o.bytes != len(want) || gate.Refused() != refused {
			t.Fatalf("seed %d, round %d: %d held, %d bytes, %d refused, %q; want %d refused, %q",
				seed, round, o.held, o.bytes, gate.Refused(), got, refused, want)
		}
		if o.abandon(pool); released != lent || o.idle != 0 {
			t.Fatalf("seed %d, round %d: %d of %d lent pieces are released, %d bytes are idle", seed, round, released, lent,
				o.idle)
		}
	}
}

// refusedBytes returns what replies and pushes of a failed turn must become. Only pushes begin with '>'.
func refusedBytes(whole []byte, replies int) []byte {
	const push = ">2\r\n$4\r\nnews\r\n:1\r\n"
	var made []byte
	for len(whole) > 0 {
		if bytes.HasPrefix(whole, []byte(push)) {
			made = append(made, push...)
			whole = whole[len(push):]
			continue
		}
		replies--
		made = protocol.ErrUnconfirmed.AppendTo(made)
		for _, form := range []string{"+OK\r\n", "*2\r\n:%d\r\n$-1\r\n", "$%d\r\n"} {
			var n int
			if form == "+OK\r\n" {
				if bytes.HasPrefix(whole, []byte(form)) {
					whole = whole[len(form):]
					break
				}
				continue
			}
			if c, _ := fmt.Sscanf(string(whole), form, &n); c == 1 {
				whole = whole[len(fmt.Sprintf(form, n)):]
				if form[0] == '$' {
					whole = whole[n+2:]
				}
				break
			}
		}
	}
	if replies != 0 {
		panic("the test has miscounted")
	}
	return made
}
