package transcripts

import (
	"fmt"
	"slices"
	"testing"
)

// TestObserved plays transcripts on a server while a replica and a subscriber listen. They must receive what Redis
// sends in the same conversation. It is for commands whose effects need a whole server, such as PUBLISH.
func TestObserved(t *testing.T) {
	for _, name := range []string{"pubsub_server", "multi", "hash_lapse", "eval_server", "script_server",
		"function_server"} {
		script, err := Read(name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		server := startServer(t)
		o, err := Observe(server)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		first := true
		err = Play(script, server, 2, func(s *Step, _ []string) error {
			effects, events, err := o.Take()
			if err != nil {
				return err
			}
			if first {
				effects = slices.DeleteFunc(effects, func(l string) bool { return l == "0 FLUSHALL" })
				first = false
			}
			if !sameEffects(effects, s.Effects) || !slices.Equal(events, s.Events) {
				return fmt.Errorf("effects %q, events %q; want %q and %q", effects, events, s.Effects, s.Events)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
