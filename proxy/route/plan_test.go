package route

import (
	"fmt"
	"strings"
	"testing"
)

func split1(call string) (args [][]byte) {
	for w := range strings.SplitSeq(call, " ") {
		args = append(args, []byte(strings.Trim(w, "'")))
	}
	return args
}

// describe returns a plan as text: its class, whether it blocks, and its keys; or its error.
func describe(table *Table, call string) string {
	var p Plan
	args := split1(call)
	table.Plan(args, &p)
	if (p.Class == Refused) != (p.Err != nil) {
		return fmt.Sprintf("class %v with error %v", p.Class, p.Err)
	}
	if p.Err != nil {
		return p.Err.Error()
	}
	got := p.Class.String()
	if p.Blocks {
		got += " blocks"
	}
	for _, at := range table.AppendKeys(nil, p.Row, args) {
		got += " " + string(args[at])
		if slot := table.Hasher.Slot(args[at]); slot != p.Slot && p.Class != Split {
			got += fmt.Sprintf(" (slot %d, the plan says %d)", slot, p.Slot)
		}
	}
	if p.KeyCount != len(table.AppendKeys(nil, p.Row, args)) {
		got += fmt.Sprintf(" (KeyCount %d)", p.KeyCount)
	}
	return got
}

const crossSlot = "CROSSSLOT Keys in request don't hash to the same slot"

var plans = []struct{ call, want string }{
	{"GET a", "forward a"},
	{"gEt a", "forward a"},
	{"GET", "ERR wrong number of arguments for 'get' command"},
	{"GET a b", "ERR wrong number of arguments for 'get' command"},
	{"SET a 1 EX 5", "forward a"},
	{"MGET a", "forward a"},
	{"MGET {x}a {x}b", "forward {x}a {x}b"},
	{"MGET a b a", "split a b a"},
	{"MSET a 1 b 2", "split a b"},
	{"MSET a 1 a 2", "forward a a"},
	{"MSET a 1 b", "ERR wrong number of arguments for 'mset' command"},
	{"MSETNX a 1 b 2", crossSlot},
	{"MSETNX {x}a 1 {x}b 2", "forward {x}a {x}b"},
	{"DEL a b c", "split a b c"},
	{"RENAME a b", crossSlot},
	{"RENAME {a}1 {a}2", "forward {a}1 {a}2"},
	{"LCS {a}1 {a}2 LEN", "forward {a}1 {a}2"},
	{"BITOP AND {d} {d}1 {d}2", "forward {d} {d}1 {d}2"},
	{"BITOP AND d", "ERR wrong number of arguments for 'bitop' command"},
	{"BLPOP {a}1 {a}2 0", "pinned blocks {a}1 {a}2"},
	{"BLPOP a b 0", crossSlot},
	{"EVAL s 0", "forward"},
	{"EVAL s 0 a", "forward"},
	{"EVAL s 1 a b", "forward a"},
	{"EVAL s 2 {a}1 {a}2 b", "forward {a}1 {a}2"},
	{"EVAL s 2 a b", crossSlot},
	{"EVAL s 2 a", "forward"},
	{"EVAL s x a", "forward"},
	{"EVAL s -1 a", "forward"},
	{"EVAL s 99999999999999999999 a", "forward"},
	{"EVAL s 9223372036854775807 a", "forward"},
	{"ZUNIONSTORE {d} 2 {d}1 {d}2 WEIGHTS 1 2", "forward {d} {d}1 {d}2"},
	{"ZUNIONSTORE {d} 3 {d}1 {d}2", "forward {d}"},
	{"XREAD STREAMS a 0", "forward a"},
	{"XREAD COUNT 2 STREAMS {a}1 {a}2 0 0", "forward {a}1 {a}2"},
	{"XREAD BLOCK 0 streams a $", "pinned blocks a"},
	{"XREAD COUNT 2 BLOCK 5 STREAMS {a}1 {a}2 0 0", "pinned blocks {a}1 {a}2"},
	{"XREAD STREAMS block 0 0", "forward block"},
	{"XREAD COUNT 1 STREAMS a", "forward"},
	{"XREADGROUP GROUP block streams STREAMS a >", "forward a"},
	{"XREADGROUP GROUP g c NOACK BLOCK 0 STREAMS a >", "pinned blocks a"},
	{"XREADGROUP GROUP g c COUNT 1 NOACK STREAMS a >", "forward a"},
	{"GEORADIUS {k} 1 1 1 m STORE {k}s", "forward {k} {k}s"},
	{"GEORADIUS {k} 1 1 1 m COUNT 1 STOREDIST {k}s", "forward {k} {k}s"},
	{"GEORADIUS k 1 1 1 m STORE s", crossSlot},
	{"GEORADIUS k 1 1 1 m STORE", "forward k"},
	{"SORT a", "forward a"},
	{"SORT {a} LIMIT 0 1 BY nosort GET # STORE {a}d", "forward {a} {a}d"},
	{"SORT {a} STORE x STORE {a}d", "forward {a} {a}d"},
	{"SORT a STORE b", crossSlot},
	{"SORT a BY w_* GET #", "ERR BY of SORT is not served by the proxy: the keys of its pattern may be in other slots"},
	{"SORT a GET *", "ERR GET of SORT is not served by the proxy: the keys of its pattern may be in other slots"},
	{"SORT a BY w_*{a}", "ERR BY of SORT is not served by the proxy: the keys of its pattern may be in other slots"},
	{"SORT {a}1 BY w_{a}* GET {a}_*->f", "forward {a}1"},
	{"SORT {a}1 BY w_{b}*", "ERR BY of SORT is not served by the proxy: the keys of its pattern may be in other slots"},
	{"SORT_RO {a}1 BY {}{a}*", "ERR BY of SORT is not served by the proxy: the keys of its pattern may be in other slots"},
	{"SORT_RO a STORE b", "forward a"},
	{"MIGRATE h 1 a 0 5", "pinned a"},
	{"MIGRATE h 1 '' 0 5 COPY AUTH keys KEYS {a}1 {a}2", "pinned {a}1 {a}2"},
	{"OBJECT ENCODING a", "forward a"},
	{"object help", "forward"},
	{"OBJECT", "ERR wrong number of arguments for 'object' command"},
	{"OBJECT nosuch a", "ERR unknown subcommand 'nosuch'. Try OBJECT HELP."},
	{"CLIENT LIST", "local"},
	{"CLIENT NOSUCH", "local"},
	{"CLIENT", "ERR wrong number of arguments for 'client' command"},
	{"SCRIPT LOAD x", "all"},
	{"DBSIZE", "all"},
	{"WAIT 1 0", "all"},
	{"MULTI", "pinned"},
	{"WATCH {a}1 {a}2", "pinned {a}1 {a}2"},
	{"WATCH a b", crossSlot},
	{"SSUBSCRIBE a", "local a"},
	{"MONITOR", "ERR MONITOR is not served by the proxy: it would show the requests of all clients of a single server"},
	{"MONITOR x", "ERR wrong number of arguments for 'monitor' command"},
	{"HELLO 3", "local"},
	{"foo.key a", "forward a"},
	{"NOSUCH", "ERR unknown command 'NOSUCH', with args beginning with: "},
	{"NOSUCH a b", "ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "},
}

// TestPlan plans calls with key specifications, and with the COMMAND reply of servers before Redis 7.
func TestPlan(t *testing.T) {
	table, old := readTable(t, false), readTable(t, true)
	for _, c := range plans {
		if got := describe(table, c.call); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.call, got, c.want)
		}
		if strings.HasPrefix(c.call, "MSETEX") {
			continue
		}
		if got := describe(old, c.call); got != c.want {
			t.Errorf("without specifications: %s: %s\nwant %s", c.call, got, c.want)
		}
	}
	if got, want := describe(table, "MSETEX 2 {a}1 1 {a}2 2 NX"), "forward {a}1 {a}2"; got != want {
		t.Errorf("MSETEX: %s, want %s", got, want)
	}
	if got, want := describe(table, "foo.part a"),
		"ERR FOO.PART is not served by the proxy: its key specifications are incomplete"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDetours: detours hold for keys and for the patterns of SORT, and not for channels.
func TestDetours(t *testing.T) {
	table := readTable(t, false)
	const far = 20000
	p := Plan{Detours: []Detour{{[]byte("far:"), far}}}
	slotOf := func(key string) int { return table.Hasher.Slot([]byte(key)) }
	for _, c := range []struct {
		call string
		want int // the slot; -1: it is refused
	}{
		{"GET far:a", far},
		{"GET a", slotOf("a")},
		{"BLPOP far:a far:b 0", far},
		{"RENAME far:a a", -1},
		{"SSUBSCRIBE far:a", slotOf("far:a")},
		{"SPUBLISH far:a x", slotOf("far:a")},
		{"SORT far:a BY far:w_* GET far:*->f", far},
		{"SORT far:a BY w_*", -1},
		{"SORT far:a BY f*", -1},
		{"SORT {x}a BY {x}*", slotOf("x")},
		{"SORT {x}a BY far:{x}*", -1},
		{"SORT {x}a GET fa*{x}", -1},
	} {
		table.Plan(split1(c.call), &p)
		switch {
		case c.want < 0 && p.Err == nil:
			t.Errorf("%s: slot %d; it has to be refused", c.call, p.Slot)
		case c.want >= 0 && (p.Err != nil || p.Slot != c.want):
			t.Errorf("%s: slot %d, %v; want slot %d", c.call, p.Slot, p.Err, c.want)
		}
	}
}

// TestErrorsQuoteLikeRedis: an error quotes a limited part of a call, and ends the quote at a zero byte.
func TestErrorsQuoteLikeRedis(t *testing.T) {
	table := readTable(t, false)
	long := strings.Repeat("x", 200)
	for call, want := range map[string]string{
		long:        "unknown command '" + long[:128] + "', with args beginning with: ",
		"N " + long: "unknown command 'N', with args beginning with: '" + long[:128] + "' ",
		"N " + long[:100] + " " + long + " y": "unknown command 'N', with args beginning with: '" + long[:100] + "' '" +
			long[:25] + "' ",
		"N\x00M a\x00b": "unknown command 'N', with args beginning with: 'a' ",
	} {
		var p Plan
		table.Plan(split1(call), &p)
		if p.Err == nil || p.Err.Text != want {
			t.Errorf("%.20q: %v\nwant %s", call, p.Err, want)
		}
	}
}

// TestGroups splits calls by slot and by shard.
func TestGroups(t *testing.T) {
	table := readTable(t, false)
	var p Plan
	shards := make([]uint16, Redis.Slots())
	for slot := range shards {
		shards[slot] = uint16(slot % 2)
	}
	for _, call := range []string{"MGET a b a c {a}d", "MSET a 1 b 2 c 3 {a}x 4", "DEL a b", "MGET x y z x y z"} {
		args := split1(call)
		for _, by := range [][]uint16{nil, shards} {
			table.Plan(args, &p)
			if p.Class != Split || p.Slot != -1 {
				t.Fatalf("%s is %v, slot %d", call, p.Class, p.Slot)
			}
			seen, next := map[int32]bool{}, int32(0)
			for range 2 { // the memory must be clean for the next call
				clear(seen)
				next = 0
				for _, g := range p.Groups(by) {
					if len(g.Keys) == 0 || g.Keys[0] < next {
						t.Errorf("%s: groups are not in the order of their first keys", call)
					}
					next = g.Keys[0]
					for i, at := range g.Keys {
						slot := table.Hasher.Slot(args[at])
						if by == nil && (slot != g.Slot || g.Shard != -1) || by != nil && (int(by[slot]) != g.Shard) {
							t.Errorf("%s: key %s is in a group of slot %d, shard %d", call, args[at], g.Slot, g.Shard)
						}
						if seen[at] || i > 0 && g.Keys[i-1] >= at {
							t.Errorf("%s: keys %v", call, g.Keys)
						}
						seen[at] = true
					}
				}
			}
			if len(seen) != p.KeyCount || (int(p.KeyCount)*p.Step()+1) != len(args) {
				t.Errorf("%s: %d of %d keys are in groups, step %d", call, len(seen), p.KeyCount, p.Step())
			}
		}
	}
}

func TestCodisSlots(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 0xCBF43926 % 1024, "{123456789}x": 0xCBF43926 % 1024, "{}abc": 0,
		"a{123456789": Codis.Slot([]byte("a{123456789")), "x{a}{123456789}": Codis.Slot([]byte("a")),
	} {
		if got := Codis.Slot([]byte(key)); got != want {
			t.Errorf("%q: slot %d, want %d", key, got, want)
		}
	}
	if Codis.Slots() != 1024 || Redis.Slots() != 16384 {
		t.Error("wrong number of slots")
	}
}

// FuzzPlan: the plan of any call has an error or a class. Its keys are arguments of the call, in the slot of the plan.
func FuzzPlan(f *testing.F) {
	for _, c := range plans {
		f.Add(c.call)
	}
	table, old := readTable(f, false), readTable(f, true)
	old.Hasher = Codis
	var p Plan
	f.Fuzz(func(t *testing.T, call string) {
		args := split1(call)
		for _, table := range []*Table{table, old} {
			table.Plan(args, &p)
			if (p.Class == Refused) != (p.Err != nil) || p.Row == nil && p.Err == nil {
				t.Fatalf("class %v with error %v", p.Class, p.Err)
			}
			if p.Err != nil {
				continue
			}
			keys := table.AppendKeys(nil, p.Row, args)
			for _, at := range keys {
				if at < 1 || at >= len(args) || p.Class != Split && table.Hasher.Slot(args[at]) != p.Slot {
					t.Fatalf("key %d of %d, slot %d", at, len(args), p.Slot)
				}
			}
			if p.KeyCount != len(keys) || len(keys) == 0 && p.Slot != -1 {
				t.Fatalf("%d keys, KeyCount %d, slot %d", len(keys), p.KeyCount, p.Slot)
			}
			if p.Class == Split {
				count := 0
				for _, g := range p.Groups(nil) {
					count += len(g.Keys)
				}
				if count != len(keys) {
					t.Fatalf("%d of %d keys are in groups", count, len(keys))
				}
			}
		}
	})
}

func TestPlanDoesNotAllocate(t *testing.T) {
	table := readTable(t, false)
	var p Plan
	for _, call := range []string{"GET a", "SET a 1", "MGET a b c", "MSET a 1 b 2", "EVAL s 1 a",
		"XREAD BLOCK 0 STREAMS a 0", "SORT a", "MONITOR", "CLIENT LIST", "DBSIZE", "RENAME a b"} {
		args := split1(call)
		if n := testing.AllocsPerRun(100, func() {
			table.Plan(args, &p)
			if p.Class == Split {
				p.Groups(nil)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", call, n)
		}
	}
}

// BenchmarkPlan plans one call. Watch allocs/op: 0.
func BenchmarkPlan(b *testing.B) {
	table := readTable(b, false)
	var p Plan
	for _, call := range []string{"GET key:000000000123", "set key:000000000123 x", "MGET a b c d e f g h", "EVAL s 1 a",
		"DBSIZE"} {
		b.Run(strings.ReplaceAll(call, " ", "_"), func(b *testing.B) {
			args := split1(call)
			b.ReportAllocs()
			for b.Loop() {
				table.Plan(args, &p)
			}
		})
	}
}
