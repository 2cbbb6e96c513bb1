package lzf

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		name string
		src  []byte
		want string // "" if damaged
	}{
		{"a run", []byte("\x04hello"), "hello"},
		{"a match", []byte("\x02abc\x20\x02"), "abcabc"},
		{"a match into itself", []byte("\x00a\xe0\x01\x00"), strings.Repeat("a", 11)},
		{"nothing", nil, ""},
		{"a run cut short", []byte("\x04hell"), "damaged"},
		{"a match before the beginning", []byte("\x00a\x20\x01"), "damaged"},
		{"a match without a distance", []byte("\x00a\x20"), "damaged"},
		{"a long match without a length", []byte("\x00a\xe0"), "damaged"},
		{"too long", []byte("\x0ahello world"), "damaged"},
	} {
		dst := make([]byte, len(c.want))
		if c.want == "damaged" {
			dst = make([]byte, 7)
		}
		n, err := Decompress(dst, c.src)
		if (err != nil) != (c.want == "damaged") || err == nil && string(dst[:n]) != c.want {
			t.Errorf("%s: %q, %v", c.name, dst, err)
		}
	}
}

func TestCompressWorth(t *testing.T) {
	var e Compressor
	src := []byte(strings.Repeat("user:1000:profile;", 50))
	dst := make([]byte, len(src)-4)
	n := e.Compress(dst, src)
	if n == 0 || n > len(src)/10 {
		t.Errorf("%d of %d bytes", n, len(src))
	}
	if e.Compress(dst[:n-1], src) != 0 {
		t.Error("wrote more than there was room for")
	}
	noise := make([]byte, 1000)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	if n := e.Compress(make([]byte, len(noise)-4), noise); n != 0 {
		t.Errorf("noise became %d bytes", n)
	}
}

// TestCompressorWraps: positions grow until they overflow. A text at the overflow is still compressed.
func TestCompressorWraps(t *testing.T) {
	var e Compressor
	src := []byte(strings.Repeat("0123456789", 30))
	for _, base := range []uint32{1<<32 - 310, 1<<32 - 301, 1<<32 - 300, 1<<32 - 1, 1<<32 - 8500} {
		e.base = base
		for range 3 {
			roundTrip(t, &e, src)
		}
	}
}

func roundTrip(t *testing.T, e *Compressor, src []byte) {
	t.Helper()
	room := make([]byte, len(src)+len(src)/maxRun+8)
	n := e.Compress(room[:len(room)-4], src)
	if n == 0 && len(src) > 0 {
		t.Fatalf("%d bytes did not fit", len(src))
	}
	for _, c := range room[len(room)-4:] {
		if c != 0 {
			t.Fatal("wrote after its room")
		}
	}
	got := make([]byte, len(src))
	if size, err := Decompress(got, room[:n]); err != nil || size != len(src) || !bytes.Equal(got, src) {
		t.Fatalf("%v: %.100q became %.100q", err, src, got)
	}
}

// FuzzLZF: compressed text decompresses to itself, also after the compressor has seen other texts.
func FuzzLZF(f *testing.F) {
	f.Add([]byte("hello hello hello hello"), uint16(3))
	f.Add(bytes.Repeat([]byte{0}, 1000), uint16(300))
	var e Compressor
	f.Fuzz(func(t *testing.T, src []byte, repeat uint16) {
		roundTrip(t, &e, src)
		roundTrip(t, &e, bytes.Repeat(src, int(repeat%64)))
		dst := make([]byte, len(src)/2)
		if n := e.Compress(dst, src); n > 0 {
			got := make([]byte, len(src))
			if _, err := Decompress(got, dst[:n]); err != nil || !bytes.Equal(got, src) {
				t.Fatal(err)
			}
		}
	})
}

// FuzzGarbage: any bytes are refused or decompressed, within bounds.
func FuzzGarbage(f *testing.F) {
	f.Add([]byte("\x02abc\x20\x02"), uint16(6))
	f.Fuzz(func(t *testing.T, src []byte, n uint16) {
		room := make([]byte, int(n)+8)
		if size, err := Decompress(room[:n:n], src); size > int(n) || err != nil && size != 0 {
			t.Fatal(size, err)
		}
		for _, c := range room[n:] {
			if c != 0 {
				t.Fatal("wrote after its room")
			}
		}
	})
}

// BenchmarkLZF has short and long texts that do and do not compress. Watch MB/s.
func BenchmarkLZF(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for name, src := range map[string][]byte{
		"64": []byte(strings.Repeat("user:1000:", 7)), "4096": []byte(strings.Repeat("{\"id\":12,\"name\":\"x\"},", 200)),
		"noise": noise,
	} {
		var e Compressor
		dst := make([]byte, len(src)*2)
		n := e.Compress(dst, src)
		b.Run("compress/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				e.Compress(dst, src)
			}
		})
		b.Run("decompress/"+name, func(b *testing.B) {
			back := make([]byte, len(src))
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if size, _ := Decompress(back, dst[:n]); n > 0 && size != len(back) {
					b.Fatal("damaged")
				}
			}
		})
	}
}
