package hll

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/str"
	"spindle/tests/testkit/commandtest"
)

func newCore(t testing.TB) *commandtest.Core {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	settings := &Settings{}
	settings.Rows() // sets the defaults
	core, err := commandtest.New(keyspace.New(heap, keyspace.Options{Databases: 16}), 1_700_000_000_000,
		Family(settings), str.Family)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

func asArgs(list ...string) [][]byte {
	args := make([][]byte, len(list))
	for i, w := range list {
		args[i] = []byte(w)
	}
	return args
}

// TestNoAllocations: in steady state no command allocates on the Go heap.
func TestNoAllocations(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	for i := range 20_000 {
		core.Do(cl, "PFADD", "dense", fmt.Sprint(i))
	}
	core.Do(cl, "PFADD", "sparse", "a", "b", "c")
	core.Do(cl, "PFADD", "other", "c", "d")
	commandtest.NoAllocations(t, core,
		"PFADD dense 1", "PFADD sparse a b", "PFCOUNT dense", "PFCOUNT dense sparse",
		"PFMERGE dense sparse", "PFMERGE sparse other", "PFCOUNT none", "PFDEBUG ENCODING dense",
	)
	// Each call raises a register, so the estimate is written again.
	for _, key := range []string{"dense", "sparse"} {
		n := 0
		args := asArgs("PFADD", key, "00000000")
		count := asArgs("PFCOUNT", key)
		if got := testing.AllocsPerRun(100, func() {
			n++
			copy(args[2], fmt.Appendf(args[2][:0], "x%07d", n))
			cl.Out.Reset()
			core.Serve(cl, args)
			core.Serve(cl, count)
		}); got > 1 { // Appendf's own
			t.Errorf("PFADD of a new element and PFCOUNT of the %s sketch allocate %v times", key, got)
		}
	}
}

// TestDeadlineStays: no change of a sketch in place removes the key's deadline.
func TestDeadlineStays(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	many := []string{"PFADD", "k"}
	for i := range 5000 {
		many = append(many, fmt.Sprint("e", i))
	}
	core.Do(cl, "PFADD", "src", "x")
	core.Do(cl, "PFADD", "k", "a")
	core.Do(cl, "GETEX", "k", "PX", "5000")
	for _, step := range [][]string{
		{"PFADD", "k", "b"}, {"PFCOUNT", "k"}, {"PFMERGE", "k", "src"}, many, {"PFADD", "k", "one more"},
		{"PFMERGE", "k", "src"},
	} {
		core.Do(cl, step...)
		if got, want := core.Space.DB(0).Peek([]byte("k")).Deadline(), core.Now()+5000; got != want {
			t.Fatalf("after %s the deadline is %d, want %d", step[0], got, want)
		}
	}
	if got := core.Do(cl, "PFDEBUG", "ENCODING", "k"); got != "+dense\r\n" {
		t.Fatalf("the sketch is %q", got)
	}
}

// TestViewStays: a view keeps the old sketch, whatever is added later, in one command or several.
func TestViewStays(t *testing.T) {
	for _, n := range []int{3, 500, 20_000} {
		core := newCore(t)
		cl := core.Client(2)
		for i := range n {
			core.Do(cl, "PFADD", "k", fmt.Sprint(i))
		}
		key := []byte("k")
		then := strings.Clone(string(core.Space.DB(0).Peek(key).Bytes(nil)))
		view := core.Space.Freeze()
		other := newCore(t)
		ocl := other.Client(2)
		other.Do(ocl, "SET", "k", then)
		for step := range 50 {
			args := []string{"PFADD", "k"}
			for i := range 1 + step%40 {
				args = append(args, fmt.Sprint("new", step, i))
			}
			if a, b := core.Do(cl, args...), other.Do(ocl, args...); a != b {
				t.Fatalf("n=%d step %d: %q under a view, %q without", n, step, a, b)
			}
			if step%10 == 9 {
				core.Do(cl, "PFCOUNT", "k")
				other.Do(ocl, "PFCOUNT", "k")
			}
		}
		if a, b := core.Do(cl, "GET", "k"), other.Do(ocl, "GET", "k"); a != b {
			t.Fatalf("n=%d: the sketch differs from one that was changed without a view", n)
		}
		if got := string(view.Get(0, key).Bytes(nil)); got != then {
			t.Fatalf("n=%d: the view's sketch has changed", n)
		}
		view.Close()
	}
}

// TestErrorChangesNothing: a command on a corrupt sketch changes and propagates nothing.
func TestErrorChangesNothing(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	half := empty[:headerSize-1] + "\x80\x5f\xff" // 8192 registers
	core.Do(cl, "PFADD", "good", "a")
	elements := []string{"PFADD", "half"}
	for i := range 64 {
		elements = append(elements, fmt.Sprint(i))
	}
	for _, step := range [][]string{
		elements, {"PFCOUNT", "half"}, {"PFCOUNT", "good", "half"}, {"PFMERGE", "good", "half"}, {"PFMERGE", "half", "good"},
		{"PFMERGE", "new", "half"}, {"PFDEBUG", "GETREG", "half"}, {"PFDEBUG", "TODENSE", "half"},
	} {
		core.Do(cl, "SET", "half", half)
		good := core.Do(cl, "GET", "good")
		core.Reset()
		if got := core.Do(cl, step...); got != "-INVALIDOBJ Corrupted HLL object detected\r\n" {
			t.Errorf("%s %s answers %q", step[0], step[1], got)
		}
		told := slices.DeleteFunc(core.Events, func(e commandtest.Event) bool { return e.Name == "keymiss" })
		if len(core.Effects) != 0 || len(told) != 0 {
			t.Errorf("%s %s has effects %v, events %v", step[0], step[1], core.Effects, told)
		}
		if core.Do(cl, "GET", "half") != fmt.Sprintf("$18\r\n%s\r\n", half) || core.Do(cl, "GET", "good") != good ||
			core.Do(cl, "GET", "new") != "$-1\r\n" {
			t.Errorf("%s %s has changed something", step[0], step[1])
		}
	}
}

// FuzzCommands: for any string as a sketch, a command at most replies an error.
func FuzzCommands(f *testing.F) {
	f.Add([]byte(empty), "element")
	f.Add([]byte(empty[:headerSize]+"\x7f"), "element")
	f.Add([]byte("HYLL\x00"+strings.Repeat("\xff", denseSize-5)), "element")
	f.Add([]byte("12345678901234567"), "element")
	core := newCore(f)
	cl := core.Client(2)
	core.Mute = true
	core.Do(cl, "PFADD", "good", "a", "b")
	f.Fuzz(func(t *testing.T, sketch []byte, element string) {
		for _, step := range [][]string{
			{"PFCOUNT", "k", "good"}, {"PFCOUNT", "k"}, {"PFADD", "k", element, "a", "b"}, {"PFDEBUG", "DECODE", "k"},
			{"PFMERGE", "k", "good"},
			{"PFMERGE", "to", "k"}, {"PFDEBUG", "TODENSE", "k"}, {"PFADD", "k", element + "x"}, {"PFDEBUG", "GETREG", "k"},
			{"PFCOUNT", "k"},
		} {
			core.Do(cl, "SET", "k", string(sketch))
			core.Do(cl, "GETDEL", "to")
			if got := core.Do(cl, step...); got == "" {
				t.Fatalf("%q answers nothing", step)
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	for name, n := range map[string]int{"sparse": 1000, "dense": 50_000} {
		for _, known := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/known=%t", name, known), func(b *testing.B) {
				core := newCore(b)
				cl := core.Client(2)
				for i := range n {
					core.Do(cl, "PFADD", "k", fmt.Sprint(i))
				}
				core.Mute = true
				args := asArgs("PFADD", "k", "0000000000")
				base := core.Do(cl, "GET", "k")[len("$12304\r\n"):]
				base = base[:len(base)-2]
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if !known {
						e := args[2]
						for j, x := len(e)-1, i; j >= 0; j, x = j-1, x/10 {
							e[j] = byte('0' + x%10)
						}
						if name == "sparse" && i%200 == 199 {
							core.Do(cl, "SET", "k", base)
						}
					}
					cl.Out.Reset()
					core.Serve(cl, args)
				}
			})
		}
	}
}
