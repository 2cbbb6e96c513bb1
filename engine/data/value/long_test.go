package value

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"spindle/engine/data/memory"
)

func content(root memory.Ref) (b []byte) {
	l := longAt(root)
	for i := range int(l.count) {
		b = append(b, l.piece(i)...)
	}
	return b
}

// TestLongModel writes at random places of a string, with holds and pins on older states of the string. It compares all
// of them with byte slices.
func TestLongModel(t *testing.T) {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var s Store
	s.Init(h)
	type old struct {
		root    memory.Ref
		want    []byte
		hold    *memory.Hold
		pieces  [][]byte
		release func()
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	want := bytes.Repeat([]byte("0123456789"), 20_000)
	root := s.NewLong(want)
	var olds []old
	for step := range 600 {
		switch rng.IntN(8) {
		case 0:
			olds = append(olds, old{root: root, want: bytes.Clone(want), hold: h.Freeze()})
		case 1:
			o := old{want: bytes.Clone(want), release: s.Pin(root)}
			for i := range int(longAt(root).count) {
				o.pieces = append(o.pieces, longAt(root).piece(i))
			}
			olds = append(olds, o)
		case 2:
			if len(olds) > 0 {
				i := rng.IntN(len(olds))
				o := olds[i]
				got := bytes.Join(o.pieces, nil)
				if o.hold != nil {
					got = content(o.root)
					o.hold.Close()
				} else {
					o.release()
				}
				if !bytes.Equal(got, o.want) {
					t.Fatalf("a kept string has changed (hold %t)", o.hold != nil)
				}
				olds = append(olds[:i], olds[i+1:]...)
				h.Drain(1000)
				s.Unpin()
			}
		case 3:
			data := make([]byte, rng.IntN(5000))
			root = s.WriteLong(root, len(want), data)
			want = append(want, data...)
		case 4: // grow by zeros, chunks of them unwritten
			if len(want) < 1<<21 {
				off := len(want) + rng.IntN(200_000)
				root = s.WriteLong(root, off, []byte("end"))
				want = append(append(want, make([]byte, off-len(want))...), "end"...)
			}
		default:
			data := make([]byte, rng.IntN(1+rng.IntN(100_000)))
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			off := rng.IntN(len(want))
			root = s.WriteLong(root, off, data)
			if n := off + len(data); n > len(want) {
				want = append(want, make([]byte, n-len(want))...)
			}
			copy(want[off:], data)
		}
		if step%8 == 0 && !bytes.Equal(content(root), want) {
			t.Fatal("the string differs from what was written")
		}
	}
	copied := s.copyLong(root)
	if !bytes.Equal(content(copied), want) {
		t.Error("a copy differs")
	}
	s.DropLong(copied)
	s.DropLong(root)
	for _, o := range olds {
		if o.hold != nil {
			o.hold.Close()
		} else {
			o.release()
		}
	}
	for {
		s.Unpin()
		more := h.Drain(1 << 20)
		job, _ := h.TakeJob()
		if job == nil && !more {
			break
		}
		for job != nil && !job(10) {
		}
	}
	if used := h.Used(); used != 0 || s.Pins() != 0 {
		t.Errorf("%d bytes and %d pins are left", used, s.Pins())
	}
}

// TestPinnedIsLeaving: a string that is dropped or replaced while it is being read counts as leaving at once, and only
// once (value.P6).
func TestPinnedIsLeaving(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		name string
		drop func(s *Store, root memory.Ref) (live memory.Ref)
		want int64
	}{
		{"nothing", func(_ *Store, root memory.Ref) memory.Ref { return root }, 0},
		{"dropped", func(s *Store, root memory.Ref) memory.Ref {
			s.DropLong(root)
			return 0
		}, size},
		{"half of it replaced",
			func(s *Store, root memory.Ref) memory.Ref { return s.WriteLong(root, 0, make([]byte, size/2)) }, size / 2},
		{"half of it replaced, then dropped", func(s *Store, root memory.Ref) memory.Ref {
			s.DropLong(s.WriteLong(root, 0, make([]byte, size/2)))
			return 0
		}, size * 3 / 2},
		{"dropped under a hold", func(s *Store, root memory.Ref) memory.Ref {
			defer s.Heap.Freeze().Close()
			s.DropLong(root)
			return 0
		}, size},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := memory.New(memory.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			var s Store
			s.Init(h)
			other := s.NewLong(make([]byte, 2*size)) // what leaves is never more than all data
			root := s.NewLong(make([]byte, size))
			first, second := s.Pin(root), s.Pin(root)
			near := func(what string, want int64) {
				t.Helper()
				if got := h.Leaving(); got < want*9/10 || got > want*11/10 {
					t.Errorf("%s: %d bytes are leaving, want about %d", what, got, want)
				}
			}
			near("before", 0)
			live := c.drop(&s, root)
			near("pinned", c.want)
			first()
			s.Unpin()
			near("one of two has gone", c.want)
			second()
			s.Unpin()
			for h.Drain(1 << 20) {
			}
			for job, _ := h.TakeJob(); job != nil; job, _ = h.TakeJob() {
				for !job(1000) {
				}
			}
			near("released", 0)
			if live != 0 {
				s.DropLong(live)
			}
			s.DropLong(other)
			if h.Used() != 0 || s.Pins() != 0 {
				t.Errorf("%d bytes and %d pins are left", h.Used(), s.Pins())
			}
		})
	}
}

// TestPinnedZerosTakeNothing: chunks of zeros, which take no memory, do not count as leaving.
func TestPinnedZerosTakeNothing(t *testing.T) {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var s Store
	s.Init(h)
	defer s.DropLong(s.NewLong(make([]byte, 4<<20)))
	root := s.WriteLong(s.NewZeros(0), 512<<20-1, []byte("x"))
	release := s.Pin(root)
	s.DropLong(root)
	if got := h.Leaving(); got == 0 || got > 200<<10 {
		t.Errorf("%d bytes are leaving", got)
	}
	release()
	s.Unpin()
}

// TestSparse: zeros far after the end cost nothing.
func TestSparse(t *testing.T) {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var s Store
	s.Init(h)
	root := s.WriteLong(s.NewZeros(0), 512<<20-1, []byte("x"))
	if used := h.Used(); used > 200<<10 {
		t.Errorf("512 MB with one byte written take %d bytes", used)
	}
	l := longAt(root)
	if l.length != 512<<20 || int(l.count) != chunksFor(512<<20) {
		t.Errorf("%d bytes in %d chunks", l.length, l.count)
	}
	if last := l.piece(int(l.count) - 1); last[len(last)-1] != 'x' || l.piece(100)[5] != 0 {
		t.Error("the content is wrong")
	}
}
