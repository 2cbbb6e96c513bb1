package differential

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A step is one client's action: it sends its calls as one batch, and then has all replies or waits. Or it leaves, and
// a new client takes its place. A step of a waiting client is left out, because the server would choose when to reply
// to it.
type step struct {
	client int
	calls  [][]string // "@2" among the arguments is client 2's ID
	leaves leaving
}

// leaving is the way in which a client leaves.
type leaving int

const (
	stays leaving = iota
	hangsUp
	killed
)

// mayWait reports whether the step may leave its client waiting for a key for a long time. Other blocked clients resume
// by themselves. An example is a client of 7.4 that flushes a database and waits for another thread.
func (s *step) mayWait() bool {
	return slices.ContainsFunc(s.calls, func(args []string) bool {
		return isWait(args) && !slices.Contains(args, shortWait) && !slices.Contains(args, shortWaitMs)
	})
}

// isWait reports whether a call may block.
func isWait(args []string) bool {
	return slices.ContainsFunc(scarcities, func(of scarcity) bool {
		return slices.ContainsFunc(of.waits.templates, func(t template) bool { return strings.EqualFold(t.name, args[0]) })
	})
}

// text returns the step as a line of a report.
func (s *step) text() string {
	who := strconv.Itoa(s.client) + "> "
	switch s.leaves {
	case hangsUp:
		return who + "(hangs up)"
	case killed:
		return who + "(is killed)"
	}
	lines := make([]string, len(s.calls))
	for i, args := range s.calls {
		lines[i] = who + (&call{args: args}).text()
	}
	return strings.Join(lines, "\n")
}

// script returns a plan as lines of a report.
func script(plan []step) string {
	lines := make([]string, len(plan))
	for i := range plan {
		lines[i] = plan[i].text()
	}
	return strings.Join(lines, "\n")
}

// A planner makes plans. They depend only on the seed, the plan's number, and Redis's version.
type planner struct {
	rng                        *rand.Rand
	waits, gives, acts, stores *generator
	makes                      *generator // the first generator of calls that add elements
	clients                    int        // clients that wait at the beginning
	groups                     bool       // clients may wait for groups
}

// newPlanner returns a planner for one plan. 7.0 moves a client that waits for another type to the end of a key's
// queue. So in plans for 7.0 clients wait for one type only.
func newPlanner(seed, number uint64, version string, has func(name string) bool) *planner {
	rng := rand.New(rand.NewPCG(seed, number))
	var waits, gives []family
	for _, s := range scarcities {
		if len(fitting([]family{s.waits}, version)) > 0 {
			waits, gives = append(waits, s.waits), append(gives, s.gives)
		}
	}
	if strings.HasPrefix(version, "7.0") || rng.IntN(2) == 0 {
		at := rng.IntN(len(waits))
		if one := gives[at]; rng.IntN(2) == 0 {
			gives = append(slices.Clone(gives), one, one) // keys for which no client waits may be written, too
		} else {
			gives = []family{one}
		}
		waits = waits[at : at+1]
	}
	with := func(families ...family) *generator {
		g := newGenerator(seed, number, 0, families, has)
		g.reference = version
		g.rng = rng // shared by all generators: its numbers depend only on the plan
		return g
	}
	groups := slices.ContainsFunc(waits, func(f family) bool { return f.name == "groups" })
	others, meet := []family{acts}, ""
	if rng.IntN(4) == 0 {
		others, meet = append(others, swaps), "a"
	}
	w := with(waits...)
	w.meet = meet
	var makes []family
	for _, f := range gives {
		makes = append(makes, family{templates: f.templates[:1]})
	}
	return &planner{rng: rng, groups: groups, waits: w, gives: with(gives...), makes: with(makes...),
		acts: with(others...), stores: with(stores), clients: 2 + rng.IntN(groupSize-3)}
}

// from returns a random call from the templates of a generator.
func from(g *generator) []string {
	g.fill()
	return g.args
}

// plan returns the steps. First some clients wait, perhaps for groups. Then other clients act, and so do clients that
// were served.
func (p *planner) plan() (steps []step) {
	for _, key := range []string{"a", "b", "c"} {
		if p.groups && p.rng.IntN(3) == 0 {
			steps = append(steps, step{client: groupSize - 1,
				calls: [][]string{{"XGROUP", "CREATE", key, "g", "$", "MKSTREAM"}}})
		}
	}
	for i := range p.clients {
		steps = append(steps, p.wait(i))
	}
	for range 5 + p.rng.IntN(15) {
		if p.rng.IntN(100) < 30 {
			steps = append(steps, p.wait(p.rng.IntN(groupSize-1)))
		} else {
			steps = append(steps, p.act(p.clients+p.rng.IntN(groupSize-p.clients)))
		}
	}
	return steps
}

// wait returns a step that may block, sometimes with a call after the blocking one.
func (p *planner) wait(client int) step {
	s := step{client: client, calls: [][]string{from(p.waits)}}
	if p.rng.IntN(10) == 0 {
		s.calls = append(s.calls, []string{"ECHO", "behind"})
	}
	return s
}

// act returns a step that adds or removes elements: a call, a transaction, or an action on a waiting client.
func (p *planner) act(client int) step {
	n := p.rng.IntN(100)
	switch other := p.rng.IntN(p.clients); {
	case n < 4:
		return step{client: client, calls: [][]string{{"CLIENT", "UNBLOCK", "@" + strconv.Itoa(other),
			pick(p.acts, []string{"ERROR", "TIMEOUT"})}}}
	case n < 6:
		return step{client: other, leaves: hangsUp}
	case n < 8:
		return step{client: other, leaves: killed}
	case n < 40:
		return step{client: client, calls: p.transaction()}
	}
	return step{client: client, calls: [][]string{p.call()}}
}

// call returns a call that does not block.
func (p *planner) call() []string {
	if p.rng.IntN(100) < 65 {
		return from(p.gives)
	}
	return from(p.acts)
}

// transaction returns a transaction. Some of its calls would block outside a transaction.
func (p *planner) transaction() [][]string {
	calls := [][]string{{"MULTI"}}
	if p.rng.IntN(4) == 0 { // two keys become ready; the first may change its type before it is served
		first, second, again := from(p.makes), from(p.makes), from(p.makes)
		again[1] = first[1]
		return append(calls, first, second, []string{"DEL", first[1]}, again, []string{"EXEC"})
	}
	for range 2 + p.rng.IntN(5) {
		switch n := p.rng.IntN(20); {
		case n == 0:
			calls = append(calls, from(p.waits))
		case n == 1:
			calls = append(calls, []string{"DEL", "d"}, from(p.stores))
		default:
			calls = append(calls, p.call())
		}
	}
	return append(calls, []string{"EXEC"})
}
