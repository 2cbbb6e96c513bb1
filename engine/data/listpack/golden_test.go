package listpack

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A golden is a listpack that redis-server made, one line of testdata/golden.jsonl. It was recorded from redis-server
// 7.4.1 with rdbcompression off. The limits of list, hash, set and zset were high enough for a listpack. commands were
// sent. elements is the reply of LRANGE, HGETALL, SMEMBERS or ZRANGE WITHSCORES. bytes is the listpack in DUMP's
// payload. In commands and elements a number n stands for n times "x", and a character for the byte of that value.
// Bytes too long to show are "sha256:" and their checksum.
type golden struct {
	Name     string
	Elements []any
	Bytes    string
}

// text returns element i as bytes.
func (g golden) text(t *testing.T, i int) []byte {
	switch e := g.Elements[i].(type) {
	case float64:
		return bytes.Repeat([]byte("x"), int(e))
	case string:
		var text []byte
		for _, r := range e {
			text = append(text, byte(r))
		}
		return text
	}
	t.Fatalf("%s: element %d is neither text nor number", g.Name, i)
	return nil
}

func TestGolden(t *testing.T) {
	file, err := os.Open("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, cases := bufio.NewScanner(file), 0
	for ; lines.Scan(); cases++ {
		var g golden
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		one, many := AppendEmpty(nil), Begin(nil)
		var want []string
		for i := range g.Elements {
			text := g.text(t, i)
			want = append(want, string(text))
			one = AppendElement(one, Of(text))
			many = AppendEntry(many, Of(text))
		}
		if many = Close(many, 0, len(want)); !bytes.Equal(one, many) {
			t.Fatalf("%s: built in two ways, they differ", g.Name)
		}
		if sum, isSum := strings.CutPrefix(g.Bytes, "sha256:"); isSum {
			if got := sha256.Sum256(one); hex.EncodeToString(got[:]) != sum {
				t.Errorf("%s: other bytes than the reference's, %x…", g.Name, one[:min(32, len(one))])
			}
			check(t, one, want)
			continue
		}
		reference, err := hex.DecodeString(g.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, reference) {
			t.Errorf("%s:\nhave %x\nwant %x", g.Name, one, reference)
		}
		check(t, reference, want)
	}
	if err := lines.Err(); err != nil || cases < 20 {
		t.Fatalf("%d cases, %v", cases, err)
	}
}
