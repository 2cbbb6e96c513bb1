package proxy

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	"spindle/protocol"
)

// A scriptCache remembers the scripts that clients have loaded. A shard that lacks one gets it: it may have joined or
// restarted since. Any goroutine.
type scriptCache struct {
	mu     sync.Mutex
	bodies map[string][]byte // by SHA-1 in lower case
	order  []string          // oldest first
	bytes  int
}

const (
	scriptsMost     = 1000
	scriptBytesMost = 16 << 20
)

// keep remembers a script.
func (c *scriptCache) keep(body []byte) {
	sum := sha1.Sum(body)
	sha := hex.EncodeToString(sum[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.bodies[sha]; known || len(body) > scriptBytesMost/4 {
		return
	}
	if c.bodies == nil {
		c.bodies = map[string][]byte{}
	}
	c.bodies[sha] = bytes.Clone(body)
	c.order = append(c.order, sha)
	for c.bytes += len(body); len(c.order) > scriptsMost || c.bytes > scriptBytesMost; c.order = c.order[1:] {
		c.bytes -= len(c.bodies[c.order[0]])
		delete(c.bodies, c.order[0])
	}
}

func (c *scriptCache) find(sha []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bodies[strings.ToLower(string(sha))]
}

// forget is SCRIPT FLUSH.
func (c *scriptCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies, c.order, c.bytes = nil, nil, 0
}

// reload handles the oldest call of u, which the shard has answered with NOSCRIPT. If the proxy has the script, the
// shard gets it, and then the call again. It returns false if the client has to see the error.
func (w *worker) reload(u *upstream, c *call) bool {
	request := bytes.Clone(u.request())
	words := firstWords(request, 2)
	if len(words) < 2 || c.tries >= 2 {
		return false
	}
	body := w.p.scripts.find(words[1])
	if body == nil {
		return false
	}
	again := u.drop()
	again.tries++
	u.answers -= 2 // the call is not over, and one more goes before it (product.settle)
	u.push(call{to: ignored{}, slot: -1, fixed: true},
		protocol.AppendCommand(nil, [][]byte{[]byte("SCRIPT"), []byte("LOAD"), body}))
	u.push(again, request)
	return true
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
