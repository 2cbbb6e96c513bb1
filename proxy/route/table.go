package route

import (
	"fmt"
	"slices"
	"strings"

	"spindle/internal/ascii"
	"spindle/protocol"
	"spindle/protocol/respclient"
)

// A Class says to which shards a command is sent.
type Class uint8

const (
	Refused Class = iota // answered with an error that names the reason
	Forward              // to the shard of its slot; without a key, to any shard
	Split                // cut by slot, one request each; with keys of one slot it is Forward
	All                  // to all shards; the replies are merged
	Pinned               // as Forward, on a connection that no other client uses: it blocks, or it opens a transaction
	Local                // the proxy answers, or treats it as its Special says
)

var classNames = [...]string{"refused", "forward", "split", "all", "pinned", "local"}

func (c Class) String() string { return classNames[c] }

// A Merge says how the replies of several shards become one reply.
type Merge uint8

const (
	NoMerge       Merge = iota // one shard answers
	AllSucceeded               // the first reply if none is an error
	OneSucceeded               // the first reply that is no error
	Sum                        // of integers, or of arrays element by element; so are Min, Max, And and Or
	Min                        //
	Max                        //
	And                        //
	Or                         //
	Concat                     // the elements of all arrays, sets or maps
	ByKey                      // an array with an element a key, in the order of the keys
	AnyKey                     // RANDOMKEY: a random one of the keys; null only if all are null
	FunctionStats              // FUNCTION STATS: the reply of a shard that runs a script, if any does
	SameLibraries              // FUNCTION LIST: the first reply if all have the same libraries
	HaveScript                 // SCRIPT EXISTS: how many shards have each script; the proxy makes the reply
)

var mergeNames = [...]string{"", "all succeeded", "one succeeded", "sum", "minimum", "maximum", "logical and",
	"logical or", "concatenated", "in the order of the keys", "a random one", "of a shard that runs a script",
	"if all have the same libraries",
	"1 if the proxy's clients can run it at all shards"}

func (m Merge) String() string { return mergeNames[m] }

// Script says whether a command runs a script.
type Script uint8

const (
	NoScript   Script = iota
	ByBody            // EVAL and EVAL_RO: the first argument is the script
	ByHash            // EVALSHA and EVALSHA_RO
	ByFunction        // FCALL and FCALL_RO
)

var scripted = map[string]Script{"eval": ByBody, "eval_ro": ByBody, "evalsha": ByHash, "evalsha_ro": ByHash,
	"fcall": ByFunction, "fcall_ro": ByFunction}

// A Row describes one command or subcommand. It does not change.
type Row struct {
	Name    string // in lower case: "get", "client|list"
	Number  int    // of the row, in Rows
	Arity   int    // the number of arguments with the name; if negative, the minimum
	Class   Class
	Special Special // why the proxy treats it in a special way; None for most
	Merge   Merge
	Reason  string // why it is Refused

	Readonly, Write, Blocking, Admin, NoMulti, PubSub bool // flags of COMMAND

	MayReplicate bool // it may write although it is not flagged so: EVAL, PFCOUNT, PUBLISH
	AllNodes     bool // for All: the tips require replicas too
	Script       Script
	Module       bool

	keys   []spec // none for custom
	custom custom
	subs   *index // nil if there are no subcommands
	shape  shape
	refuse *protocol.Error // the error of class Refused
}

// Sub returns the row of a subcommand in any case, or nil if there is none.
func (r *Row) Sub(name []byte) *Row {
	if r.subs == nil {
		return nil
	}
	return r.subs.find(name)
}

// Container reports whether the row has subcommands.
func (r *Row) Container() bool { return r.subs != nil }

// Keyed reports whether calls may have keys.
func (r *Row) Keyed() bool { return len(r.keys) > 0 || r.custom != plain }

// A shape is the kind of a row's keys, for the hot path.
type shape uint8

const (
	keyless   shape = iota
	oneKey          // the key is the first argument
	someKeys        // by keys or custom
	splitKeys       // one range, of a Split
	streams         // as someKeys, and the call blocks only with the option BLOCK
)

// A Table has the rows of all commands that a shard has or that the proxy answers itself. It does not change.
type Table struct {
	Hasher Hasher

	rows  []*Row
	index *index
}

// Rows returns all rows, each container before its subcommands. The caller must not change the slice.
func (t *Table) Rows() []*Row { return t.rows }

// Find returns the row of a command in any case, or nil if there is none.
func (t *Table) Find(name []byte) *Row { return t.index.find(name) }

// These limits bound a COMMAND reply.
const (
	maxRows = 1 << 16
	maxName = 128
)

// Read makes a table from a shard's reply to COMMAND.
//
// Shape: rows of 6 fields (Redis before 6), 7 (6) or 10 (7 and later), in RESP2 or RESP3.
// Errors: a reply that no server sends. A row whose keys cannot be found is not an error: its class is Refused.
func Read(reply respclient.Value, hasher Hasher) (*Table, error) {
	if err := reply.Err(); err != nil {
		return nil, err
	}
	if len(reply.Elems) == 0 || len(reply.Elems) > maxRows {
		return nil, fmt.Errorf("COMMAND has %d rows", len(reply.Elems))
	}
	t := &Table{Hasher: hasher, index: newIndex(len(reply.Elems) + len(builtin))}
	for _, v := range reply.Elems {
		if v.Null { // a command that was just removed
			continue
		}
		raw, err := readRow(v, "")
		if err != nil {
			return nil, err
		}
		t.addTop(raw)
	}
	for _, b := range builtin {
		if t.index.find([]byte(b.name)) == nil {
			t.addTop(b)
		}
	}
	return t, nil
}

// Common returns the rows of the first reply to COMMAND, limited to the commands and subcommands that all replies have.
func Common(replies []respclient.Value) respclient.Value {
	common := replies[0]
	for _, other := range replies[1:] {
		common.Elems = within(common.Elems, other.Elems)
	}
	return common
}

// within returns the rows whose names are also in others.
func within(rows, others []respclient.Value) (common []respclient.Value) {
	named := map[string]respclient.Value{}
	for _, row := range others {
		if len(row.Elems) > 0 {
			named[asciiLower(row.Elems[0].Text)] = row
		}
	}
	for _, row := range rows {
		if len(row.Elems) == 0 {
			continue
		}
		other, has := named[asciiLower(row.Elems[0].Text)]
		if !has {
			continue
		}
		if len(row.Elems) >= 10 && len(other.Elems) >= 10 && len(row.Elems[9].Elems) > 0 {
			row.Elems = slices.Clone(row.Elems)
			row.Elems[9].Elems = within(row.Elems[9].Elems, other.Elems[9].Elems)
		}
		common = append(common, row)
	}
	return common
}

// Continue numbers rows as in the previous table, so that calls under way keep their meaning. Rows that no longer exist
// keep their numbers, but no call finds them. before may be nil.
func (t *Table) Continue(before *Table) {
	if before == nil {
		return
	}
	numbers := map[string]int{}
	for _, row := range before.rows {
		numbers[row.Name] = row.Number
	}
	rows := append([]*Row(nil), before.rows...)
	for _, row := range t.rows {
		if n, known := numbers[row.Name]; known {
			row.Number = n
			rows[n] = row
		} else {
			row.Number = len(rows)
			rows = append(rows, row)
		}
	}
	t.rows = rows
}

// addTop adds a command and its subcommands.
func (t *Table) addTop(raw rawRow) {
	raw.addLegacy()
	if t.index.find([]byte(raw.name)) != nil {
		return
	}
	row := t.add(raw, t.index)
	if len(raw.subs) == 0 {
		return
	}
	row.subs = newIndex(len(raw.subs))
	for _, sub := range raw.subs {
		t.add(sub, row.subs)
	}
}

func (t *Table) add(raw rawRow, x *index) *Row {
	row := decide(raw)
	row.Number = len(t.rows)
	t.rows = append(t.rows, row)
	_, last, isSub := strings.Cut(row.Name, "|")
	if !isSub {
		last = row.Name
	}
	x.add(last, row)
	return row
}

// A rawRow is a row as the shard returned it.
type rawRow struct {
	name              string // in lower case, a subcommand with its container's name
	arity             int
	flags             flags
	first, last, step int
	request, response string // the tips' policies
	hasSpecs          bool   // the shard returns specifications
	specs             []spec
	unclear           bool // a specification is unknown or incomplete
	subs              []rawRow
}

type flags uint16

const (
	flagReadonly flags = 1 << iota
	flagWrite
	flagBlocking
	flagAdmin
	flagNoMulti
	flagPubSub
	flagMovable
	flagModule
	flagMayReplicate
)

var flagNames = map[string]flags{"readonly": flagReadonly, "write": flagWrite, "blocking": flagBlocking,
	"admin": flagAdmin, "no_multi": flagNoMulti, "pubsub": flagPubSub, "movablekeys": flagMovable, "module": flagModule,
	"may_replicate": flagMayReplicate}

// readRow reads one row. For a subcommand, container is the name of its container command, otherwise "".
func readRow(v respclient.Value, container string) (raw rawRow, err error) {
	f := v.Elems
	if len(f) < 6 {
		return raw, fmt.Errorf("COMMAND has a row of %d fields", len(f))
	}
	raw.name = asciiLower(f[0].Text)
	if !validName(raw.name) {
		return raw, fmt.Errorf("COMMAND has a row named %.40q", raw.name)
	}
	if name, sub, isSub := strings.Cut(raw.name, "|"); isSub != (container != "") || isSub &&
		(name != container || sub == "") {
		return raw, fmt.Errorf("COMMAND has a row named %.40q below %.40q", raw.name, container)
	}
	for i, number := range []*int{&raw.arity, &raw.first, &raw.last, &raw.step} {
		field := f[[]int{1, 3, 4, 5}[i]]
		if field.Kind != ':' || field.Int < -maxIndex || field.Int > maxIndex {
			return raw, fmt.Errorf("COMMAND has the number %v in the row of %s", field, raw.name)
		}
		*number = int(field.Int)
	}
	for _, flag := range f[2].Elems {
		raw.flags |= flagNames[flag.Text]
	}
	if len(f) < 10 {
		return raw, nil
	}
	for _, tip := range f[7].Elems {
		if policy, is := strings.CutPrefix(tip.Text, "request_policy:"); is {
			raw.request = policy
		} else if policy, is := strings.CutPrefix(tip.Text, "response_policy:"); is {
			raw.response = policy
		}
	}
	raw.hasSpecs = true
	for _, e := range f[8].Elems {
		s, clear := readSpec(e)
		if !clear {
			raw.unclear = true
			continue
		}
		raw.specs = append(raw.specs, s)
	}
	if container != "" || len(f[9].Elems) > maxRows {
		return raw, nil
	}
	for _, e := range f[9].Elems {
		sub, err := readRow(e, raw.name)
		if err != nil {
			return raw, err
		}
		raw.subs = append(raw.subs, sub)
	}
	return raw, nil
}

func validName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = ascii.Lower(c)
	}
	return string(b)
}
