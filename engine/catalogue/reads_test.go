package catalogue

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"spindle/engine/command"
)

// TestReads: a call's arguments tell, before it runs, how many elements it reads at most.
func TestReads(t *testing.T) {
	const size = 20_000
	all, err := command.NewCatalogue(Rows()...)
	if err != nil {
		t.Fatal(err)
	}
	find := func(args [][]byte) *command.Spec {
		spec, err := all.Resolve(all.Lookup(args[0]), args)
		if spec == nil {
			t.Fatalf("%s: %v", args, err)
		}
		return spec
	}
	for line, want := range map[string]int64{
		"scan 0": 10, "scan 0 MATCH COUNT count 30": 30, "scan 0 COUNT 9999999": size, "scan 0 COUNT x": 10,
		"hscan COUNT 15000": 10, "hscan h 0 COUNT 100 NOVALUES": 100, "hscan h 0 COUNT 5 COUNT 15000": 15_000,
		"sscan s 0 COUNT 15000": 15_000, "zscan z 0 COUNT 15000": 15_000, "zscan z 0": 10,
		"hrandfield h": 1, "hrandfield h 15000 WITHVALUES": 15_000, "hrandfield h 9999999": size,
		"srandmember s -9999999": 9_999_999, "zrandmember z -9223372036854775808": math.MaxInt64,
		"lrange l 0 -1": size, "lrange l 0 9": 10, "lrange l -10 -1": 10, "lrange l 19990 99999999": 10,
		"lrange l 5 2": 0, "lrange l 30000 40000": 0, "lrange l -9223372036854775808 9223372036854775807": size,
		"lrange l 9223372036854775807 -9223372036854775808": 0, "lrange l 0 x": 0, "lrange l 0": 0,
		"zrange z 0 -1": size, "zrange z 5 14 REV WITHSCORES": 10, "zrevrange z 0 99": 100,
		"zrange z -inf +inf BYSCORE": size, "zrange z - + BYLEX LIMIT 10000 20": 20,
		"zrangebyscore z -inf +inf": size, "zrangebyscore z -inf +inf LIMIT 0 7": 7,
		"zrevrangebyscore z +inf -inf LIMIT 0 -1": size, "zrangebylex z - +": size, "zrevrangebylex z + - LIMIT 0 9": 9,
		"xrange x - +": size, "xrange COUNT 5 9": size, "xrange x - + COUNT 10": 10, "xrevrange x + - COUNT 15000": 15_000,
		"xread STREAMS x 0": size, "xread COUNT 10 STREAMS x 0": 10, "xread COUNT 0 STREAMS x 0": size,
		"xinfo|stream x": 10, "xinfo|stream x FULL COUNT 0": size, "lpos l v": size, "lpos l v MAXLEN 100": 100,
		"memory|usage h": 5, "memory|usage h SAMPLES 0": size,
	} {
		name, rest, _ := strings.Cut(line, " ")
		var args [][]byte
		for _, word := range append(strings.Split(name, "|"), strings.Fields(rest)...) {
			args = append(args, []byte(word))
		}
		if got := find(args).Reads.Most(args, size); got != want {
			t.Errorf("%s: %d elements, want %d", line, got, want)
		}
	}
	for _, line := range []string{"keys *", "hgetall h", "hkeys h", "hvals h", "smembers s", "sinter s", "sunion s",
		"sdiff s", "sintercard 1 s", "zinter 1 z", "zintercard 1 z", "zunion 1 z", "zdiff 1 z", "sort_ro l"} {
		words := bytes.Fields([]byte(line))
		if got := find(words).Reads.Most(words, size); got != size {
			t.Errorf("%s: %d elements, want all", line, got)
		}
	}
	for _, row := range all.All() {
		if row.Reads.Most == nil {
			continue
		}
		if got := row.Reads.Most([][]byte{[]byte(row.Name)}, 0); got != 0 || row.Reads.Use == "" {
			t.Errorf("%s of a key that is not there: %d elements, %q", row.Full, got, row.Reads.Use)
		}
	}
}
