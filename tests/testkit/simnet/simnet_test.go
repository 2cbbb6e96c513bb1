package simnet

import (
	"fmt"
	"slices"
	"testing"
)

// talk runs two hosts that send numbers to each other during cuts, pauses and crashes. It returns all numbers that
// arrived.
func talk(t *testing.T, seed uint64) (log []string) {
	n := New(seed, 1000)
	a, b := n.Host("a"), n.Host("b")
	listen := func() {
		b.Listen(7, func(c *Conn) {
			last := -1
			c.Handle(func(m any) {
				if m.(int) <= last {
					t.Fatalf("%v after %d", m, last)
				}
				last = m.(int)
				log = append(log, fmt.Sprint(n.Now(), " got ", m))
				c.Send(m)
			}, func() { log = append(log, fmt.Sprint(n.Now(), " lost")) })
		})
	}
	listen()
	var c *Conn
	dial := func() {
		last := -1
		c = a.Dial("b", 7, func(m any) {
			if m.(int) <= last {
				t.Fatalf("the echo of %v after that of %d", m, last)
			}
			last = m.(int)
			log = append(log, fmt.Sprint(n.Now(), " echo ", m))
		}, func() { c = nil })
	}
	for i := range 300 {
		if c == nil {
			dial()
		}
		c.Send(i)
		switch n.Rand.IntN(30) {
		case 0:
			n.Cut(a, b, true)
		case 1:
			n.Cut(a, b, false)
		case 2:
			b.Pause()
		case 3:
			b.Resume()
		case 4:
			b.Crash()
			b.Boot()
			listen()
		case 5:
			for _, c := range b.Conns() {
				c.Reset()
			}
		}
		n.Run(n.Now() + 20)
	}
	return log
}

// TestOrder: messages arrive in order (simnet.N2), and equal seeds give equal runs.
func TestOrder(t *testing.T) {
	for seed := range uint64(100) {
		first := talk(t, seed)
		if second := talk(t, seed); !slices.Equal(first, second) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
		if len(first) < 20 {
			t.Errorf("seed %d: only %d arrivals", seed, len(first))
		}
	}
}

// TestHostThatIsDown: a connection to a host that is down ends, and a connection to a host that is cut off waits.
func TestHostThatIsDown(t *testing.T) {
	n := New(1, 0)
	a, b := n.Host("a"), n.Host("b")
	ended, got := 0, 0
	b.Crash()
	a.Dial("b", 7, nil, func() { ended++ })
	a.Dial("nowhere", 7, nil, func() { ended++ })
	n.Run(1000)
	if ended != 2 {
		t.Errorf("%d of 2 connections to a host that is down ended", ended)
	}
	b.Boot()
	b.Listen(7, func(c *Conn) { c.Handle(func(any) { got++ }, nil) })
	n.Cut(a, b, true)
	c := a.Dial("b", 7, nil, func() { ended++ })
	c.Send(1)
	n.Run(n.Now() + 10_000)
	if got != 0 || ended != 2 {
		t.Errorf("through a cut came %d messages and %d ends", got, ended-2)
	}
	n.Cut(a, b, false)
	n.Run(n.Now() + 10_000)
	if got != 1 {
		t.Errorf("after the cut came %d messages", got)
	}
}
