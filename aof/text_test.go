package aof

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"spindle/protocol"
)

// tornText returns an increment of short units, with an annotation before every few of them. all has the commands of
// the units alone.
func tornText() (text, all []byte) {
	for i := range 40 {
		n := []byte(strconv.Itoa(i))
		if i%7 == 0 {
			text = appendStamp(text, 1_700_000_000+int64(i))
		}
		unit := [][][]byte{
			{[]byte("MULTI")}, {[]byte("SET"), []byte("a"), n}, {[]byte("RPUSH"), []byte("l"), n},
			{[]byte("SET"), []byte("b"), n}, {[]byte("EXEC")},
		}
		for i, args := range unit {
			text = protocol.AppendCommand(text, args)
			if 0 < i && i < 4 {
				all = protocol.AppendCommand(all, args)
			}
		}
	}
	return text, all
}

// TestTornText: sectors that a power cut has left as zeros, whole or in part, end the text. They are never skipped.
// Otherwise later commands would run without the commands that those sectors held. The test clears at least eight
// bytes, more than a value has.
func TestTornText(t *testing.T) {
	const sector = 512
	whole, all := tornText()
	var torn, read []byte
	buf := make([]byte, 2*len(whole))
	for from := range whole {
		if from%sector > sector-8 {
			continue
		}
		for to := (from/sector + 1) * sector; to < len(whole)+sector; to += sector {
			torn, read = append(torn[:0], whole...), read[:0]
			clear(torn[from:min(to, len(whole))])
			s, parts := &text{r: bytes.NewReader(torn), buf: buf}, 0
			var err error
			for err == nil {
				var batch commands
				batch, err = s.next()
				parts += len(batch) % 3
				for _, args := range batch {
					read = protocol.AppendCommand(read, args)
				}
			}
			if err == io.EOF || parts > 0 || !bytes.HasPrefix(all, read) {
				t.Fatalf("zeros from %d to %d: read %v, units %q", from, to, err, read)
			}
		}
	}
}

// TestLongArguments: an argument of more than a gigabyte, which proto-max-bulk-len may allow, does not count as damage.
// Its memory grows only with the bytes that are read.
func TestLongArguments(t *testing.T) {
	for header, want := range map[string]error{
		"$3000000000": errTruncated, "$99999999999999999999": errFormat, "$": errFormat, "$-1": errFormat,
	} {
		s := newText(strings.NewReader("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n" + header + "\r\nxx"))
		if _, err := s.next(); err != want {
			t.Errorf("%s: %v, want %v", header, err, want)
		}
	}
}

// TestDamagedEnd: a transaction whose EXEC is damaged has no end. The commands after it are not cut off like a torn
// tail: the log is refused, as in Redis. A torn transaction is cut off.
func TestDamagedEnd(t *testing.T) {
	const name = "appendonlydir/appendonly.aof.1.incr.aof"
	behind := string(protocol.AppendCommand(nil, [][]byte{[]byte("SET"), []byte("k"), []byte("v")}))
	for _, end := range []string{"EXEX", "BLPOP"} {
		for _, damaged := range []bool{true, false} {
			s, d := begin(t, EverySecond)
			s.step(1)
			s.waitFor("the disk", func() bool { return s.aof.w.unwritten() == 0 })
			f, err := d.Open(name, os.O_WRONLY|os.O_APPEND, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			text := "*1\r\n$5\r\nMULTI\r\n" + behind
			if damaged {
				text += fmt.Sprintf("*1\r\n$%d\r\n%s\r\n", len(end), end)
			}
			if _, err := io.WriteString(f, text+behind); err != nil {
				t.Fatal(err)
			}
			before, _ := d.Size(name)
			s = newServer(t, d)
			err = s.start()
			if damaged {
				if after, _ := d.Size(name); err == nil || after != before {
					t.Errorf("%s: %v, %d bytes of %d", end, err, after, before)
				}
				continue
			}
			if n, bad := s.state(); err != nil || n != 1 || bad != nil {
				t.Errorf("torn: %v, %v, %d steps", err, bad, n)
			}
		}
	}
}
