package whole

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// spin is a part of a script: it computes for ARGV[1] seconds.
const spin = `do local t = os.clock() while os.clock() - t < tonumber(ARGV[1]) do end end `

// mixed is a script that counts a token, lists it, and may publish it and add it to a queue. It computes between its
// writes. Some of its units are so large that a replica gets them in parts. It fails if it sees another client's change
// meanwhile.
const mixed = `
local c, l, q, tok, ch = KEYS[1], KEYS[2], KEYS[3], ARGV[2], ARGV[3]
local n = redis.call('INCR', c)
redis.call('XADD', 'stream', 'MAXLEN', 20, '*', 'token', tok)
if ch ~= '' then redis.call('PUBLISH', ch, tok) end
` + spin + `
if n % 4 == 0 then redis.call('SET', c .. ':large', string.rep(tok, 40000)) end
redis.pcall('LPUSH', c, tok)
redis.call('RPUSH', l, tok)
redis.call('SET', KEYS[4], tok)
if q ~= '' then redis.call('RPUSH', q, tok) end
` + spin + `
if redis.call('LLEN', l) ~= n or redis.call('GET', KEYS[4]) ~= tok then return redis.error_reply('ERR torn') end
return tok`

// mixedLibrary defines mixed as a function.
const mixedLibrary = "#!lua name=chaos\nredis.register_function('mixed', function(KEYS, ARGV)" + mixed + "\nend)"

// A request is one request of a talker.
type request struct {
	words  []any
	right  func(v respclient.Value) bool // judges the reply; nil: there may be one or none
	tokens []string                      // written if it succeeds
	news   []string                      // published if it succeeds
	pops   bool                          // it takes an element from a queue
	resets bool                          // the last of a batch: replies come until RESET's
}

func (r request) String() string { return fmt.Sprintf("%.300s", fmt.Sprintf("%.40q", r.words)) }

// A talker is a client that sends random batches. When its connection ends, it connects again.
type talker struct {
	*chaos
	rng         *rand.Rand
	name        int
	connections int
	n           int          // tokens so far
	id          atomic.Int64 // of its client
	client      *respclient.Client
	resp3       bool
	cached      map[string]string // what it has read and what was not invalidated since; nil without tracking
	since       int               // number of tokens before it subscribed
	heard       map[string]bool   // messages since then; nil if it has not subscribed
	last        map[string]int    // the last message of each connection
	due         map[string]bool   // own messages that must come before the next reply
	early       map[string]bool   // own messages that may not come yet
}

func (k *talker) key(name string) string { return name + ":" + strconv.Itoa(k.name) }

func (k *talker) queue() string { return fmt.Sprint("q:", k.rng.IntN(queues)) }

// token returns a new token: its connection and a number. The tokens of a connection are written in their order.
func (k *talker) token() string {
	k.n++
	return fmt.Sprintf("%d.%d:%d", k.name, k.connections, k.n)
}

func parsed(tok string) (connection string, n int) {
	connection, text, _ := strings.Cut(tok, ":")
	n, _ = strconv.Atoi(text)
	return connection, n
}

// enter enters a new token in the ledger.
func (k *talker) enter(tok string, queued bool) {
	k.with(func() { k.sent[tok], k.queued[tok] = len(k.sent), queued })
}

// is judges a reply by its text.
func is(text string) func(respclient.Value) bool {
	return func(v respclient.Value) bool { return v.Text == text }
}

// has judges a reply by its number of elements.
func has(n int) func(respclient.Value) bool {
	return func(v respclient.Value) bool { return len(v.Elems) == n }
}

// number judges a reply that is this number. -1 stands for any number.
func number(n int64) func(respclient.Value) bool {
	return func(v respclient.Value) bool { return v.Kind == ':' && (n < 0 || v.Int == n) }
}

// unit returns a call of the script.
func (k *talker) unit(call ...any) request {
	tok, queue, channel, work := k.token(), "", "", 0.0
	r := request{right: is(tok), tokens: []string{tok}}
	if k.rng.IntN(2) == 0 {
		queue = k.queue()
	}
	if k.rng.IntN(2) == 0 {
		work = k.rng.Float64() * 0.003
	}
	if k.rng.IntN(2) == 0 {
		channel, r.news = "news", r.tokens
	}
	k.enter(tok, queue != "")
	r.words = append(call, 4, k.key("c"), k.key("l"), queue, fmt.Sprint("k:", k.rng.IntN(shared)),
		fmt.Sprintf("%.6f", work), tok, channel)
	return r
}

// transaction returns a transaction with a script, and with a command that would block.
func (k *talker) transaction() (all []request) {
	tok := k.token()
	k.enter(tok, false)
	script := k.unit("EVAL", mixed)
	queued := append([][]any{{"INCR", k.key("c")}, {"RPUSH", k.key("l"), tok}, {"BLPOP", "none", 0},
		{"PUBLISH", "news", tok}, script.words, {"ECHO", tok}, {"WAIT", 1, 0}}, pick(k.rng,
		[]any{"PING"}, []any{"PING"}, []any{"PING"}, []any{"CLIENT", "KILL", "ID", k.id.Load()},
		[]any{"RESTORE", k.key("h"), 0, k.payload, "REPLACE"}, []any{"SORT", "src", "DESC", "STORE", k.key("sorted")}))
	refused, watched := false, k.rng.IntN(2) == 0
	if watched {
		all = append(all, request{words: []any{"WATCH", fmt.Sprint("k:", k.rng.IntN(shared))}, right: is("OK")})
	}
	all = append(all, request{words: []any{"MULTI"}, right: is("OK")})
	for _, words := range queued {
		all = append(all, request{words: words, right: func(v respclient.Value) bool {
			refused = refused || v.Err() != nil
			return v.Text == "QUEUED"
		}})
	}
	return append(all, request{words: []any{"EXEC"}, tokens: append([]string{tok}, script.tokens...),
		news: append([]string{tok}, script.news...), right: func(v respclient.Value) bool {
			if v.Null {
				return watched
			}
			e := v.Elems
			return !refused && len(e) == len(queued) && e[0].Kind == ':' && e[1].Kind == ':' && e[2].Null &&
				e[3].Kind == ':' && (script.right(e[4]) || e[4].Err() != nil && wasKilled(e[4].Err())) && e[5].Text == tok
		}})
}

// plan returns requests of one kind.
func (k *talker) plan() []request {
	tok, key, wait := k.token(), fmt.Sprint("k:", k.rng.IntN(shared)), k.rng.Float64()*0.05+0.001
	one := func(right func(respclient.Value) bool, words ...any) request {
		return request{words: words, right: right}
	}
	switch k.rng.IntN(24) {
	case 0, 1, 2:
		return []request{k.unit("EVAL", mixed)}
	case 3, 4:
		return []request{k.unit("FCALL", "mixed")}
	case 5, 6, 7:
		return k.transaction()
	case 8, 9:
		queue := k.queue()
		return []request{{words: []any{"BLPOP", queue, wait}, pops: true, right: func(v respclient.Value) bool {
			return v.Null || len(v.Elems) == 2 && v.Elems[0].Text == queue && k.take(v.Elems[1].Text)
		}}}
	case 10:
		return []request{one(func(v respclient.Value) bool { return v.Null || strings.Contains(v.Text, ":") },
			"BLMOVE", k.queue(), k.queue(), "LEFT", "RIGHT", wait)}
	case 11:
		return []request{one(func(v respclient.Value) bool { return v.Null || len(v.Elems) > 0 },
			"XREAD", "BLOCK", 1+k.rng.IntN(30), "STREAMS", "stream", "$")}
	case 12:
		return []request{one(is("OK"), "RESTORE", k.key("h"), 0, k.payload, "REPLACE"),
			one(has(2*fields), "HGETALL", "hash")}
	case 13:
		return []request{one(number(elements), "SORT", "src", "DESC", "STORE", k.key("sorted")),
			one(number(2*elements), "SUNIONSTORE", k.key("union"), "set:1", "set:2"), one(has(elements), "LRANGE", "src", 0, -1)}
	case 14:
		return []request{one(number(-1), "WAIT", 1, 1+k.rng.IntN(20)), one(is("OK"), "SET", "lapses:"+tok, tok, "EX", 1000)}
	case 15, 16:
		return []request{one(is("OK"), "SET", key, tok)}
	case 17, 18:
		return []request{one(func(v respclient.Value) bool {
			if k.cached != nil && v.Err() == nil {
				k.cached[key] = v.Text
			}
			return true
		}, "GET", key)}
	case 19:
		middle := pick(k.rng, k.unit("EVAL", mixed), request{words: []any{"BLPOP", k.queue(), wait}, pops: true})
		// Its tokens stay unknown. RESET turns replies on even while a script is tardy.
		return []request{one(nil, "CLIENT", "REPLY", pick(k.rng, "SKIP", "OFF")), {words: middle.words, pops: middle.pops},
			one(nil, "CLIENT", "REPLY", "ON"), {words: []any{"RESET"}, resets: true}}
	case 20:
		return []request{one(func(v respclient.Value) bool { return strings.HasSuffix(v.Text, tok) },
			"EVAL", spin+`return {err = 'ERR mine ' .. ARGV[2]}`, 0, "0.002", tok),
			one(has(20_000), "EVAL_RO", spin+`local t = {} for i = 1, 20000 do t[i] = i end return t`, 0, "0.001")}
	case 21:
		if k.rng.IntN(4) == 0 {
			return []request{one(func(respclient.Value) bool { return false }, "EVAL", "while true do end", 0)}
		}
	case 22:
		if k.rng.IntN(4) == 0 {
			return []request{one(is(tok), "ECHO", tok), one(is("OK"), "QUIT")}
		}
	}
	return []request{one(is(tok), "ECHO", tok)}
}

// mayRefuse reports whether any client may get this error.
func mayRefuse(err error) bool {
	switch code, text, _ := strings.Cut(err.Error(), " "); code {
	case "BUSY", "OOM", "UNBLOCKED", "EXECABORT", "LOADING", "NOREPLICAS":
		return true
	default:
		return wasKilled(err) || strings.Contains(text, "Function not found")
	}
}

// wasKilled reports whether SCRIPT KILL has ended the script. A transaction's script gets no other error, because the
// server's state at the start of a transaction decides about all of its writes.
func wasKilled(err error) bool { return strings.Contains(err.Error(), "killed by user") }

// talk sends batches until the time is over. Then the connection, if any, is idle.
func (k *talker) talk() {
	for !k.over.Load() {
		if k.client == nil && !k.connect() {
			continue
		}
		var all []request
		for range 1 + k.rng.IntN(4) {
			if all = append(all, k.plan()...); all[len(all)-1].resets {
				break
			}
		}
		if err := k.converse(all); err != nil {
			k.hangUp(err)
		}
	}
}

// hangUp ends the connection. Any end is right, except for bytes that are no reply, or for no reply at all.
func (k *talker) hangUp(err error) {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, respclient.ErrProtocol) || errors.As(err, &timeout) && timeout.Timeout() {
		k.Errorf("client %d: %v", k.name, err)
	}
	if k.client != nil {
		_ = k.client.Close()
	}
	k.client = nil
}

// connect reports whether the client has a connection that may be used.
func (k *talker) connect() bool {
	client, err := respclient.Dial(k.p.Addr)
	if err != nil {
		return false
	}
	client.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	k.client, k.resp3 = client, k.rng.IntN(3) != 0
	k.connections++
	return k.greet()
}

// greet begins a connection, or continues it after RESET. It chooses tracking and subscription at random.
func (k *talker) greet() bool {
	k.cached, k.heard, k.last = nil, nil, map[string]int{}
	k.due, k.early = map[string]bool{}, map[string]bool{}
	all := [][]any{{"CLIENT", "ID"}}
	if k.resp3 {
		all = append(all, []any{"HELLO", 3}, pick(k.rng, []any{"PING"}, []any{"CLIENT", "TRACKING", "ON"},
			[]any{"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "k:"}), pick(k.rng, []any{"PING"}, []any{"SUBSCRIBE", "news"}))
	}
	for _, words := range all {
		k.client.Send(words...)
		v, err := k.client.Receive()
		for err == nil && v.Kind == '>' && v.Elems[0].Text != "subscribe" {
			v, err = k.client.Receive()
		}
		if err == nil {
			err = v.Err()
		}
		if err != nil {
			k.hangUp(err)
			return false
		}
		switch {
		case words[0] == "SUBSCRIBE":
			k.heard = map[string]bool{}
			k.with(func() { k.since = len(k.sent) })
		case len(words) > 2 && words[1] == "TRACKING":
			k.cached = map[string]string{}
		case len(words) == 2 && words[1] == "ID":
			k.id.Store(v.Int)
		}
	}
	return true
}

// converse sends a batch and checks the replies. The client may leave before all of them have come.
func (k *talker) converse(all []request) error {
	answered, leaves := 0, len(all)
	if k.rng.IntN(30) == 0 {
		leaves = k.rng.IntN(len(all))
	}
	for _, r := range all {
		k.client.Send(r.words...)
		for _, tok := range r.news {
			k.early[tok] = true
		}
	}
	defer func() {
		for i, r := range all {
			if r.pops && (i >= answered || r.right == nil) {
				k.with(func() { k.lost++ })
			}
		}
	}()
	if err := k.client.Flush(); err != nil {
		return err
	}
	for i, r := range all {
		if i == leaves {
			return errors.New("the client leaves")
		}
		for r.right != nil || r.resets {
			v, err := k.receive()
			if err != nil {
				return err
			}
			if !r.resets {
				k.check(r, v)
				break
			}
			if v.Text == "RESET" {
				if !k.greet() {
					return errors.New("the client has left")
				}
				break
			}
		}
		answered = i + 1
	}
	return nil
}

// check checks a reply.
func (k *talker) check(r request, v respclient.Value) {
	right, err := r.right(v), v.Err()
	exec := r.words[0] == "EXEC"
	switch {
	case !right && (err == nil || !mayRefuse(err)):
		k.Errorf("client %d: %v: %.300s", k.name, r, v.String())
		return
	case err != nil || exec && v.Null:
		k.settle(refused, r.tokens)
		return
	case exec && v.Elems[4].Err() != nil: // the script in it was refused
		k.settle(refused, r.tokens[1:])
		r.tokens, r.news = r.tokens[:1], r.news[:1]
	}
	k.settle(done, r.tokens)
	k.with(func() { k.news = append(k.news, r.news...) })
	for _, tok := range r.news {
		if delete(k.early, tok); k.heard != nil {
			k.due[tok] = true
		}
	}
}

// receive returns the next reply. It checks the pushes before it.
func (k *talker) receive() (respclient.Value, error) {
	for {
		v, err := k.client.Receive()
		if err != nil {
			return v, err
		}
		if v.Kind != '>' {
			for tok := range k.due {
				k.Errorf("client %d got the reply %.200s before its own message %s", k.name, v.String(), tok)
			}
			clear(k.due)
			return v, nil
		}
		switch {
		case v.Elems[0].Text == "message":
			k.hear(v.Elems[2].Text)
		case v.Elems[1].Null:
			clear(k.cached)
		default:
			for _, key := range v.Elems[1].Elems {
				delete(k.cached, key.Text)
			}
		}
	}
}

// hear checks a message.
func (k *talker) hear(tok string) {
	from, n := parsed(tok)
	if k.heard == nil || k.early[tok] || n <= k.last[from] {
		k.Errorf("client %d got the message %s after %d; subscribed: %t, before its own reply: %t", k.name, tok,
			k.last[from], k.heard != nil, k.early[tok])
		return
	}
	delete(k.due, tok)
	k.heard[tok], k.last[from] = true, n
}

// agree checks an idle connection, and closes it. It has got all messages, and an invalidation of each changed key.
func (k *talker) agree() {
	if k.client == nil {
		return
	}
	defer k.client.Close()
	testkit.Until(k, testkit.Slowly(5*time.Second), fmt.Sprint("the pushes of client ", k.name), func() error {
		k.client.Send("ECHO", "last")
		if v, err := k.receive(); err != nil {
			return nil // it was killed
		} else if v.Text != "last" {
			return v.Err() // for example, BUSY
		}
		for key, value := range k.cached {
			if now := k.p.Do("GET", key).Text; now != value {
				return fmt.Errorf("it has %s as %s, which is %s now", key, value, now)
			}
		}
		for _, tok := range k.news {
			if k.heard != nil && k.sent[tok] >= k.since && !k.heard[tok] {
				return fmt.Errorf("the message %s is missing", tok)
			}
		}
		return nil
	})
}
