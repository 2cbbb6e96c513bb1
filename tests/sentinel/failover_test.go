package sentinel

import (
	"testing"

	"spindle/tests/testkit"
)

// TestFailover: Sentinels of both kinds over servers of both kinds agree on another primary when theirs is killed. The
// other replica follows it, and so does the old primary when it comes back.
func TestFailover(t *testing.T) {
	const ours, redis = false, true
	for name, c := range map[string]struct{ servers, sentinels []bool }{
		"ours":                {[]bool{ours, ours, ours}, []bool{ours, ours, ours}},
		"ours over redis":     {[]bool{redis, redis, redis}, []bool{ours, ours, ours}},
		"mixed over mixed":    {[]bool{ours, redis, redis}, []bool{redis, ours, ours}},
		"redis's over a pair": {[]bool{redis, ours, ours}, []bool{redis, redis, ours}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, c.servers, c.sentinels)
			old := g.servers[0]
			old.Do("SET", "k", "v")
			for _, s := range g.servers[1:] {
				await(t, s, "master_link_status", "up")
			}
			if v := old.Do("WAIT", 2, 60_000); v.Int != 2 {
				t.Fatalf("WAIT: %v", v)
			}
			old.Kill()
			promoted := g.awaitSwitch(t, old.Addr)
			await(t, promoted, "role", "master")
			testkit.Until(t, patience, "the new primary to have the key", func() error {
				v, err := promoted.Ask("GET", "k")
				if err != nil {
					return err
				}
				return testkit.Equal(v.Text, "v")
			})
			for _, s := range g.servers[1:] {
				if s != promoted {
					await(t, s, "master_port", promoted.Addr[len("127.0.0.1:"):])
					await(t, s, "master_link_status", "up")
				}
			}
			old.Restart()
			await(t, old, "role", "slave")
			await(t, old, "master_link_status", "up")
		})
	}
}
