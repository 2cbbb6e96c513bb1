// Command record records the replies of redis-server. It plays transcripts against that server in RESP2 and RESP3, and
// replaces the replies, effects and events in the files. Replies given as patterns stay, and must match.
//
//	go run ./tests/transcripts/record -server 127.0.0.1:6379 tests/transcripts/*.txt
//
// The server is emptied. Start it with --save "" --enable-debug-command yes, as the test starts ours.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"

	"spindle/tests/transcripts"
)

func main() {
	server := flag.String("server", "127.0.0.1:6379", "the reference server, which will be emptied")
	flag.Parse()
	for _, path := range flag.Args() {
		if err := record(path, *server); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func record(path, server string) error {
	t, err := transcripts.Read(path)
	if err != nil {
		return err
	}
	observer, err := transcripts.Observe(server)
	if err != nil {
		return err
	}
	defer observer.Close()
	for _, protocol := range []int{2, 3} {
		taken := false
		err := transcripts.Play(t, server, protocol, func(s *transcripts.Step, reply []string) error {
			if effects, events, err := observer.Take(); err != nil {
				return err
			} else if s.Effects, s.Events = effects, events; !taken {
				taken = true // the FLUSHALL before the first step is not its effect
				s.Effects = slices.DeleteFunc(effects, func(l string) bool { return l == "0 FLUSHALL" })
			}
			if s.Pattern != "" {
				return s.Check(protocol, reply)
			}
			s.Reply[protocol] = reply
			return nil
		})
		if err != nil {
			return err
		}
	}
	return t.Write()
}
