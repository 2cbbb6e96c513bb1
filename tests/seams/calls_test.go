package seams

import (
	"strings"
	"testing"

	"spindle/engine/catalogue"
	"spindle/tests/testkit"
)

// A call is a call of one command newer than Redis 7.4, or of one new option. $1, $2 and $3 stand for its keys.
type call struct {
	before  string // calls that prepare the keys, separated by "; "
	line    string
	full    bool   // the call is refused while memory is full
	touches string // the numbers of the keys that count as changed for WATCH and caches
	reads   string // the numbers of the keys that a client may cache after the call
}

const (
	twoLists   = "RPUSH $1 a b c d; RPUSH $2 x"
	twoSets    = "SADD $1 a b c; SADD $2 c d"
	twoZSets   = "ZADD $2 1 a 2 b; ZADD $3 5 b 6 c"
	twoBitmaps = "SET $2 abc; SET $3 aBd"
	entries    = "XADD $1 1-0 f a; XADD $1 2-0 f b; XADD $1 3-0 f c; XGROUP CREATE $1 g 0; " +
		"XREADGROUP GROUP g ann COUNT 2 STREAMS $1 >"
	places = "GEOADD $2 1 1 a 2 2 b 40 40 c"
)

var calls = []call{
	{before: "HSET $1 f v", line: "HSETEX $1 FIELDS 1 g w", full: true, touches: "1"},
	{line: "HSETEX $1 EX 1000 FIELDS 2 f v g w", full: true, touches: "1"},
	{before: "HSETEX $1 EX 1000 FIELDS 1 f v", line: "HSETEX $1 FXX KEEPTTL FIELDS 1 f w", full: true, touches: "1"},
	{before: "HSET $1 f v", line: "HSETEX $1 FNX FIELDS 1 f w", full: true},
	{before: "HSET $1 f v", line: "HSETEX $1 NX FIELDS 1 g w", full: true},
	{before: "HSET $1 f v", line: "HSETEX $1 XX PX 1000000 FIELDS 1 g w", full: true, touches: "1"},
	{before: "HSET $1 f v", line: "HSETEX $1 PXAT 1 FIELDS 1 f w", full: true, touches: "1"},
	{before: "HSET $1 f v g w", line: "HGETEX $1 EX 1000 FIELDS 1 f", touches: "1"},
	{before: "HSETEX $1 EX 1000 FIELDS 1 f v", line: "HGETEX $1 PERSIST FIELDS 2 f g", touches: "1"},
	{before: "HSET $1 f v g w", line: "HGETEX $1 PXAT 1 FIELDS 1 f", touches: "1"},
	{before: "HSET $1 f v", line: "HGETEX $1 FIELDS 1 f"},
	{before: "HSET $1 f v g w", line: "HGETDEL $1 FIELDS 1 f", touches: "1"},
	{before: "HSET $1 f v", line: "HGETDEL $1 FIELDS 2 f g", touches: "1"},
	{before: "HSET $1 f v", line: "HGETDEL $1 FIELDS 1 g"},

	{before: "SET $1 a", line: "SET $1 b IFEQ a EX 1000", full: true, touches: "1"},
	{before: "SET $1 a", line: "SET $1 b IFEQ x GET", full: true},
	{before: "SET $1 a", line: "SET $1 b IFNE x PXAT 4000000000000", full: true, touches: "1"},
	{line: "SET $1 b IFNE x", full: true, touches: "1"},
	{before: "SET $1 Hello_world", line: "SET $1 b IFDNE 0123456789abcdef KEEPTTL", full: true, touches: "1"},
	{before: "SET $1 Hello_world", line: "SET $1 b IFDEQ 0123456789abcdef", full: true},
	{before: "SET $1 a", line: "DELEX $1", touches: "1"},
	{before: "RPUSH $1 a", line: "DELEX $1", touches: "1"},
	{before: "SET $1 a EX 1000", line: "DELEX $1 IFEQ a", touches: "1"},
	{before: "SET $1 a", line: "DELEX $1 IFNE a"},
	{before: "SET $1 a", line: "DELEX $1 IFDNE 0123456789abcdef", touches: "1"},
	{before: "SET $1 a", line: "DELIFEQ $1 a", touches: "1"},
	{before: "SET $1 a", line: "DELIFEQ $1 b"},
	{before: "SET $1 a", line: "DIGEST $1", reads: "1"},
	{before: "SET $1 a", line: "MSETEX 2 $1 v $2 w EX 1000", full: true, touches: "12"},
	{before: "SET $1 a EX 1000; SET $2 b", line: "MSETEX 2 $1 v $2 w XX KEEPTTL", full: true, touches: "12"},
	{before: "SET $1 a", line: "MSETEX 2 $1 v $2 w NX", full: true},
	{line: "MSETEX 1 $1 v PXAT 1", full: true, touches: "1"},
	{before: "SET $1 5", line: "INCREX $1", full: true, touches: "1"},
	{before: "SET $1 5", line: "INCREX $1 BYINT 7 UBOUND 10 SATURATE EX 1000 ENX", full: true, touches: "1"},
	{before: "SET $1 5 EX 1000", line: "INCREX $1 BYFLOAT 0.1 PERSIST", full: true, touches: "1"},
	{before: "SET $1 5", line: "INCREX $1 BYINT 7 UBOUND 10", full: true},
	{line: "INCREX $1 BYINT 3 PXAT 4000000000000", full: true, touches: "1"},
	{before: twoBitmaps, line: "BITOP DIFF $1 $2 $3", full: true, touches: "1"},
	{before: twoBitmaps, line: "BITOP DIFF1 $1 $2 $3", full: true, touches: "1"},
	{before: twoBitmaps, line: "BITOP ANDOR $1 $2 $3", full: true, touches: "1"},
	{before: twoBitmaps, line: "BITOP ONE $1 $2 $3", full: true, touches: "1"},

	{before: twoLists, line: "LMOVEM $1 $2 LEFT RIGHT COUNT 2 BULK", full: true, touches: "12"},
	{before: twoLists, line: "LMOVEM $1 $2 RIGHT LEFT COUNT 9 OBO", full: true, touches: "12"},
	{before: twoLists, line: "LMOVEM $1 $2 LEFT LEFT EXACTLY 9 OBO", full: true},
	{before: twoLists, line: "BLMOVEM $1 $2 LEFT RIGHT 0 EXACTLY 3 BULK", full: true, touches: "12"},
	{before: "RPUSH $1 a b c d", line: "LMOVEM $1 $1 LEFT RIGHT COUNT 2 OBO", full: true, touches: "1"},
	{before: twoSets, line: "SUNIONCARD 2 $1 $2 APPROX", reads: "12"},
	{before: twoSets, line: "SDIFFCARD 2 $1 $2 LIMIT 1", reads: "12"},
	{before: twoZSets, line: "ZUNIONSTORE $1 2 $2 $3 AGGREGATE COUNT", full: true, touches: "1"},
	{before: twoZSets, line: "ZINTERSTORE $1 2 $2 $3 AGGREGATE COUNT", full: true, touches: "1"},
	{before: twoZSets, line: "ZUNION 2 $2 $3 AGGREGATE COUNT", reads: "23"},
	{before: twoZSets, line: "ZINTER 2 $2 $3 AGGREGATE COUNT", reads: "23"},
	{before: places, line: "GEOSEARCHSTORE $1 $2 BYPOLYGON 3 0 0 10 0 0 10", full: true, touches: "1"},
	{before: places, line: "GEOSEARCH $2 BYPOLYGON 3 0 0 10 0 0 10", reads: "2"},

	{before: entries, line: "XDELEX $1 DELREF IDS 2 1-0 9-0", touches: "1"},
	{before: entries, line: "XDELEX $1 ACKED IDS 1 1-0"},
	{before: entries, line: "XACKDEL $1 g ACKED IDS 2 1-0 2-0", touches: "1"},
	{before: entries, line: "XACKDEL $1 g IDS 1 3-0"},
	{before: entries, line: "XNACK $1 g FATAL IDS 1 1-0"},
	{before: entries, line: "XNACK $1 g FAIL IDS 1 3-0 RETRYCOUNT 2 FORCE"},
	{before: entries, line: "XADD $1 DELREF MAXLEN 2 4-0 f d", full: true, touches: "1"},
	{before: entries, line: "XTRIM $1 MAXLEN 1 KEEPREF", touches: "1"},
	{before: entries, line: "XTRIM $1 MINID 3 ACKED"},
	{before: entries, line: "XREADGROUP GROUP g bob CLAIM 0 MAXCOUNT 2 STREAMS $1 >"},
	{before: entries, line: "XREAD MAXCOUNT 1 MAXSIZE 1000 STREAMS $1 0", reads: "1"},
	{before: entries, line: "XADD $1 IDMP p m * f d", full: true, touches: "1"},
	{before: entries + "; XADD $1 IDMPAUTO p * f d", line: "XADD $1 IDMPAUTO p MAXLEN 1 * f d", full: true},
	{before: entries, line: "XCFGSET $1 IDMP-DURATION 10 IDMP-MAXSIZE 20", touches: "1"},
	{before: entries, line: "XCFGSET $1 IDMP-DURATION 100"},
	{before: entries, line: "XIDMPRECORD $1 p m 3-0", full: true, touches: "1"},
}

// newForm reports whether the call makes data that no other server can read.
func (c *call) newForm() bool {
	return strings.Contains(c.line, "IDMP")
}

// keys returns the number of keys that the call names.
func (c *call) keys() (n int) {
	for _, key := range []string{"$1", "$2", "$3"} {
		if strings.Contains(c.line, key) {
			n++
		}
	}
	return n
}

// filled returns a line with the keys name1, name2 and name3 for $1, $2 and $3. The keys share a slot if name has a
// hash tag.
func filled(line, name string) string {
	return strings.NewReplacer("$1", name+"1", "$2", name+"2", "$3", name+"3").Replace(line)
}

// words returns the arguments of a line.
func words(line string) (list []any) {
	for w := range strings.FieldsSeq(line) {
		list = append(list, w)
	}
	return list
}

// prepare creates the keys of c.
func (c *call) prepare(t *testing.T, s *testkit.Server, name string) {
	t.Helper()
	if c.before == "" {
		return
	}
	for line := range strings.SplitSeq(c.before, "; ") {
		if v := s.Do(words(filled(line, name))...); v.Err() != nil {
			t.Fatalf("%s: %v", line, v.Err())
		}
	}
}

// TestEveryNewerCommand: the list has a call of each command on data that Redis 7.4 does not have, and of each new
// option.
func TestEveryNewerCommand(t *testing.T) {
	s := testkit.Start(t)
	called := map[string]bool{}
	for _, c := range calls {
		name, _, _ := strings.Cut(c.line, " ")
		called[strings.ToLower(name)] = true
	}
	older := recorded(t)
	settings := &catalogue.Settings{}
	settings.Rows()
	for _, f := range catalogue.Data(settings) {
		for _, row := range f.Rows {
			if !older[row.Name] && !strings.HasPrefix(row.Name, "bf.") && row.HasKeys(0) && !called[row.Name] {
				t.Errorf("%s has no call", row.Name)
			}
		}
	}
	for i := range calls {
		c := &calls[i]
		s.Do("FLUSHALL")
		c.prepare(t, s, "{k}")
		if v := s.Do(words(filled(c.line, "{k}"))...); v.Err() != nil {
			t.Errorf("%s: %v", c.line, v.Err())
		}
	}
}
