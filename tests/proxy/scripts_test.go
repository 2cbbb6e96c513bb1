package proxy

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"testing"

	"spindle/protocol/respclient"
)

// shaOf returns the SHA-1 digest of a script.
func shaOf(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// TestScriptsOfEval: after EVAL at one shard, EVALSHA works for all keys, as with one server.
func TestScriptsOfEval(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startTier(t, redis, 0, 1, "--io-threads", "2").proxies[0]
			const script = "return redis.call('incr', KEYS[1])"
			sha := shaOf(script)
			c, other := p.Dial(), p.Dial()
			isUnknown := func(c *respclient.Client, key string) {
				t.Helper()
				if v := ask(t, c, "EVALSHA", sha, 1, key); !strings.HasPrefix(v.Text, "NOSCRIPT") {
					t.Errorf("EVALSHA of a script that is not known: %v", v)
				}
			}
			expect(t, c, "[0]", "SCRIPT", "EXISTS", sha)
			isUnknown(c, "a")
			expect(t, c, "1", "EVAL", script, 1, "a")
			expect(t, other, "[1 0 1]", "SCRIPT", "EXISTS", sha, strings.Repeat("0", 40), strings.ToUpper(sha))
			for i, key := range spread {
				want := "1"
				if i == 0 {
					want = "2"
				}
				expect(t, other, want, "EVALSHA", strings.ToUpper(sha), 1, key)
			}

			// The same holds in transactions, before and after a key has determined the shard.
			for _, key := range spread {
				tx := p.Dial()
				expect(t, tx, "OK", "MULTI")
				expect(t, tx, "QUEUED", "EVALSHA", sha, 1, "tx"+key)
				expect(t, tx, "QUEUED", "EVALSHA", sha, 1, "tx"+key)
				expect(t, tx, "[1 2]", "EXEC")
				expect(t, tx, "OK", "WATCH", "watch"+key)
				expect(t, tx, "1", "EVALSHA", sha, 1, "watch"+key)
				expect(t, tx, "OK", "UNWATCH")
			}
			const second = "return redis.call('incrby', KEYS[1], 10)"
			expect(t, c, "11", "EVAL", second, 1, "b")
			expect(t, other, "OK", "MULTI")
			expect(t, other, "QUEUED", "INCR", "a")
			expect(t, other, "QUEUED", "EVALSHA", shaOf(second), 1, "a")
			expect(t, other, "[3 13]", "EXEC")

			v := ask(t, c, "EVAL", "return (", 1, "a")
			if v.Err() == nil {
				t.Errorf("a script that is none: %v", v)
			}
			expect(t, c, "[0]", "SCRIPT", "EXISTS", shaOf("return ("))
			expect(t, c, "OK", "SCRIPT", "FLUSH")
			expect(t, c, "[0]", "SCRIPT", "EXISTS", sha)
			for _, key := range spread {
				isUnknown(c, key)
			}
			expect(t, c, sha, "SCRIPT", "LOAD", script)
			expect(t, c, "[1]", "SCRIPT", "EXISTS", sha)
		})
	}
}
