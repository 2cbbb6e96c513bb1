package diagnose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestTheTopOfAZipfLoad: Top returns the true top twenty of a Zipf load. The share of each is right within a tenth.
// Earlier hot keys have faded.
func TestTheTopOfAZipfLoad(t *testing.T) {
	const exponent, keys, samples, top = 1.2, 1_000_000, 500_000, 20
	h := NewHotKeys()
	h.Fade(1)
	for i := range 200_000 { // another load, ten minutes ago
		h.Note(&Use{Key: fmt.Appendf(nil, "old:%d", i%100), Weight: 1})
	}
	h.Fade(600e9)
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, exponent, 1, keys-1)
	truth := make([]float64, keys)
	for i := range samples {
		key := zipf.Uint64()
		truth[key]++
		h.Note(&Use{Key: fmt.Appendf(nil, "key:%d", key), Weight: 16, Bytes: 100, Write: key%2 == 0})
		if i%5_000 == 0 {
			h.Fade(600e9 + int64(i)*20_000) // ten seconds in all
		}
	}
	got := h.Top(top)
	if len(got) != top {
		t.Fatalf("%d keys", len(got))
	}
	named := map[string]HotKey{}
	for _, k := range got {
		named[k.Key] = k
	}
	for key := range top {
		k, there := named[fmt.Sprintf("key:%d", key)]
		if !there {
			t.Errorf("key:%d is not named; %v", key, got)
			continue
		}
		if want := truth[key] / samples; math.Abs(k.Share/want-1) > 0.1 {
			t.Errorf("key:%d has a share of %.4f, want %.4f", key, k.Share, want)
		}
		if wrote := k.Writes > 0; wrote != (key%2 == 0) || wrote == (k.Reads > 0) {
			t.Errorf("key:%d: %+v", key, k)
		}
	}
}

// TestRates: the rate of a key read a thousand times a second is right, however often commands are sampled.
func TestRates(t *testing.T) {
	h := NewHotKeys()
	h.Fade(1)
	for tick := range 3_000 { // five minutes, so that the weights are scaled down
		for range 10 {
			h.Note(&Use{Key: []byte("k"), DB: 3, Weight: 10, Bytes: 500, Nanos: 1000})
		}
		h.Fade(1 + int64(tick+1)*1e8)
	}
	h.shrink()
	k := h.Top(5)
	if len(k) != 1 || k[0].DB != 3 || math.Abs(k[0].Reads/1000-1) > 0.02 || k[0].Writes != 0 ||
		math.Abs(k[0].Bytes/50_000-1) > 0.02 || math.Abs(k[0].CPU/1e-4-1) > 0.02 || k[0].Share != 1 {
		t.Errorf("%+v", k)
	}
	h.Reset()
	if k := h.Top(5); len(k) != 0 {
		t.Errorf("after Reset: %v", k)
	}
}

// TestLongKeys: only a key's first bytes are stored, so memory is bounded. The empty key is counted, too.
func TestLongKeys(t *testing.T) {
	h := NewHotKeys()
	for i := range 2_000 {
		h.Note(&Use{Key: append(make([]byte, 10_000), byte(i), byte(i>>8)), Weight: 1})
	}
	h.Note(&Use{Key: []byte{}, Weight: 1e6})
	top := h.Top(2)
	if len(top) != 2 || top[0].Key != "" || len(top[1].Key) != keyKept || top[1].KeyLen != 10_002 {
		t.Errorf("%d keys, %q", len(top), top[0].Key)
	}
	most := 0
	for i := range h.sets {
		for j := range h.sets[i].hot {
			most = max(most, cap(h.sets[i].hot[j].key))
		}
	}
	if most > 2*keyKept {
		t.Errorf("%d bytes are kept for a key", most)
	}
}

// BenchmarkNote adds samples of a Zipf load. Watch ns/op, and allocs/op: 0.
func BenchmarkNote(b *testing.B) {
	h := NewHotKeys()
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 999_999)
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%d", zipf.Uint64())
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.Note(&Use{Key: keys[i%len(keys)], Weight: 1})
	}
}
