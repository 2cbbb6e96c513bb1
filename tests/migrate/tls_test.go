package migrate

import (
	"testing"

	"spindle/tests/testkit"
)

// TestMigrateUnderTLS: with tls-cluster MIGRATE uses TLS to the target's TLS port, as Redis does. It works to and from
// redis-server too. If the port does not use TLS, the reply is an error, and no key is lost.
func TestMigrateUnderTLS(t *testing.T) {
	certificates := testkit.NewCertificates(t)
	start := func(redis bool) (*testkit.Server, int) {
		port := testkit.FreePort(t)
		args := append([]string{"--tls-cluster", "yes"}, certificates.Following(port)...)
		return testkit.Launch(t, testkit.Spec{Redis: redis, Args: args}), port
	}
	for _, pair := range [][2]bool{{false, false}, {false, true}, {true, false}} {
		from, _ := start(pair[0])
		to, port := start(pair[1])
		from.Do("SET", "small", "value")
		from.Do("SETRANGE", "long", 3<<20, "end")
		digest := from.Do("DEBUG", "DIGEST").Text
		plain := from.Dial()
		if v, err := plain.Do("MIGRATE", "127.0.0.1", to.Port, "small", 0, 2000); err == nil && v.Err() == nil {
			t.Errorf("redis-server %v: a port without TLS was taken: %v", pair, v)
		}
		if v := from.Do("MIGRATE", "127.0.0.1", port, "", 0, 20_000, "KEYS", "small", "long"); v.Text != "OK" {
			t.Errorf("redis-server %v: %v", pair, v)
		}
		if got := to.Do("DEBUG", "DIGEST").Text; got != digest || from.Do("DBSIZE").Int != 0 {
			t.Errorf("redis-server %v: digest %s, was %s; %d keys are left", pair, got, digest, from.Do("DBSIZE").Int)
		}
		plain.Close()
	}
}
