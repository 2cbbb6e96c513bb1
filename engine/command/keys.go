package command

import (
	"math"

	"spindle/internal/ascii"
)

// Search says which keys AppendKeys is to find.
type Search uint8

const (
	IncludeNotKeys Search = 1 << iota // also arguments that a key spec marks as no keys (shard channels)
	onlyFixed                         // no keys whose place depends on other arguments
)

// legacyRange derives the first key, last key and step of COMMAND INFO from a row's key specs. It adds the flag
// MovableKeys if these three do not cover all keys.
func legacyRange(s *Spec) (KeySpec, Flags) {
	flags := s.Flags
	if len(s.Keys) == 0 {
		return KeySpec{}, flags
	}
	if len(s.Keys) == 1 && s.Keys[0].fixed() {
		if s.Keys[0].Flags&KeyIncomplete != 0 {
			flags |= MovableKeys
		}
		return s.Keys[0], flags
	}
	first, last, before := math.MaxInt, 0, 0
	for i := range s.Keys {
		k := &s.Keys[i]
		if !k.fixed() || k.Step != 1 || before != 0 && before != k.Index-1 {
			flags |= MovableKeys
			continue
		}
		if k.Flags&KeyIncomplete != 0 {
			flags |= MovableKeys
		}
		first = min(first, k.Index)
		end := k.LastKey
		if end >= 0 {
			end += k.Index
		}
		if uint(end) > uint(last) { // unsigned: "up to the last argument" is greater than any index
			last = end
		}
		before = last
	}
	if first == math.MaxInt {
		return KeySpec{}, flags | MovableKeys
	}
	if last > 0 {
		last -= first
	}
	return KeySpec{Index: first, LastKey: last, Step: 1}, flags
}

// firstLastStep returns the first key, last key and step of COMMAND INFO, or 0, 0, 0 for no keys.
func (s *Spec) firstLastStep() (first, last, step int) {
	first, last, step = s.legacy.Index, s.legacy.LastKey, s.legacy.Step
	if last >= 0 {
		last += first
	}
	return first, last, step
}

// HasKeys reports whether calls of the row may name keys. Shard channels count as keys only if search includes them.
func (s *Spec) HasKeys(search Search) bool {
	if s.GetKeys != nil {
		return true
	}
	for i := range s.Keys {
		if search&IncludeNotKeys != 0 || s.Keys[i].Flags&KeyNotKey == 0 {
			return true
		}
	}
	return false
}

// OneKey returns the index of the only key of every call. It returns 0 if calls may have another number of keys, or
// find them in another way.
func (s *Spec) OneKey() int {
	if len(s.Keys) != 1 || s.GetKeys != nil {
		return 0
	}
	if k := &s.Keys[0]; k.LastKey == 0 && !k.KeyNum && k.Keyword == "" && !k.Unknown && k.Flags&KeyNotKey == 0 {
		return k.Index
	}
	return 0
}

// AppendKeys appends the positions of a call's keys, in the order of the key specs. Access rules, routing and latches
// use it, so it must find every key that the handler uses (TestFinder of engine/catalogue).
//
// If the row has GetKeys, AppendKeys uses only that. If GetKeys cannot read a call, the handler will refuse the call.
// AppendKeys then returns the keys that the key specs find.
// Errors: ErrInvalidKeyArguments if the keys cannot be found. Keys at fixed places are appended even then.
// Cost: no allocation while into has room.
func (s *Spec) AppendKeys(into []KeyPosition, args [][]byte, search Search) ([]KeyPosition, error) {
	mark := len(into)
	keys, err := s.appendFound(into, args, search)
	if err != nil {
		keys, _ = appendBySpecs(keys[:mark], s.Keys, args, search|onlyFixed)
	}
	found := keys[:mark]
	for _, k := range keys[mark:] { // the arity may not be checked yet: a call may end before its keys
		if k.Index < len(args) {
			found = append(found, k)
		}
	}
	return found, err
}

func (s *Spec) appendFound(into []KeyPosition, args [][]byte, search Search) ([]KeyPosition, error) {
	mark := len(into)
	if s.GetKeys != nil {
		if keys, err := s.GetKeys(into, args); err == nil {
			return keys, nil
		}
	}
	keys, ok := appendBySpecs(into, s.Keys, args, search)
	if ok {
		return keys, nil
	}
	return s.appendCounted(keys[:mark], args)
}

// fixed reports whether k means the argument at Index in every call, and perhaps arguments after it.
func (k *KeySpec) fixed() bool { return !k.Unknown && k.Keyword == "" && !k.KeyNum }

// appendBySpecs appends the keys that specs describe. It returns false if one of the specs does not fit args.
func appendBySpecs(into []KeyPosition, specs []KeySpec, args [][]byte, search Search) ([]KeyPosition, bool) {
	for i := range specs {
		k := &specs[i]
		if k.Flags&KeyNotKey != 0 && search&IncludeNotKeys == 0 || search&onlyFixed != 0 && !k.fixed() {
			continue
		}
		first, last, step, fits := k.locate(args)
		none := k.fixed() && k.LastKey < 0 && first == len(args) && last == first-1 // PFMERGE without sources
		if fits && (first == 0 || none) {
			continue
		}
		if !fits || first < 0 || last >= len(args) || last < first || k.Flags&KeyIncomplete != 0 {
			return into, false
		}
		for at := first; at <= last; at += max(step, 1) {
			into = append(into, KeyPosition{at, k.Flags})
		}
	}
	return into, true
}

// locate returns the range of arguments that k describes. first is 0 when k's keyword is absent.
func (k *KeySpec) locate(args [][]byte) (first, last, step int, fits bool) {
	n := len(args)
	switch {
	case k.Unknown:
		return 0, 0, 0, false
	case k.Keyword != "":
		from, to, by := k.KeywordFrom, n-1, 1
		if from < 0 {
			from, to = n+from, 1
		}
		if from > to {
			by = -1
		}
		for i := from; i != to && i >= 1 && i < n; i += by {
			if ascii.EqualFold(args[i], k.Keyword) {
				first = i + 1
				break
			}
		}
		if first == 0 {
			return 0, 0, 0, true
		}
	default:
		first = k.Index
	}
	if k.KeyNum {
		at := first + k.KeyNumIndex
		if at >= n {
			return 0, 0, 0, false
		}
		count, ok := smallCount(args[at])
		if !ok {
			return 0, 0, 0, false
		}
		first += k.FirstKey
		return first, first + (count-1)*k.KeyStep, k.KeyStep, true
	}
	switch {
	case k.LastKey >= 0:
		last = first + k.LastKey
	case k.Limit == 0:
		last = n + k.LastKey
	default:
		last = first + (n-first)/k.Limit + k.LastKey
	}
	return first, last, k.Step, true
}

// smallCount reads a number of keys: digits without sign or leading zero, small enough for any request.
func smallCount(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > 9 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// appendCounted appends the keys of a call whose key count is not a plain number. As in Redis, the count is read as C's
// atoi reads it, and the keys that the count covers are appended first.
func (s *Spec) appendCounted(into []KeyPosition, args [][]byte) ([]KeyPosition, error) {
	mark := len(into)
	for i := range s.Keys {
		if k := &s.Keys[i]; k.KeyNum && k.Keyword == "" && k.Index+k.KeyNumIndex < len(args) {
			count, first := leadingInt(args[k.Index+k.KeyNumIndex]), k.Index+k.FirstKey
			if count < 1 || count > (len(args)-first)/k.KeyStep {
				break
			}
			for n := range count {
				into = append(into, KeyPosition{first + n*k.KeyStep, k.Flags})
			}
		}
	}
	if len(into) == mark {
		return into, ErrInvalidKeyArguments
	}
	for i := range s.Keys {
		if k := &s.Keys[i]; !k.KeyNum && k.Flags&KeyNotKey == 0 {
			into = append(into, KeyPosition{k.Index, k.Flags})
		}
	}
	return into, nil
}

// leadingInt reads the number that text begins with, as C's atoi does: white space, an optional sign, and digits. A
// number beyond 64 bits is clamped. The result is the lower 32 bits.
func leadingInt(text []byte) int {
	for len(text) > 0 && (text[0] == ' ' || '\t' <= text[0] && text[0] <= '\r') {
		text = text[1:]
	}
	negative := len(text) > 0 && text[0] == '-'
	if negative || len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	n, limit := uint64(0), uint64(math.MaxInt64)
	if negative {
		limit++
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			break
		}
		digit := uint64(c - '0')
		if n > (limit-digit)/10 {
			n = limit
			break
		}
		n = n*10 + digit
	}
	if negative {
		n = -n
	}
	return int(int32(n))
}
