package str

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"spindle/engine/data/memory"
	"spindle/protocol"
)

func join(r *protocol.Reply) string {
	var b strings.Builder
	for piece := range r.Pieces {
		b.Write(piece)
	}
	return b.String()
}

// TestLentReplyStays: a later command does not change a large value that is being sent to a client. The value's memory
// is freed after it was sent.
func TestLentReplyStays(t *testing.T) {
	old := strings.Repeat("0123456789abcdef", 20_000) // 320 KB, five chunks
	for name, change := range map[string][]string{
		"APPEND":   {"APPEND", "k", "more"},
		"SETRANGE": {"SETRANGE", "k", "70000", "CHANGED"},
		"SET":      {"SET", "k", "short"},
		"SETlong":  {"SET", "k", strings.Repeat("x", len(old))},
		"GETDEL":   {"GETDEL", "k"},
	} {
		t.Run(name, func(t *testing.T) {
			core := newCore(t)
			writer, reader := core.Client(2), core.Client(2)
			core.Do(writer, "SET", "k", old)
			core.Serve(reader, [][]byte{[]byte("GETRANGE"), []byte("k"), []byte("1"), []byte("-2")})
			core.Serve(reader, [][]byte{[]byte("GET"), []byte("k")})
			if len(reader.Out.Lent) == 0 {
				t.Fatal("nothing was lent")
			}
			core.Do(writer, change...)
			writer.Out.Reset()
			want := fmt.Sprintf("$%d\r\n%s\r\n$%d\r\n%s\r\n", len(old)-2, old[1:len(old)-1], len(old), old)
			if got := join(reader.Out); got != want {
				t.Fatal("the reply has changed")
			}
			reader.Out.Reset()
			core.Do(writer, "GETDEL", "k")
			writer.Out.Reset()
		})
	}
}

// TestLongComparison: a string in several chunks is compared and hashed like the same string in one piece.
func TestLongComparison(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	for _, n := range []int{64 << 10, 64<<10 + 1, 1 << 20, 1<<20 + 12345} {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(i * i >> 8)
		}
		sum := fmt.Sprintf("%016x", xxh3.Hash(text))
		other := bytes.Clone(text)
		other[n-1]++
		core.Do(cl, "SET", "k", string(text))
		for _, c := range []struct {
			words []string
			want  string
		}{
			{[]string{"DIGEST", "k"}, "$16\r\n" + sum + "\r\n"},
			{[]string{"DELEX", "k", "IFEQ", string(other)}, ":0\r\n"},
			{[]string{"DELEX", "k", "IFNE", string(text)}, ":0\r\n"},
			{[]string{"DELEX", "k", "IFDNE", sum}, ":0\r\n"},
			{[]string{"DELEX", "k", "IFEQ", string(text)}, ":1\r\n"},
		} {
			if got := core.Do(cl, c.words...); got != c.want {
				t.Errorf("%d bytes: %s %s: %q, want %q", n, c.words[0], c.words[1], got, c.want)
			}
		}
	}
}

// TestBulkIsAdopted: a large argument in its own memory block becomes the value, and the core then owns the block.
func TestBulkIsAdopted(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	text := bytes.Repeat([]byte("spindle!"), 100_000)
	for _, c := range []struct {
		words   []string
		adopted bool
		want    string
	}{
		{[]string{"SET", "k"}, true, "+OK\r\n"},
		{[]string{"SETNX", "k"}, false, ":0\r\n"},
		{[]string{"SETNX", "fresh"}, true, ":1\r\n"},
		{[]string{"SETEX", "vol", "100"}, true, "+OK\r\n"},
		{[]string{"MSET", "a", "1", "b"}, true, "+OK\r\n"},
		{[]string{"APPEND", "c"}, true, ":800000\r\n"},
		{[]string{"APPEND", "a"}, false, ":800001\r\n"},
		{[]string{"SET", "k", "v", "EX"}, false, "-ERR value is not an integer or out of range\r\n"},
	} {
		heap := core.Space.Heap()
		ref := heap.Alloc(len(text), memory.Values)
		bulk := &protocol.Bulk{Ref: uint64(ref), Data: memory.Bytes(ref, len(text))}
		copy(bulk.Data, text)
		args := [][]byte{}
		for _, w := range c.words {
			args = append(args, []byte(w))
		}
		core.Bulk = bulk
		cl.Out.Reset()
		core.Serve(cl, append(args, bulk.Data))
		if got := join(cl.Out); got != c.want || bulk.Taken != c.adopted {
			t.Errorf("%v answers %q, taken %t; want %q, %t", c.words, got, bulk.Taken, c.want, c.adopted)
		}
		if !bulk.Taken {
			heap.Free(ref, memory.Values)
		}
	}
	for _, key := range []string{"k", "fresh", "vol", "b", "c"} {
		if got := core.Do(cl, "GET", key); got != fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) {
			t.Errorf("%s is not what arrived", key)
		}
	}
}
