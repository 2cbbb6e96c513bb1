package aof

import (
	"testing"

	"spindle/tests/testkit"
)

// newer has calls of commands and options that Redis 7 does not know, and before them the calls that make their keys.
var newer = []string{
	"HSET h a 1 b 2 c 3", "HGETDEL h FIELDS 2 a none", "HSETEX h FNX FIELDS 2 d 4 e 5", "HSETEX h FXX FIELDS 1 d 6",
	"HSETEX h KEEPTTL FIELDS 1 b 7", "HGETEX h FIELDS 1 b", "HSETEX h PXAT 1 FIELDS 1 gone 1",
	"HSETEX h2 NX FIELDS 1 a 1", "HGETEX h2 PXAT 1 FIELDS 1 a",
	"SET s a", "SET s b IFEQ a", "SET s c IFNE a EX 1000000", "SET s d IFEQ c KEEPTTL", "SET s e IFEQ x",
	"SET s2 v IFDNE 0123456789abcdef", "SET s3 v", "DELEX s3 IFEQ v", "SET s4 v", "DELIFEQ s4 v", "SET s5 v", "DELEX s5",
	"MSETEX 2 m1 a m2 b", "MSETEX 2 m1 c m2 d XX PXAT 4102444800000", "MSETEX 2 m1 e m3 f KEEPTTL", "MSETEX 1 m1 x NX",
	"INCREX n BYINT 5", "INCREX n BYINT 50 UBOUND 20 SATURATE EX 1000000 ENX", "INCREX n",
	"INCREX n2 BYFLOAT 0.1 EX 1000000", "INCREX n2 BYFLOAT 0.25", "INCREX n2 PERSIST BYFLOAT 1",
	"SET b1 abcdefg", "SET b2 xyz", "SET b3 ~~~~~~~~~~", "SETBIT b4 3000000 1",
	"BITOP DIFF d1 b1 b2 b3", "BITOP DIFF1 d2 b1 b2 b3", "BITOP ANDOR d3 b1 b2 b3", "BITOP ONE d4 b1 b2 b3 b4",
	"BITOP DIFF b1 b1 b2", "BITOP DIFF d1 none none",
	"ZADD z1 1 a 2 b 3 7", "ZADD z2 2 a 5 c", "ZUNIONSTORE z3 2 z1 z2 AGGREGATE COUNT",
	"ZINTERSTORE z4 2 z1 z2 WEIGHTS 2 0.5 AGGREGATE COUNT", "ZUNIONSTORE z1 2 z1 z2 AGGREGATE COUNT",
	"RPUSH l1 1 2 3 4 5 6 seven", "LMOVEM l1 l2 LEFT LEFT COUNT 2 OBO", "LMOVEM l1 l2 RIGHT LEFT EXACTLY 2 BULK",
	"LMOVEM l1 l1 LEFT RIGHT COUNT 2 BULK", "PEXPIREAT l1 4102444800000", "LMOVEM l1 l1 LEFT LEFT COUNT 9 OBO",
	"BLMOVEM l2 l3 LEFT RIGHT 0 COUNT 2 OBO", "LMOVEM l2 l3 LEFT RIGHT COUNT 9 BULK",
}

// newerFields has calls with deadlines of fields, which Redis has since 7.4.
var newerFields = []string{
	"HSETEX t PXAT 4102444800000 FIELDS 3 a 1 b 2 c 3", "HSETEX t KEEPTTL FIELDS 2 a 4 d 5",
	"HGETEX t PXAT 4102444801000 FIELDS 2 d none", "HGETEX t PERSIST FIELDS 1 b", "HSETEX t FXX EX 1000000 FIELDS 1 c 6",
	"HGETDEL t FIELDS 1 a", "HSETEX t2 FNX PXAT 4102444800000 FIELDS 1 a 1", "HSETEX t2 FIELDS 1 a 2",
}

// TestNewerCommands: Redis 7 loads spindle's log of commands that Redis 7 does not know, and gets the same data set.
func TestNewerCommands(t *testing.T) {
	for _, p := range testkit.Peers(t) {
		t.Run(p.Name, func(t *testing.T) {
			calls := newer
			if p.FieldDeadlines() && !p.Valkey() { // Valkey's digests leave out deadlines of fields
				calls = append(calls[:len(calls):len(calls)], newerFields...)
			}
			s := testkit.Start(t, "--appendonly", "yes", "--enable-debug-command", "yes")
			for _, line := range calls {
				s.Do(words(line)...)
			}
			s.Do("MULTI")
			s.Do("MSETEX", 2, "e1", "a", "e2", "b", "EX", 1000000)
			s.Do("HSETEX", "e3", "FIELDS", 1, "a", "b")
			s.Do("EXEC")
			s.Do("EVAL", "return redis.call('INCREX', KEYS[1], 'BYINT', 3)", 1, "script")
			want := s.Do("DEBUG", "DIGEST").Text
			s.Do("DEBUG", "LOADAOF")
			if got := s.Do("DEBUG", "DIGEST").Text; got != want {
				t.Errorf("its own log gives %s, want %s", got, want)
			}
			keys := s.Do("DBSIZE").Int
			s.Terminate()
			r := testkit.Launch(t, testkit.Spec{Redis: true, Program: p.Program, Dir: s.Dir,
				Args: []string{"--appendonly", "yes", "--enable-debug-command", "yes"}})
			if got := r.Do("DEBUG", "DIGEST").Text; got != want {
				t.Errorf("it has %d keys of %d, and another digest", r.Do("DBSIZE").Int, keys)
			}
		})
	}
}
