package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/memory"
)

// TestNestedBlocks: a block returns the data that was written, at every width of a length, and is as small as promised.
func TestNestedBlocks(t *testing.T) {
	k := open(t)
	lens := []int{0, 1, 14, maxNarrow - 1, maxNarrow, maxNarrow + 1, lenWide, lenWide + 1, 300, 70_000}
	for _, a := range lens {
		key := []byte(strings.Repeat("k", a))
		m, s := NewMember(k.h, key), NewScored(k.h, key, -1.5)
		if string(MemberKey(m)) != string(key) || string(ScoredKey(s)) != string(key) || Score(s) != -1.5 {
			t.Fatalf("a member of %d bytes", a)
		}
		if SetScore(s, 7); string(ScoredKey(s)) != string(key) || Score(s) != 7 {
			t.Fatalf("another score for a member of %d bytes", a)
		}
		k.h.Free(m, memory.Values)
		k.h.Free(s, memory.Values)
		for _, b := range lens {
			val := []byte(strings.Repeat("v", b))
			for _, deadline := range []int64{0, 1, 1 << 60} {
				f := NewField(k.h, key, val, deadline)
				if string(FieldKey(f)) != string(key) || string(FieldValue(f)) != string(val) || FieldDeadline(f) != deadline {
					t.Fatalf("a field of %d + %d bytes until %d", a, b, deadline)
				}
				for _, c := range lens {
					other := []byte(strings.Repeat("w", c))
					fits := memory.GoodSize(fieldSize(a, c, deadline != 0)) == memory.UsableSize(f)
					if OverwriteValue(f, other) != fits {
						t.Fatalf("%d bytes over %d: not %t", c, b, fits)
					}
					if fits {
						val = other
					}
					if string(FieldKey(f)) != string(key) || string(FieldValue(f)) != string(val) || FieldDeadline(f) != deadline {
						t.Fatalf("a field of %d + %d bytes until %d after %d bytes", a, b, deadline, c)
					}
				}
				if deadline != 0 {
					if OverwriteDeadline(f, 5); FieldDeadline(f) != 5 || string(FieldKey(f)) != string(key) {
						t.Fatal("another deadline")
					}
				}
				k.h.Free(f, memory.Values)
			}
		}
	}
	fourteen := []byte("fourteen-bytes")
	for _, c := range []struct {
		ref  memory.Ref
		want int
	}{
		{NewMember(k.h, fourteen), 16}, {NewScored(k.h, fourteen, 1), 24}, {NewField(k.h, fourteen, fourteen, 0), 32},
		{NewField(k.h, fourteen, fourteen, 1), 40},
	} {
		if got := memory.UsableSize(c.ref); got != c.want {
			t.Errorf("14 bytes take %d, should %d", got, c.want)
		}
		k.h.Free(c.ref, memory.Values)
	}
}

// nested is a nested table and a map with the same content, and the copies of both that views keep.
type nested struct {
	t      *testing.T
	h      *memory.Heap
	rng    *rand.Rand
	layout Layout
	state  State
	moved  bool
	want   map[string]element
	views  []nestedView
	now    int64
}

type element struct {
	text     string // value, or score
	deadline int64
}

type nestedView struct {
	hold  *memory.Hold
	state State
	want  map[string]element
}

func (n *nested) block(key string, e element) memory.Ref {
	switch n.layout {
	case Member:
		return NewMember(n.h, []byte(key))
	case Scored:
		score, _ := strconv.ParseFloat(e.text, 64)
		return NewScored(n.h, []byte(key), score)
	}
	return NewField(n.h, []byte(key), []byte(e.text), e.deadline)
}

func (n *nested) read(ref memory.Ref) (string, element) {
	switch n.layout {
	case Member:
		return string(MemberKey(ref)), element{}
	case Scored:
		return string(ScoredKey(ref)), element{text: strconv.FormatFloat(Score(ref), 'g', -1, 64)}
	}
	return string(FieldKey(ref)), element{string(FieldValue(ref)), FieldDeadline(ref)}
}

func (n *nested) element() (e element) {
	switch n.layout {
	case Scored:
		e.text = strconv.Itoa(n.rng.IntN(1000))
	case Field:
		e.text = strings.Repeat("v", n.rng.IntN(40))
		if n.rng.IntN(3) == 0 {
			e.deadline = n.now + 1 + n.rng.Int64N(3000)
		}
	}
	return e
}

func (n *nested) step(keys int) {
	t := Open(n.h, n.layout, &n.state, n.moved)
	key := strconv.Itoa(n.rng.IntN(keys))
	if len(key) == 2 {
		key = strings.Repeat(key, 150)
	}
	hash := Hash([]byte(key))
	n.h.SetPosition(0, 42)
	p, ref := t.Find(hash, []byte(key))
	if _, had := n.want[key]; had != (ref != 0) {
		n.t.Fatalf("%q found %t", key, ref != 0)
	}
	switch op := n.rng.IntN(12); {
	case op < 6:
		e := n.element()
		switch {
		case ref == 0:
			t.Insert(hash, n.block(key, e), t.Tick(e.deadline))
		case op < 3 && n.layout == Scored && t.Edit(&p):
			score, _ := strconv.ParseFloat(e.text, 64)
			SetScore(ref, score)
		case op < 3 && n.layout == Field && t.Edit(&p) && (FieldDeadline(ref) != 0) == (e.deadline != 0) &&
			OverwriteValue(ref, []byte(e.text)):
			if e.deadline != 0 {
				OverwriteDeadline(ref, e.deadline)
				t.Replace(&p, ref, t.Tick(e.deadline))
			}
		default:
			t.Release(ref, t.Replace(&p, n.block(key, e), t.Tick(e.deadline)))
		}
		n.want[key] = e
	case op < 9 && ref != 0:
		if located := t.Locate(hash, ref); located != p {
			n.t.Fatalf("%q is located at %v, found at %v", key, located, p)
		}
		t.Release(ref, t.Remove(&p))
		delete(n.want, key)
	case op == 9 && len(n.views) < 4 && n.rng.IntN(20) == 0:
		n.views = append(n.views, nestedView{n.h.Freeze(), n.state, maps.Clone(n.want)})
	case op == 10 && len(n.views) > 0 && n.rng.IntN(20) == 0:
		i := n.rng.IntN(len(n.views))
		n.leave(i)
	case op == 11 && n.layout == Field:
		n.now += n.rng.Int64N(20)
		n.expire(&t)
	}
	n.state = t.State()
	if n.rng.IntN(10) == 0 {
		n.h.Drain(1000)
		if job, _ := n.h.TakeJob(); job != nil {
			for !job(20) {
			}
		}
	}
}

// expire drops the fields that are due.
func (n *nested) expire(t *Table) {
	var d Due
	for t.NextDue(t.TickNow(n.now), &d) {
		for i, ref := range d.Refs[:d.N] {
			if deadline := FieldDeadline(ref); deadline >= n.now {
				d.Stays(i, t.Tick(deadline))
				continue
			}
			key, e := n.read(ref)
			if n.want[key] != e {
				n.t.Fatalf("%q is dropped as %v, should be %v", key, e, n.want[key])
			}
			delete(n.want, key)
			t.Release(ref, t.Drop(&d, i))
		}
		t.EndDue(&d)
	}
	for key, e := range n.want {
		if e.deadline != 0 && e.deadline+tickMs < n.now {
			n.t.Fatalf("%q is there %d ms late", key, n.now-e.deadline)
		}
	}
}

func (n *nested) leave(i int) {
	n.same("view", &n.views[i].state, n.views[i].want)
	n.views[i].hold.Close()
	n.views = append(n.views[:i], n.views[i+1:]...)
}

func (n *nested) same(where string, s *State, want map[string]element) {
	seen := 0
	t := Open(nil, n.layout, s, false)
	Walk(s.Root(), 0, ^uint64(0), nil, func(ref memory.Ref) bool {
		key, e := n.read(ref)
		if w, ok := want[key]; !ok || w != e {
			n.t.Fatalf("%s: %q is %v, should be %v", where, key, e, w)
		}
		if _, found := t.Find(Hash([]byte(key)), []byte(key)); found != ref {
			n.t.Fatalf("%s: %q is not found", where, key)
		}
		seen++
		return true
	})
	if seen != len(want) || s.Len() != len(want) {
		n.t.Fatalf("%s: %d members, Len %d, should be %d", where, seen, s.Len(), len(want))
	}
}

// TestNestedModel makes the same random steps on a nested table and on a map, under views. It destroys everything at
// the end.
func TestNestedModel(t *testing.T) {
	for _, layout := range []Layout{Member, Scored, Field} {
		for _, moved := range []bool{false, true} {
			t.Run(fmt.Sprintf("layout=%d,moved=%t", layout, moved), func(t *testing.T) {
				k := open(t)
				empty := k.h.Used()
				n := &nested{t: t, h: k.h, rng: k.rng, layout: layout, moved: moved, want: map[string]element{}}
				table := New(k.h, layout, 0)
				n.state = table.State()
				for round := range 8 {
					for range 4000 {
						n.step([]int{20, 200, 3000, 12_000}[round%4])
					}
					at := Open(k.h, layout, &n.state, moved)
					if err := at.Check(); err != nil {
						t.Fatal(err)
					}
					n.same("live", &n.state, n.want)
				}
				at := Open(k.h, layout, &n.state, moved)
				dup := at.Copy()
				s := dup.State()
				n.same("copy", &s, n.want)
				for len(n.views) > 0 {
					n.leave(0)
				}
				k.settle()
				r := k.h.Returner()
				for _, s := range []*State{&n.state, &s} {
					for done := false; !done; {
						var spent int
						if done, spent = s.Destroy(r, 1+n.rng.IntN(50)); spent > 200 {
							t.Fatalf("a slice freed %d blocks", spent)
						}
					}
				}
				r.Flush()
				k.settle()
				if used := k.h.Used(); used != empty {
					t.Errorf("%d bytes are left", used-empty)
				}
			})
		}
	}
}

// TestRandomIsFairToTheLast is a chi-square test of Random, at sizes of one segment and of many, and also after most
// keys were removed.
func TestRandomIsFairToTheLast(t *testing.T) {
	for _, c := range []struct{ add, keep int }{{10, 10}, {100, 100}, {378, 378}, {400, 400}, {1000, 1000}, {5000, 5000},
		{5000, 700}, {3000, 50}} {
		k := open(t)
		table := New(k.h, Member, 0)
		for i := range c.add {
			key := []byte(strconv.Itoa(i))
			table.Insert(Hash(key), NewMember(k.h, key), Never)
		}
		for i := c.keep; i < c.add; i++ {
			key := []byte(strconv.Itoa(i))
			p, ref := table.Find(Hash(key), key)
			table.Release(ref, table.Remove(&p))
		}
		r := rand.NewPCG(uint64(time.Now().UnixNano()), 2)
		if s := os.Getenv("SEED"); s != "" {
			r = rand.NewPCG(k.rng.Uint64(), 2)
		}
		const each = 100
		seen := map[memory.Ref]int{}
		for range c.keep * each {
			seen[table.Random(r)]++
		}
		chi := 0.0
		for _, times := range seen {
			chi += float64((times-each)*(times-each)) / each
		}
		chi += float64(c.keep-len(seen)) * each
		// The chi-square is about normal with mean n-1 and variance 2(n-1): six deviations occur once in 10^8 runs. An
		// unfair draw of ±6 % per segment would add 0.36 of a deviation squared for each key. That is far more, with
		// 1000 keys.
		n := float64(c.keep - 1)
		if d := (chi - n) * (chi - n); chi > n && d > 36*2*n+400 {
			t.Errorf("%d of %d keys: chi-square %.0f, mean %.0f", c.keep, c.add, chi, n)
		}
	}
}
