package proxy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// oldTier is a tier of one redis-server that does not know HELLO, so that it speaks RESP2 only.
func oldTier(t *testing.T, args ...string) *tier {
	t.Helper()
	shard := testkit.Launch(t, testkit.Spec{Redis: true, Args: append([]string{"--cluster-enabled", "yes",
		"--cluster-port", strconv.Itoa(testkit.FreePort(t)), "--rename-command", "HELLO", ""}, args...)})
	shard.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	testkit.Until(t, testkit.Slowly(30*time.Second), "the shard serves all slots", func() error {
		return testkit.Equal(strings.Contains(shard.Do("CLUSTER", "INFO").Text, "cluster_state:ok"), true)
	})
	shards := []*testkit.Server{shard}
	return &tier{shards: shards, proxies: []*testkit.Server{startProxy(t, shards)}}
}

// forms are requests whose replies have another form in RESP3, and some whose replies have the same.
var forms = []string{
	"DEL k h s z z2 l st g", "GET k", "SET k 1", "GET k", "MGET k none", "INCRBYFLOAT k 1.5", "APPEND k x", "LCS k k IDX",
	"LCS k k", "LCS k k LEN", "SET k v GET", "GETDEL k", "GETEX k", "OBJECT ENCODING k", "OBJECT HELP", "RANDOMKEY",
	"HSET h a 1 b 2", "HGETALL h", "HGETALL none", "HMGET h a none", "HRANDFIELD h 2 WITHVALUES", "HRANDFIELD h 2",
	"HRANDFIELD none", "HINCRBYFLOAT h a 1.5", "HSCAN h 0", "HKEYS h", "HGET h none",
	"SADD s 1 2 3", "SMEMBERS s", "SINTER s s", "SUNION s {s}none", "SDIFF s {s}none", "SMEMBERS none", "SMISMEMBER s 1 9",
	"SISMEMBER s 1", "SRANDMEMBER s 3", "SRANDMEMBER none", "SPOP none", "SPOP s 3", "SPOP s 1", "SSCAN none 0",
	"ZADD z 1.5 a 2 b inf c", "ZADD z INCR 1 a", "ZADD z NX INCR 1 a", "ZINCRBY z 0.1 a", "ZSCORE z a", "ZSCORE z none",
	"ZSCORE z c", "ZMSCORE z a none c", "ZRANGE z 0 -1", "ZRANGE z 0 -1 WITHSCORES", "ZREVRANGE z 0 -1 withscores",
	"ZRANGEBYSCORE z -inf +inf WITHSCORES LIMIT 0 2", "ZREVRANGEBYSCORE z +inf 0 WITHSCORES", "ZRANGEBYLEX z - +",
	"ZUNION 1 z WITHSCORES", "ZINTER 1 z WITHSCORES", "ZDIFF 1 z WITHSCORES", "ZUNION 1 z", "ZRANK z a", "ZRANK z none",
	"ZRANDMEMBER z 9", "ZRANDMEMBER none 2 WITHSCORES", "ZRANDMEMBER none", "ZSCAN z 0",
	"ZPOPMIN z", "ZPOPMAX z 1", "ZPOPMIN none", "ZPOPMAX none 2", "ZADD z 1 a 2 b 3 c 4 d", "ZMPOP 1 z MIN COUNT 2",
	"ZMPOP 1 none MIN", "BZPOPMIN z 1", "BZPOPMAX z 1", "BZPOPMIN z 0.01", "ZADD z 1 a", "BZMPOP 1 1 z MIN",
	"BZMPOP 0.01 1 z MIN",
	"RPUSH l a b c", "LRANGE l 0 -1", "LPOP none", "LPOP none 2", "LPOP l 1", "LPOS l b", "LPOS l none", "LMPOP 1 l LEFT",
	"LMPOP 1 none LEFT", "BLPOP l 0.01", "BLPOP none 0.01", "BLMPOP 0.01 1 none LEFT", "LINDEX none 1", "SORT none",
	"GEOADD g 13.361389 38.115556 p 15.087269 37.502669 c", "GEOPOS g p none", "GEODIST g p c km", "GEOHASH g p",
	"GEODIST g p none", "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH",
	"GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC", "GEORADIUS g 15 37 200 km ASC WITHCOORD",
	"GEORADIUSBYMEMBER_RO g p 200 km ASC WITHDIST",
	"XADD st 1-1 a 1", "XADD st 2-1 b 2", "XRANGE st - +", "XREAD COUNT 5 STREAMS st 0", "XREAD STREAMS st 9",
	"XGROUP CREATE st gr 0", "XREADGROUP GROUP gr me COUNT 1 STREAMS st >", "XPENDING st gr", "XAUTOCLAIM st gr me 0 0",
	"XCLAIM st gr me 0 1-1 JUSTID", "XINFO GROUPS st", "XREAD BLOCK 10 STREAMS st $", "XLEN st", "XACK st gr 1-1",
	"EVAL return{1,false,{'a'},redis.status_reply('fine')} 0", "EVAL return{} 0", "EVAL return(nil) 0",
	"EVAL return(1==2) 0", "SCRIPT EXISTS x", "PING", "PING hello", "ECHO x", "NOSUCH x", "GET", "HGETALL l",
	"ACL GETUSER default", "ACL WHOAMI", "ACL GETUSER none",
	"FUNCTION LIST", "FUNCTION STATS", "COMMAND COUNT x", "COMMAND INFO get zadd none set",
	"COMMAND GETKEYSANDFLAGS SET a b", "COMMAND DOCS get set zadd lcs", "COMMAND INFO subscribe mset eval",
	"ZADD {h}z 1 a", "MULTI", "HGETALL h", "SMEMBERS {h}none", "ZRANGE {h}z 0 -1 WITHSCORES", "ZSCORE {h}z a",
	"GET {h}none", "INCR h", "LRANGE {h}l 0 -1", "EXEC",
	"MULTI", "EXEC", "WATCH k", "UNWATCH", "MULTI", "DISCARD", "EXEC",
	"PFADD hll a", "PFCOUNT hll", "BITFIELD bits GET u4 0", "BITFIELD bits OVERFLOW FAIL SET u1 0 2", "TYPE h", "TTL h",
	"DUMP none", "EXPIRETIME none", "KEYS h", "EXISTS h l", "DEL h l", "DBSIZE", "MEMORY USAGE none", "XINFO HELP",
}

// clocked are requests whose replies have times in them: their forms are compared alone.
var clocked = []string{"XINFO STREAM st", "XINFO STREAM st FULL", "XINFO CONSUMERS st gr", "TIME", "LOLWUT VERSION 5"}

// form writes a reply's types.
func form(v respclient.Value) string {
	if v.Null {
		return "null"
	}
	text := string(v.Kind)
	if v.Kind == '$' && len(v.Text) < 20 && strings.Trim(v.Text, "-0123456789") != "" {
		text += v.Text
	}
	for _, e := range v.Elems {
		text += " (" + form(e) + ")"
	}
	return text
}

// TestRESP3OverRESP2: clients that say HELLO 3 read from shards that speak RESP2 only what a server would say in RESP3.
func TestRESP3OverRESP2(t *testing.T) {
	t.Parallel()
	all := oldTier(t)
	one := testkit.Launch(t, testkit.Spec{Redis: true})
	through, direct := all.proxies[0].Dial(), one.Dial()
	for _, c := range []*respclient.Client{through, direct} {
		if v, err := c.Do("HELLO", 3, "SETNAME", "me"); err != nil || v.Kind != '%' {
			t.Fatalf("HELLO 3: %v (%v)", v, err)
		}
		library := luaLibrary("lib", "f")
		if v := ask(t, c, "FUNCTION", "LOAD", library); v.Text != "lib" {
			t.Fatalf("FUNCTION LOAD: %v", v)
		}
	}
	requests := slices.Concat(forms[:slices.Index(forms, "XLEN st")], clocked, forms[slices.Index(forms, "XLEN st"):])
	for _, line := range requests {
		var args []any
		for word := range strings.FieldsSeq(line) {
			args = append(args, word)
		}
		got, want := ask(t, through, args...), ask(t, direct, args...)
		if slices.Contains(clocked, line) {
			if form(got) != form(want) {
				t.Errorf("%s: %s, want %s", line, form(got), form(want))
			}
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %s %.600v\nwant %s %.600v", line, form(got), got, form(want), want)
		}
	}
	long := strings.Repeat("x", 3<<20) // its reply goes to the client in parts
	expect(t, through, "OK", "SET", "long", long)
	if v := ask(t, through, "GET", "long"); v.Kind != '$' || v.Text != long {
		t.Errorf("a long value: %c, %d bytes", v.Kind, len(v.Text))
	}
	for i := range 3000 {
		through.Send("HSET", "long hash", i, strings.Repeat("x", 100))
	}
	if err := through.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if _, err := through.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	if v := ask(t, through, "HGETALL", "long hash"); v.Kind != '%' || len(v.Elems) != 6000 {
		t.Errorf("a long hash: %c, %d elements", v.Kind, len(v.Elems))
	}
	send(t, through, "SUBSCRIBE", "news")
	hears(t, through, "[subscribe news 1]")
	expect(t, all.proxies[0].Dial(), "1", "PUBLISH", "news", "a")
	if v, err := through.Receive(); err != nil || v.Kind != '>' || show(v) != "[message news a]" {
		t.Errorf("a message: %v (%v)", v, err)
	}
	if v := ask(t, through, "CLIENT", "TRACKING", "ON"); v.Err() == nil {
		t.Errorf("CLIENT TRACKING: %v", v)
	}
	if v := ask(t, through, "DEBUG", "PROTOCOL", "map"); v.Err() == nil {
		t.Errorf("DEBUG PROTOCOL: %v", v)
	}
	caching := startProxy(t, all.shards, "--proxy-cache-size", "10mb") // a shard without pushes tells of no change
	reader := caching.Dial()
	expect(t, reader, "OK", "SET", "hot", "1")
	for range 500 {
		expect(t, reader, "1", "GET", "hot")
	}
	if hits := caching.InfoInt("cache", "proxy_cache_hits"); hits > 0 {
		t.Errorf("%d hits of the cache", hits)
	}
	two := all.proxies[0].Dial()
	for _, proto := range []any{2, 3, 2} {
		if v := ask(t, two, "HELLO", proto); v.Err() != nil {
			t.Errorf("HELLO %d: %v", proto, v)
		}
		if v, want := ask(t, two, "HGETALL", "none"), map[any]byte{2: '*', 3: '%'}[proto]; v.Kind != want {
			t.Errorf("HGETALL after HELLO %d: %c, want %c", proto, v.Kind, want)
		}
	}
}

// TestUsersOverRESP2: HELLO with a user's password is checked by a shard that does not know HELLO.
func TestUsersOverRESP2(t *testing.T) {
	t.Parallel()
	all := oldTier(t)
	p, shard := all.proxies[0], all.shards[0]
	shard.Do("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read")
	c := p.Dial()
	if v := ask(t, c, "HELLO", 3, "AUTH", "reader", "wrong"); !strings.HasPrefix(v.Text, "WRONGPASS") {
		t.Errorf("a wrong password: %v", v)
	}
	if v := ask(t, c, "HELLO", 3, "AUTH", "reader", "secret"); v.Kind != '%' {
		t.Errorf("the right password: %v", v)
	}
	if v := ask(t, c, "SET", "k", "x"); !strings.HasPrefix(v.Text, "NOPERM") {
		t.Errorf("SET by a reader: %v", v)
	}
	if v := ask(t, c, "GET", "k"); v.Kind != '_' {
		t.Errorf("GET: %v", v)
	}
	shard.Do("CONFIG", "SET", "requirepass", "front")
	stranger := p.Dial()
	testkit.Until(t, testkit.Slowly(30*time.Second), "a stranger has to give the new password", func() error {
		if v := ask(t, stranger, "HELLO", 3); !strings.HasPrefix(v.Text, "NOAUTH") {
			return fmt.Errorf("HELLO 3: %v", v)
		}
		return nil
	})
}

// TestModelOverRESP2 is TestRepliesAreThoseOfOneServer with a shard that speaks RESP2 only.
func TestModelOverRESP2(t *testing.T) {
	t.Parallel()
	play(t, oldTier(t), testkit.Launch(t, testkit.Spec{Redis: true}), 10, 400*testkit.Scale(), true)
}
