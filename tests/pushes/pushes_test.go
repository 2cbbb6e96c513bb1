package pushes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// begin empties the server and returns a play with it. Keys expire only when a command accesses them, because expiry
// causes keyspace events.
func begin(t *testing.T, s *testkit.Server, seed uint64) *play {
	p := &play{model: newModel(), addr: s.Addr, links: map[*client]*link{}, rng: rand.New(rand.NewPCG(seed, 0)),
		pipelines: seed%2 == 0}
	var err error
	if p.control, err = dial(s.Addr); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 0", "CONFIG SET notify-keyspace-events Ex"} {
		if reply, err := p.ask(strings.Fields(words)...); reply != "+OK" {
			t.Fatal(words, reply, err)
		}
	}
	t.Cleanup(p.end)
	return p
}

// end disconnects all clients.
func (p *play) end() {
	for c := range p.links {
		p.leave(c)
	}
	p.control.Close()
}

// TestPushesEqualTheModel: random clients on one loop and on two use all modes of tracking and pub/sub. They read,
// write, expire, flush, swap, redirect, change their protocol and disconnect. Each connection receives exactly the
// model's replies and pushes, in the model's order.
func TestPushesEqualTheModel(t *testing.T) {
	for loops := 1; loops <= 2; loops++ {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--io-threads", fmt.Sprint(loops), "--enable-debug-command", "yes")
			first := uint64(time.Now().UnixNano())
			for seed := first; seed < first+uint64(2*testkit.Scale()); seed++ {
				p := begin(t, s, seed)
				if err := p.run(1500); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				p.end()
			}
		})
	}
}

// TestFaultsAreFound: the test detects a lost push, a duplicate push, a push for another key, and a push in the wrong
// order.
func TestFaultsAreFound(t *testing.T) {
	s := testkit.Start(t, "--enable-debug-command", "yes")
	for name, spoil := range map[string]func(text string, next func() (string, error)) (now, later string, err error){
		"lost": func(_ string, next func() (string, error)) (string, string, error) {
			now, err := next()
			return now, "", err
		},
		"twice": func(text string, _ func() (string, error)) (string, string, error) { return text, text, nil },
		"other": func(text string, _ func() (string, error)) (string, string, error) { return text + "x", "", nil },
		"late": func(text string, next func() (string, error)) (string, string, error) {
			now, err := next()
			return now, text, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, s, 7)
			pushes := 0
			p.fault = func(l *link) {
				later := ""
				l.fault = func(next func() (string, error)) (string, error) {
					if later != "" {
						text := later
						later = ""
						return text, nil
					}
					text, err := next()
					if err != nil || !strings.HasPrefix(text, ">2 invalidate *") {
						return text, err
					}
					if pushes++; pushes != 20 {
						return text, nil
					}
					l.SetReadDeadline(time.Now().Add(time.Second))
					now, then, err := spoil(text, next)
					later = then
					return now, err
				}
			}
			if err := p.run(3000); err == nil {
				t.Errorf("%d invalidations, and the model has not noticed", pushes)
			}
		})
	}
}
