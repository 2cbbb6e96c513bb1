package process

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// These tests replay the requests of programs with which operators watch a Redis, taken from their public sources. No
// reply may be an error. Requests to missing modules are left out, because these programs handle their refusal.

// filled returns a server with a key of each type.
func filled(t *testing.T) *testkit.Server {
	s := testkit.Start(t)
	for _, line := range []string{
		"SET string value EX 1000", "SET 日本 value", "RPUSH list a b c", "SADD set a b c", "ZADD zset 1 a 2 b 3 c",
		"HSET hash a 1 b 2 c 3", "PFADD sketch a b c", "XADD stream 1-1 a 1", "XADD stream 2-1 b 2",
		"XGROUP CREATE stream group 0", "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
		"BF.ADD filter a", "SELECT 1", "SET other value", "SELECT 0",
	} {
		s.Do(words(line)...)
	}
	return s
}

func words(line string) (args []any) {
	for w := range strings.FieldsSeq(line) {
		args = append(args, w)
	}
	return args
}

// replay sends all lines on one connection. EMPTY stands for an empty argument.
func replay(t *testing.T, s *testkit.Server, lines ...string) {
	t.Helper()
	c := s.Dial()
	for _, line := range lines {
		args := words(line)
		for i := range args {
			if args[i] == "EMPTY" {
				args[i] = ""
			}
		}
		v, err := c.Do(args...)
		if err == nil {
			err = deepError(v)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// deepError returns the first error within a reply.
func deepError(v respclient.Value) error {
	if err := v.Err(); err != nil {
		return err
	}
	for _, e := range v.Elems {
		if err := deepError(e); err != nil {
			return err
		}
	}
	return nil
}

// TestPrometheusExporter replays the requests of oliver006/redis_exporter with all its options enabled.
func TestPrometheusExporter(t *testing.T) {
	s := filled(t)
	replay(t, s,
		"PING", "CLIENT SETNAME redis_exporter", "INFO ALL", "INFO", "CONFIG GET *", "LATENCY LATEST",
		"LATENCY HISTOGRAM", "SELECT 0", "TYPE string", "MEMORY USAGE string", "PFCOUNT sketch", "STRLEN string",
		"GET string", "LLEN list", "SCARD set", "ZCARD zset", "HLEN hash", "XLEN stream", "SELECT 1", "TYPE other",
		"MEMORY USAGE other", "SELECT 0", "SCAN 0 MATCH s* COUNT 1000", "XINFO STREAM stream",
		"XINFO GROUPS stream", "XINFO CONSUMERS stream group", "SLOWLOG LEN", "SLOWLOG GET 1",
		"COMMAND INFO COMMANDLOG", "CONFIG GET commandlog-*", "COMMANDLOG LEN slow", "COMMANDLOG GET 1 large-request",
		"CLIENT LIST", "INFO MODULES",
	)
	if missing := s.Do("COMMAND", "INFO", "NOSUCH"); len(missing.Elems) != 1 || !missing.Elems[0].Null {
		t.Errorf("COMMAND INFO of what is not there: %v", missing)
	}
	// The exporter collects its groups of keys with a script: a scan, the memory of each key, and Lua patterns.
	script := `local found, groups, list = redis.call("SCAN", ARGV[1], "COUNT", ARGV[2]), {}, {}
		for _, key in ipairs(found[2]) do
			local bytes = redis.pcall("MEMORY", "USAGE", key)
			local match, group = {string.find(key, ARGV[3])}, "unclassified"
			if match[1] then group = table.concat({unpack(match, 3, #match)}, "") end
			local known = groups[group] or {0, 0}
			groups[group] = {known[1] + 1, known[2] + (type(bytes) == "number" and bytes or 0)}
		end
		for group, sums in pairs(groups) do list[#list + 1] = {group, sums[1], sums[2]} end
		return {found[1], list}`
	v := s.Do("EVAL", script, 0, 0, 1000, "^(s[a-z]*)$")
	text := fmt.Sprint(v)
	for _, group := range []string{"string", "stream", "set", "sketch", "unclassified"} {
		if !strings.Contains(text, group) {
			t.Errorf("the script found no group %s in %s", group, text)
		}
	}
	if sum := s.Do("SCRIPT", "LOAD", script).Text; s.Do("EVALSHA", sum, 0, 0, 1000, "^x").Elems[0].Text != "0" {
		t.Error("the script does not run by its sum")
	}

	cluster := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)))
	replay(t, cluster, "INFO ALL", "CLUSTER INFO", "CLUSTER NODES", "CLUSTER SHARDS", "CLUSTER SLOTS")
}

// TestRedisInsight replays the requests of RedisInsight. It connects, shows the server, and browses and changes
// keys of each type. It also uses its analysis, slow log, profiler and recommendations.
func TestRedisInsight(t *testing.T) {
	s := filled(t)
	replay(t, s,
		"CLIENT SETINFO LIB-NAME ioredis", "CLIENT SETINFO LIB-VER 5.4.1", "INFO",
		"CLIENT SETNAME redisinsight-browser-1", "SELECT 0", "COMMAND", "MODULE LIST",
		"COMMAND INFO bf.info bf.add ft.info json.get", "CONFIG GET databases", "CLIENT LIST", "DBSIZE",
		"INFO server", "INFO keyspace", "ACL WHOAMI", "PING",
	)
	replay(t, s,
		"SCAN 0 MATCH * COUNT 500", "SCAN 0 MATCH s* COUNT 500 TYPE stream", "SCAN 0 COUNT 2000 TYPE hash",
		"MEMORY USAGE list samples 0", "TYPE 日本", "TTL 日本", "EXISTS string", "GET string", "GETRANGE string 0 4",
		"SET string changed XX", "EXPIRE string 100", "PERSIST string", "STRLEN string", "RENAME string renamed",
		"RENAMENX renamed string", "OBJECT ENCODING string", "OBJECT IDLETIME string", "DUMP string",
	)
	replay(t, s,
		"HLEN hash", "HSCAN hash 0 MATCH * COUNT 500", "HGET hash a", "HSET hash d 4",
		"HEXPIRE hash 100 FIELDS 1 d", "HTTL hash FIELDS 1 d", "HPERSIST hash FIELDS 1 d", "HDEL hash d",
		"LLEN list", "LRANGE list 0 499", "LINDEX list 1", "LSET list 0 z", "LPUSHX list y", "RPUSHX list z",
		"LPOP list", "RPOP list", "LPOP list 1", "SCARD set", "SSCAN set 0 MATCH * COUNT 500", "SISMEMBER set a",
		"SADD set d", "SREM set d", "ZCARD zset", "ZSCAN zset 0 MATCH * COUNT 500", "ZRANGE zset 0 499 WITHSCORES",
		"ZREVRANGE zset 0 499 WITHSCORES", "ZADD zset XX CH 5 a", "ZSCORE zset a", "ZREM zset c",
	)
	replay(t, s,
		"XLEN stream", "XINFO STREAM stream", "XRANGE stream - + COUNT 500", "XREVRANGE stream + - COUNT 500",
		"XRANGE stream 1-1 1-1", "XADD stream * f v", "XDEL stream 2-1", "XINFO GROUPS stream",
		"XPENDING stream group", "XPENDING stream group - + 500 consumer", "XINFO CONSUMERS stream group",
		"XGROUP CREATE stream second $", "XGROUP SETID stream second 0",
		"XCLAIM stream group consumer 0 1-1 JUSTID", "XACK stream group 1-1",
		"XGROUP DELCONSUMER stream group consumer", "XGROUP DESTROY stream second",
	)
	replay(t, s,
		"SLOWLOG GET 50", "SLOWLOG LEN", "CONFIG GET slowlog*", "CONFIG SET slowlog-log-slower-than 5000",
		"CONFIG SET slowlog-max-len 100", "SLOWLOG RESET", "FUNCTION LIST WITHCODE", "FUNCTION STATS",
		"MEMORY STATS", "MEMORY DOCTOR", "INFO memory", "INFO clients", "INFO commandstats", "ACL LIST",
		"ACL GETUSER default", "COMMAND DOCS get", "CONFIG GET maxmemory-policy", "PUBSUB CHANNELS",
		"PUBSUB NUMPAT", "PUBSUB SHARDCHANNELS", "PUBLISH channel message", "SPUBLISH channel message",
		"LATENCY LATEST", "LATENCY DOCTOR", "MULTI", "MEMORY USAGE hash samples 0", "TYPE hash", "TTL hash", "EXEC",
		"UNLINK filter", "DEL list", "FLUSHDB ASYNC", "QUIT",
	)

	watcher, listener := s.Dial(), s.Dial()
	if v := watcher.Must("MONITOR"); v.Text != "OK" {
		t.Errorf("the profiler's MONITOR: %v", v)
	}
	s.Do("SET", "seen", "by the profiler")
	if v, err := watcher.Receive(); err != nil || !strings.Contains(v.Text, `"SET" "seen" "by the profiler"`) {
		t.Errorf("the profiler sees %v, %v", v, err)
	}
	for _, line := range []string{"PSUBSCRIBE *", "SUBSCRIBE channel", "UNSUBSCRIBE channel", "PUNSUBSCRIBE *"} {
		listener.Must(words(line)...)
	}

	cluster := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)))
	replay(t, cluster,
		"CLUSTER INFO", "CLUSTER NODES", "CLUSTER SHARDS", "INFO cluster", "READONLY", "READWRITE",
	)
}
