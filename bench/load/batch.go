package load

import (
	"fmt"
	"strconv"
	"strings"
)

// A batch is the bytes of some requests, complete except for a few digits.
//
// load.B1. ends[i] is the end of request i, so that a run may stop in the middle of a batch.
// load.B2. patches are in byte order; all patches after a key's, up to the next key's, belong to that key.
type batch struct {
	bytes   []byte
	ends    []int
	patches []patch
}

// A patch is a place in a batch. Its digits are written before each sending of the batch.
type patch struct {
	at   int32
	kind patchKind
}

type patchKind uint8

const (
	patchKey      patchKind = iota // 12 digits of the next key or member
	patchValue                     // 12 digits of the last key
	patchNumber                    // the same without a leading zero
	patchDeadline                  // 13 digits
)

const digits = 12

// variants returns the batches that the connections send in turn. There are enough batches for the exact proportions of
// the mix, but at most 64.
func variants(spec *Spec) ([]*batch, error) {
	order := tile(spec.Mix)
	count := 1
	for count < 64 && count*spec.Pipeline%len(order) != 0 {
		count++
	}
	all := make([]*batch, count)
	at := 0
	for v := range all {
		b := &batch{}
		for range spec.Pipeline {
			if err := b.add(order[at%len(order)]); err != nil {
				return nil, err
			}
			at++
		}
		all[v] = b
	}
	return all, nil
}

// tile lists every command as many times as its weight, spread evenly: weights 1 and 3 give b b a b.
func tile(mix []Command) []Command {
	total := 0
	for _, c := range mix {
		total += c.Weight
	}
	credit := make([]int, len(mix))
	order := make([]Command, 0, total)
	for range total {
		best := 0
		for i := range mix {
			if credit[i] += mix[i].Weight; credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= total
		order = append(order, mix[best])
	}
	return order
}

// add appends a request to the batch.
func (b *batch) add(c Command) error {
	b.bytes = fmt.Appendf(b.bytes, "*%d\r\n", len(c.Words))
	for _, word := range c.Words {
		if err := b.addWord(word); err != nil {
			return fmt.Errorf("%q: %w", word, err)
		}
	}
	b.ends = append(b.ends, len(b.bytes))
	return nil
}

func (b *batch) addWord(word string) error {
	prefix, rest, found := strings.Cut(word, "{")
	if !found {
		b.bytes = fmt.Appendf(b.bytes, "$%d\r\n%s\r\n", len(word), word)
		return nil
	}
	name, suffix, closed := strings.Cut(rest, "}")
	if !closed || strings.Contains(suffix, "{") {
		return fmt.Errorf("a word has one {placeholder}")
	}
	name, size, _ := strings.Cut(name, ":")
	body, skip, kind, patched := []byte(nil), 0, patchKey, true
	switch name {
	case "key":
		body, skip = append([]byte("key:"), zeros[:digits]...), 4
	case "member":
		body = []byte(zeros[:digits])
	case "number":
		body, kind = []byte(zeros[:digits]), patchNumber
	case "deadline":
		body, kind = []byte(zeros[:digits+1]), patchDeadline
	case "value":
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 {
			return fmt.Errorf("no size")
		}
		body, skip, kind, patched = filler(n), 1, patchValue, n > digits
	default:
		return fmt.Errorf("no placeholder is called %q", name)
	}
	b.bytes = fmt.Appendf(b.bytes, "$%d\r\n%s", len(prefix)+len(body)+len(suffix), prefix)
	if patched {
		b.patches = append(b.patches, patch{int32(len(b.bytes) + skip), kind})
	}
	b.bytes = append(append(append(b.bytes, body...), suffix...), '\r', '\n')
	return nil
}

const zeros = "0000000000000000"

// filler returns n incompressible bytes: letters of a fixed random sequence.
func filler(n int) []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	body := make([]byte, n)
	state := uint64(0x2545F4914F6CDD1D)
	for i := range body {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		body[i] = letters[state>>58]
	}
	if n > 0 {
		body[0] = 'v'
	}
	return body
}

// fill writes the digits for the next sending of the batch.
func (b *batch) fill(keys *chooser, deadlines *Deadlines) {
	key := uint64(0)
	for _, p := range b.patches {
		at := b.bytes[p.at:]
		switch p.kind {
		case patchKey:
			key = keys.key()
			writeDigits(at, key)
		case patchValue:
			writeDigits(at, key)
		case patchNumber:
			writeDigits(at, 100_000_000_000+key%900_000_000_000)
		case patchDeadline:
			deadline := uint64(deadlines.FirstMs)
			if deadlines.SpreadMs > 0 {
				deadline += key % uint64(deadlines.SpreadMs)
			}
			at[0] = '0' + byte(deadline/1e12%10)
			writeDigits(at[1:], deadline%1e12)
		}
	}
}

// clone returns a copy of b with its own bytes.
func (b *batch) clone() *batch {
	return &batch{bytes: append([]byte(nil), b.bytes...), ends: b.ends, patches: b.patches}
}

var fourDigits = func() (table [10_000][4]byte) {
	for i := range table {
		copy(table[i][:], fmt.Sprintf("%04d", i))
	}
	return table
}()

// writeDigits writes n as 12 digits.
func writeDigits(dst []byte, n uint64) {
	_ = dst[digits-1]
	high, low := n/1e8, n%1e8
	copy(dst, fourDigits[high%1e4][:])
	copy(dst[4:], fourDigits[low/1e4][:])
	copy(dst[8:], fourDigits[low%1e4][:])
}
