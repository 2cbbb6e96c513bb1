package slotmove

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"spindle/aof"
	"spindle/engine"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/internal/slots"
	"spindle/protocol"
)

// FuzzMessage: whatever a peer sends, readMessage ends, and keeps no more than its limits. The words are the same
// however the network cuts the bytes.
func FuzzMessage(f *testing.F) {
	f.Add([]byte("*3\r\n$7\r\nCLUSTER\r\n$9\r\nSYNCSLOTS\r\n$3\r\nACK\r\n"))
	f.Add([]byte("*1\r\n$99999\r\n"))
	f.Add([]byte("-ERR no\r\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		whole, err := readMessage(bufio.NewReader(bytes.NewReader(p)))
		cut, errOfCut := readMessage(bufio.NewReader(iotest.OneByteReader(bytes.NewReader(p))))
		if strings.Join(whole, "|") != strings.Join(cut, "|") || (err == nil) != (errOfCut == nil) {
			t.Errorf("whole %q, %v; cut %q, %v", whole, err, cut, errOfCut)
		}
		if len(whole) > wordsMost {
			t.Errorf("%d words", len(whole))
		}
		for _, word := range whole {
			if len(word) > wordMost {
				t.Errorf("a word of %d bytes", len(word))
			}
		}
	})
}

// TestMessages: each message is read as it was written.
func TestMessages(t *testing.T) {
	for _, word := range []string{"ACK", "REQUEST-PAUSE", "FAILOVER-GRANTED"} {
		words, err := readMessage(bufio.NewReader(bytes.NewReader(appendMessage(nil, word))))
		if err != nil || strings.Join(words, " ") != "CLUSTER SYNCSLOTS "+word {
			t.Errorf("%s: %q, %v", word, words, err)
		}
	}
}

// TestSplitCommand: the arguments of an effect are those that were encoded.
func TestSplitCommand(t *testing.T) {
	want := [][]byte{[]byte("SET"), {}, []byte("a\r\nb"), bytes.Repeat([]byte("x"), 1000)}
	got := splitCommand(nil, protocol.AppendCommand(nil, want))
	if len(got) != len(want) {
		t.Fatalf("%d arguments, not %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("argument %d is %q, not %q", i, got[i], want[i])
		}
	}
}

// newSender returns a wire of a node of which no goroutine runs. All slots have begun, and what it sends is dropped.
func newSender(tb testing.TB) *wire {
	w := newWire(newNode(tb).mover, nil)
	w.out = bufio.NewWriterSize(io.Discard, 64<<10)
	for i := range w.sent {
		w.sent[i] = true
	}
	return w
}

// change is one change of a key, for Append.
func change(value string) []engine.Effect {
	return []engine.Effect{{Command: protocol.AppendCommand(nil, [][]byte{[]byte("SET"), []byte("key"), []byte(value)})}}
}

// TestTurnsAllocateNoBlocks: while the sender keeps up, the blocks that it has written take the next changes. All
// changes are sent in order, also those that are longer than a block.
func TestTurnsAllocateNoBlocks(t *testing.T) {
	w := newSender(t)
	var sent bytes.Buffer
	w.out = bufio.NewWriter(&sent)
	send := func() {
		if err := w.drain(); err != nil {
			t.Fatal(err)
		}
	}
	send()
	var want []byte
	blocks := map[*byte]bool{}
	for i := range 50 {
		value := strings.Repeat(string(rune('a'+i%26)), 10_000*(1+i%11)) // of up to 110,000 bytes
		w.m.core.Do(func() { w.Append(change(value)) })
		for _, b := range w.changes.list {
			if cap(b) == pieceBytes {
				blocks[&b[:1][0]] = true
			}
		}
		want = append(want, protocol.AppendCommand(nil, [][]byte{[]byte("SELECT"), []byte("0")})...)
		want = append(want, change(value)[0].Command...)
		send()
	}
	if !bytes.Equal(sent.Bytes(), want) {
		t.Errorf("%d bytes were sent, not the %d that were handed over", sent.Len(), len(want))
	}
	if len(blocks) > spareLeast {
		t.Errorf("%d blocks were used, not %d", len(blocks), spareLeast)
	}
}

// BenchmarkAppend is the part of a turn that hands a move's sender one change, after the sender has written what came
// before. Watch the time: a turn that allocates a block takes 10 to 50 µs more.
func BenchmarkAppend(b *testing.B) {
	w := newSender(b)
	unit := change("value")
	took := time.Duration(0)
	for b.Loop() {
		w.m.core.Do(func() {
			began := time.Now()
			w.Append(unit)
			took += time.Since(began)
		})
		if err := w.drain(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/turn")
}

// TestRanges: the text of ranges, their slots and what they share.
func TestRanges(t *testing.T) {
	r := ranges{{0, 2}, {7, 7}}
	if r.String() != "0-2 7-7" || len(r.list()) != 4 || !r.has(7) || r.has(3) {
		t.Errorf("%s has %d slots", r, len(r.list()))
	}
	if !r.overlap(ranges{{2, 6}}) || r.overlap(ranges{{3, 6}, {8, 9}}) {
		t.Error("a wrong overlap")
	}
}

// TestKeyEndsWhileItsSlotIsCopied: the copying goroutine reads a view late. A key that was valid in the view's moment
// is copied. A later command may have given it another deadline, and the target gets that command.
func TestKeyEndsWhileItsSlotIsCopied(t *testing.T) {
	heap, err := memory.New(memory.Options{Databases: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	k := keyspace.New(heap, keyspace.Options{Databases: 1, StartMs: 1000, Slots: true})
	k.DB(0).SetString([]byte("over"), []byte("v"), 1999)
	k.DB(0).SetString([]byte("valid"), []byte("v"), 2001)
	view := k.Freeze()
	defer view.Close()
	var out bytes.Buffer
	w := newWire(nil, nil)
	list := []uint16{slots.Of([]byte("over")), slots.Of([]byte("valid"))}
	if err := w.copyGroup(aof.NewEncoder(bufio.NewWriter(&out), 0), view, list, 2000); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "valid") || strings.Contains(text, "over") {
		t.Errorf("the copy is %q", text)
	}
}
