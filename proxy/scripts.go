package proxy

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"spindle/protocol"
	"spindle/protocol/scan"
)

// A scriptCache remembers the scripts that clients have run or loaded. A shard that lacks one gets it: one server would
// know it. Any goroutine.
//
// proxy.L1. A connection gets a script before its first EVALSHA of it. So no EVALSHA has to be sent again, which would
// change the order of a client's calls. A shard that still says NOSCRIPT was flushed past the proxy: the script is
// forgotten.
type scriptCache struct {
	age    atomic.Uint64 // grows when scripts are forgotten
	mu     sync.Mutex
	bodies map[string]*script // by SHA-1 in lower case
	order  []*script          // oldest first
	bytes  int
}

// A script does not change.
type script struct{ sha, body string }

const (
	scriptsMost     = 1000
	scriptBytesMost = 16 << 20
)

// keep remembers a script. nil: it is too long.
func (c *scriptCache) keep(body []byte) *script {
	if len(body) > scriptBytesMost/4 {
		return nil
	}
	sum := sha1.Sum(body)
	sha := hex.EncodeToString(sum[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.bodies[sha]; s != nil {
		return s
	}
	if c.bodies == nil {
		c.bodies = map[string]*script{}
	}
	s := &script{sha, string(body)}
	c.bodies[sha] = s
	c.order = append(c.order, s)
	c.bytes += len(body)
	for len(c.order) > scriptsMost || c.bytes > scriptBytesMost {
		c.remove(0)
	}
	return s
}

// find returns a script by its SHA-1, in any case; nil: it is not known.
func (c *scriptCache) find(sha []byte) *script {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bodies[strings.ToLower(string(sha))]
}

// drop forgets a script.
func (c *scriptCache) drop(s *script) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.order {
		if other == s {
			c.remove(i)
			return
		}
	}
}

// remove forgets the i-th script. The caller holds mu.
func (c *scriptCache) remove(i int) {
	s := c.order[i]
	c.order = append(c.order[:i:i], c.order[i+1:]...)
	c.bytes -= len(s.body)
	delete(c.bodies, s.sha)
	c.age.Add(1)
}

// forget is SCRIPT FLUSH.
func (c *scriptCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies, c.order, c.bytes = nil, nil, 0
	c.age.Add(1)
}

// scriptViews are a worker's own view of the cache, without its lock.
type scriptViews struct {
	age    uint64
	byHash map[string]*script // as clients write it
	byBody map[string]*script
}

// fresh empties the views if scripts were forgotten since.
func (v *scriptViews) fresh(c *scriptCache) {
	if age := c.age.Load(); age != v.age || v.byHash == nil || len(v.byHash) > 2*scriptsMost {
		*v = scriptViews{age, map[string]*script{}, map[string]*script{}}
	}
}

// keepScript remembers the script of EVAL.
func (w *worker) keepScript(body []byte) {
	v, c := &w.scripts, &w.p.scripts
	v.fresh(c)
	if v.byBody[string(body)] != nil {
		return
	}
	if s := c.keep(body); s != nil {
		v.fresh(c)
		v.byBody[s.body] = s
	}
}

// script returns the script of that hash; nil: it is not known.
func (w *worker) script(sha []byte) *script {
	v, c := &w.scripts, &w.p.scripts
	v.fresh(c)
	s := v.byHash[string(sha)]
	if s == nil {
		if s = c.find(sha); s != nil {
			v.byHash[string(sha)] = s
		}
	}
	return s
}

// scriptOf returns the script of an EVALSHA; nil: it is not known.
func (w *worker) scriptOf(request []byte) *script {
	if words := firstWords(request, 2); len(words) == 2 {
		return w.script(words[1])
	}
	return nil
}

// bring sends the script of an EVALSHA, if the connection has not had it yet (proxy.L1).
func (u *upstream) bring(request []byte) {
	s := u.w.scriptOf(request)
	if s == nil || !u.begins(s) {
		return
	}
	u.push(call{to: &brought{s}, slot: -1, fixed: true}, s.load())
	if a := u.access; a.private != nil && a.tracking.optIn { // it was for the request, not for the script
		u.push(call{to: ignored{}, slot: -1, fixed: true}, cachingYes)
	}
}

// begins notes that a connection gets a script. It returns false if it has it.
func (u *upstream) begins(s *script) bool {
	if _, has := u.scripts[s]; has {
		return false
	}
	if u.scripts == nil || len(u.scripts) > scriptsMost {
		u.scripts = map[*script]struct{}{}
	}
	u.scripts[s] = struct{}{}
	return true
}

// load is the request that brings a script.
func (s *script) load() []byte { return encode("SCRIPT", "LOAD", s.body) }

// A brought takes the reply to SCRIPT LOAD.
type brought struct{ *script }

func (b *brought) take(u *upstream, _ *call, _ []byte, refusal scan.Refusal, _ *protocol.Error) {
	if u != nil && refusal != scan.NotRefused {
		delete(u.scripts, b.script)
	}
}

// lacks handles NOSCRIPT for the oldest call of u.
func (u *upstream) lacks() {
	s := u.w.scriptOf(u.request())
	if _, had := u.scripts[s]; s != nil && had {
		delete(u.scripts, s)
		u.w.p.scripts.drop(s)
	}
}

// bringAside sends a script to the shard of the pin, which is inside MULTI, on a shared connection. Nothing else is
// served until it is there.
func (s *session) bringAside(u *upstream, sc *script) {
	s.retries++
	u.push(call{to: &aside{s}, slot: -1, fixed: true}, sc.load())
}

// An aside takes the reply to that SCRIPT LOAD. Without the script, EXEC tells.
type aside struct{ s *session }

func (a *aside) take(*upstream, *call, []byte, scan.Refusal, *protocol.Error) {
	if a.s.retries--; !a.s.closed {
		a.s.goOn()
	}
}

// tellScripts makes the reply to SCRIPT EXISTS from the number of shards that have each script. One server knows a
// script that any client has run. Here that is so if all shards have it, or if one has it and the proxy can bring it to
// the others.
func (w *worker) tellScripts(hashes [][]byte, shards int, p []byte) []byte {
	counts := bytes.Split(bytes.TrimSuffix(p, []byte("\r\n")), []byte("\r\n:"))
	if p[0] != '*' || len(counts) != len(hashes)+1 {
		return p
	}
	var r protocol.Reply
	r.Array(len(hashes))
	for i, sha := range hashes {
		n, _ := strconv.Atoi(string(counts[i+1]))
		s := w.script(sha)
		if n == 0 && s != nil { // it was flushed past the proxy
			w.p.scripts.drop(s)
		}
		if n == shards || n > 0 && s != nil {
			r.Int(1)
		} else {
			r.Int(0)
		}
	}
	return r.B
}

// firstWords returns the first n words of a request.
func firstWords(request []byte, n int) (words [][]byte) {
	at := bytes.IndexByte(request, '\n') + 1
	for at > 0 && at < len(request) && len(words) < n {
		end := bytes.IndexByte(request[at:], '\r')
		if end < 1 || request[at] != '$' {
			return words
		}
		size, err := strconv.Atoi(string(request[at+1 : at+end]))
		if at += end + 2; err != nil || size < 0 || at+size > len(request) {
			return words
		}
		words = append(words, request[at:at+size])
		at += size + 2
	}
	return words
}
