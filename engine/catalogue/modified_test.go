package catalogue

import (
	"strings"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/tests/testkit/commandtest"
)

// TestModified: under the LRM policies a command that changes a key makes the key recent. A command that only reads it,
// or changes nothing, does not.
func TestModified(t *testing.T) {
	start := []string{"SET s abc", "SET n 5", "RPUSH l a b c d", "SADD m a b c", "SADD i 1 2 3", "HSET h f 1 g 2",
		"ZADD z 1 a 2 b", "GEOADD geo 13.361389 38.115556 p", "XADD x 1-1 f v", "XGROUP CREATE x grp 0",
		"PFADD hll a b", "SETBIT bits 7 1", "HPEXPIRE h 1000000 FIELDS 1 g", "EXPIRE z 100000"}
	reads := []string{"GET s", "STRLEN s", "GETRANGE s 0 1", "MGET s n", "SUBSTR s 0 1", "GETEX s", "EXISTS s", "TYPE s",
		"TTL z", "TOUCH s l", "OBJECT ENCODING l", "LRANGE l 0 -1", "LLEN l", "LINDEX l 0", "LPOS l a", "SMEMBERS m",
		"SISMEMBER m a", "SRANDMEMBER m 2", "SINTER m i", "SORT l ALPHA", "HGET h f", "HGETALL h", "HMGET h f g",
		"HTTL h FIELDS 1 g", "HGETEX h FIELDS 1 f", "ZRANGE z 0 -1", "ZSCORE z a", "ZRANK z b", "ZCOUNT z 0 9",
		"GEOPOS geo p", "GEOSEARCH geo FROMMEMBER p BYRADIUS 1 km", "XRANGE x - +", "XLEN x", "XREAD STREAMS x 0",
		"XINFO STREAM x", "GETBIT bits 7", "BITCOUNT bits", "BITFIELD_RO bits GET u8 0", "SCAN 0", "HSCAN h 0",
		"SSCAN m 0", "ZSCAN z 0", "KEYS *", "RANDOMKEY"}
	same := []string{"SETNX s x", "SET s x NX", "SADD m a", "HSETNX h f 9", "ZADD z NX 9 a", "SREM m nosuch",
		"HDEL h nosuch", "LREM l 0 nosuch", "PERSIST s", "DEL nosuch", "PFADD hll a", "XDEL x 9-9",
		"XCFGSET x IDMP-MAXSIZE 100", "XDELEX x IDS 1 9-9", "RPUSHX nosuch x", "INCR l", "GETDEL m", "ZINCRBY z x a"}
	changes := map[string]string{"SET s x": "s", "SETRANGE s 1 x": "s", "APPEND s x": "s", "INCR n": "n",
		"INCRBYFLOAT n 1.5": "n", "GETSET s y": "s", "SETEX s 100 v": "s", "GETEX s EX 5": "s", "EXPIRE l 1000": "l",
		"PERSIST z": "z", "MSET s 1 n 2": "n", "SETBIT bits 8 1": "bits", "BITFIELD bits SET u8 0 3": "bits",
		"BITOP OR bits s s": "bits", "PFADD hll c d e": "hll", "RPUSH l e": "l", "LPUSH l e": "l", "LPOP l": "l",
		"RPOP l": "l", "LSET l 0 z": "l", "LINSERT l BEFORE b q": "l", "LREM l 1 b": "l", "LTRIM l 0 1": "l",
		"LMOVE l l LEFT RIGHT": "l", "SADD m d": "m", "SREM m a": "m", "SPOP m": "m", "SADD i 9": "i", "SADD i x": "i",
		"SMOVE m i a": "i", "SUNIONSTORE m i m": "m", "HSET h f 3": "h", "HDEL h f": "h", "HINCRBY h f 2": "h",
		"HPERSIST h FIELDS 1 g": "h", "HPEXPIRE h 5000 FIELDS 1 f": "h", "HGETDEL h FIELDS 1 f": "h",
		"HSETEX h EX 100 FIELDS 1 f 4": "h", "ZADD z 3 c": "z", "ZINCRBY z 1 a": "z", "ZREM z a": "z", "ZPOPMIN z": "z",
		"ZUNIONSTORE z 1 z": "z", "GEOADD geo 1 1 q": "geo", "XADD x 2-1 f v": "x", "XADD x IDMP p 1 * f v": "x",
		"XCFGSET x IDMP-MAXSIZE 7": "x", "XDELEX x IDS 1 1-1": "x", "XIDMPRECORD x p 1 1-1": "x",
		"GEOSEARCHSTORE z geo BYPOLYGON 3 0 0 40 0 20 80": "z", "XTRIM x MAXLEN 0": "x", "XDEL x 1-1": "x",
		"RENAME s l": "l", "COPY s t": "t", "SORT l ALPHA STORE m": "m"}
	for _, policy := range []keyspace.Policy{keyspace.AllKeysLRM, keyspace.VolatileLRM} {
		at := func(call string) (core *commandtest.Core, idle func(key string) int64) {
			settings := &Settings{}
			settings.Rows()
			core = commandtest.Start(t, Data(settings)...)
			core.Space.Policy = policy
			cl := core.Client(2)
			for _, line := range start {
				if reply := core.Do(cl, strings.Fields(line)...); reply[0] == '-' {
					t.Fatalf("%s: %s", line, reply)
				}
			}
			core.SetNow(core.Now() + 50_000)
			core.Do(cl, strings.Fields(call)...)
			return core, func(key string) int64 { return core.Space.IdleMs(core.Space.DB(0).Peek([]byte(key))) / 1000 }
		}
		for _, call := range append(reads, same...) {
			_, idle := at(call)
			for _, key := range []string{"s", "n", "l", "m", "i", "h", "z", "geo", "x", "hll", "bits"} {
				if got := idle(key); got != 50 {
					t.Errorf("%s: %s was changed %d s ago, want 50", call, key, got)
				}
			}
		}
		for call, key := range changes {
			if _, idle := at(call); idle(key) != 0 {
				t.Errorf("%s: %s was changed %d s ago, want 0", call, key, idle(key))
			}
		}
	}
}
