package route

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"spindle/internal/number"
	"spindle/protocol/scan"
)

// A Gather joins the replies of several shards to one call, as the Merge of its row requires. The next Begin reuses its
// memory.
//
//	g.Begin(row, len(groups), p.KeyCount)
//	g.Add("10.0.0.1:6379", groups[1].Keys, reply)     in any order
//	dst = g.Append(dst)                               once Missing is 0
//
// If a part fails, the whole reply is an error. It quotes the shard's error and names the shard. For a write it also
// tells how many shards did their part. If all parts fail with the same error, that error is passed on unchanged.
type Gather struct {
	// Chance returns a random number from 0 to n-1. RANDOMKEY needs it.
	Chance func(n int) int

	row     *Row
	parts   int
	added   int
	good    int      // the number of parts without an error
	kind    byte     // the type byte of the first good part
	names   []string // for SameLibraries: the names in the first good part, sorted
	bytes   []byte   // copies of replies, or of their elements
	reply   span     // the reply to pass on, for merges that choose one
	chosen  bool
	numbers []int64
	each    bool   // numbers are the elements of arrays
	elems   []span // for ByKey: an element for each key
	count   int    // Concat: elements so far, pairs of a map; AnyKey: keys so far

	failed  bool
	fault   span // the first error's text, without type byte and CRLF
	where   span // the shard of fault
	unequal bool // another part's error differs
}

// span is a part of Gather's bytes.
type span struct{ from, to int }

// Begin starts the gathering of a call of row that is sent in parts to several shards. keys is the number of the call's
// keys if Merge is ByKey.
func (g *Gather) Begin(row *Row, parts, keys int) {
	*g = Gather{Chance: g.Chance, row: row, parts: parts, bytes: g.bytes[:0], numbers: g.numbers[:0], elems: g.elems[:0]}
	if row.Merge == ByKey {
		for range keys {
			g.elems = append(g.elems, span{})
		}
	}
}

// Missing returns the number of parts whose replies have not been added.
func (g *Gather) Missing() int { return g.parts - g.added }

// Add adds the complete reply of one shard and copies it. where names the shard for errors. keys are the part's
// Group.Keys; only ByKey needs them.
//
// Errors: the command cannot have this reply. Then the part counts as failed, and the shard cannot be trusted.
func (g *Gather) Add(where string, keys []int32, reply []byte) error {
	g.added++
	if text, failed := errorText(reply); failed {
		g.fail(where, text)
		return nil
	}
	err := g.take(keys, reply)
	if _, differ := err.(missingLibrary); differ {
		g.fail(where, []byte("ERR "+err.Error()))
		return nil
	}
	if err != nil {
		g.fail(where, fmt.Appendf(nil, "ERR the shard's reply cannot be joined with the others: %v", err))
		return err
	}
	g.good++
	return nil
}

// Append appends the joined reply.
func (g *Gather) Append(dst []byte) []byte {
	if g.good < g.parts && (g.row.Merge != OneSucceeded || g.good == 0) {
		return g.appendFault(dst)
	}
	switch g.row.Merge {
	case Sum, Min, Max, And, Or, HaveScript:
		if g.each {
			dst = appendHeader(dst, '*', len(g.numbers))
		}
		for _, n := range g.numbers {
			dst = append(number.AppendInt(append(dst, ':'), n), '\r', '\n')
		}
		return dst
	case Concat:
		return append(appendHeader(dst, g.kind, g.count), g.bytes...)
	case ByKey:
		dst = appendHeader(dst, '*', len(g.elems))
		for _, e := range g.elems {
			dst = append(dst, g.bytes[e.from:e.to]...)
		}
		return dst
	}
	return append(dst, g.bytes[g.reply.from:g.reply.to]...)
}

// take adds a reply that is not an error.
func (g *Gather) take(keys []int32, reply []byte) error {
	if len(reply) == 0 {
		return fmt.Errorf("it is empty")
	}
	switch g.row.Merge {
	case Sum, Min, Max, And, Or, HaveScript:
		return g.takeNumbers(reply)
	case Concat:
		return g.takeAll(reply)
	case ByKey:
		return g.takeByKey(keys, reply)
	case AnyKey:
		if reply[0] != '$' && reply[0] != '_' {
			return fmt.Errorf("it has the type %q", reply[0])
		}
		if isNull(reply) {
			g.choose(reply, !g.chosen)
			return nil
		}
		g.count++
		g.choose(reply, g.count == 1 || g.Chance(g.count) == 0)
	case SameLibraries:
		return g.takeLibraries(reply)
	case FunctionStats:
		running, err := hasRunningScript(reply)
		if err != nil {
			return err
		}
		g.choose(reply, !g.chosen || running)
	default:
		g.choose(reply, !g.chosen)
	}
	return nil
}

// takeLibraries adds a reply to FUNCTION LIST. If two shards have different libraries, the call fails.
func (g *Gather) takeLibraries(reply []byte) error {
	names, err := libraryNames(reply)
	if err != nil {
		return err
	}
	if g.good == 0 {
		g.names = names
		g.choose(reply, true)
		return nil
	}
	for i := range max(len(names), len(g.names)) {
		switch {
		case i == len(names) || i < len(g.names) && g.names[i] < names[i]:
			return missingLibrary(g.names[i])
		case i == len(g.names) || names[i] < g.names[i]:
			return missingLibrary(names[i])
		}
	}
	return nil
}

// A missingLibrary is the error for a library that not all shards have. Its text is the library's name.
type missingLibrary string

func (m missingLibrary) Error() string {
	return fmt.Sprintf("the shards differ in the library '%.100s': load or delete it again", string(m))
}

// libraryNames returns the sorted names of the libraries in a reply to FUNCTION LIST.
func libraryNames(reply []byte) (names []string, err error) {
	if reply[0] != '*' {
		return nil, fmt.Errorf("it has the type %q", reply[0])
	}
	n, rest, err := header(reply)
	if err != nil {
		return nil, err
	}
	for range n {
		size, err := elementSize(rest)
		if err != nil {
			return nil, err
		}
		fields, pairs, err := header(rest[:size])
		if err != nil {
			return nil, err
		}
		if rest[0] == '%' {
			fields *= 2
		}
		for i := 0; i+1 < fields; i += 2 {
			key, err := elementSize(pairs)
			if err != nil {
				return nil, err
			}
			value, err := elementSize(pairs[key:])
			if err != nil {
				return nil, err
			}
			if bytes.Contains(pairs[:key], []byte("library_name")) {
				_, name, _ := bytes.Cut(pairs[key:key+value], []byte("\r\n"))
				names = append(names, string(bytes.TrimSuffix(name, []byte("\r\n"))))
			}
			pairs = pairs[key+value:]
		}
		rest = rest[size:]
	}
	slices.Sort(names)
	return names, nil
}

// choose keeps reply as the one to pass on, if better is true.
func (g *Gather) choose(reply []byte, better bool) {
	if better {
		g.reply, g.chosen = g.keep(reply), true
	}
}

// keep copies p into the bytes of the Gather.
func (g *Gather) keep(p []byte) span {
	from := len(g.bytes)
	g.bytes = append(g.bytes, p...)
	return span{from, len(g.bytes)}
}

// takeNumbers adds an integer, or an array of integers.
func (g *Gather) takeNumbers(reply []byte) error {
	each := reply[0] == '*'
	values, n := reply, 1
	if each {
		var err error
		if n, values, err = header(reply); err != nil {
			return err
		}
	}
	first := g.good == 0
	if first {
		g.each = each
	} else if each != g.each || n != len(g.numbers) {
		return fmt.Errorf("it has %d numbers, another shard's has %d", n, len(g.numbers))
	}
	begin := len(g.numbers)
	for i := range n {
		line, rest, found := bytes.Cut(values, []byte("\r\n"))
		if !found || len(line) < 2 || line[0] != ':' {
			g.numbers = g.numbers[:begin]
			return fmt.Errorf("it has %.40q in the place of an integer", line)
		}
		value, ok := number.ParseInt(line[1:])
		if !ok {
			g.numbers = g.numbers[:begin]
			return fmt.Errorf("it has %.40q in the place of an integer", line)
		}
		values = rest
		if first {
			g.numbers = append(g.numbers, truth(g.row.Merge, value))
		} else {
			g.numbers[i] = aggregate(g.row.Merge, g.numbers[i], value)
		}
	}
	return nil
}

// truth returns 1 for any non-zero number in a logical merge. Otherwise it returns n unchanged.
func truth(m Merge, n int64) int64 {
	if (m == And || m == Or) && n != 0 {
		return 1
	}
	return n
}

func aggregate(m Merge, a, b int64) int64 {
	switch m {
	case Sum, HaveScript:
		if sum := a + b; (sum > a) == (b > 0) {
			return sum
		}
		if b > 0 {
			return math.MaxInt64
		}
		return math.MinInt64
	case Min:
		return min(a, b)
	case Max:
		return max(a, b)
	case And:
		return min(a, truth(m, b))
	default:
		return max(a, truth(m, b))
	}
}

// takeAll adds the elements of an array, a set or a map.
func (g *Gather) takeAll(reply []byte) error {
	kind := reply[0]
	if kind != '*' && kind != '~' && kind != '%' {
		return fmt.Errorf("it has the type %q", kind)
	}
	if g.good > 0 && kind != g.kind {
		return fmt.Errorf("it has the type %q, another shard's has %q", kind, g.kind)
	}
	n, elems, err := header(reply)
	if err != nil {
		return err
	}
	g.kind = kind
	g.count += n
	g.bytes = append(g.bytes, elems...)
	return nil
}

// takeByKey adds an array that has one element for each key of the part.
func (g *Gather) takeByKey(keys []int32, reply []byte) error {
	if reply[0] != '*' {
		return fmt.Errorf("it has the type %q", reply[0])
	}
	n, rest, err := header(reply)
	if err != nil {
		return err
	}
	if n != len(keys) {
		return fmt.Errorf("it has %d elements for %d keys", n, len(keys))
	}
	for _, at := range keys {
		size, err := elementSize(rest)
		if err != nil {
			return err
		}
		i := int(at) - 1
		if i < 0 || i >= len(g.elems) {
			return fmt.Errorf("argument %d is no key", at)
		}
		g.elems[i] = g.keep(rest[:size])
		rest = rest[size:]
	}
	return nil
}

// header reads the header of an aggregate. n is the number of its elements, or of the pairs of a map.
func header(reply []byte) (n int, elems []byte, err error) {
	line, elems, found := bytes.Cut(reply, []byte("\r\n"))
	if !found || len(line) < 2 {
		return 0, nil, fmt.Errorf("it begins with %.40q", line)
	}
	size, ok := number.ParseInt(line[1:])
	if !ok || size < 0 || size > int64(len(elems)) {
		return 0, nil, fmt.Errorf("it begins with %.40q", line)
	}
	return int(size), elems, nil
}

// elementSize returns the length of the element at the start of p, with its attributes.
func elementSize(p []byte) (size int, err error) {
	for {
		var s scan.Scanner
		n, complete, err := s.Scan(p[size:])
		if err != nil || !complete {
			return 0, fmt.Errorf("it is no complete reply: %v", err)
		}
		size += n
		if s.Kind != '|' {
			return size, nil
		}
	}
}

func isNull(reply []byte) bool { return reply[0] == '_' || len(reply) > 1 && reply[1] == '-' }

// hasRunningScript reports whether a reply to FUNCTION STATS names a running script.
func hasRunningScript(reply []byte) (bool, error) {
	n, rest, err := header(reply)
	if err != nil {
		return false, err
	}
	if reply[0] == '%' {
		n *= 2
	}
	for i := 0; i+1 < n; i += 2 {
		key, err := elementSize(rest)
		if err != nil {
			return false, err
		}
		value, err := elementSize(rest[key:])
		if err != nil {
			return false, err
		}
		if bytes.Contains(rest[:key], []byte("running_script")) {
			return !isNull(rest[key : key+value]), nil
		}
		rest = rest[key+value:]
	}
	return false, nil
}

// errorText returns the text of an error reply as one line.
func errorText(reply []byte) (text []byte, failed bool) {
	if len(reply) == 0 || reply[0] != '-' && reply[0] != '!' {
		return nil, false
	}
	text = reply[1:]
	if reply[0] == '!' {
		_, text, _ = bytes.Cut(reply, []byte("\r\n"))
	}
	return bytes.TrimRight(text, "\r\n"), true
}

func (g *Gather) fail(where string, text []byte) {
	if g.failed {
		g.unequal = g.unequal || !bytes.Equal(text, g.bytes[g.fault.from:g.fault.to])
		return
	}
	g.failed = true
	g.fault = g.keep(text)
	g.where = g.keep([]byte(where))
}

// appendFault appends the error of the call.
func (g *Gather) appendFault(dst []byte) []byte {
	dst = append(dst, '-')
	begin := len(dst)
	dst = append(dst, g.bytes[g.fault.from:g.fault.to]...)
	for i := begin; i < len(dst); i++ {
		if dst[i] == '\r' || dst[i] == '\n' {
			dst[i] = ' '
		}
	}
	if g.good > 0 || g.unequal || g.added < g.parts {
		dst = append(append(dst, " (shard "...), g.bytes[g.where.from:g.where.to]...)
		if !g.row.Readonly {
			dst = strconv.AppendInt(append(dst, "; done by "...), int64(g.good), 10)
			dst = append(strconv.AppendInt(append(dst, " of "...), int64(g.parts), 10), " shards"...)
		}
		dst = append(dst, ')')
	}
	return append(dst, '\r', '\n')
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	return append(number.AppendInt(append(dst, kind), int64(n)), '\r', '\n')
}
