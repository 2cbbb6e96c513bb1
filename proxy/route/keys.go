package route

import (
	"spindle/internal/ascii"
	"spindle/internal/number"
	"spindle/protocol/respclient"
)

// maxIndex bounds every number of a specification, so that sums of a few do not overflow.
const maxIndex = 1 << 20

// A spec finds some of a call's keys: the argument at which they begin, and which of the arguments after it are keys.
//
// Source: the key specifications of COMMAND.
type spec struct {
	keyword string // keys begin after this argument; if it is "", at index start
	start   int    // an index; with keyword, where the search begins, backwards if negative

	counted bool // the number of keys is an argument
	last    int  // if not counted: the last key, relative to the first, or from the end if negative
	limit   int  // if not counted and last is -1: keys are the first 1/limit of the rest
	numAt   int  // if counted: the position of the number, relative to the beginning
	first   int  // if counted: the position of the first key, relative to the beginning
	step    int
}

// readSpec reads a specification. clear is false if the specification does not cover all keys or is not understood.
func readSpec(v respclient.Value) (s spec, clear bool) {
	for _, name := range []string{"flags", "FLAGS"} {
		if list, ok := v.Get(name); ok {
			for _, flag := range list.Elems {
				if ascii.EqualFold(flag.Text, "incomplete") {
					return s, false
				}
			}
		}
	}
	begin, search := variant(v, "begin_search")
	find, how := variant(v, "find_keys")
	switch begin {
	case "index":
		s.start = whole(search, "index")
		if s.start <= 0 {
			return s, false
		}
	case "keyword":
		word, _ := search.Get("keyword")
		s.keyword, s.start = asciiLower(word.Text), whole(search, "startfrom")
		if s.keyword == "" || s.start == 0 {
			return s, false
		}
	default:
		return s, false
	}
	s.step = whole(how, "keystep")
	switch find {
	case "range":
		s.last, s.limit = whole(how, "lastkey"), whole(how, "limit")
		clear = s.step > 0 && s.limit >= 0
	case "keynum":
		s.counted = true
		s.numAt, s.first = whole(how, "keynumidx"), whole(how, "firstkey")
		clear = s.step > 0 && s.numAt >= 0 && s.first >= 0
	}
	return s, clear
}

// variant reads the type and the fields of {type: …, spec: {…}}.
func variant(v respclient.Value, name string) (kind string, fields respclient.Value) {
	part, _ := v.Get(name)
	t, _ := part.Get("type")
	fields, _ = part.Get("spec")
	return t.Text, fields
}

// whole reads a number of a specification. It returns 0 if the number is missing or too large.
func whole(v respclient.Value, name string) int {
	n, _ := v.Get(name)
	if n.Kind != ':' || n.Int < -maxIndex || n.Int > maxIndex {
		return 0
	}
	return int(n.Int)
}

// found is the result of a spec.
type found uint8

const (
	noKeys  found = iota // the call has none of these keys
	someAre              // the keys are first..last
	badCall              // the call is wrong, and its shard will reply with an error
)

// bounds returns the first and the last key of a call.
func (s *spec) bounds(args [][]byte) (first, last int, f found) {
	first = s.start
	if s.keyword != "" {
		if first = s.search(args); first < 0 {
			return 0, 0, noKeys
		}
	}
	switch {
	case s.counted:
		if first+s.numAt >= len(args) {
			return 0, 0, badCall
		}
		n, ok := number.ParseInt(args[first+s.numAt])
		if !ok || n < 0 || n > int64(len(args)) {
			return 0, 0, badCall
		}
		if n == 0 {
			return 0, 0, noKeys
		}
		first += s.first
		last = first + int(n-1)*s.step
	case s.last >= 0:
		last = first + s.last
	case s.limit > 1:
		last = first + (len(args)-first)/s.limit + s.last
	default:
		last = len(args) + s.last
	}
	if first >= len(args) || last >= len(args) || last < first {
		return 0, 0, badCall
	}
	return first, last, someAre
}

// search returns the index after the keyword, or -1 if the call does not have the keyword. A keyword that is the last
// argument does not count.
func (s *spec) search(args [][]byte) int {
	if s.start < 0 {
		for i := min(len(args)+s.start, len(args)-1); i >= 1; i-- {
			if ascii.EqualFold(args[i], s.keyword) {
				return i + 1
			}
		}
		return -1
	}
	for i := s.start; i < len(args)-1; i++ {
		if ascii.EqualFold(args[i], s.keyword) {
			return i + 1
		}
	}
	return -1
}

// custom names a command whose keys no specification can describe.
type custom uint8

const (
	plain custom = iota
	customSort
	customMigrate
	customGeo
)

var customs = map[string]custom{"sort": customSort, "sort_ro": customSort, "migrate": customMigrate,
	"georadius": customGeo, "georadiusbymember": customGeo}

// AppendKeys appends the indices in args of the keys of a call. row is the call's row. For a call with wrong arguments
// it may find too few keys; the shard then replies with an error.
func (t *Table) AppendKeys(dst []int, row *Row, args [][]byte) []int {
	switch row.custom {
	case customSort:
		return appendSortKeys(dst, row, args)
	case customMigrate:
		return appendMigrateKeys(dst, args)
	case customGeo:
		return appendGeoKeys(dst, args)
	}
	for i := range row.keys {
		s := &row.keys[i]
		first, last, f := s.bounds(args)
		if f == badCall {
			break
		}
		for at := first; f == someAre && at <= last; at += s.step {
			dst = append(dst, at)
		}
	}
	return dst
}

// appendSortKeys finds the keys of SORT: the sorted key, and the key of the last STORE.
func appendSortKeys(dst []int, row *Row, args [][]byte) []int {
	dst = append(dst, 1)
	store := 0
	for i := 2; i < len(args)-1; i++ {
		switch {
		case ascii.EqualFold(args[i], "limit"):
			i += 2
		case ascii.EqualFold(args[i], "get"), ascii.EqualFold(args[i], "by"):
			i++
		case ascii.EqualFold(args[i], "store") && !row.Readonly:
			i++
			store = i
		}
	}
	if store > 0 {
		dst = append(dst, store)
	}
	return dst
}

// appendMigrateKeys finds the key of MIGRATE: the third argument, or those after KEYS if it is empty.
func appendMigrateKeys(dst []int, args [][]byte) []int {
	if len(args) < 4 {
		return dst
	}
	if len(args[3]) > 0 {
		return append(dst, 3)
	}
	for i := 6; i < len(args); i++ {
		switch {
		case ascii.EqualFold(args[i], "auth"):
			i++
		case ascii.EqualFold(args[i], "auth2"):
			i += 2
		case ascii.EqualFold(args[i], "keys"):
			for i++; i < len(args); i++ {
				dst = append(dst, i)
			}
		}
	}
	return dst
}

// appendGeoKeys finds the keys of GEORADIUS and GEORADIUSBYMEMBER: the first key, and the key of the last STORE or
// STOREDIST. The specifications of Redis find the first STORE and the first STOREDIST, but Redis writes to the last
// one.
func appendGeoKeys(dst []int, args [][]byte) []int {
	dst = append(dst, 1)
	store := 0
	for i := 5; i < len(args)-1; i++ {
		if ascii.EqualFold(args[i], "store") || ascii.EqualFold(args[i], "storedist") {
			i++
			store = i
		}
	}
	if store > 0 {
		dst = append(dst, store)
	}
	return dst
}
