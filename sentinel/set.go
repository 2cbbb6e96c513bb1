package sentinel

import (
	"math"
	"slices"
	"strings"

	"spindle/engine/command"
	"spindle/internal/glob"
	"spindle/internal/logging"
	"spindle/internal/number"
)

// An option is one of SENTINEL SET's options. The log does not show the value of a secret option.
type option struct {
	name   string
	secret bool
	set    func(m *Machine, p *Instance, value string) error
}

// between returns a setter for a number.
func between(least, most int64, to func(p *Instance) *int64) func(m *Machine, p *Instance, value string) error {
	return func(_ *Machine, p *Instance, value string) error {
		n, ok := number.ParseInt([]byte(value))
		if !ok || n < least || n > most {
			return errInvalid
		}
		*to(p) = n
		return nil
	}
}

// script returns a setter for a program's path. An empty path removes the program.
func script(refusal error, to func(p *Instance) *string) func(m *Machine, p *Instance, value string) error {
	return func(m *Machine, p *Instance, value string) error {
		if m.denyScripts {
			return errScriptsDenied
		}
		if value != "" && !m.out.Executable(value) {
			return refusal
		}
		*to(p) = value
		return nil
	}
}

var options = []option{
	{"down-after-milliseconds", false, func(m *Machine, p *Instance, value string) error {
		err := between(1, periodMax, func(p *Instance) *int64 { return &p.downAfter })(m, p, value)
		p.spreadDownAfter()
		return err
	}},
	{"failover-timeout", false, between(1, periodMax, func(p *Instance) *int64 { return &p.failoverTimeout })},
	{"parallel-syncs", false, between(1, math.MaxInt32, func(p *Instance) *int64 { return &p.parallel })},
	{"notification-script", false, script(errNotify, func(p *Instance) *string { return &p.notify })},
	{"client-reconfig-script", false, script(errReconfigs, func(p *Instance) *string { return &p.reconfigure })},
	{"auth-pass", true, func(m *Machine, p *Instance, value string) error {
		p.password = value
		m.dropGroup(p)
		return nil
	}},
	{"auth-user", false, func(m *Machine, p *Instance, value string) error {
		p.user = value
		m.dropGroup(p)
		return nil
	}},
	{"quorum", false, between(1, math.MaxInt32, func(p *Instance) *int64 { return &p.quorum })},
	{"master-reboot-down-after-period", false,
		between(0, periodMax, func(p *Instance) *int64 { return &p.rebootDownAfter })},
}

// set runs SENTINEL SET name option value… As in Redis, the options before a wrong one are set.
func (s *Commands) set(c *command.Context, m *Machine, p *Instance) error {
	changed := false
	err := s.setAll(c, m, p, &changed)
	if changed && err == nil {
		return s.saved(c)
	}
	if changed {
		_ = m.save() // save logs the error
	}
	return err
}

func (s *Commands) setAll(c *command.Context, m *Machine, p *Instance, changed *bool) error {
	for args := c.Args[3:]; len(args) > 0; {
		name := string(args[0])
		if strings.EqualFold(name, "rename-command") && len(args) > 2 {
			if err := p.rename(name, string(args[1]), string(args[2])); err != nil {
				return err
			}
			m.emit(logging.LevelWarning, "+set", p, " %s %s %s", name, args[1], args[2])
			*changed, args = true, args[3:]
			continue
		}
		at := slices.IndexFunc(options, func(o option) bool { return strings.EqualFold(o.name, name) })
		if at < 0 || len(args) == 1 {
			return errSetOption(name)
		}
		value := string(args[1])
		if err := options[at].set(m, p, value); err == errInvalid {
			return errSetValue(value, name)
		} else if err != nil {
			return err
		}
		if options[at].secret {
			value = "******"
		}
		m.emit(logging.LevelWarning, "+set", p, " %s %s", name, value)
		*changed, args = true, args[2:]
	}
	return nil
}

// rename makes the Sentinel send a command to the primary and its replicas under another name. If both names are the
// same, the renaming ends.
func (p *Instance) rename(option, from, to string) error {
	for _, empty := range []string{from, to} {
		if empty == "" {
			return errSetValue("", option)
		}
	}
	p.renamed = slices.DeleteFunc(p.renamed, func(r rename) bool { return strings.EqualFold(r.from, from) })
	if !strings.EqualFold(from, to) {
		p.renamed = append(p.renamed, rename{from, to})
	}
	return nil
}

// A parameter is one of SENTINEL CONFIG's parameters.
type parameter struct {
	name  string
	get   func(s *Commands) string
	check func(s *Commands, value string) bool
	set   func(s *Commands, value string) error
	drops bool // setting it reconnects the links to other Sentinels
}

// general completes a parameter that is also a directive.
func (p parameter) general() parameter {
	set := general[p.name]
	p.check = func(s *Commands, value string) bool {
		trial := Machine{}
		return set(&trial, value) == nil
	}
	p.set = func(s *Commands, value string) error { return set(s.Machine, value) }
	return p
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

var parameters = []parameter{
	parameter{name: "resolve-hostnames", get: func(s *Commands) string { return yesOrNo(s.Machine.resolve) }}.general(),
	parameter{name: "announce-hostnames", get: func(s *Commands) string {
		return yesOrNo(s.Machine.announceNames)
	}}.general(),
	parameter{name: "announce-ip", get: func(s *Commands) string { return s.Machine.announceIP }}.general(),
	parameter{name: "announce-port", get: func(s *Commands) string {
		return string(number.AppendInt(nil, int64(s.Machine.announcePort)))
	}}.general(),
	parameter{name: "sentinel-user", get: func(s *Commands) string { return s.Machine.user }, drops: true}.general(),
	parameter{name: "sentinel-pass", get: func(s *Commands) string { return s.Machine.password }, drops: true}.general(),
	{name: "loglevel", get: func(s *Commands) string { return s.LogLevel() },
		check: func(_ *Commands, value string) bool {
			return slices.Contains([]string{"debug", "verbose", "notice", "warning", "nothing"}, strings.ToLower(value))
		},
		set: func(s *Commands, value string) error { return s.SetLogLevel(value) }},
}

// config runs SENTINEL CONFIG GET pattern…, and SENTINEL CONFIG SET name value…, which sets all or none.
func (s *Commands) config(c *command.Context) error {
	s.begin()
	switch {
	case command.Is(c.Args[2], "GET"):
		return s.configGet(c)
	case command.Is(c.Args[2], "SET"):
		return s.configSet(c)
	}
	return errConfigForm
}

func (s *Commands) configGet(c *command.Context) error {
	begin, seen := c.Reply.Mark(), map[string]bool{}
	for _, pattern := range c.Args[3:] {
		for _, p := range parameters {
			if !seen[p.name] && glob.MatchFold(pattern, []byte(p.name)) {
				seen[p.name] = true
				c.Reply.BulkString(p.name)
				c.Reply.BulkString(p.get(s))
			}
		}
	}
	c.Reply.MapAt(begin, len(seen))
	return nil
}

func (s *Commands) configSet(c *command.Context) error {
	var chosen []parameter
	for args := c.Args[3:]; len(args) > 0; args = args[2:] {
		name := string(args[0])
		at := slices.IndexFunc(parameters, func(p parameter) bool { return strings.EqualFold(p.name, name) })
		if at < 0 {
			return errConfigName(name)
		}
		p := parameters[at]
		if slices.ContainsFunc(chosen, func(q parameter) bool { return q.name == p.name }) {
			return errConfigTwice(name)
		}
		if len(args) == 1 {
			return errConfigMissing(name)
		}
		if !p.check(s, string(args[1])) {
			return errConfigValue(args[1], name)
		}
		chosen = append(chosen, p)
	}
	drops := false
	for i, p := range chosen {
		if err := p.set(s, string(c.Args[4+2*i])); err != nil {
			return errReply(err)
		}
		drops = drops || p.drops
	}
	err := s.saved(c)
	if drops {
		s.Machine.dropSentinels()
	}
	return err
}
