package sentinel

import (
	"fmt"
	"strconv"
	"strings"

	"spindle/internal/logging"
)

// tell makes an event about an instance: "master NAME IP PORT", or the same of a replica or Sentinel and behind an @
// that of its primary, then the format's text.
func (m *Machine) tell(level logging.Level, event string, i *Instance, format string, args ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %d", i.kind, i.name, m.shown(i.at), i.at.port)
	if p := i.primary; p != nil {
		fmt.Fprintf(&b, " @ %s %s %d", p.name, m.shown(p.at), p.at.port)
	}
	if format != "" {
		fmt.Fprintf(&b, format, args...)
	}
	m.say(level, event, i, b.String())
}

// say makes an event: a line of the log, a message on the channel of the event's name, and, if it is a warning, a run
// of the notification script. i may be nil.
func (m *Machine) say(level logging.Level, event string, i *Instance, text string) {
	m.out.Log(level, event+" "+text)
	if level == logging.LevelDebug {
		return
	}
	m.out.Publish(event, text)
	if level != logging.LevelWarning || i == nil {
		return
	}
	if p := i.group(); p.notify != "" {
		m.schedule(p.notify, event, text)
	}
}

// shown is an address as others are told of it.
func (m *Machine) shown(a address) string {
	if m.announceNames {
		return a.host
	}
	return a.ip
}

// shownWithPort is the name of a replica.
func (m *Machine) shownWithPort(a address) string {
	text := m.shown(a)
	if strings.Contains(text, ":") {
		text = "[" + text + "]"
	}
	return text + ":" + strconv.Itoa(a.port)
}
