package command

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"spindle/internal/ascii"
)

func nothing(*Context) error { return nil }

// sample returns a family with a row of every shape.
func sample() Family {
	return Family{Name: "sample", ACL: ACLString, Rows: []Spec{
		{Name: "get", Arity: 2, Flags: ReadOnly | Fast, Keys: FirstArg(KeyRO), Run: nothing},
		{Name: "mset", Arity: -3, Flags: Write, Keys: EachArg(2, KeyOW), Run: nothing},
		{Name: "client", Arity: -2, Subs: []Spec{{Name: "list", Arity: -2, Flags: Admin, Run: nothing},
			{Name: "id", Arity: 2, Run: nothing}}},
		{Name: "georadiusbymember_ro", Arity: -5, Flags: ReadOnly, Keys: FirstArg(KeyRO), Run: nothing},
		{Name: "restore-asking", Arity: -4, Flags: Write, Keys: FirstArg(KeyOW), Run: nothing},
	}}
}

func newSample(t testing.TB) *Catalogue {
	t.Helper()
	k, err := NewCatalogue(sample())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func args(line string) [][]byte {
	var list [][]byte
	for word := range strings.FieldsSeq(line) {
		list = append(list, []byte(word))
	}
	return list
}

func TestLookup(t *testing.T) {
	k := newSample(t)
	for name, want := range map[string]string{
		"get": "get", "GET": "get", "gEt": "get", "GEORADIUSBYMEMBER_RO": "georadiusbymember_ro",
		"Restore-Asking": "restore-asking",
		"":               "", "ge": "", "gets": "", "get\x00": "", "\x07ET": "", "restore\x0dasking": "",
		"georadiusbymember\x7fro": "",
		"georadiusbymember_rO":    "georadiusbymember_ro", "georadiusbymembeX_ro": "", "restoreXasking": "",
	} {
		got := ""
		if s := k.Lookup([]byte(name)); s != nil {
			got = s.Full
		}
		if got != want {
			t.Errorf("Lookup(%q) = %q, want %q", name, got, want)
		}
	}
	if got := k.ByFullName([]byte("Client|LIST")); got == nil || got.Full != "client|list" || got.Parent.Name != "client" {
		t.Errorf("ByFullName: %v", got)
	}
	for i, row := range k.All() {
		if row.ID != i {
			t.Errorf("%s has ID %d at %d", row.Full, row.ID, i)
		}
	}
}

// TestIndexAgainstMap adds and removes random names and compares with a map of their lower-case forms.
func TestIndexAgainstMap(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var x index
	model := map[string]*Spec{}
	word := func() string {
		b := make([]byte, 1+rng.IntN(40))
		for i := range b {
			b[i] = "abAB|-_\x0d\x7f@`z"[rng.IntN(12)]
		}
		return string(b)
	}
	for step := range 20_000 {
		name := word()
		lowered := strings.ToLower(name)
		switch rng.IntN(8) {
		case 0:
			if len(model) > 300 {
				for lowered = range model {
					break
				}
				name = strings.ToUpper(lowered)
			}
			_, had := model[lowered]
			delete(model, lowered)
			if x.remove(name) != had {
				t.Fatalf("seed %d step %d: remove(%q)", seed, step, name)
			}
		case 1, 2:
			_, had := model[lowered]
			row := &Spec{Name: lowered}
			if !had {
				model[lowered] = row
			}
			if x.add(name, row) == had {
				t.Fatalf("seed %d step %d: add(%q)", seed, step, name)
			}
		default:
			if x.find([]byte(name)) != model[lowered] {
				t.Fatalf("seed %d step %d: find(%q)", seed, step, name)
			}
		}
		if x.size != len(model) {
			t.Fatalf("seed %d step %d: %d rows, want %d", seed, step, x.size, len(model))
		}
	}
}

func TestResolveErrors(t *testing.T) {
	k := newSample(t)
	for line, want := range map[string]string{
		"nope":          "ERR unknown command 'nope', with args beginning with: ",
		"nope a bc":     "ERR unknown command 'nope', with args beginning with: 'a' 'bc' ",
		"client nope x": "ERR unknown subcommand 'nope'. Try CLIENT HELP.",
		"client":        "ERR wrong number of arguments for 'client' command",
		"client id x":   "ERR wrong number of arguments for 'client|id' command",
		"get a b":       "ERR wrong number of arguments for 'get' command",
	} {
		a := args(line)
		_, err := k.Resolve(k.Lookup(a[0]), a)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
	long := args("nope " + strings.Repeat("x", 200) + " y")
	_, err := k.Resolve(nil, long)
	if n := strings.Count(err.Error(), "x"); n != 128 || strings.Contains(err.Error(), "y") {
		t.Errorf("%d bytes of a long argument are shown: %v", n, err)
	}
	if s, err := k.Resolve(k.Lookup([]byte("client")), args("client LIST")); err != nil || s.Full != "client|list" {
		t.Errorf("client LIST: %v", err)
	}
}

func TestNewCatalogueRefuses(t *testing.T) {
	for _, bad := range []Spec{
		{Name: "get", Arity: 2, Run: nothing},
		{Name: "", Arity: 2, Run: nothing},
		{Name: "Upper", Arity: 2, Run: nothing},
		{Name: "x", Arity: 0, Run: nothing},
		{Name: "x", Arity: 2},
		{Name: "x", Arity: 2, Keys: []KeySpec{{Index: 2, Step: 1}}, Run: nothing},
		{Name: "x", Arity: -2, Subs: []Spec{{Name: "a", Arity: 2, Run: nothing}, {Name: "a", Arity: 2, Run: nothing}}},
		{Name: "x", Arity: -2, Subs: []Spec{{Name: "a", Arity: 2}}},
	} {
		if _, err := NewCatalogue(sample(), Family{Rows: []Spec{bad}}); err == nil {
			t.Errorf("accepted: %+v", bad)
		}
	}
}

func TestRename(t *testing.T) {
	k := newSample(t)
	if err := k.Rename("GET", "fetch"); err != nil {
		t.Fatal(err)
	}
	if k.Lookup([]byte("get")) != nil || k.Lookup([]byte("FETCH")).Full != "get" || k.Original([]byte("get")) == nil {
		t.Error("GET does not answer to fetch alone")
	}
	if err := k.Rename("mset", "fetch"); err == nil {
		t.Error("a taken name was accepted")
	}
	if err := k.Rename("get", ""); err == nil {
		t.Error("an unknown name was accepted")
	}
	if err := k.Rename("client", ""); err != nil || k.Lookup([]byte("client")) != nil || k.Len() != 4 {
		t.Errorf("client is still there: %v", err)
	}
	for row := range k.Rows {
		if row.Name == "client" {
			t.Error("a row that was taken away is listed")
		}
	}
}

func TestLeadingInt(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "x": 0, "2": 2, "2abc": 2, "01": 1, "+2": 2, "-3": -3, " \t\n\v\f\r7 8": 7, "1.5": 1, "--1": 0,
		"2147483647": 2147483647, "2147483648": -2147483648, "4294967297": 1, "99999999999": 1215752191,
		"9223372036854775806": -2, "9223372036854775807": -1, "18446744073709551617": -1, "99999999999999999999999": -1,
		"-9223372036854775808": 0, "-99999999999999999999": 0, "-4294967297": -1,
	} {
		if got := leadingInt([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestAppendKeys(t *testing.T) {
	keyword := KeySpec{Keyword: "STREAMS", KeywordFrom: 1, LastKey: -1, Step: 1, Limit: 2}
	backwards := KeySpec{Keyword: "KEYS", KeywordFrom: -2, LastKey: -1, Step: 1, Flags: KeyIncomplete}
	count := KeySpec{Index: 2, KeyNum: true, FirstKey: 1, KeyStep: 1}
	for _, c := range []struct {
		name  string
		specs []KeySpec
		line  string
		want  []int // nil for an error
	}{
		{"one", FirstArg(KeyRO), "get a", []int{1}},
		{"every second", EachArg(2, KeyOW), "mset a 1 b 2", []int{1, 3}},
		{"to the last but one", []KeySpec{{Index: 1, LastKey: -2, Step: 1}}, "blpop a b 0", []int{1, 2}},
		{"keyword", []KeySpec{keyword}, "xread count 1 streams a b 1 2", []int{4, 5}},
		{"keyword missing", []KeySpec{keyword}, "xread count 1", []int{}},
		{"keyword from the end", []KeySpec{backwards}, "migrate h 1 x 0 0 keys a b", nil},
		{"count", []KeySpec{count}, "eval s 2 a b c", []int{3, 4}},
		{"count of none", []KeySpec{count}, "eval s 0 a", nil},
		{"count past the end", []KeySpec{count}, "eval s 3 a", nil},
		{"no count", []KeySpec{count}, "eval s x a", nil},
		{"count missing", []KeySpec{count}, "eval s", nil},
		{"unknown", []KeySpec{{Unknown: true}}, "sort a", nil},
		{"not a key", []KeySpec{{Index: 1, Step: 1, Flags: KeyNotKey}}, "spublish c m", []int{}},
	} {
		s := Spec{Keys: c.specs}
		got, err := s.AppendKeys(nil, args(c.line), 0)
		var at []int
		if err == nil {
			at = []int{}
			for _, k := range got {
				at = append(at, k.Index)
			}
		}
		if !reflect.DeepEqual(at, c.want) {
			t.Errorf("%s: %v (%v), want %v", c.name, at, err, c.want)
		}
	}
	s := Spec{Keys: []KeySpec{{Index: 1, Step: 1}, {Unknown: true}}}
	if got, err := s.AppendKeys(nil, args("sort a"), 0); err == nil || len(got) != 1 || got[0].Index != 1 {
		t.Errorf("keys that cannot be found, after one at a fixed place: %v, %v", got, err)
	}
	s = Spec{Keys: []KeySpec{{Index: 1, Step: 1}, {Index: 2, LastKey: -1, Step: 1}}}
	if got, err := s.AppendKeys(nil, args("pfmerge a"), 0); err != nil || len(got) != 1 || got[0].Index != 1 {
		t.Errorf("a last range of no keys: %v, %v", got, err)
	}
	if got, err := s.AppendKeys(nil, args("pfmerge"), 0); len(got) != 0 {
		t.Errorf("a call that ends before its keys: %v, %v", got, err)
	}
	s = Spec{Keys: []KeySpec{{Index: 1, Step: 1, Flags: KeyNotKey}}}
	if got, err := s.AppendKeys(nil, args("spublish c m"), IncludeNotKeys); err != nil || len(got) != 1 {
		t.Errorf("channels included: %v, %v", got, err)
	}
	s = Spec{Keys: FirstArg(KeyRW | KeyVariableFlags),
		GetKeys: func(into []KeyPosition, _ [][]byte) ([]KeyPosition, error) {
			return append(into, KeyPosition{1, KeyOW}), nil
		}}
	if got, _ := s.AppendKeys(nil, args("set a b"), 0); len(got) != 1 || got[0].Flags != KeyOW {
		t.Errorf("variable flags: %v", got)
	}
}

func TestHistogram(t *testing.T) {
	var s Stats
	s.Record(1, 4000)
	if p := s.Latency.Percentile(50); p != 4015 {
		t.Errorf("p50 of 4000 ns is %d, want the end of its bucket, 4015", p)
	}
	s.Reset()
	rng := rand.New(rand.NewPCG(1, 2))
	var all []int64
	for range 10_000 {
		n := int64(rng.ExpFloat64() * 20_000)
		all = append(all, max(n, 1))
		s.Record(1, n)
	}
	total := uint64(0)
	for micros, calls := range s.Latency.Cumulative {
		bound := int64(1024)
		for bound/1000 < micros-micros/32 {
			bound *= 2
		}
		bound += bound>>7 - 1 // the end of its bucket
		want := uint64(0)
		for _, n := range all {
			if n <= bound {
				want++
			}
		}
		if calls != want || micros != bound/1000 {
			t.Errorf("up to %d us: %d calls, want %d up to %d ns", micros, calls, want, bound)
		}
		if calls <= total {
			t.Errorf("up to %d us: %d calls, not more than before", micros, calls)
		}
		total = calls
	}
	if total != 10_000 || s.Latency.Total != 10_000 {
		t.Errorf("%d calls told of 10000", total)
	}
	s.Record(64, 64*500)
	if s.Calls != 10_064 || s.Latency.Total != 10_064 {
		t.Errorf("a run of 64 calls counts as %d", s.Calls-10_000)
	}
	s.Latency.Add(1<<40, 1)
	if p := s.Latency.Percentile(100); p < histogramMost || p > histogramMost+histogramMost/64 {
		t.Errorf("the longest is %d", p)
	}
	s.Untracked = true
	s.Record(1, 1)
	if s.Latency.Total != 10_065 {
		t.Error("counted although latency-tracking is off")
	}
}

// BenchmarkLookup finds a short and a long name. It also measures a map of lower-case names in place of the index.
// Watch allocs/op: 0; ns/op: below 10 for the index, and more for the map.
func BenchmarkLookup(b *testing.B) {
	families := []Family{sample()}
	for i := range 240 {
		families[0].Rows = append(families[0].Rows, Spec{Name: fmt.Sprintf("cmd%d", i), Arity: 1, Run: nothing})
	}
	k, err := NewCatalogue(families...)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"GET", "restore-asking", "georadiusbymember_ro"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := []byte(name)
			for b.Loop() {
				if k.Lookup(n) == nil {
					b.Fatal("lost")
				}
			}
		})
		rows := map[string]*Spec{}
		for row := range k.Rows {
			rows[row.Full] = row
		}
		b.Run(name+"/map", func(b *testing.B) {
			b.ReportAllocs()
			n := []byte(name)
			for b.Loop() {
				var small [40]byte
				for i, c := range n {
					small[i] = ascii.Lower(c)
				}
				if rows[string(small[:len(n)])] == nil {
					b.Fatal("lost")
				}
			}
		})
	}
}

// BenchmarkRecord records one call. Watch ns/op.
func BenchmarkRecord(b *testing.B) {
	var s Stats
	for i := range b.N {
		s.Record(1, int64(i&4095))
	}
}
