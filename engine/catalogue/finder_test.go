package catalogue

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/family/tx"
	"spindle/internal/invariant"
	"spindle/tests/testkit/commandtest"
)

// TestFinder compares the key finder with the handlers, in random calls of all rows. It makes SPINDLE_FINDER_CALLS
// calls, or 60,000.
//
// - Spec.AppendKeys finds each key that a call looks up, even if it returns an error.
// - It gives a key that the call changes a flag of writing.
// - It gives a key whose content is in the reply KeyAccess. The content of each key contains its own mark.
//
// Access rules, routing and latches use the finder. They miss a key that only the handler finds.
func TestFinder(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("searches for keys are reported in builds that check: go test -tags invariants")
	}
	calls := 60_000
	if n, err := strconv.Atoi(os.Getenv("SPINDLE_FINDER_CALLS")); err == nil {
		calls = n
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("SPINDLE_FINDER_SEED"), 10, 64); err == nil {
		seed = n
	}
	f := newFinding(t, seed)
	for i := range calls {
		if i%10_000 == 0 {
			f.begin()
		}
		if f.call(); t.Failed() {
			t.Fatalf("SPINDLE_FINDER_SEED=%d, call %d", seed, i)
		}
	}
	var never []string
	for _, row := range f.rows {
		if row.HasKeys(0) && f.accepted[row] == 0 {
			never = append(never, row.Full)
		}
	}
	// Random data for BF.LOADCHUNK is never valid.
	never = slices.DeleteFunc(never, func(name string) bool { return name == "bf.loadchunk" })
	if calls >= 2_000_000 && len(never) > 0 { // fewer calls may miss a row, such as BF.RESERVE
		t.Errorf("no call was accepted of %q (seed %d)", never, seed)
	}
	total := 0
	for _, n := range f.accepted {
		total += n
	}
	t.Logf("%d calls, %d accepted", calls, total)
}

// TestSideDoors makes calls with a key that the key specs miss. Such keys once escaped the access rules.
func TestSideDoors(t *testing.T) {
	settings := &Settings{}
	settings.Rows()
	k, err := command.NewCatalogue(Data(settings)...)
	if err != nil {
		t.Fatal(err)
	}
	users := &acl.Users{}
	users.Begin(k)
	for _, c := range []struct {
		rules, call string
		refused     bool
	}{
		{"~ok*", "GEORADIUS okg 1 1 1 km STORE oka STORE victim", true},
		{"~ok*", "GEORADIUS okg 1 1 1 km STORE victim STOREDIST oka", false},
		{"~ok*", "GEORADIUSBYMEMBER okg m 1 km STOREDIST oka STOREDIST victim", true},
		{"%R~okg %R~oka", "GEORADIUS okg 1 1 1 km STORE oka", true},
		{"", "PFMERGE victim", true},
		{"~ok*", "PFMERGE ok1", false},
		{"~g*", "SORT g1 STORE get STORE victim", true},
		{"~g*", "SORT g1 STORE victim STORE get", false},
		{"~s*", "XREADGROUP COUNT 1 GROUP streams sc streams victim >", true},
		{"~s*", "XREADGROUP COUNT 1 GROUP streams sc streams s1 >", false},
		{"%W~s", "XCLAIM s g c 0 1-1", true},
		{"~ok*", "ZUNIONSTORE victim x oka", true},
		{"~ok*", "ZUNIONSTORE ok x victim", false}, // the handler refuses it
	} {
		change, err := users.Set([]byte("u"), commandtest.Words("reset +@all "+c.rules))
		if err != nil {
			t.Fatal(err)
		}
		args := commandtest.Words(c.call)
		if d := users.Check(change.User.Rights(), k.Find(args), args, acl.Place{Of: 16}); d.Refused() != c.refused {
			t.Errorf("%s: %s: refused is %t", c.rules, c.call, d.Refused())
		}
	}
}

// A finding is the state of the random calls.
type finding struct {
	t    *testing.T
	rng  *rand.Rand
	core *commandtest.Core
	cl   *client.Client
	docs map[string][]argument
	rows []*command.Spec

	sought, changed map[string]bool // of the current call
	accepted        map[*command.Spec]int
}

// tellsNames are commands that reply with names of keys, which needs no key permission.
var tellsNames = map[string]bool{"keys": true, "randomkey": true, "scan": true}

// writesBeside are commands that change a key although Redis's flags say that they only read it. They change the stored
// estimate or form of a sketch, or the group of a stream.
var writesBeside = map[string]bool{"pfcount": true, "pfdebug": true, "xreadgroup": true}

// start is the time of each call.
const start = 1_700_000_000_000

func newFinding(t *testing.T, seed uint64) *finding {
	f := &finding{t: t, rng: rand.New(rand.NewPCG(seed, 0)), docs: readDocs(t),
		sought: map[string]bool{}, changed: map[string]bool{}, accepted: map[*command.Spec]int{}}
	settings := &Settings{}
	settings.Rows()
	watches := tx.NewWatches((*keyspace.Keyspace)(nil)).Family()
	watches.Rows = slices.DeleteFunc(watches.Rows, func(r command.Spec) bool { return r.Name != "watch" })
	watches.Rows[0].Run = func(c *command.Context) error { // looks up keys as WATCH does, without a transaction
		for _, key := range c.Args[1:] {
			c.DB.Peek(key)
		}
		c.Reply.OK()
		return nil
	}
	f.core = commandtest.Start(t, append(Data(settings), watches)...)
	f.core.Mute = true
	f.cl = f.core.Client(2)
	f.core.Space.Watching = 1
	f.core.Space.Hooks.Touched = func(_ int, key []byte) {
		if !f.core.Space.Lapsing {
			f.changed[string(key)] = true
		}
	}
	f.core.Space.Hooks.Sought = func(_ int, key []byte) { f.sought[string(key)] = true }
	for row := range f.core.Catalogue.Rows {
		all := []*command.Spec{row}
		for i := range row.Subs {
			all = append(all, &row.Subs[i])
		}
		for _, row := range all {
			if row.Run == nil {
				continue
			}
			f.rows = append(f.rows, row)
			if row.GetKeys != nil || len(row.Keys) > 1 || len(row.Keys) == 1 && row.OneKey() == 0 {
				f.rows = append(f.rows, slices.Repeat([]*command.Spec{row}, 5)...) // complex keys: called more often
			}
		}
	}
	return f
}

// names are the keys. Most are also keywords of options.
var names = []string{"a", "b", "c", "GET", "by", "LIMIT", "store", "STOREDIST", "streams", "KEYS", "count", "GROUP",
	"nx", "1", "2", ""}

// mark returns a text that only the content of this key contains.
func mark(key string) string { return fmt.Sprintf("<%c>", 'A'+slices.Index(names, key)) }

// begin deletes all keys and makes them again.
func (f *finding) begin() {
	f.core.Do(f.cl, "FLUSHALL")
	for _, key := range names {
		f.remake(key)
	}
}

// remake gives key a new value, of a random type.
func (f *finding) remake(key string) {
	m := mark(key)
	var lines [][]string
	switch f.rng.IntN(12) {
	case 0:
		lines = [][]string{{"SET", key, m + "text"}}
	case 1:
		lines = [][]string{{"SET", key, "17"}}
	case 2:
		lines = [][]string{{"RPUSH", key, m + "x", "1", "m"}}
	case 3:
		lines = [][]string{{"SADD", key, m + "x", "1", "m"}}
	case 4:
		lines = [][]string{{"HSET", key, "m", m + "x", "1", "2"}}
	case 5:
		lines = [][]string{{"ZADD", key, "1", m + "x", "2", "m"}}
	case 6:
		lines = [][]string{{"GEOADD", key, "1", "1", m + "x", "1", "1", "m"}}
	case 7:
		lines = [][]string{{"XADD", key, "1-1", "m", m + "x"}, {"XGROUP", "CREATE", key, "streams", "0"},
			{"XGROUP", "CREATE", key, "m", "0"}}
	case 8:
		lines = [][]string{{"PFADD", key, m, "1"}}
	case 9:
		lines = [][]string{{"BF.ADD", key, "m"}}
	case 10:
		lines = [][]string{{"ZADD", key, "0", m + "x", "0", "m"}}
	}
	f.core.Do(f.cl, "DEL", key)
	for _, words := range lines {
		f.core.Do(f.cl, words...)
	}
}

// call makes one call and checks its effects.
func (f *finding) call() {
	row := f.rows[f.rng.IntN(len(f.rows))]
	words := f.words(row)
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	if spec, err := f.core.Catalogue.Resolve(f.core.Catalogue.Lookup(args[0]), args); err != nil || spec != row {
		return // the core refuses it
	}
	found, _ := row.AppendKeys(nil, args, 0)
	clear(f.sought)
	clear(f.changed)
	f.core.SetNow(start)
	f.core.AnyKey = 0
	f.cl.DB = 0
	reply := f.core.Do(f.cl, words...)
	flagsOf := func(key string) (flags command.KeyFlags, ok bool) {
		for _, k := range found {
			if words[k.Index] == key {
				flags, ok = flags|k.Flags, true
			}
		}
		return flags, ok
	}
	fail := func(what, key string) {
		flags, _ := flagsOf(key)
		f.t.Errorf("%q %s %q. Found: %v (flags of the key: %b). Reply: %.100q", words, what, key, found, flags, reply)
	}
	readsAny := f.core.AnyKey > 0 // SORT asked for the right to any key
	if row.Flags&command.TouchesArbitraryKeys == 0 && !tellsNames[row.Name] {
		for key := range f.sought {
			if _, ok := flagsOf(key); !ok && !readsAny {
				fail("looked for", key)
			}
		}
		const writes = command.KeyInsert | command.KeyUpdate | command.KeyDelete
		for key := range f.changed {
			if flags, _ := flagsOf(key); flags&writes == 0 && !writesBeside[row.Name] {
				fail("changed", key)
			}
		}
		for _, key := range names {
			if flags, _ := flagsOf(key); flags&command.KeyAccess == 0 && !readsAny && strings.Contains(reply, mark(key)) {
				fail("answered from", key)
			}
		}
	}
	if !strings.HasPrefix(reply, "-") {
		f.accepted[row]++
	}
	if f.cl.Flags &^= client.Multi; row.HasKeys(0) {
		for key := range f.changed {
			if slices.Contains(names, key) {
				f.remake(key)
			} else {
				f.core.Do(f.cl, "DEL", key)
			}
		}
	} else if row.Flags&command.Write != 0 {
		f.begin()
	}
}

// An argument is one argument in COMMAND DOCS.
type argument struct {
	Name, Type, Token string
	Flags             []string
	Arguments         []argument
}

func (a *argument) is(flag string) bool { return slices.Contains(a.Flags, flag) }

// readDocs reads the arguments of all commands, by full name.
func readDocs(t *testing.T) map[string][]argument {
	text, err := os.ReadFile("../family/introspect/docs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string][]argument{}
	for line := range strings.Lines(string(text)) {
		name, text, _ := strings.Cut(line, "\t")
		var doc struct{ Arguments []argument }
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		docs[name] = doc.Arguments
	}
	return docs
}

// words returns a call of row, made from its documentation, with some words changed.
func (f *finding) words(row *command.Spec) []string {
	g := generator{rng: f.rng}
	g.words = strings.Split(row.Full, "|")
	name := len(g.words)
	g.all(f.docs[row.Full])
	for f.rng.IntN(3) == 0 {
		g.change(name)
	}
	return g.words
}

// A generator makes the words of a call.
type generator struct {
	rng   *rand.Rand
	words []string
	many  int // the length of the last list of arguments, or the wanted length of the next one
}

func (g *generator) one(of ...string) string { return of[g.rng.IntN(len(of))] }

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

// all appends arguments. Optional ones may be repeated, and sometimes the order changes.
func (g *generator) all(arguments []argument) {
	if g.chance(20) {
		arguments = slices.Clone(arguments)
		rest := arguments[g.rng.IntN(len(arguments)+1):]
		if len(rest) > 0 && rest[len(rest)-1].Type == "block" { // XREADGROUP's streams stay last
			rest = rest[:len(rest)-1]
		}
		g.rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	}
	for i := range arguments {
		a := &arguments[i]
		n := 1
		if a.is("optional") {
			n = []int{0, 0, 0, 1, 1, 2}[g.rng.IntN(6)]
		}
		for range n {
			g.argument(a)
		}
	}
}

func (g *generator) argument(a *argument) {
	n := 1
	if a.is("multiple") {
		if n = g.many; n == 0 {
			n = 1 + g.rng.IntN(3)
		}
		if g.many = n; a.is("multiple_token") {
			g.many = 0
		}
	}
	for i := range n {
		if a.Token != "" && (i == 0 || a.is("multiple_token")) {
			g.words = append(g.words, a.Token)
		}
		g.value(a)
	}
}

func (g *generator) value(a *argument) {
	w := ""
	switch a.Type {
	case "pure-token":
		return
	case "oneof":
		g.argument(&a.Arguments[g.rng.IntN(len(a.Arguments))])
		return
	case "block":
		g.all(a.Arguments)
		return
	case "key":
		w = g.one(names...)
	case "pattern":
		w = g.one("*", "a*", "nosort", "#", "x*->y", g.one(names...))
	case "integer", "double", "unix-time":
		w = g.one("0", "1", "1", "2", "3", "10", "100", "-1", "0.01")
		if strings.HasPrefix(a.Name, "num") {
			g.many = 1 + g.rng.IntN(3)
			w = g.one(strconv.Itoa(g.many), strconv.Itoa(g.many), strconv.Itoa(g.many), "0", "+1", "01", " 1", "1x")
		}
	default:
		switch {
		case a.Name == "subcommand": // of PFDEBUG
			w = g.one("GETREG", "ENCODING", "TODENSE", "DECODE")
		case strings.HasSuffix(a.Name, "time"):
			w = "0"
		case strings.HasPrefix(a.Name, "m") || a.Name == "start" || a.Name == "stop":
			w = g.one("-", "+", "[m", "(x", "0", "1", "-inf", "m")
		case strings.Contains(a.Name, "id"):
			w = g.one("1-1", "1-1", "0", "$", ">", "*", "5")
		default:
			w = g.one("m", "m", "1", "x", "0", "$", ">", "streams", "streams", g.one(names...))
		}
	}
	g.words = append(g.words, w)
}

// change replaces, inserts, removes or repeats a word after the name.
func (g *generator) change(name int) {
	if len(g.words) == name {
		return
	}
	at := name + g.rng.IntN(len(g.words)-name)
	word := g.one("STORE", "STOREDIST", "GET", "BY", "STREAMS", "GROUP", "KEYS", "COUNT", "LIMIT", "BLOCK", "NOACK", "NX",
		"WEIGHTS", "AGGREGATE", "MAXLEN", "ASC", "OVERFLOW", "1", "2", "0", "m", g.one(names...))
	switch g.rng.IntN(5) {
	case 0:
		g.words[at] = word
	case 1:
		g.words = slices.Insert(g.words, at, word)
	case 2:
		g.words = slices.Delete(g.words, at, at+1)
	case 3:
		end := at + 1 + g.rng.IntN(min(3, len(g.words)-at))
		g.words = append(g.words, slices.Clone(g.words[at:end])...)
	case 4:
		other := name + g.rng.IntN(len(g.words)-name)
		g.words[at], g.words[other] = g.words[other], g.words[at]
	}
}
