package reactor

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol"
)

// TestChoice: from loads alone, the number of loops grows, shrinks and stays, and the reason says why.
func TestChoice(t *testing.T) {
	calm := load{busy: 0.3, idle: 1.6, conns: 50}
	hot := load{busy: 0.97, idle: 1.2, turn: 0.3, conns: 50}
	with := func(l load, change func(*load)) load { change(&l); return l }
	twoHot := with(hot, func(l *load) { l.busy = 1.9 })
	crowded := load{busy: 1.9, idle: 0, others: 0.9, turn: 0.3, conns: 50}
	for _, c := range []struct {
		name         string
		active, most int
		loads        []load
		want         int
		reason       string
	}{
		{"a calm second", 1, 4, times(1, calm), 1, "1 loop is busy 30 %"},
		{"two hot seconds", 1, 4, times(2, hot), 1, "1 loop is busy 97 %"},
		{"three hot seconds", 1, 4, times(3, hot), 2, "grew to 2: 1 loop was busy 97 %, and 1.2 CPUs were idle"},
		{"not in a row", 1, 4, append(append(times(2, hot), calm), times(2, hot)...), 1, "1 loop is busy 97 %"},
		{"no CPU is idle", 1, 4, times(9, with(hot, func(l *load) { l.idle = 0.4 })), 1,
			"1 loop is busy 97 %: only 0.4 CPUs are idle"},
		{"the most", 2, 2, times(9, twoHot), 2, "2 loops are busy 95 %: this machine has no CPU for another"},
		{"commands take the time", 1, 4, times(9, with(hot, func(l *load) { l.turn = 0.8 })), 1,
			"1 loop is busy 97 %: commands take 80 % of the time, and another loop cannot share that"},
		{"few connections", 1, 4, times(9, with(hot, func(l *load) { l.conns = 7 })), 1,
			"1 loop is busy 97 %: another one would need 8 connections"},
		{"hot for long", 1, 4, append(times(3, hot), times(3, twoHot)...), 3,
			"grew to 3: 2 loops were busy 95 %, and 1.2 CPUs were idle"},
		{"nine cool seconds", 2, 4, times(9, calm), 2, "2 loops are busy 15 %"},
		{"ten cool seconds", 2, 4, times(10, calm), 1, "shrank to 1: 2 loops were busy 15 %"},
		{"the reason lasts", 2, 4, times(15, calm), 1, "shrank to 1: 2 loops were busy 15 %"},
		{"too busy to shrink", 2, 4, times(99, with(calm, func(l *load) { l.busy = 0.7 })), 2, "2 loops are busy 35 %"},
		{"from four to one", 4, 4, times(30, calm), 1, "shrank to 1: 2 loops were busy 15 %"},
		{"others need the CPUs", 2, 4, times(10, crowded), 1, "shrank to 1: other programs used 0.9 CPUs, and none was idle"},
		{"only we need them", 2, 4, times(99, with(crowded, func(l *load) { l.others = 0.1 })), 2,
			"2 loops are busy 95 %: only 0.0 CPUs are idle"},
		{"no growth right after a crowd", 2, 4, append(times(10, crowded), times(20, hot)...), 1,
			"1 loop is busy 97 %: other programs needed the CPUs, so the next one waits 40 seconds more"},
		{"growth after that pause", 2, 4, append(times(10, crowded), times(60, hot)...), 2,
			"grew to 2: 1 loop was busy 97 %, and 1.2 CPUs were idle"},
		{"one loop never shrinks", 1, 4, times(99, crowded), 1, "1 loop is busy 100 %: only 0.0 CPUs are idle"},
	} {
		h := choice{most: c.most, active: c.active}
		for _, l := range c.loads {
			h.next(l)
		}
		if h.active != c.want || h.reason != c.reason {
			t.Errorf("%s: %d loops, %q; want %d, %q", c.name, h.active, h.reason, c.want, c.reason)
		}
	}
}

func times(n int, l load) []load { return slices.Repeat([]load{l}, n) }

// TestChoiceRests: under a load that stays the same the number stops changing. If other programs come and go with the
// loops, the changes become rare.
func TestChoiceRests(t *testing.T) {
	for work := 0.0; work < 6; work += 0.05 { // loops' work, however many share it
		h, changes := choice{most: 4, active: 1}, 0
		for range 600 {
			if h.next(load{busy: min(work, float64(h.active)), idle: 4 - work/2, turn: 0.2, conns: 99}) {
				changes++
			}
		}
		if changes > 3 {
			t.Errorf("work for %.2f loops: the number changed %d times", work, changes)
		}
	}
	h, changes := choice{most: 2, active: 1}, 0
	for range 4 * 3600 {
		l := load{busy: float64(h.active), idle: 1, conns: 99}
		if h.active == 2 {
			l.idle, l.others = 0, 1
		}
		if h.next(l) {
			changes++
		}
	}
	if changes > 20 {
		t.Errorf("%d changes in four hours of a crowd that comes with the second loop", changes)
	}
}

// TestSpares: loops with too many connections give them to active loops that have few.
func TestSpares(t *testing.T) {
	for _, c := range []struct {
		conns         []int
		active        int
		spare, takers []int
	}{
		{[]int{50, 0, 0}, 2, []int{25, 0, 0}, []int{1}},
		{[]int{25, 25, 0}, 2, nil, nil},
		{[]int{27, 24, 0}, 2, nil, nil},
		{[]int{30, 0, 30}, 1, []int{0, 0, 30}, []int{0}},
		{[]int{0, 0, 0}, 3, nil, nil},
		{[]int{1, 1, 1}, 2, []int{0, 0, 1}, []int{0, 1}},
		{[]int{90, 30, 0}, 3, []int{50, 0, 0}, []int{1, 2}},
	} {
		spare, takers := spares(c.conns, c.active)
		if !slices.Equal(spare, c.spare) || !slices.Equal(takers, c.takers) {
			t.Errorf("%v with %d active: %v to %v, want %v to %v", c.conns, c.active, spare, takers, c.spare, c.takers)
		}
	}
}

// TestMachine: the kernel's texts are read as they are meant.
func TestMachine(t *testing.T) {
	const stat = "cpu  9 9 9 900 90 9\ncpu0 1 2 3 100 20 5 6\ncpu1 1 2 3 700 0 5 6\ncpu10 1 2 3 7 7 7\nintr 1 2 3 4 5 6\n"
	if idle := idleTime(stat, []int{0, 10}); idle != 1340*time.Millisecond {
		t.Errorf("CPUs 0 and 10 were idle for %v", idle)
	}
	for text, want := range map[string]float64{"150000 100000\n": 1.5, "max 100000\n": math.Inf(1), "": math.Inf(1),
		"50000 0": math.Inf(1)} {
		if got := quotaOf(text); got != want {
			t.Errorf("%q allows %v CPUs, want %v", text, got, want)
		}
	}
	if n := MostLoops(); n < 1 || n > min(mostLoops, runtime.NumCPU()) {
		t.Errorf("%d loops of %d CPUs", n, runtime.NumCPU())
	}
	m, at := &machine{}, time.Now()
	if _, _, ok := m.measure(at); ok {
		t.Error("one look measures a time")
	}
	idle, others, ok := m.measure(at.Add(time.Hour))
	if !ok || idle < 0 || idle > float64(len(ownCPUs())) || others < 0 {
		t.Errorf("%v CPUs idle, others use %v, %v", idle, others, ok)
	}
}

// TestLoopsFollowTheLoad: under load a second loop serves, gets connections and is in LoopChoice and the log.
// Afterwards one loop serves again, and has all connections that can move.
func TestLoopsFollowTheLoad(t *testing.T) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			if _, err := Usable(b); err != nil {
				t.Skip(err)
			}
			h := newTestHandler()
			beats, lines, told := make(chan time.Time), make(chan string, 9), make(chan int, 9)
			r, addr := serveHandler(t, h, Options{Backend: b, Most: 2, beats: beats,
				Logf: func(level Level, format string, args ...any) {
					if level == Notice {
						lines <- fmt.Sprintf(format, args...)
					}
				},
				measure: func(time.Time) (idle, others float64, ok bool) { return 1, 0, true },
				Active:  func(loops int) { told <- loops }})
			var peers []*peer
			for i := range 20 {
				p := dial(t, addr)
				p.send(command("NAME", fmt.Sprint(i)))
				p.expect("+OK\r\n")
				peers = append(peers, p)
			}
			ask := func() {
				for i, p := range peers {
					p.send(command("ECHO", fmt.Sprint(i)))
				}
				for i, p := range peers {
					p.expect(fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(i)), i))
				}
			}
			if n, set, why := r.LoopChoice(); n != 1 || set || why == "" {
				t.Fatalf("%d loops, set %v: %s", n, set, why)
			}
			ask()
			now := time.Now()
			beat := func() {
				now = now.Add(time.Hour)
				beats <- now
				beats <- now // no time has passed, so nothing happens; the one before is over
			}
			for range growAfter { // as if the loop had worked all the time
				r.loops[0].busy.Add(int64(2 * time.Hour))
				beat()
			}
			if n, _, why := r.LoopChoice(); n != 2 || !strings.HasPrefix(why, "grew to 2: 1 loop was busy") {
				t.Fatalf("%d loops: %s", n, why)
			}
			if line, n := <-lines, <-told; n != 2 || !strings.HasPrefix(line, "The number of event loops grew to 2") {
				t.Errorf("%d loops are told, the log has %q", n, line)
			}
			on := func(l *loop) (n int) {
				for i := range peers {
					if h.named(fmt.Sprint(i)).c.Loop() == l {
						n++
					}
				}
				return n
			}
			if b != IOUring {
				eventually(t, "half of the connections to move", func() bool { return on(r.loops[1]) == len(peers)/2 })
			}
			for range 4 {
				p := dial(t, addr)
				p.send(command("NAME", fmt.Sprint(len(peers))))
				p.expect("+OK\r\n")
				peers = append(peers, p)
			}
			if on(r.loops[1]) < 2 {
				t.Error("the second loop gets no new connections")
			}
			ask()
			for range shrinkAfter {
				beat()
			}
			if n, _, why := r.LoopChoice(); n != 1 || !strings.HasPrefix(why, "shrank to 1: 2 loops were busy") {
				t.Fatalf("%d loops: %s", n, why)
			}
			if line, n := <-lines, <-told; n != 1 || !strings.HasPrefix(line, "The number of event loops shrank to 1") {
				t.Errorf("%d loops are told, the log has %q", n, line)
			}
			if b != IOUring {
				eventually(t, "all connections to move back", func() bool {
					beat()
					return on(r.loops[0]) == len(peers)
				})
			}
			ask()
		})
	}
}

// TestMessagesAreWork: a loop that sends messages to its subscribers is busy, although it reads nothing.
func TestMessagesAreWork(t *testing.T) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			r, addr := serveHandler(t, h, Options{Backend: b, Most: 2, beats: make(chan time.Time)})
			p := dial(t, addr)
			p.send(command("NAME", "me"))
			p.expect("+OK\r\n")
			l, c := r.loops[0], h.named("me").c
			for range 3 { // the iteration that has sent a message ends before the next one begins
				before := l.busy.Load()
				l.PostAll(1, []protocol.Conn{c}, nil, []byte("news"))
				p.expect("news")
				eventually(t, "the loop to have been busy", func() bool { return l.busy.Load() > before })
			}
		})
	}
}
