package rdbfile

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

var setsFlag = flag.Int("sets", 24, "data sets that TestExchange exchanges with each server")

// TestExchange: random data sets of all types are the same after they went to another server and back, by files and by
// DUMP payloads. The digests on both sides are equal, and so are the properties that digests leave out. The flag -sets
// is the number of data sets. make test uses only the server from the PATH.
func TestExchange(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, p := range testkit.Peers(t) {
		t.Run(p.Name, func(t *testing.T) {
			here := testkit.Launch(t, testkit.Spec{Args: []string{"--rdb-write-version", fmt.Sprint(p.RDBVersion)}})
			there := testkit.Launch(t, testkit.Spec{Redis: true, Program: p.Program})
			for n := range *setsFlag {
				exchange(t, p, here, there, rand.New(rand.NewPCG(seed, uint64(n))))
				if t.Failed() {
					t.Fatalf("data set %d of seed %d", n, seed)
				}
			}
		})
	}
}

// exchange moves one data set. It is made on one side, goes to the other side and back by a file, and then by payloads.
func exchange(t *testing.T, p testkit.Peer, here, there *testkit.Server, rng *rand.Rand) {
	t.Helper()
	limits := []string{"hash-max-listpack-entries", "set-max-listpack-entries", "zset-max-listpack-entries",
		"set-max-intset-entries"}
	if p.RDBVersion == 10 {
		limits[1] = "zset-max-listpack-value"
	}
	for _, name := range limits {
		n := []int{2, 16, 128}[rng.IntN(3)]
		here.Do("CONFIG", "SET", name, n)
		there.Do("CONFIG", "SET", name, n)
	}
	from, to := here, there
	if rng.IntN(2) == 0 {
		from, to = there, here
	}
	from.Do("FLUSHALL")
	to.Do("FLUSHALL")
	from.Do("FUNCTION", "FLUSH")
	to.Do("FUNCTION", "FLUSH")
	fill(from, p, rng)
	was := facts(from, p)
	for _, way := range []struct {
		name string
		move func(t *testing.T, from, to *testkit.Server)
	}{{"a file", byFile}, {"payloads", payloads}} {
		for _, leg := range [][2]*testkit.Server{{from, to}, {to, from}} {
			leg[1].Do("FLUSHALL")
			way.move(t, leg[0], leg[1])
			if is := facts(leg[1], p); !slices.Equal(is, was) {
				where := p.Name
				if leg[1] == here {
					where = "spindle"
				}
				differ(t, "by "+way.name+" to "+where, was, is)
				return
			}
		}
	}
}

func differ(t *testing.T, what string, was, is []string) {
	t.Helper()
	for i := range max(len(was), len(is)) {
		switch {
		case i >= len(was):
			t.Errorf("%s: besides %.500s", what, is[i])
			return
		case i >= len(is):
			t.Errorf("%s: missing %.500s", what, was[i])
			return
		case was[i] != is[i]:
			t.Errorf("%s:\nwas %.1500s\nis  %.1500s", what, was[i], is[i])
			return
		}
	}
}

var withoutLag = regexp.MustCompile(`"lag" \((int\) -?\d+|nil\)) `)

// byFile saves the data of from, and makes to load that file.
func byFile(t *testing.T, from, to *testkit.Server) {
	t.Helper()
	if v := from.Do("SAVE"); v.Text != "OK" {
		t.Fatalf("SAVE: %v", v)
	}
	b, err := os.ReadFile(from.File("dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to.File("dump.rdb"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if v := to.Do("DEBUG", "RELOAD", "NOSAVE"); v.Text != "OK" {
		t.Fatalf("a file is not loaded: %v\n%s", v, to.Log())
	}
}

// facts returns a line for each key with everything that must be equal on both sides, and the digest of all data.
// Valkey's digests leave out the deadlines of fields, so the line has these too.
func facts(s *testkit.Server, p testkit.Peer) (lines []string) {
	deadlines := false
	for db := range 3 {
		s.Do("SELECT", db)
		for _, key := range s.Do("KEYS", "*").Elems {
			k := key.Text
			kind := s.Do("TYPE", k).Text
			line := fmt.Sprintf("%d %q %s %d", db, k, kind, s.Do("PEXPIRETIME", k).Int)
			volatile := false
			switch {
			case kind == "stream":
				// Redis before 7.4.2 computes other lags of consumer groups from the same stream.
				line += " " + withoutLag.ReplaceAllString(lasting(s.Do("XINFO", "STREAM", k, "FULL", "COUNT", 0)), "")
			case kind == "hash" && p.FieldDeadlines():
				var fields []any
				var texts []string
				all := s.Do("HGETALL", k).Elems
				for i := 0; i < len(all); i += 2 {
					fields = append(fields, all[i].Text)
					texts = append(texts, fmt.Sprintf("%q=%q", all[i].Text, all[i+1].Text))
				}
				at := s.Do(append([]any{"HPEXPIRETIME", k, "FIELDS", len(fields)}, fields...)...).Elems
				for i := range texts {
					texts[i] += fmt.Sprint("@", at[i].Int)
					volatile = volatile || at[i].Int > 0
				}
				deadlines = deadlines || volatile
				slices.Sort(texts)
				line += " " + strings.Join(texts, " ")
			}
			if !volatile || !p.Valkey() {
				line += " " + s.Do("DEBUG", "DIGEST-VALUE", k).Elems[0].Text
			}
			lines = append(lines, line)
		}
	}
	s.Do("SELECT", 0)
	slices.Sort(lines)
	if !deadlines || !p.Valkey() {
		lines = append(lines, "digest "+s.Do("DEBUG", "DIGEST").Text)
	}
	return lines
}

// fill makes a random data set of all types.
func fill(s *testkit.Server, p testkit.Peer, rng *rand.Rand) {
	text := func() string {
		switch rng.IntN(6) {
		case 0:
			return fmt.Sprint(int64(rng.Uint64()) >> rng.IntN(64))
		case 1:
			return strings.Repeat(fmt.Sprint("again ", rng.IntN(9)), rng.IntN(40))
		case 2:
			b := make([]byte, rng.IntN(100))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			return string(b)
		}
		return element(rng.IntN(10_000))
	}
	elements := func(first []any, each func(i int) []any) []any {
		n := 1 + rng.IntN(6)
		if rng.IntN(4) == 0 {
			n = 1 + rng.IntN(300)
		}
		return many(n, each, first...)
	}
	const deadline = 4102444800000
	for n := range 6 + rng.IntN(20) {
		if rng.IntN(8) == 0 {
			s.Do("SELECT", rng.IntN(3))
		}
		key := fmt.Sprintf("key:%d:%s", n, text())
		switch rng.IntN(8) {
		case 0:
			s.Do("SET", key, text())
		case 1:
			s.Do(elements([]any{"RPUSH", key}, func(int) []any { return []any{text()} })...)
		case 2:
			s.Do(elements([]any{"SADD", key}, func(int) []any { return []any{text()} })...)
		case 3:
			s.Do(elements([]any{"SADD", key}, func(int) []any { return []any{int64(rng.Uint64()) >> rng.IntN(64)} })...)
		case 4:
			fraction := rng.NormFloat64()
			score := func() any { return []any{rng.IntN(10), fraction, "inf", "-inf", -0.25}[rng.IntN(5)] }
			if p.RDBVersion < 12 {
				fraction = 1.5 // digests of Redis before 7.4 show more digits of other fractions
			}
			s.Do(elements([]any{"ZADD", key}, func(int) []any { return []any{score(), text()} })...)
		case 5:
			s.Do(elements([]any{"HSET", key}, func(i int) []any { return []any{fmt.Sprint("f", i, text()), text()} })...)
			if !p.FieldDeadlines() || rng.IntN(3) == 0 {
				break
			}
			for _, field := range s.Do("HKEYS", key).Elems {
				if rng.IntN(3) == 0 {
					s.Do("HPEXPIREAT", key, deadline+rng.IntN(1000), "FIELDS", 1, field.Text)
				}
			}
			if rng.IntN(4) == 0 {
				s.Do("HPERSIST", key, "FIELDS", 1, s.Do("HKEYS", key).Elems[0].Text)
			}
		case 6:
			fillStream(s, key, rng, text)
		case 7:
			s.Do(elements([]any{"PFADD", key}, func(int) []any { return []any{text()} })...)
			s.Do("FUNCTION", "LOAD", "REPLACE", "#!lua name=lib\nredis.register_function('f', function() return "+
				fmt.Sprint(n)+" end)")
		}
		if rng.IntN(4) == 0 {
			s.Do("PEXPIREAT", key, deadline+rng.IntN(1000))
		}
	}
	s.Do("SELECT", 0)
}

// fillStream makes a stream with deleted entries, groups, consumers and pending entries.
func fillStream(s *testkit.Server, key string, rng *rand.Rand, text func() string) {
	n := 1 + rng.IntN(150)
	for i := range n {
		entry := []any{"XADD", key, fmt.Sprintf("%d-%d", 1000+i/3, i%3+1), "kind", text()}
		if rng.IntN(3) == 0 {
			entry = append(entry, text()+"x", text())
		}
		s.Do(entry...)
	}
	for range rng.IntN(4) {
		i := rng.IntN(n)
		s.Do("XDEL", key, fmt.Sprintf("%d-%d", 1000+i/3, i%3+1))
	}
	for g := range rng.IntN(3) {
		group := fmt.Sprint("group ", g)
		s.Do("XGROUP", "CREATE", key, group, []any{"0", "$", "1005-1"}[rng.IntN(3)])
		for range rng.IntN(4) {
			s.Do("XREADGROUP", "GROUP", group, fmt.Sprint("consumer ", rng.IntN(3)), "COUNT", 1+rng.IntN(20), "STREAMS", key,
				">")
		}
		s.Do("XACK", key, group, "1000-1", "1001-2")
	}
}
