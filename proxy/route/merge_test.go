package route

import (
	"strings"
	"testing"

	"spindle/protocol/scan"
)

// joined feeds replies to a Gather and returns the joined reply, followed by the errors of Add.
func joined(t testing.TB, row *Row, keys [][]int32, replies ...string) string {
	t.Helper()
	var g Gather
	g.Chance = func(n int) int { return n - 1 } // the first key stays
	total := 0
	for _, k := range keys {
		total += len(k)
	}
	g.Begin(row, len(replies), total)
	complaints := ""
	for i, r := range replies {
		if g.Missing() != len(replies)-i {
			t.Fatalf("%d parts are missing after %d of %d", g.Missing(), i, len(replies))
		}
		var k []int32
		if keys != nil {
			k = keys[i]
		}
		if err := g.Add(string(rune('a'+i)), k, []byte(r)); err != nil {
			complaints += "; " + string(rune('a'+i))
		}
	}
	return string(g.Append([]byte("x"))[1:]) + complaints
}

func TestGather(t *testing.T) {
	odd := "ERR the shard's reply cannot be joined with the others: "
	for _, c := range []struct {
		name     string
		merge    Merge
		readonly bool
		replies  string // separated by spaces; | is CRLF
		want     string
	}{
		{"sum", Sum, false, ":1| :2| :0|", ":3|"},
		{"sum of large numbers", Sum, false, ":9223372036854775807| :1|", ":9223372036854775807|"},
		{"sum of one", Sum, false, ":7|", ":7|"},
		{"minimum", Min, false, ":5| :2| :9|", ":2|"},
		{"minimum of arrays", Min, false, "*2|:1|:5| *2|:0|:7|", "*2|:0|:5|"},
		{"maximum", Max, false, ":-5| :-2|", ":-2|"},
		{"and", And, false, "*3|:1|:1|:0| *3|:1|:0|:0|", "*3|:1|:0|:0|"},
		{"and of a number", And, false, ":5| :7|", ":1|"},
		{"or", Or, false, "*2|:0|:0| *2|:3|:0|", "*2|:1|:0|"},
		{"all succeeded", AllSucceeded, false, "+OK| +OK|", "+OK|"},
		{"all succeeded, a string", AllSucceeded, false, "$3|lib| $3|lib|", "$3|lib|"},
		{"one succeeded", OneSucceeded, false, "-NOTBUSY| +OK| -NOTBUSY|", "+OK|"},
		{"none succeeded", OneSucceeded, false, "-NOTBUSY_x| -NOTBUSY_x|", "-NOTBUSY_x|"},
		{"none succeeded for different reasons", OneSucceeded, false, "-A| -B|", "-A (shard a; done by 0 of 2 shards)|"},
		{"arrays", Concat, true, "*2|$1|a|$1|b| *0| *1|*1|:1|", "*3|$1|a|$1|b|*1|:1|"},
		{"sets", Concat, true, "~1|+a| ~1|+b|", "~2|+a|+b|"},
		{"maps", Concat, true, "%1|+a|:1| %1|+b|:2|", "%2|+a|:1|+b|:2|"},
		{"random key", AnyKey, true, "$-1| $1|a| $1|b|", "$1|a|"},
		{"no random key", AnyKey, true, "$-1| $-1|", "$-1|"},
		{"no random key in RESP3", AnyKey, true, "_| _|", "_|"},
		{"no script runs", FunctionStats, true, "*4|$14|running_script|$-1|$7|engines|*0| *2|$7|engines|*0|",
			"*4|$14|running_script|$-1|$7|engines|*0|"},
		{"a script runs", FunctionStats, true, "%1|$14|running_script|_| %1|$14|running_script|%1|+name|+f|",
			"%1|$14|running_script|%1|+name|+f|"},
		{"the same libraries", SameLibraries, false, "*2|*2|$12|library_name|$1|a|*2|$12|library_name|$1|b| " +
			"*2|%1|$12|library_name|$1|b|%1|$12|library_name|$1|a|", "*2|*2|$12|library_name|$1|a|*2|$12|library_name|$1|b|"},
		{"a library is missing", SameLibraries, true, "*1|*2|$12|library_name|$1|a| *0|",
			"-ERR the shards differ in the library 'a': load or delete it again (shard b)|"},
		{"a library is too many", SameLibraries, true, "*0| *1|*2|$12|library_name|$1|a|",
			"-ERR the shards differ in the library 'a': load or delete it again (shard b)|"},
		{"one fails", Sum, false, ":1| -OOM_no| :1|", "-OOM_no (shard b; done by 2 of 3 shards)|"},
		{"one fails to read", Sum, true, ":1| -LOADING_x|", "-LOADING_x (shard b)|"},
		{"all fail alike", AllSucceeded, false, "-NOPERM_x| -NOPERM_x|", "-NOPERM_x|"},
		{"all fail in different ways", AllSucceeded, false, "-NOPERM_x| -OOM_x|",
			"-NOPERM_x (shard a; done by 0 of 2 shards)|"},
		{"a long error of RESP3", AllSucceeded, false, "!5|A|B_C|", "-A  B_C|"},
		{"a status for a number", Sum, false, ":1| +OK|",
			"-" + odd + "it has \"+OK\" in the place of an integer (shard b; done by 1 of 2 shards)|; b"},
		{"too few numbers", Min, false, "*2|:1|:2| *1|:1|",
			"-" + odd + "it has 1 numbers, another shard's has 2 (shard b; done by 1 of 2 shards)|; b"},
		{"a set among arrays", Concat, true, "*0| ~0|",
			"-" + odd + "it has the type '~', another shard's has '*' (shard b)|; b"},
		{"a null array", Concat, true, "*-1| *0|", "-" + odd + "it begins with \"*-1\" (shard a)|; a"},
	} {
		var replies []string
		wire := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", "\r\n"), "_x", " x") }
		for r := range strings.SplitSeq(c.replies, " ") {
			replies = append(replies, wire(r))
		}
		row := &Row{Merge: c.merge, Readonly: c.readonly}
		if got, want := joined(t, row, nil, replies...), wire(c.want); got != want {
			t.Errorf("%s: %q\nwant %q", c.name, got, want)
		}
	}
}

func TestGatherByKey(t *testing.T) {
	row := &Row{Merge: ByKey, Readonly: true}
	keys := [][]int32{{2, 4}, {1}, {3, 5}}
	got := joined(t, row, keys, "*2\r\n$1\r\nb\r\n$-1\r\n", "*1\r\n$3\r\naaa\r\n",
		"*2\r\n|1\r\n+ttl\r\n:1\r\n$1\r\nc\r\n$0\r\n\r\n")
	if want := "*5\r\n$3\r\naaa\r\n$1\r\nb\r\n|1\r\n+ttl\r\n:1\r\n$1\r\nc\r\n$-1\r\n$0\r\n\r\n"; got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	for name, replies := range map[string][]string{
		"too few":  {"*1\r\n$1\r\nb\r\n", "*1\r\n_\r\n", "*2\r\n_\r\n_\r\n"},
		"too many": {"*3\r\n_\r\n_\r\n_\r\n", "*1\r\n_\r\n", "*2\r\n_\r\n_\r\n"},
		"a status": {"+OK\r\n", "*1\r\n_\r\n", "*2\r\n_\r\n_\r\n"},
		"half":     {"*2\r\n_\r\n$5\r\nab\r\n", "*1\r\n_\r\n", "*2\r\n_\r\n_\r\n"},
	} {
		if got := joined(t, row, keys, replies...); !strings.HasPrefix(got, "-ERR the shard's reply cannot be joined") ||
			!strings.HasSuffix(got, " (shard a)\r\n; a") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// FuzzGather: for any complete replies of shards, the joined reply is one complete reply.
func FuzzGather(f *testing.F) {
	for _, s := range []string{":1\r\n:2\r\n:3\r\n", "*1\r\n:1\r\n*1\r\n:0\r\n", "-ERR a\r\n:1\r\n",
		"*1\r\n$1\r\na\r\n*2\r\n_\r\n_\r\n", "%1\r\n$14\r\nrunning_script\r\n_\r\n%1\r\n$14\r\nrunning_script\r\n*0\r\n",
		"!3\r\nA\r\n\r\n+OK\r\n", "$-1\r\n$1\r\na\r\n", "~0\r\n~1\r\n+a\r\n"} {
		for merge := range uint8(len(mergeNames)) {
			f.Add([]byte(s), merge)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte, merge uint8) {
		row := &Row{Merge: Merge(merge % uint8(len(mergeNames)))}
		var replies []string
		var keys [][]int32
		at := int32(1)
		for len(wire) > 0 {
			var s scan.Scanner
			n, complete, err := s.Scan(wire)
			if err != nil || !complete {
				break
			}
			if s.Kind != '>' && s.Kind != '|' {
				replies = append(replies, string(wire[:n]))
				keys = append(keys, []int32{at, at + 1})
				at += 2
			}
			wire = wire[n:]
		}
		if len(replies) == 0 {
			return
		}
		got, _, _ := strings.Cut(joined(t, row, keys, replies...), "; ")
		var s scan.Scanner
		if n, complete, err := s.Scan([]byte(got)); err != nil || !complete && strings.HasSuffix(got, "\r\n") ||
			n != len(got) {
			t.Fatalf("%q becomes %q: %d bytes, complete is %t, %v", replies, got, n, complete, err)
		}
	})
}

// BenchmarkGather joins the replies to a MGET of three shards. Watch allocs/op: 0.
func BenchmarkGather(b *testing.B) {
	row := &Row{Merge: ByKey}
	keys := []int32{1, 2, 3, 4}
	reply := []byte("*4\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$-1\r\n")
	var g Gather
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		g.Begin(row, 3, 4)
		for range 3 {
			if err := g.Add("a", keys, reply); err != nil {
				b.Fatal(err)
			}
		}
		dst = g.Append(dst[:0])
	}
}
