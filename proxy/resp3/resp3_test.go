package resp3

import (
	"bytes"
	"testing"

	"spindle/protocol/scan"
)

// TestForms: replies of RESP2 in their form of RESP3. TestRESP3OverRESP2 of tests/proxy compares with a server.
func TestForms(t *testing.T) {
	for _, c := range []struct{ name, call, reply, want string }{
		{"get", "GET k", "$-1|", "_|"},
		{"lrange", "LRANGE k 0 -1", "*2|$1|a|*-1|", "*2|$1|a|_|"},
		{"hgetall", "HGETALL k", "*4|$1|a|$1|b|$1|c|$-1|", "%2|$1|a|$1|b|$1|c|_|"},
		{"zadd", "ZADD k INCR 1 a", "$3|1.5|", ",1.5|"},
		{"zadd", "ZADD k 1 a", ":1|", ":1|"},
		{"zscore", "ZSCORE k a", "$3|inf|", ",inf|"},
		{"zrange", "ZRANGE withscores 0 -1", "*2|$1|a|$1|b|", "*2|$1|a|$1|b|"},
		{"zrange", "ZRANGE k 0 -1 WithScores", "*2|$1|a|$1|1|", "*1|*2|$1|a|,1|"},
		{"zunion", "ZUNION 2 a withscores", "*2|$1|a|$1|b|", "*2|$1|a|$1|b|"},
		{"zinter", "ZINTER 1 withscores WITHSCORES", "*2|$1|a|$1|1|", "*1|*2|$1|a|,1|"},
		{"zdiff", "ZDIFF 1 withscores", "*1|$1|a|", "*1|$1|a|"},
		{"zunion", "ZUNION 2 a b WEIGHTS 1 2 WithScores", "*2|$1|a|$1|1|", "*1|*2|$1|a|,1|"},
		{"zpopmin", "ZPOPMIN k", "*2|$1|a|$1|1|", "*2|$1|a|,1|"},
		{"zpopmin", "ZPOPMIN k 1", "*2|$1|a|$1|1|", "*1|*2|$1|a|,1|"},
		{"spop", "SPOP k", "$1|a|", "$1|a|"},
		{"spop", "SPOP k 1", "*1|$1|a|", "~1|$1|a|"},
		{"xread", "XREAD STREAMS k 0", "*1|*2|$1|k|*0|", "%1|$1|k|*0|"},
		{"lolwut", "LOLWUT", "$2|ab|", "=6|txt:ab|"},
		{"xinfo|stream", "XINFO STREAM k", "*4|$6|groups|:1|$1|x|$-1|", "%2|$6|groups|:1|$1|x|_|"},
		{"xinfo|stream", "XINFO STREAM k FULL", "*2|$6|groups|*1|*2|$9|consumers|*1|*2|$4|name|$1|c|",
			"%1|$6|groups|*1|%1|$9|consumers|*1|%1|$4|name|$1|c|"},
	} {
		s, known := Of(c.name, bytes.Fields([]byte(c.call)))
		if !known {
			t.Errorf("%s is not known", c.name)
		}
		got, err := s.Append(nil, lines(c.reply))
		if err != nil || !bytes.Equal(got, lines(c.want)) {
			t.Errorf("%s: %q (%v), want %q", c.call, got, err, lines(c.want))
		}
	}
}

func lines(text string) []byte { return bytes.ReplaceAll([]byte(text), []byte("|"), []byte("\r\n")) }

// TestUnlike: what is no reply of the command has no form.
func TestUnlike(t *testing.T) {
	for _, reply := range []string{"", "$3|ab|", "*3|$1|a|$1|b|$1|c|", "*2|$1|a|", "*2|$1|a|$1|b|$1|c|", "$x|",
		"%1|:1|:1|"} {
		if got, err := aMap.Append(nil, lines(reply)); err == nil {
			t.Errorf("%q becomes %q", lines(reply), got)
		}
	}
	if _, known := Of("json.get", nil); known {
		t.Error("JSON.GET is known")
	}
}

// FuzzAppend: the form of one whole reply is one whole reply, or there is an error.
func FuzzAppend(f *testing.F) {
	var names []string
	for name := range shapes {
		names = append(names, name)
	}
	f.Add(0, []byte("*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*-1\r\n"))
	f.Add(3, []byte("*4\r\n$6\r\ngroups\r\n*1\r\n*2\r\n$9\r\nconsumers\r\n*0\r\n$1\r\nx\r\n$-1\r\n"))
	f.Fuzz(func(t *testing.T, which int, reply []byte) {
		args := [][]byte{[]byte("x"), []byte("k"), []byte("0"), []byte("-1"), []byte("WITHSCORES")}
		if n, complete, err := new(scan.Scanner).Scan(reply); err != nil || !complete || n != len(reply) {
			return // the proxy cuts such a shard off before
		}
		shape := shapes[names[max(which, -which, 0)%len(names)]](args)
		formed, err := shape.Append(nil, reply)
		if err != nil {
			return
		}
		var s scan.Scanner
		if n, complete, err := s.Scan(formed); err != nil || !complete || n != len(formed) {
			t.Errorf("%q becomes %q, which ends at %d (%t, %v)", reply, formed, n, complete, err)
		}
	})
}
