package sentinel

import (
	"fmt"
	"strconv"
	"strings"

	"spindle/internal/logging"
)

// emit reports an event of an instance. Its text is "master NAME IP PORT". For a replica or a Sentinel it is the same
// with the instance's own kind, followed by an @ and its primary's name and address. The formatted text comes last.
func (m *Machine) emit(level logging.Level, event string, i *Instance, format string, args ...any) {
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

// say emits an event: a log line, and a message on the channel with the event's name. A warning also runs the
// notification script. i may be nil.
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

// shown returns an address as other programs see it.
func (m *Machine) shown(a address) string {
	if m.announceNames {
		return a.host
	}
	return a.ip
}

// shownWithPort returns the name of a replica.
func (m *Machine) shownWithPort(a address) string {
	text := m.shown(a)
	if strings.Contains(text, ":") {
		text = "[" + text + "]"
	}
	return text + ":" + strconv.Itoa(a.port)
}
