package proxy

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/protocol/scan"
	"spindle/tests/testkit"
)

// A refuser stands between a proxy and a shard. It replies to some requests with an error, like a shard that has not
// run them, and forwards all others.
type refuser struct {
	to    string
	mu    sync.Mutex
	plan  map[string][]string // the errors of the first calls, by request in lower case with spaces
	calls []string            // the calls that the shard has received
}

func (r *refuser) listen(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
}

func (r *refuser) serve(c net.Conn) {
	defer c.Close()
	shard, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer shard.Close()
	from, buf := bufio.NewReader(c), make([]byte, 1<<16)
	for {
		words, raw, err := readRequest(from)
		if err != nil {
			return
		}
		if refusal := r.refusal(words); refusal != "" {
			if _, err := c.Write([]byte("-" + refusal + "\r\n")); err != nil {
				return
			}
			continue
		}
		if _, err := shard.Write(raw); err != nil {
			return
		}
		var s scan.Scanner
		for complete := false; !complete; {
			n, err := shard.Read(buf)
			if err != nil {
				return
			}
			if _, complete, err = s.Scan(buf[:n]); err != nil {
				return
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// refusal returns the next error for a request. If there is none, it records that the shard gets the request.
func (r *refuser) refusal(words []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := strings.ToLower(strings.Join(words, " "))
	if all := r.plan[request]; len(all) > 0 {
		r.plan[request] = all[1:]
		return all[0]
	}
	r.calls = append(r.calls, request)
	return ""
}

// readRequest reads one request, an array of bulk strings.
func readRequest(from *bufio.Reader) (words []string, raw []byte, err error) {
	line := func() (int, error) {
		text, err := from.ReadBytes('\n')
		raw = append(raw, text...)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(text[1:])))
	}
	n, err := line()
	for range n {
		size, err := line()
		if err != nil {
			return nil, nil, err
		}
		word := make([]byte, size+2)
		for at := 0; at < len(word); {
			m, err := from.Read(word[at:])
			if err != nil {
				return nil, nil, err
			}
			at += m
		}
		raw = append(raw, word...)
		words = append(words, string(word[:size]))
	}
	return words, raw, err
}

// TestOrderOfRefusedCalls: calls of one client on one key run in their order (proxy.Q1). If the order cannot be kept, a
// call does not run, and its client gets an error with the reason (proxy.Q3).
func TestOrderOfRefusedCalls(t *testing.T) {
	t.Parallel()
	const loading = "LOADING Redis is loading the dataset in memory"
	long := slices.Repeat([]string{loading}, 3)
	for name, test := range map[string]struct {
		plan     map[string][]string
		requests []string
		replies  string
		runs     []string // the calls that run, in order
	}{
		"all calls are refused": {
			plan:     map[string][]string{"set k 1": {loading, loading}, "incr k": {loading}, "get k": {loading}},
			requests: []string{"set k 1", "incr k", "get k"},
			replies:  "OK 2 2", runs: []string{"set k 1", "incr k", "get k"},
		},
		"the last ones are refused for longer": {
			plan:     map[string][]string{"set k 1": {loading}, "incr k": long, "get k": {loading}},
			requests: []string{"set k 1", "incr k", "get k"},
			replies:  "OK 2 2", runs: []string{"set k 1", "incr k", "get k"},
		},
		"a call is refused many times": {
			plan:     map[string][]string{"set k 1": slices.Repeat([]string{loading}, 18)},
			requests: []string{"set k 1", "set k 1"},
			replies:  "OK OK", runs: []string{"set k 1", "set k 1"},
		},
		"the next call has run": {
			plan:     map[string][]string{"set k 1": {loading}},
			requests: []string{"set k 1", "get k", "incr k", "get k"},
			replies:  loading + " null 1 1", runs: []string{"get k", "incr k", "get k"},
		},
		"the next call on this key is refused too": {
			plan:     map[string][]string{"set k 1": {loading}, "get k": {loading, loading}},
			requests: []string{"set k 1", "set other 2", "get other", "get k"},
			replies:  "OK OK 2 1", runs: []string{"set other 2", "get other", "set k 1", "get k"},
		},
		"two calls that read": {
			plan:     map[string][]string{"get k": {loading}},
			requests: []string{"get k", "strlen k"},
			replies:  "null 0", runs: []string{"strlen k", "get k"},
		},
		"a part of a call that is cut": {
			plan:     map[string][]string{"mset k 1": {loading}, "get k": {loading, loading}},
			requests: []string{"mset k 1 other 2", "get other", "get k"},
			replies:  "OK 2 1", runs: []string{"mset other 2", "get other", "mset k 1", "get k"},
		},
		"a watched key": {
			plan:     map[string][]string{"watch k": {loading, loading}},
			requests: []string{"watch k", "get k", "multi", "get k", "exec"},
			replies:  "OK null OK QUEUED [null]", runs: []string{"watch k", "get k", "multi", "get k", "exec"},
		},
		"a transaction": {
			plan:     map[string][]string{"multi": {loading}, "set k 1": {loading}},
			requests: []string{"multi", "set k 1", "exec"},
			replies:  "OK QUEUED [OK]", runs: []string{"set k 1", "exec"},
		},
		"a command that blocks": {
			plan:     map[string][]string{"blpop k 0": {loading, loading}},
			requests: []string{"rpush k x", "blpop k 0"},
			replies:  "1 [k x]", runs: []string{"rpush k x", "blpop k 0"},
		},
		"a call to all shards": {
			plan:     map[string][]string{"dbsize": {loading, loading}, "script flush": {loading}},
			requests: []string{"set k 1", "dbsize", "script flush"},
			replies:  "OK 1 OK", runs: []string{"set k 1", "dbsize", "script flush"},
		},
		"a call on all keys has another one after it": {
			plan:     map[string][]string{"flushall": {loading}},
			requests: []string{"set k 1", "flushall", "get k"},
			replies:  "OK " + loading + " 1", runs: []string{"set k 1", "get k"},
		},
		"a sharded channel": {
			plan:     map[string][]string{"ssubscribe c": slices.Repeat([]string{"CLUSTERDOWN Hash slot not served"}, 3)},
			requests: []string{"ssubscribe c"},
			replies:  "[ssubscribe c 1]",
		},
		"a call on all keys has run": {
			plan:     map[string][]string{"set k 1": {loading}},
			requests: []string{"set k 1", "flushall", "get k"},
			replies:  loading + " OK null", runs: []string{"flushall", "get k"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := testkit.FreePort(t)
			shard := testkit.Launch(t, testkit.Spec{Redis: true, Args: []string{"--cluster-enabled", "yes",
				"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(port), "--cluster-port",
				strconv.Itoa(testkit.FreePort(t))}})
			shard.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
			testkit.Until(t, testkit.Slowly(10*time.Second), "the slots are served", func() error {
				if v, err := shard.Ask("CLUSTER", "INFO"); err != nil || !strings.Contains(v.Text, "cluster_state:ok") {
					return fmt.Errorf("%v (%v)", v, err)
				}
				return nil
			})
			r := &refuser{to: shard.Addr, plan: test.plan}
			r.listen(t, port)
			own := testkit.FreePort(t)
			p := testkit.Launch(t, testkit.Spec{Bare: true, Port: own, Args: []string{"--proxy", "--port", strconv.Itoa(own),
				"--bind", "127.0.0.1", "--proxy-timeout", "60000", "--proxy-cluster", "127.0.0.1:" + strconv.Itoa(port)}})
			c := p.Dial()
			var requests [][]any
			for _, request := range test.requests {
				var words []any
				for word := range strings.FieldsSeq(request) {
					words = append(words, word)
				}
				requests = append(requests, words)
			}
			replies, err := c.Pipeline(requests...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range replies {
				got = append(got, show(v))
			}
			if text := strings.Join(got, " "); text != test.replies {
				t.Errorf("replies: %s; want %s", text, test.replies)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			ran := slices.DeleteFunc(r.calls, func(call string) bool {
				return !slices.Contains(test.runs, call)
			})
			if !slices.Equal(ran, test.runs) {
				t.Errorf("the shard ran %q; want %q", ran, test.runs)
			}
		})
	}
}

// TestOrderOfScripts: a script that the shard does not have yet still runs at its position among a client's pipelined
// calls.
func TestOrderOfScripts(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1)
	p := all.proxies[0]
	const script = "return redis.call('append', KEYS[1], ARGV[1])"
	p.Do("EVAL", script, 1, spread[0], "x")
	for i := range 30 {
		c := p.Dial()
		key := fmt.Sprint("order:", i)
		replies, err := c.Pipeline([]any{"SET", key, "a"}, []any{"EVALSHA", shaOf(script), 1, key, "b"},
			[]any{"APPEND", key, "c"}, []any{"GET", key})
		if err != nil {
			t.Fatal(err)
		}
		if v := (respclient.Value{Kind: '*', Elems: replies}); show(v) != "[OK 2 3 abc]" {
			t.Errorf("%s: %s", key, show(v))
		}
	}
}

// TestOrderBesideWatch: requests on a watched key's slot run on another connection than a request that is cut by slot.
// Neither overtakes the other.
func TestOrderBesideWatch(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1)
	c := all.proxies[0].Dial()
	expect(t, c, "OK", "WATCH", "a")
	long := strings.Repeat("x", 8<<20)
	replies, err := c.Pipeline([]any{"SET", "a", long}, []any{"MSET", "a", "1", "b", "1", "c", "1"},
		[]any{"APPEND", "a", "2"}, []any{"GET", "a"})
	if err != nil {
		t.Fatal(err)
	}
	if v := replies[3]; v.Text != "12" {
		t.Errorf("SET, MSET and APPEND leave %.40v", v)
	}
}
