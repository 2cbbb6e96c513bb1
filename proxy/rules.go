package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"spindle/internal/info"
	"spindle/internal/setting"
	"spindle/protocol"
	"spindle/proxy/route"
)

// A rule refuses requests by their user and their keys, or sends their keys elsewhere. It does not change, but
// for its counts. Any goroutine.
//
//	proxy-rule NAME deny   [user USER] [prefix PREFIX]
//	proxy-rule NAME rate N [user USER] [prefix PREFIX]
//	proxy-rule NAME route TARGET [user USER] [prefix PREFIX]
//
// proxy.R1. A rule with a prefix concerns requests that name a key with it. One without concerns all requests but
// those that a client needs to become another user or to end: AUTH, HELLO, RESET, QUIT, EXEC, DISCARD, UNWATCH.
// proxy.R2. A request counts once for a rule, also if it has to wait and is served again.
type rule struct {
	name    string
	user    string // "": any
	prefix  []byte // none: any request
	deny    bool
	to      string       // of a route: the target (proxy.R3)
	rate    int64        // requests a second
	next    atomic.Int64 // of a rate: when the next request is due, ns of the proxy's clock
	passed  atomic.Int64
	refused atomic.Int64
}

// String writes the rule as a line has it, without the directive.
func (r *rule) String() string {
	parts := []string{quoted(r.name)}
	switch {
	case r.deny:
		parts = append(parts, "deny")
	case r.to != "":
		parts = append(parts, "route", quoted(r.to))
	default:
		parts = append(parts, "rate", strconv.FormatInt(r.rate, 10))
	}
	if r.user != "" {
		parts = append(parts, "user", quoted(r.user))
	}
	if len(r.prefix) > 0 {
		parts = append(parts, "prefix", quoted(string(r.prefix)))
	}
	return strings.Join(parts, " ")
}

// quoted quotes a word if it has to be.
func quoted(text string) string {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' || c == '"' || c == '\'' || c == '\\' {
			return setting.Quote(text)
		}
	}
	return text
}

var (
	errRuleForm = errors.New("a rule is: NAME deny | NAME rate N | NAME route TARGET, then perhaps user USER " +
		"and prefix PREFIX")
	errRuleName = errors.New("a rule cannot have that name")
)

// parseRules reads rules that follow each other. In a file each line adds its rules.
func parseRules(args []string, old []*rule, how setting.How) (rules []*rule, err error) {
	if how == setting.FromFileMore {
		rules = slices.Clone(old)
	}
	if args = words(args); args == nil {
		return rules, nil
	}
	for len(args) > 0 {
		var r *rule
		if r, args, err = parseRule(args); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(rules, func(o *rule) bool { return o.name == r.name }) {
			return nil, fmt.Errorf("there are two rules '%s'", r.name)
		}
		text := r.String()
		if i := slices.IndexFunc(old, func(o *rule) bool { return o.String() == text }); i >= 0 {
			r = old[i] // its counts continue
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// parseRule reads one rule, and returns the words after it.
func parseRule(args []string) (r *rule, rest []string, err error) {
	if len(args) < 2 {
		return nil, nil, errRuleForm
	}
	r = &rule{name: args[0]}
	if r.name == "" || r.name == "user" || r.name == "prefix" || strings.ContainsFunc(r.name, breaksName) {
		return nil, nil, errRuleName
	}
	r.next.Store(-int64(time.Second)) // the time before the start was quiet
	switch args[1] {
	case "deny":
		r.deny = true
		args = args[2:]
	case "route":
		if len(args) < 3 || args[2] == "" || args[2] == "user" || args[2] == "prefix" {
			return nil, nil, errRuleForm
		}
		r.to = args[2]
		args = args[3:]
	case "rate":
		if len(args) < 3 {
			return nil, nil, errRuleForm
		}
		if r.rate, err = strconv.ParseInt(args[2], 10, 64); err != nil || r.rate < 1 || r.rate > int64(time.Second) {
			return nil, nil, fmt.Errorf("the rate '%s' is no number from 1 to %d", args[2], int64(time.Second))
		}
		args = args[3:]
	default:
		return nil, nil, errRuleForm
	}
	for len(args) >= 2 && (args[0] == "user" || args[0] == "prefix") && args[1] != "" {
		if args[0] == "user" {
			r.user = args[1]
		} else {
			r.prefix = []byte(args[1])
		}
		args = args[2:]
	}
	return r, args, nil
}

// breaksName reports whether no rule's name may have c, because the name stands in a line of INFO and in a label of
// /metrics.
func breaksName(c rune) bool { return c == ':' || c == utf8.RuneError || unicode.IsControl(c) }

// formatRules writes rules for CONFIG GET: parseRules reads the text.
func formatRules(rules []*rule) string { return strings.Join(ruleLines(rules), " ") }

// ruleLines are the lines of a file.
func ruleLines(rules []*rule) (lines []string) {
	for _, r := range rules {
		lines = append(lines, r.String())
	}
	return lines
}

// breaks returns the error of the first rule that refuses the request of the worker's plan.
func (s *session) breaks(rules []*rule, args [][]byte) *protocol.Error {
	pl := &s.w.plan
	for _, r := range rules {
		if r.to != "" && !pl.Row.Keyed() || !r.concerns(s, pl, args) {
			continue
		}
		if r.deny {
			r.refused.Add(1)
			return errDenied(r.name)
		}
		if r.to == "" && !r.allow(s.w.clock) {
			r.refused.Add(1)
			return errTooMany(r.name, r.rate)
		}
		r.passed.Add(1)
	}
	return nil
}

// concerns reports whether the rule is about a request (proxy.R1).
func (r *rule) concerns(s *session, pl *route.Plan, args [][]byte) bool {
	if r.user != "" && r.user != s.access.id.user && (s.access.id.user != "" || r.user != "default") {
		return false
	}
	if len(r.prefix) == 0 {
		switch pl.Special {
		case route.Auth, route.Hello, route.Reset, route.Quit, route.Exec, route.Discard, route.Unwatch:
			return false
		}
		return true
	}
	if !pl.Row.Keyed() {
		return false
	}
	w := s.w
	w.keys = w.p.table().AppendKeys(w.keys[:0], pl.Row, args)
	return slices.ContainsFunc(w.keys, func(at int) bool { return bytes.HasPrefix(args[at], r.prefix) })
}

// allow reports whether one more request fits into the rate. After a quiet second a second's worth may come at once.
// now is of the worker's clock, which all workers count from the same start.
func (r *rule) allow(now int64) bool {
	each := int64(time.Second) / r.rate
	for {
		next := r.next.Load()
		due := max(next, now-int64(time.Second)+each)
		if due > now {
			return false
		}
		if r.next.CompareAndSwap(next, due+each) {
			return true
		}
	}
}

// tellRules writes INFO's lines about rules.
func tellRules(w *info.Writer, rules []*rule) {
	for _, r := range rules {
		w.Text("rule_"+r.name, fmt.Sprintf("passed=%d,refused=%d", r.passed.Load(), r.refused.Load()))
	}
}
