package acl

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"spindle/engine/command"
	"spindle/protocol"
)

// Errors of a rule. Administrators know these texts, so they are worded as in Redis.
var (
	errUnknown      = errors.New("Unknown command or category name in ACL")
	errRuleSyntax   = errors.New("Syntax error")
	errAfterAllKeys = errors.New("Adding a pattern after the * pattern (or the 'allkeys' flag) " +
		"is not valid and does not have any effect. " +
		"Try 'resetkeys' to start with an empty list of patterns")
	errAfterAllChannels = errors.New("Adding a pattern after the * pattern (or the 'allchannels' flag) " +
		"is not valid and does not have any effect. " +
		"Try 'resetchannels' to start with an empty list of channels")
	errNoPassword = errors.New("The password you are trying to remove from the user does not exist")
	errHash       = errors.New("The password hash must be exactly 64 characters and " +
		"contain only lowercase hexadecimal characters")
	errDuplicate = errors.New("Duplicate user found. A user can only be defined once in config files")
	errDatabase  = errors.New("The provided database ID is out of range")
	errAcks      = fmt.Errorf("ack= takes a number of replicas from 0 to %d", protocol.AckLevels)
	errFirstArg  = errors.New("Allowing first-arg of a subcommand is not supported")
)

// apply applies one rule of ACL SETUSER to a draft. Keywords and names match in any case.
//
// Errors: one of the above. After an error the draft is unusable.
func (r *Rights) apply(rule []byte, allChannels bool) error {
	if len(rule) == 0 {
		return nil
	}
	switch word := cText(rule); {
	case command.Is(word, "ON"):
		r.enabled = true
	case command.Is(word, "OFF"):
		r.enabled = false
	case command.Is(word, "SANITIZE-PAYLOAD"):
		r.skipSanitize = false
	case command.Is(word, "SKIP-SANITIZE-PAYLOAD"):
		r.skipSanitize = true
	case command.Is(word, "NOPASS"):
		r.noPass, r.passwords = true, nil
	case command.Is(word, "RESETPASS"):
		r.noPass, r.passwords = false, nil
	case command.Is(word, "RESETACK"):
		r.acks = 0
	case len(word) > len("ack=") && command.Is(word[:len("ack=")], "ACK="):
		return r.setAcks(word[len("ack="):])
	case rule[0] == '>' || rule[0] == '#':
		return r.addPassword(rule)
	case rule[0] == '<' || rule[0] == '!':
		return r.removePassword(rule)
	case rule[0] == '(' && rule[len(rule)-1] == ')':
		return r.addSelector(rule[1:len(rule)-1], allChannels)
	case command.Is(word, "CLEARSELECTORS"):
		r.selectors = r.selectors[:1]
	case command.Is(word, "RESET"):
		*r = *newRights(r.name, r.catalogue, allChannels)
	default:
		return r.selectors[0].apply(rule)
	}
	return nil
}

// setAcks is the rule ack=number: the user's replies wait for that number of replicas.
func (r *Rights) setAcks(number []byte) error {
	n, err := strconv.ParseUint(string(number), 10, 8)
	if err != nil || n > protocol.AckLevels {
		return errAcks
	}
	r.acks = int8(n + 1)
	return nil
}

func (r *Rights) addPassword(rule []byte) error {
	sum, err := passwordOf(rule, '>')
	if err != nil {
		return err
	}
	if !slices.Contains(r.passwords, sum) {
		r.passwords = append(r.passwords, sum)
	}
	r.noPass = false
	return nil
}

func (r *Rights) removePassword(rule []byte) error {
	sum, err := passwordOf(rule, '<')
	if err != nil {
		return err
	}
	at := slices.Index(r.passwords, sum)
	if at < 0 {
		return errNoPassword
	}
	r.passwords = slices.Delete(r.passwords, at, at+1)
	return nil
}

// passwordOf returns the hash of a rule's password. A rule that begins with plain holds the password itself. Any other
// rule holds the hash in hexadecimal.
func passwordOf(rule []byte, plain byte) (sum [sha256.Size]byte, err error) {
	if rule[0] == plain {
		return sha256.Sum256(rule[1:]), nil
	}
	digits := rule[1:]
	if len(digits) != 2*len(sum) || bytes.ContainsAny(digits, "ABCDEF") {
		return sum, errHash
	}
	if _, err := hex.Decode(sum[:], digits); err != nil {
		return sum, errHash
	}
	return sum, nil
}

// addSelector parses the rules in parentheses, which are split into words as in redis.conf. If quotes are not closed,
// the selector has no rules, as in Redis.
func (r *Rights) addSelector(rules []byte, allChannels bool) error {
	s := newSelector(r.catalogue, allChannels)
	words, _, ok := protocol.SplitWords(rules, nil, nil)
	if ok {
		for _, word := range words {
			if err := s.apply(word); err != nil {
				return err
			}
		}
	}
	r.selectors = append(r.selectors, s)
	return nil
}

// apply applies one rule for commands, keys, channels or databases to a selector.
func (s *selector) apply(rule []byte) error {
	word := cText(rule)
	switch {
	case command.Is(word, "ALLKEYS") || string(word) == "~*":
		s.allKeys, s.keys = true, nil
	case command.Is(word, "RESETKEYS"):
		s.allKeys, s.keys = false, nil
	case command.Is(word, "ALLCHANNELS") || string(word) == "&*":
		s.allChannels, s.channels = true, nil
	case command.Is(word, "RESETCHANNELS"):
		s.allChannels, s.channels = false, nil
	case command.Is(word, "ALLDBS"):
		s.allDatabases, s.databases = true, nil
	case command.Is(word, "RESETDBS"):
		s.allDatabases, s.databases = false, nil
	case len(word) >= len("db=") && command.Is(word[:len("db=")], "DB="):
		return s.setDatabases(word[len("db="):])
	case command.Is(word, "ALLCOMMANDS") || command.Is(word, "+@ALL"):
		s.permitAll(true)
	case command.Is(word, "NOCOMMANDS") || command.Is(word, "-@ALL"):
		s.permitAll(false)
	case len(word) == 0:
		return errRuleSyntax
	case word[0] == '~' || word[0] == '%':
		return s.addKeys(rule)
	case word[0] == '&':
		return s.addChannels(rule)
	case (word[0] == '+' || word[0] == '-') && len(word) > 1 && word[1] == '@':
		return s.permitCategory(word[1:], word[0] == '+')
	case word[0] == '+' && bytes.IndexByte(word, '|') >= 0:
		return s.permitPart(word[1:])
	case word[0] == '+' || word[0] == '-':
		row := s.find(word[1:])
		if row == nil {
			return errUnknown
		}
		s.permit(row, word[0] == '+')
		s.keepRule(row.Full, word[0] == '+')
	default:
		return errRuleSyntax
	}
	return nil
}

// addKeys is the rule ~pattern or %permits~pattern. It refuses "%" without permits. Redis accepts such a rule, but
// cannot show it.
func (s *selector) addKeys(rule []byte) error {
	if s.allKeys {
		return errAfterAllKeys
	}
	text, may := rule[1:], read|write
	if rule[0] == '%' {
		for may = 0; len(text) > 0 && text[0] != '~'; text = text[1:] {
			var more permits
			switch text[0] {
			case 'R', 'r':
				more = read
			case 'W', 'w':
				more = write
			}
			if more == 0 || may&more != 0 {
				return errRuleSyntax
			}
			may |= more
		}
		text = bytes.TrimPrefix(text, []byte("~"))
	}
	if may == 0 || hasSpaces(text) {
		return errRuleSyntax
	}
	s.keys = addPattern(s.keys, pattern{string(text), may})
	return nil
}

func (s *selector) addChannels(rule []byte) error {
	if s.allChannels {
		return errAfterAllChannels
	}
	if hasSpaces(rule[1:]) {
		return errRuleSyntax
	}
	s.channels = addPattern(s.channels, pattern{string(rule[1:]), read | write})
	return nil
}

// setDatabases is the rule db=number,number: these databases and no others.
func (s *selector) setDatabases(list []byte) error {
	s.allDatabases, s.databases = false, nil
	for number := range bytes.SplitSeq(list, []byte(",")) {
		db, err := strconv.ParseInt(string(number), 10, 32)
		switch {
		case errors.Is(err, strconv.ErrRange), err == nil && db < 0:
			return errDatabase
		case err != nil:
			return errRuleSyntax
		}
		s.databases = append(s.databases, int(db))
	}
	slices.Sort(s.databases)
	s.databases = slices.Compact(s.databases)
	return nil
}

// permitCategory is the rule +@name or -@name. name includes the @.
func (s *selector) permitCategory(name []byte, allow bool) error {
	category, known := command.Category(name[1:])
	if !known {
		return errUnknown
	}
	s.keepRule(string(name), allow)
	for _, row := range s.catalogue.All() {
		if row.ACL&category != 0 {
			s.permit(row, allow)
		}
	}
	return nil
}

// permitPart is the rule +command|part. part is a subcommand, or a first argument of a command without subcommands.
//
// It refuses a first argument with blanks or open quotes. Redis accepts one, but crashes when it shows the user.
func (s *selector) permitPart(name []byte) error {
	bar := bytes.LastIndexByte(name, '|')
	row := s.find(name[:bar])
	part := name[bar+1:]
	switch {
	case row == nil:
		return errUnknown
	case row.Parent != nil:
		return errFirstArg
	case len(part) == 0:
		return errRuleSyntax
	case len(row.Subs) != 0:
		sub := row.Sub(part)
		if sub == nil {
			return errUnknown
		}
		s.permit(sub, true)
	default:
		words, _, ok := protocol.SplitWords(part, nil, nil)
		if !ok || len(words) != 1 || hasSpaces(part) {
			return errRuleSyntax
		}
		s.permitFirstArg(row, string(part))
	}
	s.keepRule(string(name), true)
	return nil
}

// find returns the row whose name before rename-command is name, such as "get" or "config|get". It returns nil if there
// is none.
func (s *selector) find(name []byte) *command.Spec {
	name, sub, hasSub := bytes.Cut(name, []byte("|"))
	row := s.catalogue.Original(name)
	if row == nil || !hasSub {
		return row
	}
	return row.Sub(sub)
}

// mergeSelectors joins the words of a selector that contains blanks: "(+get" "~x)" becomes "(+get ~x)".
//
// Errors: unclosed is the index of a parenthesis that is not closed, or -1.
func mergeSelectors(rules [][]byte) (merged [][]byte, unclosed int) {
	open := -1
	var selector []byte
	for i, rule := range rules {
		closes := len(rule) > 0 && rule[len(rule)-1] == ')'
		switch {
		case open >= 0:
			selector = append(append(selector, ' '), cText(rule)...)
			if closes {
				merged, open = append(merged, selector), -1
			}
		case len(rule) > 0 && rule[0] == '(' && !closes:
			open, selector = i, bytes.Clone(rule)
		default:
			merged = append(merged, rule)
		}
	}
	return merged, open
}

// hasSpaces reports whether text has blanks or zero bytes, which names and patterns must not have.
func hasSpaces(text []byte) bool { return bytes.ContainsAny(text, " \t\n\v\f\r\x00") }

func cText(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}
