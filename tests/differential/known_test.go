package differential

import (
	"slices"
	"strings"
	"testing"
)

// TestKnownDifferences: each entry excuses the difference that it names, and hardly any other.
func TestKnownDifferences(t *testing.T) {
	old, newer := oracle{version: "7.0.15"}, oracle{version: "7.4.1"}
	sorted := oracle{version: "7.4.1", sorted: true}
	const cursor, syntax, integer = "-ERR invalid cursor\r\n", "-ERR syntax error\r\n",
		"-ERR value is not an integer or out of range\r\n"
	const notNumber = "-" + notDouble + "\r\n"
	for _, c := range []struct {
		ref                oracle
		command, want, got string
		known              bool
	}{
		{old, "SSCAN k -4", "*2\r\n$1\r\n0\r\n*0\r\n", cursor, true},
		{old, "SSCAN k 4", "*2\r\n$1\r\n0\r\n*0\r\n", cursor, false},
		{newer, "SSCAN k -4", "*2\r\n$1\r\n0\r\n*0\r\n", cursor, false},
		{old, "SCAN -4", "*2\r\n$1\r\n0\r\n*0\r\n", cursor, true},
		{old, "BITCOUNT k x", ":0\r\n", integer, true},
		{old, "BITCOUNT k x", "-WRONGTYPE x\r\n", syntax, true},
		{old, "BITCOUNT k x", ":3\r\n", integer, false},
		{old, "OBJECT encoding k", "$9\r\nhashtable\r\n", "$8\r\nlistpack\r\n", true},
		{old, "OBJECT encoding k", "$6\r\nintset\r\n", "$8\r\nlistpack\r\n", false},
		{newer, "OBJECT encoding k", "$9\r\nhashtable\r\n", "$8\r\nlistpack\r\n", false},
		{newer, "OBJECT encoding k", "$8\r\nskiplist\r\n", "$8\r\nlistpack\r\n", false},
		{sorted, "OBJECT encoding k", "$8\r\nskiplist\r\n", "$8\r\nlistpack\r\n", true},
		{sorted, "OBJECT encoding k", "$8\r\nlistpack\r\n", "$8\r\nskiplist\r\n", false},
		{old, "HSCAN k 0 NOVALUES", syntax, "*2\r\n$1\r\n0\r\n*0\r\n", true},
		{old, "HSCAN k 0", syntax, "*2\r\n$1\r\n0\r\n*0\r\n", false},
		{old, "BLPOP k inf", "-ERR timeout is negative\r\n", "-ERR timeout is out of range\r\n", true},
		{old, "ZSCORE k m", "$3\r\n0.1\r\n", "$19\r\n0.10000000000000001\r\n", true},
		{old, "ZSCORE k m", "$3\r\n0.1\r\n", "$3\r\n0.2\r\n", false},
		{newer, "ZSCORE k m", "$3\r\n0.1\r\n", "$19\r\n0.10000000000000001\r\n", false},
		{old, "ZSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$3\r\n0.1\r\n",
			"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$19\r\n0.10000000000000001\r\n", true},
		{old, "ZSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$3\r\n0.1\r\n",
			"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nn\r\n$3\r\n0.1\r\n", false},
		{old, "ZSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$1\r\n0\r\n",
			"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$2\r\n-0\r\n", true},
		{newer, "ZSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$1\r\n0\r\n",
			"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$2\r\n-0\r\n", false},
		{newer, "ZSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$3\r\n1e3\r\n",
			"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$4\r\n1000\r\n", false},
		{sorted, "ZSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$3\r\n1e3\r\n",
			"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$4\r\n1000\r\n", true},
		{sorted, "SORT k", notNumber, "*1\r\n$3\r\n1.5\r\n", true},
		{sorted, "SORT k", notNumber, "*1\r\n$3\r\nabc\r\n", false},
		{sorted, "SORT k", notNumber, "*3\r\n$2\r\n1\x00\r\n$2\r\n 1\r\n$4\r\n0x1f\r\n", true},
		{sorted, "SORT k", notNumber, "*1\r\n$2\r\n1 \r\n", false},
		{sorted, "SORT k", notNumber, "*1\r\n$2\r\nx\x00\r\n", false},
		{sorted, "SORT k", "*1\r\n$3\r\n1.5\r\n", notNumber, false},
	} {
		var q queue
		if got := q.compare(c.ref, &call{args: strings.Fields(c.command)}, []byte(c.want), []byte(c.got)); got != c.known {
			t.Errorf("%s, %v: %q and %q: known %t, want %t", c.command, c.ref, c.want, c.got, got, c.known)
		}
	}
}

func TestMends(t *testing.T) {
	for _, c := range []struct{ version, call, want string }{
		{"7.4.1 sorts", "zrange k -inf +inf BYSCORE limit -2 -60", "zrange k -inf +inf BYSCORE limit 2 -60"},
		{"7.4.1", "ZRANGE k -inf +inf BYSCORE LIMIT -2 -60", "ZRANGE k -inf +inf BYSCORE LIMIT -2 -60"},
		{"7.0.15", "LREM k -9223372036854775808 x", "LREM k -9223372036854775807 x"},
		{"7.4.1", "LREM k -9223372036854775808 x", "LREM k -9223372036854775808 x"},
		{"7.0.15", "lset k -9223372036854775807 x", "lset k 1 x"},
		{"7.0.15", "ZRank k m WITHSCORE", "ZRank k m"},
		{"7.4.1 sorts", "zadd k -0 m -1 n", "zadd k 0 m -1 n"},
		{"7.0.15", "ZADD k -0 m", "ZADD k -0 m"},
		{"7.0.15", "ZADD k -0 m" + strings.Repeat(" 1 n", 128), "ZADD k 0 m" + strings.Repeat(" 1 n", 128)},
		{"7.0.15", "ZRANK k", "ZRANK k"},
		{"7.0.15", "ZRANGEBYLEX k - + LIMIT -3 5", "ZRANGEBYLEX k - + LIMIT 3 5"},
	} {
		if got := mendFor(c.version, strings.HasSuffix(c.version, " sorts"), strings.Fields(c.call)); !slices.Equal(got,
			strings.Fields(c.want)) {
			t.Errorf("%s for %s: %q", c.call, c.version, got)
		}
	}
	for call, want := range map[string]string{
		"SPOP k 3": "SCARD k", "spop k": "SCARD k", "SORT k STORE d DESC": "SORT k DESC",
		"SORT k STORE a LIMIT 0 1 store b": "SORT k LIMIT 0 1", "SORT k STORE": "SORT k", "SPOP": "SPOP",
	} {
		c := callOf(call)
		if got := c.tame().args; !slices.Equal(got, strings.Fields(want)) || !slices.Equal(c.args, strings.Fields(call)) {
			t.Errorf("%s is tamed to %q", call, got)
		}
	}
}

func callOf(text string) *call { return &call{args: strings.Fields(text)} }
