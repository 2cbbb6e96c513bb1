package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// clientGroups has the clients of two servers, which play the same plans.
type clientGroups struct {
	pair               *pair // the inspectors, for the state at the end
	reference, subject *clientGroup
	effects            [2]*effects // of the reference and of the subject; nil if they are not compared
	has                func(name string) bool
	seed               uint64
	steps, served      int // steps played, and replies to clients other than the acting one
	queues             [groupSize]queue
	asked              [groupSize][]call // calls without a reply yet
}

// run plays plans, starting at number, until the servers differ on one.
func (c *clientGroups) run(number uint64, plans int) (stopped uint64, plan []step, what string, err error) {
	for last := number + uint64(plans); number < last; number++ {
		plan = newPlanner(c.seed, number, c.pair.ref.version, c.has).plan()
		if what, err = c.play(plan, nil); what != "" || err != nil {
			return number, plan, what, err
		}
	}
	return number, nil, "", nil
}

// play plays a plan on emptied servers and returns how they differ. If watch is not nil, it gets the replies of each
// step.
func (c *clientGroups) play(plan []step, watch func(s *step, want, got *answers)) (what string, err error) {
	if err := c.both(func(side *clientGroup) error { return side.reset() }); err != nil {
		return "", err
	}
	c.queues, c.asked = [groupSize]queue{}, [groupSize][]call{}
	if _, err := c.effectsSince(); err != nil {
		return "", err
	}
	for i := range plan {
		s := &plan[i]
		if s.leaves == stays && c.reference.waits(s.client) {
			continue
		}
		var replies [2]answers
		err := c.both(func(side *clientGroup) (err error) {
			at := 0
			if side == c.subject {
				at = 1
			}
			replies[at], err = side.act(s)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("step %d, %s: %w", i+1, s.text(), err)
		}
		if c.steps++; watch != nil {
			watch(s, &replies[0], &replies[1])
		}
		if what := c.compare(s, &replies[0], &replies[1]); what != "" {
			return fmt.Sprintf("after step %d: %s", i+1, what), nil
		}
	}
	if what, err := c.strays(); what != "" || err != nil {
		return what, err
	}
	lists, err := c.effectsSince()
	if err != nil {
		return "", err
	}
	if what := partOf(lists[0], lists[1]); what != "" {
		return what, nil
	}
	return c.sameEnd()
}

// effectsSince returns both servers' effects since the last call.
func (c *clientGroups) effectsSince() (lists [2][]string, err error) {
	if c.effects[0] == nil {
		return lists, nil
	}
	for i, s := range []*side{c.reference.side, c.subject.side} {
		if lists[i], err = c.effects[i].since(s); err != nil {
			return lists, err
		}
	}
	return lists, nil
}

// partOf returns the part in which two lists of effects differ. It returns "" if they are equal.
func partOf(want, got []string) string {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	if at == len(want) && at == len(got) {
		return ""
	}
	from := max(0, at-2)
	return fmt.Sprintf("effects from the %d. on:\n    the reference %q\n    spindle       %q",
		from+1, want[from:min(at+4, len(want))], got[from:min(at+4, len(got))])
}

// both runs do for both servers concurrently.
func (c *clientGroups) both(do func(*clientGroup) error) error {
	done := make(chan error, 1)
	go func() { done <- do(c.reference) }()
	err := do(c.subject)
	if other := <-done; other != nil {
		return other
	}
	return err
}

// compare compares one step's replies from both servers: the clients that got them, and their bytes.
func (c *clientGroups) compare(s *step, want, got *answers) (what string) {
	if s.leaves != stays {
		c.asked[s.client], c.queues[s.client] = nil, queue{}
		return ""
	}
	for _, args := range s.calls {
		c.asked[s.client] = append(c.asked[s.client], call{args: args})
	}
	for i := range groupSize {
		if len(want[i]) != len(got[i]) {
			return fmt.Sprintf("client %d: %s answers %q, %s %q", i, c.reference.name, want[i], c.subject.name, got[i])
		}
		for j := range want[i] {
			if len(c.asked[i]) == 0 {
				return fmt.Sprintf("client %d has asked for nothing and gets %q", i, want[i][j])
			}
			asked := &c.asked[i][0]
			if !c.queues[i].compare(c.pair.ref, asked, want[i][j], got[i][j]) {
				return fmt.Sprintf("client %d, %s:\n%s", i, asked.text(), c.pair.apart(want[i][j], got[i][j]))
			}
			if c.asked[i] = c.asked[i][1:]; i != s.client {
				c.served++
			}
		}
	}
	return ""
}

// strays names a client that gets more replies than it has made calls. Otherwise this would only show at a later call.
func (c *clientGroups) strays() (what string, err error) {
	for _, side := range []*clientGroup{c.reference, c.subject} {
		for i := range side.members {
			if side.waits(i) {
				continue
			}
			stray, err := side.fence(i)
			if err != nil {
				return "", fmt.Errorf("%s: client %d: %w", side.name, i, err)
			}
			if stray != nil {
				return fmt.Sprintf("client %d has had all its replies, and gets %q from %s", i, stray, side.name), nil
			}
		}
	}
	return "", nil
}

// sameEnd compares the state after a plan: waiting clients, their keys, the data, and consumer groups.
func (c *clientGroups) sameEnd() (what string, err error) {
	want, err := c.reference.facts()
	if err != nil {
		return "", err
	}
	got, err := c.subject.facts()
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) { // 7.0 does not have all of them
		if want[name] != got[name] {
			return fmt.Sprintf("INFO: %s:%s, %s:%s", name, want[name], name, got[name]), nil
		}
	}
	for db := range 2 {
		if _, err := c.pair.ask("SELECT", db); err != nil {
			return "", err
		}
		for _, key := range []string{"a", "b", "c", "d"} {
			if what, err := c.sameGroups(key); what != "" || err != nil {
				return fmt.Sprintf("database %d: %s", db, what), err
			}
		}
	}
	digests, err := c.pair.ask("DEBUG", "DIGEST")
	if err != nil || equal(digests[0], digests[1]) {
		return "", err
	}
	return c.pair.sameState(nil)
}

// sameGroups compares a stream's pending entries. It also compares the groups if redis-server counts consumers as 7.4
// does.
func (c *clientGroups) sameGroups(key string) (what string, err error) {
	for _, args := range [][]any{{"XPENDING", key, "g"}, {"XINFO", "GROUPS", key}} {
		if args[0] == "XINFO" && strings.HasPrefix(c.pair.ref.version, "7.0") {
			continue
		}
		replies, err := c.pair.ask(args...)
		if err != nil {
			return "", err
		}
		if !equal(replies[0], replies[1]) {
			return fmt.Sprintf("%v: %v, %v", args, replies[0], replies[1]), nil
		}
	}
	return "", nil
}

// explain shrinks a plan with a difference, and prints it with all replies of both servers.
func (c *clientGroups) explain(plan []step, what string) string {
	differs := func(plan []step) bool {
		what, err := c.play(plan, nil)
		return err == nil && what != ""
	}
	if !differs(plan) {
		return what + "\nand does not come again when the plan is played again:\n" + c.story(plan)
	}
	plan = shrink(plan, differs, time.Minute)
	for i := range plan {
		if len(plan[i].calls) > 1 {
			whole := plan[i].calls
			plan[i].calls = shrink(whole, func(some [][]string) bool {
				plan[i].calls = some
				return differs(plan)
			}, 10*time.Second)
		}
	}
	return what + "\nand shrunk:\n" + c.story(plan)
}

// story plays a plan once more and returns its transcript, up to any error.
func (c *clientGroups) story(plan []step) string {
	var b strings.Builder
	what, err := c.play(plan, func(s *step, want, got *answers) {
		fmt.Fprintln(&b, s.text())
		for i := range groupSize {
			for _, raw := range want[i] {
				fmt.Fprintf(&b, "    %s to client %d: %.300q\n", c.reference.name, i, raw)
			}
			for _, raw := range got[i] {
				fmt.Fprintf(&b, "    %s to client %d: %.300q\n", c.subject.name, i, raw)
			}
		}
	})
	fmt.Fprintln(&b, what)
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}
