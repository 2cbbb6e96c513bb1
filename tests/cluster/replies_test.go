package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spindle/internal/setting"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// asked has requests to the nodes of a cluster, in order. Node 0 has nearly all slots, node 1 has slot 0, and node 2
// replicates node 0. Slot 5061 of {bar} is moving from 0 to 1. ID0 to ID2 stand for the IDs of the nodes. A line with +
// is only compared with 7.4.
const asked = `
2 CLUSTER MYID
0 CLUSTER REPLICAS ID2
0 CLUSTER SLAVES nobody
0 CLUSTER FAILOVER
0 CLUSTER FAILOVER FORCE
0 CLUSTER REPLICATE ID0
0 CLUSTER REPLICATE ID1
0 CLUSTER REPLICATE ID2
2 CLUSTER REPLICATE ID2
+ 0 CLUSTER MYSHARDID x
2 CLUSTER FORGET ID0
2 CLUSTER FORGET ID2
2 CLUSTER ADDSLOTS 1
2 CLUSTER SETSLOT 1 STABLE
2 CLUSTER SETSLOT x STABLE
2 CLUSTER SETSLOT 1 what
0 CLUSTER ADDSLOTS 6000
0 CLUSTER ADDSLOTS 0
0 CLUSTER SET-CONFIG-EPOCH 9
0 CLUSTER SETSLOT 6000 MIGRATING ID2
0 CLUSTER SETSLOT 6000 MIGRATING nobody
0 CLUSTER SETSLOT 6000 MIGRATING
0 CLUSTER SETSLOT 6000 IMPORTING ID1
0 CLUSTER SETSLOT 0 IMPORTING ID2
0 CLUSTER SETSLOT 0 IMPORTING ID1
0 CLUSTER SETSLOT 0 MIGRATING ID1
0 CLUSTER SETSLOT 0 NODE ID2
0 CLUSTER SETSLOT 0 STABLE
0 CLUSTER FLUSHSLOTS x
0 SET foo bar
0 SET a{bar} 1
0 SET c{bar} 1
0 WAIT 1 5000
1 GET foo
1 SET a{bar} 1
0 GET {06S}
2 GET a{bar}
2 READONLY
2 GET a{bar}
2 MGET a{bar} c{bar}
2 GET {06S}
2 SET a{bar} 1
2 EVAL "return redis.call('get','a{bar}')" 0
2 EVAL "return redis.call('set','a{bar}','1')" 0
2 EVAL "return redis.call('set','{06S}','1')" 0
2 EVAL "return redis.pcall('set','{06S}','1')" 0
2 EVAL "return redis.call('get',KEYS[1])" 1 a{bar}
2 EVAL "return redis.call('set',KEYS[1],'1')" 1 a{bar}
2 EVAL "#!lua flags=no-writes\nreturn redis.call('get',KEYS[1])" 1 a{bar}
2 EVAL "#!lua flags=no-writes\nreturn redis.call('get','{06S}')" 0
2 EVAL "#!lua\nreturn redis.call('get',KEYS[1])" 1 a{bar}
2 EVAL_RO "return redis.call('get',KEYS[1])" 1 a{bar}
2 EVAL_RO "return redis.call('set',KEYS[1],'1')" 1 a{bar}
2 MULTI
2 GET a{bar}
2 EXEC
2 MULTI
2 SET a{bar} 1
2 EXEC
2 READWRITE
2 GET a{bar}
2 EVAL "return redis.call('get','a{bar}')" 0
2 EVAL "return redis.call('set','a{bar}','1')" 0
2 EVAL_RO "return redis.call('get',KEYS[1])" 1 a{bar}
0 MSET a{bar} 1 foo 2
0 MGET a{bar} c{bar}
0 MGET foo a{bar}
0 DEL foo {06S}
0 MULTI
0 SET a{bar} 1
0 SET foo 1
0 EXEC
0 MULTI
0 SET {06S} 1
0 EXEC
0 MULTI
0 SET a{bar} 1
0 GET c{bar}
0 EXEC
0 WATCH {06S}
0 WATCH a{bar} foo
0 WATCH a{bar}
0 UNWATCH
0 EVAL "return redis.call('get','{06S}')" 0
0 EVAL "return redis.call('get',KEYS[1])" 1 {06S}
0 EVAL "return redis.call('get',KEYS[1])" 1 a{bar}
0 EVAL "return redis.call('get','c{bar}')" 1 a{bar}
0 EVAL "return redis.call('get','foo')" 1 a{bar}
+ 0 EVAL "return redis.call('mget','foo','a{bar}')" 0
0 EVAL "return 1" 2 a{bar} foo
0 EVAL "redis.call('set','c{bar}','1');return redis.call('set','foo','1')" 0
0 EVAL "#!lua\nredis.call('set','c{bar}','1');return redis.call('set','a{bar}','1')" 0
0 EVAL "#!lua\nredis.call('set','c{bar}','1');return redis.call('set','foo','1')" 0
0 EVAL "#!lua flags=allow-cross-slot-keys\nredis.call('set','c{bar}','1');return redis.call('set','foo','1')" 0
0 EVAL "#!lua flags=allow-cross-slot-keys\nreturn redis.call('set','{06S}','1')" 0
0 EVAL "#!lua flags=no-cluster\nreturn 1" 0
0 EVAL "return redis.pcall('set','{06S}','1')" 0
0 EVAL "return redis.call('cluster','reset')" 0
0 EVAL "return redis.call('asking')" 0
0 EVAL "return redis.call('readonly')" 0
0 EVAL "return redis.call('spublish','{06S}','x')" 0
0 EVAL "return redis.call('spublish','a{bar}','x')" 0
0 FUNCTION LOAD REPLACE "#!lua name=a\nredis.register_function('f',function(k)return redis.call('get',k[1])end)"
0 FUNCTION LOAD REPLACE "#!lua name=b\nredis.register_function{function_name='n',callback=function()end,flags={'no-cluster'}}"
0 FUNCTION LOAD REPLACE "#!lua name=c\nredis.register_function('two',function()redis.call('get','foo')redis.call('get','a{bar}')end)"
0 FCALL f 1 a{bar}
0 FCALL f 1 {06S}
0 FCALL f 2 a{bar} foo
0 FCALL n 0
0 FCALL two 0
0 SPUBLISH {06S} x
0 SPUBLISH a{bar} x
2 SPUBLISH a{bar} x
0 SSUBSCRIBE {06S}
0 SSUBSCRIBE a{bar} foo
0 MULTI
0 SPUBLISH {06S} x
0 EXEC
0 CLUSTER SETSLOT 5061 MIGRATING ID1
1 CLUSTER SETSLOT 5061 IMPORTING ID0
0 GET a{bar}
0 GET new{bar}
0 SET new{bar} 1
0 MGET a{bar} new{bar}
0 MGET new{bar} newer{bar}
0 EXISTS a{bar} new{bar}
0 MULTI
0 GET a{bar}
0 GET new{bar}
0 EXEC
0 EVAL "return 1" 2 a{bar} new{bar}
0 EVAL "return redis.call('get','new{bar}')" 1 a{bar}
+ 0 EVAL "return redis.call('mget','a{bar}','new{bar}')" 0
0 SPUBLISH new{bar} 1
1 GET a{bar}
1 ASKING
1 GET a{bar}
1 GET a{bar}
1 ASKING
1 MGET a{bar} b{bar}
1 ASKING
1 MGET a{bar}
1 ASKING
1 MGET a{bar} a{bar}
1 ASKING
1 SET new{bar} 1
1 ASKING
1 MSET new{bar} 1 newer{bar} 2
1 ASKING
1 SPUBLISH new{bar} 2
1 ASKING
1 PING
1 GET a{bar}
1 ASKING
1 MULTI
1 GET new{bar}
1 EXEC
1 MULTI
1 ASKING
1 GET new{bar}
1 EXEC
1 ASKING
1 GET foo
1 ASKING
1 EVAL "return redis.call('get','new{bar}')" 1 new{bar}
1 ASKING
1 EVAL "return redis.call('get',KEYS[1])" 1 new{bar}
0 CLUSTER SETSLOT 5061 NODE ID1
0 DEL a{bar} c{bar}
0 DEL a{bar}
0 DEL c{bar}
1 CLUSTER SETSLOT 5061 NODE ID1
0 CLUSTER SETSLOT 5061 NODE ID1
0 CLUSTER SETSLOT 5061 NODE ID2
0 CLUSTER COUNTKEYSINSLOT 5061
1 CLUSTER GETKEYSINSLOT 5061 1
0 GET new{bar}
1 GET new{bar}
+ 0 SORT foo BY x*
+ 0 SORT foo GET x*
0 XREAD STREAMS {06S} 0
0 XREADGROUP GROUP g c STREAMS {06S} 0
0 BLPOP {06S} 1
0 MIGRATE 127.0.0.1 1 {06S} 0 1
0 MIGRATE 127.0.0.1 1 foo 0 1000
0 MIGRATE 127.0.0.1 1 nokey 0 1
0 MIGRATE 127.0.0.1 1 foo 1 1000
+ 0 COPY foo foo DB 1
0 MOVE foo 1
0 SWAPDB 0 1
0 REPLICAOF NO ONE
2 REPLICAOF NO ONE
2 FAILOVER
2 FLUSHALL
1 CLUSTER RESET
1 CLUSTER FLUSHSLOTS
2 CLUSTER RESET SOFT x
0 CLUSTER DELSLOTS 100
0 CLUSTER DELSLOTS 100
0 SET foo bar
0 GET foo
0 SET key 1
0 EVAL "return redis.call('get','foo')" 0
2 GET foo
0 CONFIG SET cluster-allow-reads-when-down yes
0 GET foo
0 SET foo bar
0 EVAL "return redis.call('set','foo','1')" 0
0 EVAL "return redis.call('get','foo')" 0
0 SPUBLISH foo x
0 CONFIG SET cluster-allow-pubsubshard-when-down no
0 SPUBLISH foo x
0 SSUBSCRIBE foo
0 PUBLISH foo x
0 MULTI
0 SET foo bar
0 EXEC
0 CONFIG SET cluster-require-full-coverage no
`

// TestRepliesOfACluster: nodes of a spindle cluster reply like those of a redis-server cluster, with the same types.
// The requests are CLUSTER, calls whose keys are on another node or are moving, and scripts that use such keys without
// declaring them.
func TestRepliesOfACluster(t *testing.T) {
	t.Parallel()
	program := ""
	if source := os.Getenv("REDIS_SRC"); source != "" {
		program = filepath.Join(source, "src", "redis-server")
	}
	ours, theirs := answering(t, false, ""), answering(t, true, program)
	for line := range strings.SplitSeq(strings.TrimSpace(asked), "\n") {
		line, newer := strings.CutPrefix(line, "+ ")
		if newer && program == "" {
			continue
		}
		words, err := setting.SplitArgs(line)
		if err != nil {
			t.Fatal(err)
		}
		for version := range 2 {
			got, want := ours.answer(words, version), theirs.answer(words, version)
			if got != want {
				t.Errorf("%s, RESP%d:\n got %s\nwant %s", line, version+2, got, want)
			}
		}
	}
}

// askedInDatabases has requests to the nodes of a cluster with 16 databases. Its slots are those described at asked.
const askedInDatabases = `
0 SELECT 16
0 SELECT -1
0 SET a{bar} 0
0 SET b{bar} 0
0 SELECT 5
0 SET c{bar} 5
0 SET a{bar} 5
0 DBSIZE
0 CLUSTER COUNTKEYSINSLOT 5061
0 CLUSTER GETKEYSINSLOT 5061 10
0 KEYS *{bar}
0 SCAN 0 MATCH c{bar}* COUNT 100
0 SELECT 6
0 CLUSTER COUNTKEYSINSLOT 5061
0 CLUSTER GETKEYSINSLOT 5061 10
0 MOVE a{bar} 5
0 SELECT 5
0 MOVE c{bar} 6
0 MOVE c{bar} 6
0 MOVE a{bar} 0
0 MOVE a{bar} 16
0 MOVE a{bar} 5
0 COPY a{bar} a{bar} DB 6
0 COPY a{bar} d{bar} DB 0
0 COPY a{bar} other DB 6
0 COPY a{bar} e{bar} DB 16
0 SWAPDB 0 5
0 SWAPDB 0 16
0 SELECT 6
0 MGET a{bar} c{bar}
0 WAIT 1 5000
2 SELECT 6
2 GET a{bar}
2 READONLY
2 GET a{bar}
2 GET {06S}
1 SELECT 6
1 GET a{bar}
1 CLUSTER SETSLOT 5061 IMPORTING ID0
0 CLUSTER SETSLOT 5061 MIGRATING ID1
0 CLUSTER COUNTKEYSINSLOT 5061
0 GET a{bar}
0 GET c{bar}
0 GET none{bar}
0 SET none{bar} x
0 MGET a{bar} none{bar}
0 MGET a{bar} c{bar}
0 MOVE a{bar} 7
0 MOVE none{bar} 7
0 COPY a{bar} f{bar} DB 7
0 COPY a{bar} f{bar} DB 6
0 COPY a{bar} c{bar} DB 6 REPLACE
0 COPY none{bar} f{bar}
0 SELECT 0
0 GET c{bar}
0 GET b{bar}
0 MULTI
0 GET b{bar}
0 SELECT 6
0 GET c{bar}
0 EXEC
0 SELECT 0
0 MULTI
0 SELECT 6
0 GET b{bar}
0 EXEC
0 MULTI
0 MOVE b{bar} 6
0 EXEC
0 MULTI
0 SELECT 16
0 GET b{bar}
0 EXEC
0 EVAL "redis.call('select', 6) return redis.call('get', KEYS[1])" 1 c{bar}
0 MULTI
0 EVAL "return redis.call('get', 'none{bar}')" 1 b{bar}
0 EXEC
0 EVAL "redis.call('select', 6) return redis.call('get', KEYS[1])" 1 a{bar}
0 SELECT 0
1 SELECT 0
1 GET a{bar}
1 ASKING
1 GET a{bar}
1 ASKING
1 MOVE a{bar} 6
1 ASKING
1 COPY a{bar} a{bar} DB 6
1 ASKING
1 SET x{bar} 1
1 ASKING
1 MGET x{bar} y{bar}
1 SELECT 6
1 ASKING
1 GET x{bar}
1 ASKING
1 MULTI
1 SELECT 0
1 GET x{bar}
1 EXEC
0 CLUSTER SETSLOT 5061 NODE ID1
0 CLUSTER FLUSHSLOTS
0 CLUSTER RESET
0 SELECT 6
0 MIGRATE 127.0.0.1 PORT1 "" 6 5000 KEYS a{bar} c{bar}
0 MIGRATE 127.0.0.1 PORT1 none{bar} 6 5000
0 MIGRATE 127.0.0.1 PORT1 d{bar} 16 5000
0 SELECT 0
0 CLUSTER COUNTKEYSINSLOT 5061
0 CLUSTER SETSLOT 5061 NODE ID1
0 MIGRATE 127.0.0.1 PORT1 "" 0 5000 KEYS a{bar} b{bar} d{bar}
0 CLUSTER SETSLOT 5061 NODE ID1
0 SELECT 5
0 MIGRATE 127.0.0.1 PORT1 "" 5 5000 KEYS a{bar} b{bar} d{bar}
0 CLUSTER SETSLOT 5061 NODE ID1
1 CLUSTER SETSLOT 5061 NODE ID1
1 CLUSTER COUNTKEYSINSLOT 5061
1 SELECT 6
1 CLUSTER COUNTKEYSINSLOT 5061
1 MGET a{bar} c{bar}
0 SELECT 3
0 SET foo 3
0 SELECT 0
0 FLUSHDB
0 CLUSTER FLUSHSLOTS
0 CLUSTER RESET
0 FLUSHALL
0 SELECT 3
0 DBSIZE
0 WAIT 1 5000
2 SELECT 3
2 DBSIZE
`

// nonLocal matches the error of a script that names a key of another node.
var nonLocal = regexp.MustCompile(`(?i)attempted to access a non local key in a cluster node`)

// TestRepliesWithDatabases: nodes with several databases reply like those of Valkey 9.
func TestRepliesWithDatabases(t *testing.T) {
	t.Parallel()
	program := testkit.Kind(t, testkit.Valkey9).Program
	settings := []string{"--cluster-databases", "16"}
	ours, theirs := answering(t, false, "", settings...), answering(t, true, program, settings...)
	for line := range strings.SplitSeq(strings.TrimSpace(askedInDatabases), "\n") {
		words, err := setting.SplitArgs(line)
		if err != nil {
			t.Fatal(err)
		}
		got, want := ours.answer(words, 0), theirs.answer(words, 0)
		if nonLocal.MatchString(got) && nonLocal.MatchString(want) {
			continue // Valkey uses other words
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}

// replying is a cluster whose nodes get requests, with one connection per node and protocol.
type replying struct {
	t       *testing.T
	nodes   []*testkit.Server
	clients [][2]*respclient.Client
	names   []string // alternately a text in replies and its replacement
}

// answering makes the cluster for a replying.
func answering(t *testing.T, redis bool, program string, settings ...string) *replying {
	t.Helper()
	var nodes []*testkit.Server
	for range 4 {
		nodes = append(nodes, testkit.Launch(t, testkit.Spec{Redis: redis, Program: program, Args: append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs), "--cluster-port",
			strconv.Itoa(testkit.FreePort(t))}, settings...)}))
	}
	v := views{t: t, a: nodes[1], b: nodes[0]}
	v.form(nodes[2], nodes[3])
	r := &replying{t: t, nodes: nodes}
	for i, n := range nodes {
		number := strconv.Itoa(i)
		r.names = append(r.names, n.Do("CLUSTER", "MYID").Text, "ID"+number, strconv.Itoa(n.Port), "PORT"+number)
		r.clients = append(r.clients, [2]*respclient.Client{r.dial(i, 0), r.dial(i, 1)})
	}
	return r
}

// dial connects to a node. Version 0 is RESP2, and 1 is RESP3.
func (r *replying) dial(node, version int) *respclient.Client {
	c := r.nodes[node].Dial()
	c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	if _, err := c.Do("HELLO", version+2); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// script matches a script's name in an error.
var script = regexp.MustCompile(`script: \w+`)

// answer sends the request of a line to its node and returns the reply. A subscription ends after its reply.
func (r *replying) answer(words []string, version int) string {
	node, err := strconv.Atoi(words[0])
	if err != nil {
		r.t.Fatal(err)
	}
	var args []any
	for _, word := range words[1:] {
		if len(word) == 3 && word[:2] == "ID" {
			word = r.nodes[word[2]-'0'].Do("CLUSTER", "MYID").Text
		}
		if len(word) == 5 && word[:4] == "PORT" {
			word = strconv.Itoa(r.nodes[word[4]-'0'].Port)
		}
		args = append(args, word)
	}
	client := r.clients[node][version]
	if words[1] == "SSUBSCRIBE" {
		client = r.dial(node, version)
		defer client.Close()
	}
	reply, err := client.Do(args...)
	if err != nil {
		r.t.Fatalf("%v: %v", words, err)
	}
	return script.ReplaceAllString(strings.NewReplacer(r.names...).Replace(written(reply)), "script")
}

// TestDebugReachesTheNode: DEBUG's subcommands for the cluster bus act on the node.
func TestDebugReachesTheNode(t *testing.T) {
	n := node(t, false, "--enable-debug-command", "yes")
	if v, err := n.Ask("DEBUG", "CLUSTERLINK", "KILL", "ALL", "absent"); err != nil ||
		!strings.Contains(v.Text, "Unknown node absent") {
		t.Errorf("DEBUG CLUSTERLINK KILL: %v %v", v, err)
	}
}
