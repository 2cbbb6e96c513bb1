package acl

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"spindle/engine/command"
)

// A generator makes rules and calls about commands that both sides know.
type generator struct {
	*rand.Rand
	rows     []*command.Spec // leaves and containers; redis-server has all of them
	unclosed bool            // selectors may lack their closing parenthesis, which 7.0 does not handle
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// anyCase sometimes writes word in capitals.
func (g *generator) anyCase(word string) string {
	if g.IntN(4) == 0 {
		return strings.ToUpper(word)
	}
	return word
}

// text returns a short key or channel.
func (g *generator) text() string {
	return pick(g, "a", "b", "ab", "ba", "aba", "user:1", "user:2", "user:12", "user:", "x:a", "x:ab", "", "*", "a*", "[",
		"a\\b", "1", "2")
}

// pattern returns a pattern for keys or channels.
func (g *generator) pattern() string {
	if g.IntN(3) == 0 {
		return g.text()
	}
	var b strings.Builder
	for range 1 + g.IntN(4) {
		b.WriteString(pick(g, "a", "b", "user:", "x:", "1", "*", "**", "?", "[ab]", "[^a]", "[a-z]", "\\*", "\\a", "[", ":"))
	}
	return b.String()
}

// firstArgs are words that may follow a command name both in rules and in calls.
var firstArgs = []string{"a", "1", "get", "SET", "user:1", "0", "*"}

// rowName returns the name of a random row, often one of a small set. Rules affect each other only if they name the
// same command.
func (g *generator) rowName() string {
	if g.IntN(3) == 0 {
		return g.anyCase(pick(g, "config", "config|get", "config|set", "select", "get", "set"))
	}
	return g.anyCase(g.rows[g.IntN(len(g.rows))].Full)
}

// selectorRule returns a rule that is allowed inside parentheses.
func (g *generator) selectorRule() string {
	switch g.IntN(24) {
	case 0, 1, 2, 3:
		return "+" + g.rowName()
	case 4, 5, 6:
		return "-" + g.rowName()
	case 7:
		return "+" + pick(g, "select", "get", "set", g.rowName()) + "|" + pick(g, firstArgs...)
	case 8:
		if g.IntN(4) != 0 {
			return "+" + g.rowName()
		}
		return pick(g, "+", "-") + pick(g, "nope", "config|nope", "select|1", "config|", "select|", "|", "", "config|get|x",
			"get|a|b", "@nope", "@", "config|help", "@read|x")
	case 9, 10, 11, 12:
		names := []string{"all"}
		(^command.ACL(0)).Names(func(name string) bool {
			names = append(names, name)
			return true
		})
		return pick(g, "+@", "-@", "+@") + g.anyCase(pick(g, names...))
	case 13:
		return g.anyCase(pick(g, "allcommands", "nocommands", "+@all", "-@all", "allcommands", "+@all"))
	case 14:
		return g.anyCase(pick(g, "allkeys", "resetkeys", "resetkeys", "~*"))
	case 15:
		return g.anyCase(pick(g, "allchannels", "resetchannels", "resetchannels", "&*"))
	case 16, 17, 18, 19, 20:
		return pick(g, "~", "%R~", "%W~", "%RW~", "%wr~", "%w~", "~", "%r~", "%R",
			pick(g, "~", "~", "~", "%X~", "%RR~", "%~")) + g.pattern()
	default:
		return "&" + g.pattern()
	}
}

// rule returns one or more arguments of ACL SETUSER.
func (g *generator) rule() []string {
	switch g.IntN(20) {
	case 0:
		return []string{g.anyCase(pick(g, "on", "off", "nopass", "resetpass", "sanitize-payload", "skip-sanitize-payload"))}
	case 1:
		return []string{pick(g, ">", ">", ">", ">", "<", pick(g, "#", "!")) + pick(g, "secret", "", "other", "two words")}
	case 2: // the hash of "secret": correct, too short, in capitals
		const hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
		return []string{pick(g, "#", "#", "#", "!") + pick(g, hash, hash, hash, hash, hash[1:], strings.ToUpper(hash))}
	case 3:
		return []string{g.anyCase(pick(g, "reset", "clearselectors", "clearselectors"))}
	case 4, 5:
		words := []string{"(" + g.selectorRule()}
		for range g.IntN(4) {
			words = append(words, g.selectorRule())
		}
		if g.IntN(24) != 0 || !g.unclosed {
			words[len(words)-1] += ")"
		}
		if g.IntN(2) == 0 {
			return []string{strings.Join(words, " ")}
		}
		return words
	case 6:
		switch {
		case g.IntN(3) != 0:
			return nil
		case g.unclosed && g.IntN(16) == 0:
			return []string{"("}
		}
		return []string{pick(g, "", "nope", ")", "()", "(on)", "( )", "(+get (+set))", "~a b", "&a b", "ON ", "~a\x00b",
			"on\x00x", "+get\x00x", "((+get))")}
	}
	return []string{g.selectorRule()}
}

// crashes reports whether redis-server crashes when it shows a user with this rule.
func crashes(rule string) bool {
	for _, word := range strings.FieldsFunc(rule, func(c rune) bool { return c == ' ' || c == '(' || c == ')' }) {
		if word == "%" {
			return true
		}
	}
	return false
}

// rules returns all rules of one change. It allows most users some commands, so that keys and channels decide.
func (g *generator) rules() []string {
	var all []string
	switch g.IntN(6) {
	case 0:
		all = append(all, "reset", "resetchannels", "+@all")
	case 1:
		all = append(all, "+@all", "resetkeys", "resetchannels", "~a*", "%R~user:*", "&a*")
	case 2:
		all = append(all, "reset")
	case 3, 4:
		all = append(all, "resetkeys", "resetchannels")
	}
	for range 1 + g.IntN(6) {
		all = append(all, g.rule()...)
	}
	for i := range all {
		if crashes(all[i]) {
			all[i] = "on"
		}
	}
	return all
}

// call returns a command with a number of arguments that it accepts.
func (g *generator) call() []string {
	row := g.rows[g.IntN(len(g.rows))]
	wantChannels := g.IntN(12) == 0
	if g.IntN(16) == 0 {
		return strings.Fields(pick(g, "config get x", "config set x y", "select 1", "select a", "get a", "set a 1"))
	}
	for len(row.Subs) != 0 || wantChannels && row.Channels == 0 {
		row = g.rows[g.IntN(len(g.rows))]
	}
	args := strings.Split(g.anyCase(row.Full), "|")
	n := row.Arity
	if n < 0 {
		n = -n + g.IntN(6)
	}
	for len(args) < n {
		switch g.IntN(8) {
		case 0:
			args = append(args, strconv.Itoa(g.IntN(4)))
		case 1:
			args = append(args, pick(g, "STORE", "STOREDIST", "STREAMS", "BY", "GET", "LIMIT", "KEYS", "WEIGHTS", "COUNT",
				"BLOCK", "MATCH", "SET", "#", "ID"))
		case 2:
			args = append(args, pick(g, firstArgs...))
		default:
			args = append(args, g.text())
		}
	}
	return args
}

func line(args []string) string { return fmt.Sprintf("%q", args) }
