package scripting_test

import (
	"testing"

	"spindle/engine/catalogue"
	"spindle/engine/command"
	"spindle/scripting"
	"spindle/tests/testkit/commandtest"
)

const tokenBucket = `
local rate, size, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local had = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(had[1]) or size, tonumber(had[2]) or now
tokens = math.min(size, tokens + math.max(0, now - at) * rate / 1000)
local granted = tokens >= 1
if granted then
	tokens = tokens - 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(size / rate * 1000))
return granted and 1 or 0`

// BenchmarkEval runs common scripts, without a network. Watch B/op.
func BenchmarkEval(b *testing.B) {
	for _, c := range []struct {
		name, body string
		args       []string
	}{
		{"constant", "return 1", []string{"0"}},
		{"lock release", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
			[]string{"1", "lock", "token"}},
		{"rate limiter", "local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end " +
			"return n",
			[]string{"1", "limit", "60000"}},
		{"token bucket", tokenBucket, []string{"1", "bucket", "100", "1000", "1700000000000"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := scripting.New(scripting.Deps{Find: func([][]byte) *command.Spec { return nil }})
			core := commandtest.Start(b, append(catalogue.Data(&catalogue.Settings{}), s.Family())...)
			core.Mute = true
			cl := core.Client(2)
			var args [][]byte
			for _, a := range append([]string{"EVAL", c.body}, c.args...) {
				args = append(args, []byte(a))
			}
			b.ReportAllocs()
			for b.Loop() {
				cl.Out.Reset()
				core.Serve(cl, args)
			}
		})
	}
}
