package setting

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
	"testing"
)

type level int

// sample has a row of every kind.
type sample struct {
	count, bytes, share, mode, letters Int
	huge                               Uint
	on                                 Bool
	text, path                         String
	level                              Enum[level]
	words                              Enum[level]
	list                               Value[[]string]
	sides                              Value[[2]int]
}

func (s *sample) rows() []Row {
	levels := []Choice[level]{{"low", 1}, {"high", 2}, {"top", 2}}
	return []Row{
		NewInt("count", &s.count, 10, Between(-5, 500), Clamp(1, 100), Also("number")),
		NewMemory("bytes", &s.bytes, 1<<20, Between(10, 1<<40)),
		NewMemoryPercent("share", &s.share, 0, Between(-100, 1<<40)),
		NewOctal("mode", &s.mode, 0o700, Between(0, 0o777), Immutable),
		NewMemoryUint("huge", &s.huge, 0, Fixed),
		NewBool("on", &s.on, true, DenyLoading),
		NewString("text", &s.text, "", Sensitive),
		NewString("path", &s.path, "p", Protected, CheckString(func(p string) error {
			if strings.Contains(p, "/") {
				return errors.New("no path, please")
			}
			return nil
		})),
		NewEnum("level", &s.level, 1, levels, Hidden),
		NewFlags("words", &s.words, 0, []Choice[level]{{"none", 0}, {"a", 1}, {"b", 2}}, nil),
		NewLetters("letters", &s.letters, 0, []Letter{{'A', 3}, {'x', 1}, {'y', 2}, {'z', 4}}, errors.New("no such letter")),
		NewValue("sides", &s.sides, [2]int{1, 2}, Codec[[2]int]{
			Parse: func(args []string, old [2]int, _ How) (sides [2]int, err error) {
				_, err = fmt.Sscan(strings.Join(args, " "), &sides[0], &sides[1])
				return sides, err
			},
			Format: func(s [2]int) string { return fmt.Sprint(s[0], s[1]) },
			Lines:  func(s [2]int) []string { return []string{fmt.Sprint("left ", s[0]), fmt.Sprint("right ", s[1])} },
		}, MultiArg, Apart),
		NewValue("list", &s.list, []string{"d"}, Codec[[]string]{
			Parse: func(args, old []string, how How) ([]string, error) {
				if how == FromFileMore {
					return append(append([]string{}, old...), args...), nil
				}
				return append([]string{}, args...), nil
			},
			Format: func(l []string) string { return strings.Join(l, " ") },
			Lines:  func(l []string) []string { return l },
		}, MultiArg, Nothing("nobody reads it")),
	}
}

func newSample(t testing.TB) (*sample, *Registry) {
	t.Helper()
	s := &sample{}
	r, err := NewRegistry(s.rows())
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func match(pattern, name string) bool { ok, _ := path.Match(pattern, name); return ok }

// TestSetOne: for each kind of row, a value and its text in CONFIG GET, or a value and its error.
func TestSetOne(t *testing.T) {
	for _, c := range []struct{ name, value, want, refusal string }{
		{"count", "50", "50", ""},
		{"count", "400", "100", ""},
		{"count", "-2", "1", ""},
		{"count", "501", "", "argument must be between -5 and 500 inclusive"},
		{"count", "05", "", "argument couldn't be parsed into an integer"},
		{"count", "+5", "", "argument couldn't be parsed into an integer"},
		{"count", "", "", "argument couldn't be parsed into an integer"},
		{"bytes", "2kb", "2048", ""},
		{"bytes", "2K", "2000", ""},
		{"bytes", "1gB", "1073741824", ""},
		{"bytes", "9", "", "argument must be between 10 and 1099511627776 inclusive"},
		{"bytes", "99999999999999999999", "", "argument must be between 10 and 1099511627776 inclusive"},
		{"bytes", "1tb", "", "argument must be a memory value"},
		{"bytes", "-1", "", "argument must be a memory value"},
		{"share", "5%", "5%", ""},
		{"share", "0%", "0", ""},
		{"share", "1kb", "1024", ""},
		{"share", "101%", "", "percentage argument must be less or equal to 100"},
		{"share", "%", "", "argument must be a memory or percent value"},
		{"huge", "0", "0", ""},
		{"huge", "18446744073709551615", "0", "can't set immutable config"},
		{"huge", "18446744073709551615k", "", "argument must be a memory value"},
		{"on", "NO", "no", ""},
		{"on", "off", "", "argument must be 'yes' or 'no'"},
		{"text", "a b", "a b", ""},
		{"path", "a/b", "", "no path, please"},
		{"level", "TOP", "high", ""},
		{"level", "mid", "", "argument(s) must be one of the following: low, high, top"},
		{"words", "a b", "a b", ""},
		{"words", "", "", "argument(s) must be one of the following: none, a, b"},
		{"letters", "zyx", "Az", ""},
		{"letters", "q", "", "no such letter"},
		{"list", "1 2", "1 2", ""},
		{"list", "", "", ""},
	} {
		_, r := newSample(t)
		before := r.Lookup(c.name).Get()
		err := r.SetMany([]Pair{{c.name, c.value}}, Conditions{Protected: true})
		if c.refusal != "" {
			want := fmt.Sprintf("CONFIG SET failed (possibly related to argument '%s') - %s", c.name, c.refusal)
			if err == nil || err.Error() != want {
				t.Errorf("%s %q: %v", c.name, c.value, err)
			}
			c.want = before
		} else if err != nil {
			t.Errorf("%s %q: %v", c.name, c.value, err)
		}
		if got := r.Lookup(c.name).Get(); got != c.want {
			t.Errorf("%s %q: now %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

// TestSetMany: CONFIG SET sets all values or none (setting.G2).
func TestSetMany(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []Pair
		now   Conditions
		err   string // empty: the values are set
	}{
		{"two", []Pair{{"count", "50"}, {"bytes", "20"}}, Conditions{}, ""},
		{"unknown", []Pair{{"count", "50"}, {"Nosuch", "20"}}, Conditions{},
			"Unknown option or number of arguments for CONFIG SET - 'Nosuch'"},
		{"unknown to a zero", []Pair{{"count\x00s", "50"}}, Conditions{},
			"Unknown option or number of arguments for CONFIG SET - 'count'"},
		{"second is bad", []Pair{{"count", "50"}, {"bytes", "x"}}, Conditions{},
			"CONFIG SET failed (possibly related to argument 'bytes') - argument must be a memory value"},
		{"immutable", []Pair{{"count", "50"}, {"Mode", "7"}}, Conditions{},
			"CONFIG SET failed (possibly related to argument 'Mode') - can't set immutable config"},
		{"protected", []Pair{{"path", "a"}}, Conditions{},
			"CONFIG SET failed (possibly related to argument 'path') - can't set protected config"},
		{"twice", []Pair{{"count", "50"}, {"COUNT", "60"}}, Conditions{},
			"CONFIG SET failed (possibly related to argument 'COUNT') - duplicate parameter"},
		{"twice by its alias", []Pair{{"number", "50"}, {"count", "60"}}, Conditions{}, ""},
		{"twice by its name, alias between", []Pair{{"count", "50"}, {"number", "60"}, {"count", "70"}}, Conditions{},
			"CONFIG SET failed (possibly related to argument 'count') - duplicate parameter"},
		{"twice by its alias, then bad", []Pair{{"count", "50"}, {"number", "60"}, {"bytes", "x"}}, Conditions{},
			"CONFIG SET failed (possibly related to argument 'bytes') - argument must be a memory value"},
		{"the alias is named", []Pair{{"number", "x"}}, Conditions{},
			"CONFIG SET failed (possibly related to argument 'number') - argument couldn't be parsed into an integer"},
		{"loading", []Pair{{"count", "50"}, {"on", "no"}}, Conditions{Loading: true}, "loading"},
		{"not loading", []Pair{{"on", "no"}}, Conditions{}, ""},
	} {
		_, r := newSample(t)
		before := r.Get([]string{"*"}, match)
		err := r.SetMany(c.pairs, c.now)
		if c.err == "" {
			last := c.pairs[len(c.pairs)-1]
			if err != nil || r.Lookup(last.Name).Get() != last.Value {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || err.Error() != c.err {
			t.Errorf("%s: %v", c.name, err)
		}
		if after := r.Get([]string{"*"}, match); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: %v became %v", c.name, before, after)
		}
	}
}

// TestHooks: a hook over several rows runs once. It does not run for unchanged values, and its error undoes everything.
func TestHooks(t *testing.T) {
	s, r := newSample(t)
	runs, refuse := 0, false
	var seen []int64
	r.OnChange(func() error {
		runs++
		seen = append(seen, s.count.Get())
		if refuse && s.count.Get() == 7 {
			return errors.New("not seven")
		}
		return nil
	}, "count", "bytes")
	followed := 0
	r.Follow(func() { followed++ }, "number")

	set := func(pairs ...Pair) error { return r.SetMany(pairs, Conditions{}) }
	if err := set(Pair{"count", "20"}, Pair{"bytes", "20"}); err != nil || runs != 1 || followed != 1 {
		t.Fatalf("%v: ran %d times, followed %d", err, runs, followed)
	}
	if err := set(Pair{"count", "20"}); err != nil || runs != 1 {
		t.Fatalf("the same value: %v, ran %d times", err, runs)
	}
	var warnings []string
	r.LogWarnings(func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) })
	refuse = true
	err := set(Pair{"text", "secret"}, Pair{"count", "7"}, Pair{"bytes", "30"})
	if err == nil || err.Error() != "CONFIG SET failed (possibly related to argument 'count') - not seven" {
		t.Fatal(err)
	}
	if s.text.Get() != "" || s.count.Get() != 20 || s.bytes.Get() != 20 {
		t.Fatalf("not undone: %q %d %d", s.text.Get(), s.count.Get(), s.bytes.Get())
	}
	if want := []int64{20, 7, 20}; !reflect.DeepEqual(seen, want) {
		t.Fatalf("the hook saw %v, want %v: the last run is for what came back", seen, want)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0],
		"Failed applying new configuration. Possibly related to new count setting.") {
		t.Fatalf("%q", warnings)
	}
	r.Loaded()
	if followed != 2 {
		t.Fatalf("Loaded: followed %d times", followed)
	}
}

func TestGet(t *testing.T) {
	_, r := newSample(t)
	for _, c := range []struct{ patterns, want string }{
		{"count", "count"},
		{"COUNT count", "COUNT"},
		{"nosuch", ""},
		{"number co*", "number count"},
		{"l*", "letters list"}, // level is hidden
		{"level", "level"},
		{"c* *", "count bytes huge letters list mode number on path share sides text words"},
	} {
		var names []string
		for _, p := range r.Get(strings.Fields(c.patterns), match) {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.patterns, got, c.want)
		}
	}
}

// TestRollbackText: Set with Get's text changes nothing (setting.R1).
func TestRollbackText(t *testing.T) {
	_, r := newSample(t)
	for _, p := range []Pair{{"share", "7%"}, {"letters", "xz"}, {"words", "b a"}, {"list", ""}, {"list", "1 2 3"},
		{"text", "\x00 \""}} {
		if err := r.SetMany([]Pair{p}, Conditions{}); err != nil {
			t.Fatal(err)
		}
		row := r.Lookup(p.Name)
		before := row.Get()
		if err := row.Set(row.split(before), FromCommand); err != nil || row.Get() != before {
			t.Errorf("%s: %q became %q, %v", p.Name, before, row.Get(), err)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	var a, b Int
	for _, rows := range [][]Row{
		{NewInt("a", &a, 0), NewInt("a", &b, 0)},
		{NewInt("a", &a, 0, Also("c")), NewInt("c", &b, 0)},
		{NewInt("A", &a, 0)},
	} {
		if _, err := NewRegistry(rows); err == nil {
			t.Errorf("%s and %s: taken", rows[0].Name, rows[len(rows)-1].Name)
		}
	}
}

func TestLoad(t *testing.T) {
	s, r := newSample(t)
	for _, line := range []string{"list 1", "LIST '2 3'", "number 30", "count 40"} {
		args, _ := SplitArgs(line)
		if known, err := r.Load(args[0], args[1:]); !known || err != nil {
			t.Fatalf("%s: %v, %v", line, known, err)
		}
	}
	if got := s.list.Get(); !reflect.DeepEqual(got, []string{"1", "2", "3"}) || s.count.Get() != 40 {
		t.Errorf("%v, %d", got, s.count.Get())
	}
	if got := r.Idle(); !reflect.DeepEqual(got, []string{"list"}) {
		t.Errorf("idle: %v", got)
	}
	if _, err := r.Load("count", []string{"1", "2"}); err != ErrArguments {
		t.Errorf("two arguments: %v", err)
	}
	if known, _ := r.Load("nosuch", nil); known {
		t.Error("nosuch is known")
	}
}

// BenchmarkGet is the cost of reading a setting in a hot path. Watch allocs/op: 0.
func BenchmarkGet(b *testing.B) {
	s, _ := newSample(b)
	for b.Loop() {
		if s.count.Get() < 0 || s.text.Get() != "" {
			b.Fatal()
		}
	}
}
