package pubsub

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/tests/testkit"
	"spindle/tests/transcripts"
)

// A link is one connection. It reads replies and pushes alike, each as a line of text.
type link struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string, resp3 bool) *link {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	l := &link{t, conn, bufio.NewReader(conn)}
	if resp3 {
		l.send("HELLO 3")
		if got := l.read(); !strings.HasPrefix(got, "%7") {
			t.Fatalf("HELLO 3: %s", got)
		}
	}
	return l
}

// send writes commands as one pipeline.
func (l *link) send(commands ...string) {
	text := strings.Builder{}
	for _, c := range commands {
		words := strings.Fields(c)
		fmt.Fprintf(&text, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	io.WriteString(l, text.String())
}

// read returns the next reply or push: ":3", or ">3 message ch 17" without the lengths of strings.
func (l *link) read() string {
	lines, err := transcripts.ReadReply(l.in)
	if err != nil {
		return err.Error()
	}
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, "$") }), " ")
}

// TestOrder: clients on one loop and on two subscribe, unsubscribe, publish in pipelines, and disconnect. All clients
// that stay subscribed get the same sequence of messages. A client that subscribes and unsubscribes gets a contiguous
// part of the sequence, exactly between its confirmations. A publisher that is subscribed gets its message right after
// the reply to PUBLISH.
func TestOrder(t *testing.T) {
	for loops := 1; loops <= 2; loops++ {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			s := testkit.Start(t, "--io-threads", fmt.Sprint(loops))
			const stable, churners, rounds = 4, 6, 150
			listeners := []*link{}
			for i := range stable {
				l := dial(t, s.Addr, i%2 == 0)
				if i < 2 {
					l.send("SUBSCRIBE ch")
				} else {
					l.send("PSUBSCRIBE c*")
				}
				l.read()
				listeners = append(listeners, l)
			}
			runs, vanished := make([][][]string, churners), sync.WaitGroup{}
			var all sync.WaitGroup
			for i := range churners {
				all.Go(func() { runs[i] = churn(t, s.Addr, i, rounds, loops) })
			}
			stop := make(chan struct{})
			vanished.Go(func() { // subscribers that disconnect in the middle
				for {
					select {
					case <-stop:
						return
					default:
						l := dial(t, s.Addr, false)
						l.send("SUBSCRIBE ch", "PSUBSCRIBE *")
						l.read()
						l.Close()
					}
				}
			})
			all.Wait()
			close(stop)
			vanished.Wait()
			end := dial(t, s.Addr, false)
			end.send("PUBLISH ch end")
			end.read()
			var want []string
			for i, l := range listeners {
				var got []string
				for {
					words := strings.Fields(l.read())
					if text := words[len(words)-1]; text != "end" {
						got = append(got, text)
						continue
					}
					break
				}
				if i == 0 {
					want = got
				} else if !slices.Equal(got, want) {
					t.Fatalf("listener %d got %d messages, listener 0 %d, or in another order", i, len(got), len(want))
				}
			}
			place := map[string]int{}
			for i, m := range want {
				if _, twice := place[m]; twice {
					t.Fatalf("%s came twice", m)
				}
				place[m] = i
			}
			if len(want) != churners*rounds*3 {
				t.Fatalf("%d messages, want %d", len(want), churners*rounds*3)
			}
			for i := range runs {
				for _, run := range runs[i] {
					for j := 1; j < len(run); j++ {
						if place[run[j]] != place[run[j-1]]+1 {
							t.Fatalf("client %d: %s (%d) after %s (%d)", i, run[j], place[run[j]], run[j-1], place[run[j-1]])
						}
					}
				}
			}
		})
	}
}

// churn runs a client that subscribes, publishes and unsubscribes in pipelines. It returns the runs of messages
// that it got.
func churn(t *testing.T, addr string, id, rounds, seed int) (runs [][]string) {
	rng := rand.New(rand.NewPCG(uint64(id), uint64(seed)))
	l := dial(t, addr, true)
	var run []string
	subscribed, next := false, 0
	for range rounds {
		var commands, expects []string
		publishes := 3
		for publishes > 0 {
			switch rng.IntN(4) {
			case 0:
				commands, expects = append(commands, "SUBSCRIBE ch"), append(expects, ">3 subscribe ch :1")
			case 1:
				commands, expects = append(commands, "UNSUBSCRIBE ch"), append(expects, ">3 unsubscribe ch :0")
			default:
				next++
				publishes--
				text := fmt.Sprintf("%d-%d", id, next)
				commands, expects = append(commands, "PUBLISH ch "+text), append(expects, ":"+text)
			}
		}
		l.send(commands...)
		for _, want := range expects {
			got := l.read()
			for strings.HasPrefix(got, ">3 message ch ") && subscribed {
				run = append(run, got[len(">3 message ch "):])
				got = l.read()
			}
			if want[0] == ':' {
				if got[0] != ':' {
					t.Errorf("client %d: %q in the place of PUBLISH's reply", id, got)
					return nil
				}
				if subscribed {
					if mine := l.read(); mine != ">3 message ch "+want[1:] {
						t.Errorf("client %d: %q after the reply to PUBLISH %s", id, mine, want[1:])
						return nil
					}
					run = append(run, want[1:])
				}
				continue
			}
			if got != want {
				t.Errorf("client %d: %q, want %q", id, got, want)
				return nil
			}
			if subscribed = want == ">3 subscribe ch :1"; !subscribed {
				runs, run = append(runs, run), nil
			}
		}
	}
	return append(runs, run)
}
