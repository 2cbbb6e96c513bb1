package listpack

import (
	"fmt"
	"testing"
)

// pairs returns a listpack of n fields and values, as a hash has it.
func pairs(n int) []byte {
	lp := AppendEmpty(nil)
	for i := range n {
		lp = AppendElement(lp, Of(fmt.Appendf(nil, "field:%04d", i)))
		lp = AppendElement(lp, Of(fmt.Appendf(nil, "value of %d", i)))
	}
	return lp
}

// BenchmarkFind searches the whole listpack for a missing element. Watch ns/op: below 600 for 128 entries.
func BenchmarkFind(b *testing.B) {
	mixed := AppendEmpty(nil)
	for i := range 128 {
		if i%3 == 0 {
			mixed = AppendElement(mixed, OfInt(int64(i)*997))
		} else {
			mixed = AppendElement(mixed, Of(fmt.Appendf(nil, "%0*x", i%13, i)))
		}
	}
	for _, c := range []struct {
		name, text string
		lp         []byte
		pass       int
	}{
		{"fields=64", "field:9999", pairs(64), 1},
		{"fields=128", "field:9999", pairs(128), 1},
		{"elements=128", "field:9999", pairs(64), 0},
		{"mixed=128", "0000123", mixed, 0},
		{"integer", "123456789", mixed, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			text := []byte(c.text)
			b.ReportAllocs()
			for b.Loop() {
				if Find(c.lp, First(c.lp), text, c.pass) != 0 {
					b.Fatal("found")
				}
			}
		})
	}
}

// BenchmarkAppend builds a listpack of 128 elements, in three ways. Watch ns/op, and allocs/op: 0.
func BenchmarkAppend(b *testing.B) {
	buffer := make([]byte, 0, 8192)
	text := []byte("some element")
	b.Run("one by one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lp := AppendEmpty(buffer)
			for range 128 {
				lp = AppendElement(lp, Of(text))
			}
		}
	})
	b.Run("begin and close", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lp := Begin(buffer)
			for range 128 {
				lp = AppendEntry(lp, Of(text))
			}
			Close(lp, 0, 128)
		}
	})
	b.Run("integers", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lp := Begin(buffer)
			for i := range 128 {
				lp = AppendEntry(lp, OfInt(int64(i)<<(i%50)))
			}
			Close(lp, 0, 128)
		}
	})
}

// BenchmarkValidate validates a listpack of 256 elements, as a load does for each value. Watch MB/s.
func BenchmarkValidate(b *testing.B) {
	lp := pairs(128)
	b.SetBytes(int64(len(lp)))
	for b.Loop() {
		if err := Validate(lp, true, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWalk reads each of 256 elements, forwards and backwards. Watch ns/op.
func BenchmarkWalk(b *testing.B) {
	lp := pairs(128)
	var sum int
	b.Run("forward", func(b *testing.B) {
		for b.Loop() {
			for _, e := range All(lp) {
				sum += len(e.Bytes())
			}
		}
	})
	b.Run("backward", func(b *testing.B) {
		for b.Loop() {
			for at := Last(lp); at != 0; at = Prev(lp, at) {
				sum += len(Get(lp, at).Bytes())
			}
		}
	})
}
