package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestUsers: the shards check AUTH, HELLO and rights. Each client's requests run under that client's user.
func TestUsers(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 0, 1, "--proxy-refresh-interval", "300")
			for _, s := range all.shards {
				s.Do("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+auth", "+hello", "+ping", "+acl|whoami")
				s.Do("ACL", "SETUSER", "writer", "on", ">word", "~w:*", "+@all")
			}
			c := all.proxies[0].Dial()
			says := func(want string, args ...any) {
				t.Helper()
				if v := ask(t, c, args...); v.Kind != '%' && v.Text != want && !strings.HasPrefix(v.Text, want+" ") {
					t.Errorf("%v: %v, want %s", args, v, want)
				}
			}
			says("OK", "SET", "w:a", "1")
			says("WRONGPASS", "AUTH", "reader", "wrong")
			says("OK", "SET", "w:b", "1") // a failed AUTH changes nothing
			says("OK", "AUTH", "reader", "secret")
			says("1", "GET", "w:a")
			says("NOPERM", "SET", "w:a", "2")
			says("OK", "AUTH", "writer", "word")
			says("OK", "SET", "w:a", "3")
			says("NOPERM", "SET", "other", "3")
			says("writer", "ACL", "WHOAMI")
			says("WRONGPASS", "HELLO", 3, "AUTH", "reader", "no")
			says("OK", "HELLO", 3, "AUTH", "reader", "secret", "SETNAME", "me")
			says("reader", "ACL", "WHOAMI")
			says("me", "CLIENT", "GETNAME")
			says("RESET", "RESET")
			says("default", "ACL", "WHOAMI")

			// The requests after AUTH in a pipeline run as the new user.
			replies, err := c.Pipeline([]any{"SET", "x", "1"}, []any{"AUTH", "reader", "secret"}, []any{"SET", "x", "2"},
				[]any{"GET", "x"}, []any{"AUTH", "default", "nopass"}, []any{"SET", "x", "3"})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{"OK", "OK", "NOPERM", "1", "OK", "OK"} {
				if got, _, _ := strings.Cut(replies[i].Text, " "); got != want {
					t.Errorf("reply %d of the pipeline: %v, want %s", i, replies[i], want)
				}
			}

			for _, s := range all.shards {
				s.Do("CONFIG", "SET", "requirepass", "front")
			}
			stranger := all.proxies[0].Dial()
			testkit.Until(t, testkit.Slowly(10*time.Second), "a stranger has to give the new password", func() error {
				if v := ask(t, stranger, "GET", "w:a"); !strings.HasPrefix(v.Text, "NOAUTH") {
					return fmt.Errorf("GET: %v", v)
				}
				return nil
			})
			if v := ask(t, stranger, "AUTH", "front"); v.Text != "OK" {
				t.Errorf("AUTH with the new password: %v", v)
			}
			if v := ask(t, stranger, "GET", "w:a"); v.Text != "3" {
				t.Errorf("GET after AUTH: %v", v)
			}
		})
	}
}

// TestDeletedUser: after the shards have lost a user, its clients' requests do not run as the default user, which may
// do more. Each request reads the shard's error. A subscriber is disconnected, as at a server.
func TestDeletedUser(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 0, 1)
			for _, s := range all.shards {
				s.Do("ACL", "SETUSER", "guest", "on", ">word", "~*", "&news", "+@all", "-set")
			}
			p := all.proxies[0]
			c, listener := p.Dial(), p.Dial()
			expect(t, c, "OK", "AUTH", "guest", "word")
			expect(t, listener, "OK", "AUTH", "guest", "word")
			expect(t, listener, "[subscribe news 1]", "SUBSCRIBE", "news")
			if v := ask(t, c, "SET", "a", "1"); !strings.HasPrefix(v.Text, "NOPERM") {
				t.Errorf("SET of a user without the right: %v", v)
			}
			replies, err := c.Pipeline([]any{"SUBSCRIBE", "secret", "hidden"}, []any{"DBSIZE"})
			if err != nil || !strings.HasPrefix(replies[0].Text, "NOPERM") || show(replies[1]) != "0" {
				t.Errorf("SUBSCRIBE of two channels without the right, and DBSIZE: %v (%v)", replies, err)
			}
			replies, err = c.Pipeline([]any{"SUBSCRIBE", "news", "secret"}, []any{"DBSIZE"})
			if err != nil || !strings.HasPrefix(replies[0].Text, "NOPERM") || show(replies[1]) != "0" {
				t.Errorf("SUBSCRIBE of a channel with the right and one without, and DBSIZE: %v (%v)", replies, err)
			}
			expect(t, c, "[news 1]", "PUBSUB", "NUMSUB", "news")
			twice := p.Dial() // subscribes as one user and as another one, and leaves
			ask(t, twice, "HELLO", 3, "AUTH", "guest", "word")
			for _, request := range [][]any{{"SUBSCRIBE", "news"}, {"AUTH", "default", "any"}, {"SUBSCRIBE", "news"},
				{"UNSUBSCRIBE", "news"}} {
				twice.Send(request...)
				if v, err := twice.Receive(); err != nil || v.Err() != nil {
					t.Errorf("%v: %v (%v)", request, v, err)
				}
			}
			expect(t, c, "[news 1]", "PUBSUB", "NUMSUB", "news")
			for _, s := range all.shards {
				s.Do("ACL", "DELUSER", "guest")
			}
			for _, key := range spread {
				for _, request := range [][]any{{"SET", key, "1"}, {"MSET", key, "1", key + "2", "1"},
					{"BLPOP", key, 1}, {"PUBLISH", "news", "1"}, {"SUBSCRIBE", "secret"}, {"DBSIZE"}, {"SCAN", 0}} {
					if v := ask(t, c, request...); v.Err() == nil {
						t.Errorf("%v of a deleted user: %v", request, v)
					}
				}
			}
			expect(t, c, "OK", "MULTI")
			if v := ask(t, c, "SET", "a", "1"); v.Err() == nil {
				t.Errorf("SET in MULTI of a deleted user: %v", v)
			}
			if v := ask(t, c, "EXEC"); !strings.HasPrefix(v.Text, "EXECABORT") {
				t.Errorf("EXEC of a deleted user: %v", v)
			}
			if n := ask(t, p.Dial(), "DBSIZE").Int; n != 0 {
				t.Errorf("a deleted user has written %d keys", n)
			}
			if v, err := listener.Receive(); err == nil {
				t.Errorf("the subscriber reads %v", v)
			}
			if v := ask(t, c, "AUTH", "guest", "word"); !strings.HasPrefix(v.Text, "WRONGPASS") {
				t.Errorf("AUTH of a deleted user: %v", v)
			}
			expect(t, c, "OK", "AUTH", "default", "any")
			expect(t, c, "OK", "SET", "a", "1")
		})
	}
}

// TestDatabaseMissingAtAShard: a shard that lacks a client's database refuses its requests. They do not run in database
// 0.
func TestDatabaseMissingAtAShard(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 1, 1)
	small := testkit.Launch(t, testkit.Spec{Redis: true, Args: []string{"--databases", "2"}})
	d.ask("POST", "/v1/products/shop/groups", map[string]any{"id": "small", "primary": small.Addr})
	d.ask("POST", "/v1/products/shop/move", map[string]any{"steps": []map[string]any{
		{"from": 3000, "to": 3400, "source": "g0", "target": "small"}}})
	testkit.Until(t, testkit.Slowly(time.Minute), "the slots are moved", func() error {
		return testkit.Equal(fmt.Sprint(d.ask("GET", "/v1/products/shop/move", nil)["state"]), "done")
	})
	var c *respclient.Client
	testkit.Until(t, testkit.Slowly(10*time.Second), "a client asks the shard that has the database", func() error {
		c = all.proxies[0].Dial()
		return ask(t, c, "SELECT", 5).Err()
	})
	written := 0
	for _, key := range spread {
		if v := ask(t, c, "SET", key, "1"); v.Text == "OK" {
			written++
		} else if !strings.Contains(v.Text, "DB index is out of range") {
			t.Errorf("SET %s: %v", key, v)
		}
	}
	if here, there := all.shards[0].Info("keyspace")["db5"], small.Info("keyspace")["db0"]; there != "" || written == 0 ||
		!strings.HasPrefix(here, fmt.Sprintf("keys=%d,", written)) {
		t.Errorf("%d keys are written; db5 has %q, and database 0 of the small shard %q", written, here, there)
	}
}

// TestWaitWithoutMulti: WAIT also counts replicas for a user without the right to MULTI or EXEC. It blocks no other
// client of that user.
func TestWaitWithoutMulti(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 1)
	p := all.proxies[0]
	for _, without := range []string{"multi", "exec"} {
		for _, s := range all.shards {
			s.Do("ACL", "SETUSER", "plain"+without, "on", ">word", "~*", "+@all", "-"+without)
		}
		c, other := p.Dial(), p.Dial()
		expect(t, c, "OK", "AUTH", "plain"+without, "word")
		expect(t, other, "OK", "AUTH", "plain"+without, "word")
		expect(t, c, "OK", "SET", "a", "x")
		send(t, c, "WAIT", 1, 0)
		p.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "1")
		for range 20 {
			for _, key := range spread {
				expect(t, other, "OK", "SET", key, "x")
			}
		}
		expect(t, other, "0", "WAIT", 1, 200)
		c.Close()
		p.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "0")
	}
}

// TestReplicaReads: with proxy-read-replicas, replicas with little enough lag serve the reads. Writes go to primaries.
func TestReplicaReads(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 1, 0)
	p := startProxy(t, all.shards, "--proxy-read-replicas", "yes")
	readReplicas(t, p, all.shards)
}

// TestReplicaReadsOfProducts: the same over the groups of a product, and over a product that is a cluster.
func TestReplicaReadsOfProducts(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		t.Run(fmt.Sprintf("cluster %t", cluster), func(t *testing.T) {
			t.Parallel()
			d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
			var servers []*testkit.Server
			if cluster {
				servers = startTier(t, false, 1, 0).shards
				d.ask("POST", "/v1/products", map[string]any{"name": "shop", "kind": "cluster", "seeds": []string{servers[0].Addr}})
			} else {
				servers = startGroups(t, d, true, "crc16", 3, 0).shards
				for i := range 3 {
					replica := testkit.Launch(t, testkit.Spec{Redis: true})
					d.ask("POST", fmt.Sprintf("/v1/products/shop/groups/g%d/servers", i), map[string]any{"address": replica.Addr})
					servers = append(servers, replica)
				}
			}
			port := testkit.FreePort(t)
			p := testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Args: append([]string{"--proxy", "--port",
				fmt.Sprint(port), "--bind", "127.0.0.1", "--proxy-product", "shop", "--proxy-read-replicas", "yes"}, d.store...)})
			readReplicas(t, p, servers)
		})
	}
}

// readReplicas writes keys, and waits until three replicas among the servers have served reads of them.
func readReplicas(t *testing.T, p *testkit.Server, servers []*testkit.Server) {
	t.Helper()
	var clients []*respclient.Client
	for range 6 {
		clients = append(clients, p.Dial())
	}
	for i := range 30 {
		if v := ask(t, clients[0], "SET", fmt.Sprintf("key:%d", i), "x"); v.Text != "OK" {
			t.Fatal(v)
		}
	}
	served := func() (n int) {
		for _, s := range servers {
			if s.Info("replication")["role"] == "slave" && strings.Contains(s.Info("commandstats")["cmdstat_get"], "calls=") {
				n++
			}
		}
		return n
	}
	testkit.Until(t, testkit.Slowly(20*time.Second), "all replicas serve reads", func() error {
		for i := range 30 {
			if v := ask(t, clients[i%6], "GET", fmt.Sprintf("key:%d", i)); v.Text != "x" {
				return fmt.Errorf("GET: %v", v)
			}
		}
		return testkit.Equal(served(), 3)
	})
}

// TestReplicaLeaves: a replica that has left the cluster keeps no connection of a proxy.
func TestReplicaLeaves(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 1, 0)
	p := startProxy(t, all.shards, "--proxy-read-replicas", "yes", "--proxy-refresh-interval", "200")
	var gone *testkit.Server
	for _, s := range all.shards {
		if s.Info("replication")["role"] == "slave" {
			gone = s
		}
	}
	clients := func() (n int) {
		for line := range strings.Lines(gone.Do("CLIENT", "LIST").Text) {
			if strings.Contains(line, " cmd=get ") || strings.Contains(line, " cmd=readonly ") {
				n++
			}
		}
		return n
	}
	c := p.Dial()
	testkit.Until(t, testkit.Slowly(time.Minute), "the replica serves reads", func() error {
		for _, key := range spread {
			expect(t, c, "null", "GET", key)
		}
		if clients() == 0 {
			return fmt.Errorf("it has no connection of the proxy")
		}
		return nil
	})
	id := gone.Do("CLUSTER", "MYID").Text
	gone.Do("CLUSTER", "RESET")
	for _, s := range all.shards {
		if s != gone {
			s.Do("CLUSTER", "FORGET", id)
		}
	}
	testkit.Until(t, testkit.Slowly(time.Minute), "the proxy has left the replica", func() error {
		expect(t, c, "null", "GET", "a") // the proxy looks at its map
		return testkit.Equal(clients(), 0)
	})
}

// TestStrangers: if the shards need a password, the proxy serves no client that has not given it.
func TestStrangers(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 0)
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "masterauth", "front", "requirepass", "front")
	}
	p := startProxy(t, all.shards, "--proxy-password", "front", "--proxy-pose-cluster", "yes")
	c := p.Dial()
	for _, request := range [][]any{{"GET", "a"}, {"MGET", "a", "b", "c"}, {"PING"}, {"DBSIZE"}, {"SUBSCRIBE", "x"},
		{"SCAN", "0"}, {"HELLO", 3}, {"CLIENT", "LIST"}, {"CLIENT", "KILL", "TYPE", "normal"}, {"CLIENT", "PAUSE", 100_000},
		{"CLIENT", "UNPAUSE"}, {"CLIENT", "UNBLOCK", 1}, {"CONFIG", "GET", "*"}, {"CONFIG", "SET", "proxy-timeout", 1},
		{"CONFIG", "RESETSTAT"}, {"PUBSUB", "CHANNELS"}, {"PUBSUB", "SHARDCHANNELS"}, {"INFO"}, {"INFO", "server"},
		{"CLUSTER", "NODES"}} {
		if v := ask(t, c, request...); !strings.HasPrefix(v.Text, "NOAUTH") {
			t.Errorf("%v of a stranger: %v", request, v)
		}
	}
	if v := ask(t, c, "AUTH", "front"); v.Text != "OK" {
		t.Fatal(v)
	}
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "plain", "on", ">word", "~*", "+@all", "-@dangerous")
	}
	plain := p.Dial()
	expect(t, plain, "OK", "AUTH", "plain", "word")
	for _, request := range [][]any{{"CLIENT", "LIST"}, {"CLIENT", "PAUSE", 100_000}, {"CONFIG", "SET", "proxy-timeout",
		1}} {
		if v := ask(t, plain, request...); !strings.HasPrefix(v.Text, "NOPERM") {
			t.Errorf("%v of a user without the right: %v", request, v)
		}
	}
	replies, err := plain.Pipeline([]any{"SET", "ordered", "1"}, []any{"CLIENT", "LIST"}, []any{"GET", "ordered"})
	if err != nil || len(replies) != 3 || replies[0].Text != "OK" || replies[1].Err() == nil || replies[2].Text != "1" {
		t.Errorf("a pipeline: %v (%v)", replies, err)
	}
	expect(t, plain, "1", "DEL", "ordered")
	if v := ask(t, c, "CONFIG", "GET", "proxy-timeout"); v.Err() != nil {
		t.Error(v)
	}
	if v := ask(t, c, "MSET", "a", "1", "b", "2", "c", "3"); v.Text != "OK" {
		t.Error(v)
	}
	if v := ask(t, c, "DBSIZE"); v.Int != 3 {
		t.Error(v)
	}
}

// TestShardsAreFull: connections to shards are renewed at intervals. A shard that takes no new one still serves the
// clients on the old one.
func TestShardsAreFull(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1, "--proxy-refresh-interval", "200")
	c, shard := all.proxies[0].Dial(), all.ownerOf(t, "a")
	expect(t, c, "OK", "SET", "a", "1")
	expect(t, c, "OK", "SET", "b", "1")
	shard.Do("CONFIG", "SET", "maxclients", 1)
	testkit.Until(t, testkit.Slowly(time.Minute), "the shard refuses connections", func() error {
		expect(t, c, "1", "GET", "a")
		if n := shard.InfoInt("stats", "rejected_connections"); n < 30 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	expect(t, c, "1", "GET", "b")
}

// ask sends a request and returns its reply, which may be an error.
func ask(t *testing.T, c *respclient.Client, args ...any) respclient.Value {
	t.Helper()
	v, err := c.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}
