package aof

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"spindle/protocol"
)

// tornText is an increment of short units. An annotation stands before every few of them.
func tornText() (text []byte, units []string) {
	for i := range 40 {
		n := []byte(strconv.Itoa(i))
		if i%7 == 0 {
			text = appendStamp(text, 1_700_000_000+int64(i))
		}
		unit := [][][]byte{
			{[]byte("MULTI")}, {[]byte("SET"), []byte("a"), n}, {[]byte("RPUSH"), []byte("l"), n}, {[]byte("SET"), []byte("b"), n},
			{[]byte("EXEC")},
		}
		for _, args := range unit {
			text = protocol.AppendCommand(text, args)
		}
		units = append(units, fmt.Sprintf("%q", unit[1:4]))
	}
	return text, units
}

// TestTornText: sectors that a power cut has left as zeros, from any byte of one on, end what is read. They are never
// skipped: what lies behind them would be taken without what lay in them. Eight zeros are more than any value here.
func TestTornText(t *testing.T) {
	const sector = 512
	whole, units := tornText()
	all := strings.Join(units, "")
	buf := make([]byte, 2*len(whole))
	for from := range whole {
		if from%sector > sector-8 {
			continue
		}
		for to := (from/sector + 1) * sector; to < len(whole)+sector; to += sector {
			torn := bytes.Clone(whole)
			clear(torn[from:min(to, len(whole))])
			s, read := &text{r: bytes.NewReader(torn), buf: buf}, ""
			var err error
			for err == nil {
				var batch commands
				batch, err = s.next()
				for i := 0; i+3 <= len(batch); i += 3 {
					read += fmt.Sprintf("%q", [][][]byte(batch[i:i+3]))
				}
			}
			if err == io.EOF || !strings.HasPrefix(all, read) {
				t.Fatalf("zeros from %d to %d: read %v, units %s", from, to, err, read)
			}
		}
	}
}

// TestLongArguments: an argument of more than a gigabyte, which proto-max-bulk-len may admit, is not taken for damage.
// Its memory is taken only as it comes.
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
