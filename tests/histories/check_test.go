package histories

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"spindle/tests/testkit"
)

// register is a string that SET writes and GET reads. An unknown write may take place at any later time, or never. So
// it counts as the last call to end.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		e := input.(event)
		if e.kind == 'w' {
			return true, e.in
		}
		return state.(string) == e.out, state
	},
	DescribeOperation: func(input, output any) string {
		e := input.(event)
		if e.kind == 'w' {
			return "SET " + e.in
		}
		return "GET: " + e.out
	},
}

// A finding is an observation that no data set explains.
type finding struct{ key, what string }

// check returns the findings of a history and its load. The final reads are checked, and reads with a write. If reads
// is true, the clients' plain GETs are checked too.
func (h *history) check(reads bool) (found []finding) {
	found = h.found
	byKey := map[string][]event{}
	for _, e := range h.events {
		byKey[e.key] = append(byKey[e.key], e)
	}
	for key, events := range byKey {
		what := ""
		switch key[0] {
		case 'r':
			what = checkRegister(events, reads)
		case 'c':
			what = checkCounter(events)
		case 'l':
			what = checkList(events, h.lists[key])
		}
		if what != "" {
			found = append(found, finding{key, what})
		}
	}
	return found
}

// checkPatience is how long the check of one register may take. The most take no millisecond.
const checkPatience = 5 * time.Minute

func checkRegister(events []event, reads bool) string {
	var operations []porcupine.Operation
	last := ""
	for _, e := range events {
		switch {
		case e.kind == 'r' && e.client < 0:
			last = e.out
		case e.kind == 'r' && !reads:
			continue
		}
		ret := e.ret
		if e.unknown {
			ret = math.MaxInt64
		}
		operations = append(operations, porcupine.Operation{ClientId: e.client + 1, Input: e, Call: e.call, Return: ret})
	}
	switch porcupine.CheckOperationsTimeout(register, operations, testkit.Slowly(checkPatience)) {
	case porcupine.Illegal:
		return fmt.Sprintf("no order of %d calls explains what was read; at the end it is %q:%s", len(operations), last,
			calls(events))
	case porcupine.Unknown:
		return fmt.Sprintf("%d calls could not be checked within %v", len(operations), testkit.Slowly(checkPatience))
	}
	return ""
}

// calls lists the calls of a key in the order in which they began, with the times in ms.
func calls(events []event) string {
	slices.SortFunc(events, func(a, b event) int { return int(a.call - b.call) })
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "\n%.3f to %.3f, client %d: %c %s%s", float64(e.call)/1e6, float64(e.ret)/1e6, e.client, e.kind, e.in,
			e.out)
		if e.unknown {
			b.WriteString(" (unknown)")
		}
	}
	return b.String()
}

// checkCounter checks that each INCR with a reply returned a different number, and that the last value is at least as
// large.
func checkCounter(events []event) string {
	numbers := map[string]bool{}
	var greatest, last, unknown int64
	for _, e := range events {
		n, _ := strconv.ParseInt(e.out, 10, 64)
		switch {
		case e.kind == 'c':
			last = n
		case e.unknown:
			unknown++
		case numbers[e.out]:
			return "two clients have read " + e.out
		default:
			numbers[e.out] = true
			greatest = max(greatest, n)
		}
	}
	if last < greatest || last > int64(len(numbers))+unknown {
		return fmt.Sprintf("it is %d after %d acknowledged and %d unknown INCRs, of which one read %d", last, len(numbers),
			unknown, greatest)
	}
	return ""
}

// checkList checks that each acknowledged element exists once. It must come after the elements that were acknowledged
// before it was sent.
func checkList(events []event, list []string) string {
	at := map[string]int{}
	for i, element := range list {
		if _, twice := at[element]; twice {
			return element + " is there twice"
		}
		at[element] = i
	}
	var lost []string
	for _, e := range events {
		if _, there := at[e.in]; !there && !e.unknown {
			lost = append(lost, e.in)
		}
	}
	if len(lost) > 0 {
		return fmt.Sprintf("%d of %d acknowledged elements are lost: %s", len(lost), len(events),
			strings.Join(lost[:min(3, len(lost))], " "))
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.ret - b.ret) })
	for i, a := range events {
		for _, b := range events[i+1:] {
			if !a.unknown && !b.unknown && a.ret < b.call && at[a.in] > at[b.in] {
				return a.in + " stands after " + b.in
			}
		}
	}
	return ""
}
