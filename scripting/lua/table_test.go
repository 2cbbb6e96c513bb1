package lua

import (
	"math/rand/v2"
	"testing"
)

// check checks lua.T1: a walk from each key's main position finds the key, and no node is in two chains.
func (t *Table) check(tb testing.TB) {
	tb.Helper()
	for i := range t.nodes {
		nd := &t.nodes[i]
		if nd.key.n == bitsNil || nd.value.n == bitsNil {
			continue
		}
		if t.find(nd.key) != &nd.value {
			tb.Fatalf("lua.T1: node %d is not found from its main position", i)
		}
	}
}

func TestTableModel(t *testing.T) {
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 4))
	s := NewState()
	others := []Value{True, False, LightUserdata(1), s.NewTable(0, 0).Value(), s.NewTable(0, 0).Value(),
		s.NewUserdata(nil, nil)}
	for range 50 {
		table := s.NewTable(rng.IntN(4), rng.IntN(4))
		want := map[any]float64{}
		keyOf := func() (Value, any) {
			switch rng.IntN(5) {
			case 0:
				name := string(rune('a' + rng.IntN(26)))
				return s.String("key" + name), name
			case 1:
				i := rng.IntN(len(others))
				return others[i], -1000 - i
			case 2:
				f := float64(rng.IntN(20)) + 0.5
				return Number(f), f
			default:
				i := rng.IntN(60) - 5
				return Number(float64(i)), float64(i)
			}
		}
		for step := range 500 {
			key, model := keyOf()
			if rng.IntN(3) == 0 {
				if table.Get(key).n != bitsNil {
					table.put(key, Nil)
				}
				delete(want, model)
			} else {
				table.put(key, Number(float64(step)))
				want[model] = float64(step)
			}
			table.check(t)
			key, model = keyOf()
			got := table.Get(key)
			if v, ok := want[model]; ok != !got.IsNil() || ok && got.Float() != v {
				t.Fatalf("step %d: get gives %v, want %v %v", step, got, v, ok)
			}
			if n := table.Len(); n > 0 && table.GetInt(n).IsNil() || !table.GetInt(n+1).IsNil() {
				t.Fatalf("step %d: %d is no border", step, n)
			}
		}
		n := 0
		for cursor := 0; ; n++ {
			key, _, next, ok := table.Next(cursor)
			if !ok {
				break
			}
			if after, ok := table.cursorAfter(key); !ok || after != next {
				t.Fatalf("the cursor after a key is %d %v, want %d", after, ok, next)
			}
			cursor = next
		}
		if n != len(want) {
			t.Fatalf("a walk finds %d fields of %d", n, len(want))
		}
	}
}
