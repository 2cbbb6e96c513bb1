package scripting_test

import (
	"strings"
	"testing"

	"spindle/engine/catalogue"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/scripting"
	"spindle/tests/testkit/commandtest"
)

// A server is a core with the commands on data and on scripts. It records the scripts' side effects.
type server struct {
	*commandtest.Core
	t       *testing.T
	scripts *scripting.Scripts
	client  *client.Client
	deps    scripting.Deps
	logged  []string
	at      scripting.Conditions
	lend    bool            // commands can lend the turn
	step    command.Step    // of the command that has lent it
	frame   command.Context // of that command
}

func newServer(t *testing.T) *server {
	s := &server{t: t}
	s.deps = scripting.Deps{
		Settings:   &scripting.Settings{},
		Find:       func(args [][]byte) *command.Spec { return s.Catalogue.Find(args) },
		MayRun:     func(_ *client.Client, spec *command.Spec, _ [][]byte) bool { return spec.Name != "flushall" },
		Conditions: func() scripting.Conditions { return s.at },
		Log:        func(_ int, text string) { s.logged = append(s.logged, text) },
		BusyMs:     func() int64 { return 5 },
		Pack:       pack, Unpack: unpack,
	}
	s.deps.Settings.Rows()
	s.scripts = scripting.New(s.deps)
	s.Core = commandtest.Start(t, append(catalogue.Data(&catalogue.Settings{}), s.lending(s.scripts.Family()))...)
	s.client = s.Client(2)
	return s
}

// pack and unpack stand in for the file format: they join sources by a byte that no source here contains.
func pack(sources [][]byte) []byte {
	var all []string
	for _, source := range sources {
		all = append(all, string(source))
	}
	return []byte("P" + strings.Join(all, "\x01"))
}

func unpack(payload []byte) (sources [][]byte, checked bool, err error) {
	text, checked := strings.CutPrefix(string(payload), "P")
	if text == "" {
		return nil, checked, nil
	}
	for source := range strings.SplitSeq(text, "\x01") {
		sources = append(sources, []byte(source))
	}
	return sources, checked, nil
}

// lending gives the commands of f a core that can lend the turn.
func (s *server) lending(f command.Family) command.Family {
	var wrap func(rows []command.Spec)
	wrap = func(rows []command.Spec) {
		for i := range rows {
			wrap(rows[i].Subs)
			if run := rows[i].Run; run != nil {
				rows[i].Run = func(c *command.Context) error {
					c.Core = lender{c.Core, s}
					return run(c)
				}
			}
		}
	}
	wrap(f.Rows)
	return f
}

// A lender is a core that can lend the turn. The test runs the steps.
type lender struct {
	command.Core
	s *server
}

func (l lender) Lend(c *command.Context, step command.Step) bool {
	if l.s.lend {
		l.s.step, l.s.frame = step, *c
	}
	return l.s.lend
}

// goOn runs up to n steps of the command that has lent the turn, until it has ended, and returns its reply.
func (s *server) goOn(n int) (reply string, over bool) {
	s.t.Helper()
	for range n {
		s.frame.Reply = s.client.Out
		s.client.Out.Reset()
		done, err := s.step(&s.frame)
		if err != nil {
			s.client.Out.Error(err)
		}
		if done || err != nil {
			var b strings.Builder
			for piece := range s.client.Out.Pieces {
				b.Write(piece)
			}
			return b.String(), true
		}
	}
	return "", false
}

// want runs a command and compares its reply with reply.
func (s *server) want(reply string, args ...string) {
	s.t.Helper()
	if got := s.Do(s.client, args...); got != reply {
		s.t.Errorf("%.200q\n got %q\nwant %q", args, got, reply)
	}
}

// eval is want for a script without keys.
func (s *server) eval(reply, body string, args ...string) {
	s.t.Helper()
	s.want(reply, append([]string{"EVAL", body, "0"}, args...)...)
}
